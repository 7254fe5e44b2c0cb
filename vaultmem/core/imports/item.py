"""Items of an import: memories and conversations, from exports and markdown folders."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.edit_properties import PropertyValue
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import KNOWN_PROPERTIES
from vaultmem.core.notes.sections import find_blocks
from vaultmem.core.transcripts.event import EventKind as Said
from vaultmem.core.transcripts.event import TranscriptEvent, TranscriptSource

#: Most foreign properties that are kept, and most characters of a text.
_MAX_FOREIGN_ITEMS, _MAX_VALUE_CHARS = 20, 500
_NAME = re.compile(r"[^\W\d][\w-]{0,60}")

#: Property names with a meaning in vaultmem, in addition to those of every note.
_RESERVED_PROPERTIES = KNOWN_PROPERTIES | {
    *("tag", "alias", "about", "valid_from", "valid_until", "pending_restore_at", "status"),
    *("started", "ended", "goal", "workspace", "windows", "touched", "decisions", "continues"),
    *("forked_from", "next_step"),
}


class MemoryItem(NamedTuple):
    """A memory: `origin` is its stable id at its source.

    `folders` are the names of its folders, outermost first; `name` is the file's name, for
    links. `properties` are additional. `speaker` is "user" for the user's words, or "".
    """

    origin: str
    text: str
    title: str = ""
    folders: tuple[str, ...] = ()
    name: str = ""
    kind: NoteKind = NoteKind.SEMANTIC_FACT
    state: NoteState = NoteState.CANDIDATE
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    properties: Mapping[str, PropertyValue] = MappingProxyType({})
    speaker: str = ""

    @property
    def digest(self) -> str:
        """A digest of the original text, to recognize it in a later import."""
        return digest_text(self.text)


class Conversation(NamedTuple):
    """A conversation at its source: the branch last displayed, oldest turn first."""

    origin: str
    title: str
    turns: tuple[TranscriptEvent, ...]
    started: datetime | None = None
    ended: datetime | None = None
    url: str = ""


class UnreadableItem(NamedTuple):
    """An unreadable item: its place and the reason."""

    place: str
    reason: str


Item = MemoryItem | Conversation | UnreadableItem


def make_talk(
    origin: str,
    title: object,
    events: Iterable[TranscriptEvent | None],
    started: object = None,
    ended: object = None,
    url: str = "",
) -> Iterator[Conversation]:
    """Yield the conversation of these turns, if it has an id and turns; times are as exported."""
    turns = tuple(each for each in events if each is not None)
    if origin and turns:
        times = parse_export_time(started), parse_export_time(ended)
        yield Conversation(origin, read_text(title), turns, *times, url)


def make_turn(role: str, text: str, exported_time: object) -> TranscriptEvent:
    """Return a turn of the user or the assistant; `exported_time` is unchanged from the export."""
    time = parse_export_time(exported_time)
    timestamp = time.isoformat(timespec="seconds") if time else ""
    return TranscriptEvent(
        Said.REQUEST if role == "user" else Said.ANSWER, TranscriptSource(), timestamp, text
    )


def digest_text(text: str) -> str:
    """Return the digest of a text without surrounding white space."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:12]


def read_text(value: object) -> str:
    """Return a string as text that a note can contain; "" for other values."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd").strip()


def read_list(value: object) -> list[Any]:
    """Return a list unchanged; an empty one for other values."""
    return value if isinstance(value, list) else []


def read_tags(value: object) -> tuple[str, ...]:
    """Return a list of words, or a comma-separated text, as tags."""
    texts = value.split(",") if isinstance(value, str) else read_list(value)
    tags = (re.sub(r"[^\w/-]+", "-", read_text(text)).strip("-/") for text in texts)
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def parse_export_time(value: object) -> datetime | None:
    """Return an epoch or ISO 8601 time (UTC without an offset), or None if it is invalid."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            is_sound = math.isfinite(value) and 0 < value < 1e11
            return datetime.fromtimestamp(value, UTC) if is_sound else None
        if isinstance(value, str) and len(value) < 40:
            timestamp = datetime.fromisoformat(value.strip())
            return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def filter_properties(properties: Mapping[str, object]) -> dict[str, PropertyValue]:
    """Return the foreign properties that an imported note can have.

    Properties with a meaning in vaultmem are removed, so imported text cannot set its own state.
    """
    filtered: dict[str, PropertyValue] = {}
    for name, value in properties.items():
        if (
            len(filtered) >= _MAX_FOREIGN_ITEMS
            or name.casefold() in _RESERVED_PROPERTIES
            or not _NAME.fullmatch(name)
        ):
            continue
        if isinstance(value, (bool, int, float)):
            filtered[name] = value
        elif isinstance(value, str) and 0 < len(value.strip()) <= _MAX_VALUE_CHARS:
            filtered[name] = read_text(value)
        elif isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
            filtered[name] = tuple(map(read_text, value[:_MAX_FOREIGN_ITEMS]))
    return filtered


# Markdown files in which other programs store memory: properties and sections.


class MarkdownFile(NamedTuple):
    """A markdown file: its path's parts, properties, the text after them, and modification time.

    `inner_parts` is its path in the imported folder. `block` is the text of its properties.
    """

    parts: tuple[str, ...]
    inner_parts: tuple[str, ...]
    properties: Mapping[str, str | tuple[str, ...]]
    block: str
    body: str
    modified: datetime | None

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return PurePosixPath(self.parts[-1]).stem

    def text_of(self, name: str) -> str:
        """Return a property's text, or ""."""
        value = self.properties.get(name, "")
        return value if isinstance(value, str) else ""


def parse_markdown(
    parts: tuple[str, ...], below: tuple[str, ...], text: str, modified: datetime | None
) -> MarkdownFile:
    """Return a parsed markdown file."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    frontmatter = read_frontmatter(text)
    properties = {each.name: each.value for each in frontmatter.properties}
    block, body = text[: frontmatter.body], text[frontmatter.body :]
    return MarkdownFile(parts, below, properties, block, body, modified)


def find_owner(parts: tuple[str, ...], folder: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of the folder that contains the last `folder` of a path, and the path below.

    Without `folder` in the path, the name of the file's folder, and the file's name.
    """
    places = [place for place, part in enumerate(parts[:-1]) if part == folder]
    place = places[-1] if places else len(parts) - 1
    return (parts[place - 1] if place else ""), parts[place + 1 :] if places else parts[-1:]


def split_text(text: str, level: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each section with text; deeper headings stay in the text.

    `level` is the deepest heading that splits. 0: the first level with several headings, else the
    level below the document's title.
    """
    headings = find_blocks(text, 0).headings
    depths = sorted({depth for _, _, depth, _ in headings})
    levels = [each for each in depths if sum(depth == each for _, _, depth, _ in headings) > 1]
    level = level or next(iter(levels or depths[1:] or depths), 0)
    splits = [each for each in headings if each[2] <= level]
    ends = [*(begin for begin, _, _, _ in splits), len(text)]
    for (_, start, _, heading), end in zip([(0, 0, 0, ""), *splits], ends, strict=True):
        if body := text[start:end].strip():
            yield heading, body


def drop_lines(text: str, form: re.Pattern[str]) -> str:
    """Return a text without the lines that match a pattern."""
    return "\n".join(line for line in text.splitlines() if not form.match(line))


# Memory that agents store in markdown folders: Claude Code, Codex, OpenClaw, Basic Memory.

#: A line of an index: a link to a file, with a description.
_INDEXED = re.compile(r"\s*[-*+] +\[")
_NESTED = re.compile(r"^ *(type|originSessionId|modified): *[\"']?([^\s\"']+)", re.MULTILINE)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_THREAD = re.compile(r"^(thread_id|updated_at|cwd): *(\S+)", re.MULTILINE)


def read_claude_memory(file: MarkdownFile) -> Iterator[Item]:
    """Yield the memories of Claude Code's auto memory in `projects/<project>/memory/*.md`.

    https://code.claude.com/docs/en/memory; topics have the properties that Claude Code writes. In
    MEMORY.md, lines that only link other files are skipped.
    """
    owner, below = find_owner(file.parts, "memory")
    origin, folders = "/".join((owner, *below)), (owner.strip("-"), *below[:-1])
    if below[-1] == "MEMORY.md":
        yield from _read_sections(origin, drop_lines(file.body, _INDEXED), folders, file.modified)
        return
    nested = dict(_NESTED.findall(file.block))
    own = filter_properties({"description": file.text_of("description")})
    if session := nested.get("originSessionId"):
        own["session"] = session
    name = file.text_of("name")
    if name and name != file.stem:
        own["aliases"] = (name,)
    if text := read_text(file.body):
        yield MemoryItem(
            origin,
            text,
            title=name or file.stem,
            folders=folders,
            name=file.stem,
            tags=read_tags(nested.get("type", "")),
            created=parse_export_time(nested.get("modified")) or file.modified,
            properties=own,
        )


def read_codex_memory(file: MarkdownFile) -> Iterator[Item]:
    """Yield the memories of Codex: handbook, summary, recaps of sessions, and skills.

    openai/codex, codex-rs/memories/write/templates/memories/consolidation.md. `raw_memories.md`,
    which is merged into these, and the summary's index of the handbook are skipped.
    """
    _, below = find_owner(file.parts, "memories")
    origin, modified = "/".join(below), file.modified
    if below[0] == "rollout_summaries":
        facts = dict(_THREAD.findall(file.body[:2_000]))
        own = {"session": facts["thread_id"]} if "thread_id" in facts else {}
        if text := read_text(file.body):
            modified = parse_export_time(facts.get("updated_at")) or modified
            kind, folders = NoteKind.EPISODIC_TRACE, ("sessions",)
            yield MemoryItem(
                origin, text, file.stem, folders, file.stem, kind, created=modified, properties=own
            )
    elif below[0] == "skills":
        if below[-1] == "SKILL.md" and (text := read_text(file.body)):
            title = file.text_of("name") or below[-2]
            own = filter_properties({"description": file.text_of("description")})
            kind, folders = NoteKind.PROCEDURAL_SKILL, ("skills",)
            yield MemoryItem(
                origin, text, title, folders, kind=kind, created=modified, properties=own
            )
    elif below[-1] == "MEMORY.md":
        yield from _read_sections(origin, file.body, (), modified, level=1)
    elif below[-1] == "memory_summary.md":
        body = file.body.removeprefix("v1\n")
        for each in _read_sections(origin, body, (), modified, level=2):
            if not each.title.casefold().startswith("what's in memory"):
                yield each


def read_openclaw(file: MarkdownFile) -> Iterator[Item]:
    """Yield the memories of an OpenClaw workspace: MEMORY.md, USER.md, SOUL.md and `memory/`.

    https://docs.openclaw.ai/concepts/memory. Each daily file of `memory/` is a note of that day.
    """
    owner, below = find_owner(file.parts, "memory")
    if below == file.parts[-1:] and file.parts[-2:-1] != ("memory",):
        origin = f"{owner}/{below[-1]}"
        yield from _read_sections(origin, file.body, (file.stem.lower(),), file.modified)
        return
    day = _DAY.match(file.stem)
    if text := read_text(file.body):
        yield MemoryItem(
            "/".join((owner, "memory", *below)),
            text,
            title=file.stem,
            folders=("memory", *below[:-1]),
            name=file.stem,
            kind=NoteKind.EPISODIC_TRACE if day else NoteKind.SEMANTIC_FACT,
            created=_read_day(day[0]) if day else file.modified,
        )


def read_basic_memory(file: MarkdownFile) -> Iterator[Item]:
    """Yield a note of Basic Memory unchanged: observations and relations are markdown and links.

    https://docs.basicmemory.com/concepts/knowledge-format. Links use titles and permalinks.
    """
    title, permalink = file.text_of("title") or file.stem, file.text_of("permalink")
    kind = (
        NoteKind.DECISION
        if file.text_of("type").casefold() == "decision"
        else NoteKind.SEMANTIC_FACT
    )
    items = file.properties.get("aliases", ())
    names = {title, permalink, *((items,) if isinstance(items, str) else items)} - {"", file.stem}
    own = filter_properties({k: v for k, v in file.properties.items() if k != "permalink"})
    if names:
        own["aliases"] = tuple(sorted(names))
    created = parse_export_time(file.text_of("created")) or parse_export_time(file.text_of("date"))
    if text := read_text(file.body):
        yield MemoryItem(
            permalink or "/".join(file.inner_parts),
            text,
            title=title,
            folders=file.inner_parts[:-1],
            name=file.stem,
            kind=kind,
            tags=read_tags(file.properties.get("tags")),
            created=created or file.modified,
            properties=own,
        )


def _read_sections(
    origin: str, text: str, folders: tuple[str, ...], created: datetime | None, level: int = 0
) -> Iterator[MemoryItem]:
    for title, body in split_text(read_text(text), level):
        yield MemoryItem(f"{origin}#{title}", body, title, folders, created=created)


def _read_day(text: str) -> datetime | None:
    """Return the start of a day, without a time zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
