"""Memory that agents keep as folders of markdown: Claude Code, Codex, OpenClaw, Basic Memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from vaultmem.core.imports.item import (
    Item,
    MemoryItem,
    keep_properties,
    read_moment,
    read_tags,
    read_text,
)
from vaultmem.core.imports.markdown import MarkdownFile, divide_text, drop_lines, find_owner
from vaultmem.core.lifecycle import Kind

#: A line of an index: a link to a file, and what that is about.
_INDEXED = re.compile(r"\s*[-*+] +\[")
_NESTED = re.compile(r"^ *(type|originSessionId|modified): *[\"']?([^\s\"']+)", re.MULTILINE)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_THREAD = re.compile(r"^(thread_id|updated_at|cwd): *(\S+)", re.MULTILINE)


def read_claude_memory(file: MarkdownFile) -> Iterator[Item]:
    """Yield what Claude Code's auto memory says in `projects/<project>/memory/*.md`.

    https://code.claude.com/docs/en/memory; a topic's properties as Claude Code writes them. Of
    MEMORY.md, the lines that only lead to the other files are left.
    """
    owner, below = find_owner(file.parts, "memory")
    origin, folders = "/".join((owner, *below)), (owner.strip("-"), *below[:-1])
    if below[-1] == "MEMORY.md":
        yield from _read_sections(origin, drop_lines(file.body, _INDEXED), folders, file.modified)
        return
    nested = dict(_NESTED.findall(file.block))
    own = keep_properties({"description": file.text_of("description")})
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
            created=read_moment(nested.get("modified")) or file.modified,
            own=own,
        )


def read_codex_memory(file: MarkdownFile) -> Iterator[Item]:
    """Yield what Codex remembers: handbook, summary, recaps of sessions, and skills.

    openai/codex, codex-rs/memories/write/templates/memories/consolidation.md. What is merged into
    these (`raw_memories.md`) and the summary's index of the handbook are left.
    """
    _, below = find_owner(file.parts, "memories")
    origin, at = "/".join(below), file.modified
    if below[0] == "rollout_summaries":
        facts = dict(_THREAD.findall(file.body[:2_000]))
        own = {"session": facts["thread_id"]} if "thread_id" in facts else {}
        if text := read_text(file.body):
            at = read_moment(facts.get("updated_at")) or at
            kind, folders = Kind.EPISODIC_TRACE, ("sessions",)
            yield MemoryItem(origin, text, file.stem, folders, file.stem, kind, created=at, own=own)
    elif below[0] == "skills":
        if below[-1] == "SKILL.md" and (text := read_text(file.body)):
            title = file.text_of("name") or below[-2]
            own = keep_properties({"description": file.text_of("description")})
            kind, folders = Kind.PROCEDURAL_SKILL, ("skills",)
            yield MemoryItem(origin, text, title, folders, kind=kind, created=at, own=own)
    elif below[-1] == "MEMORY.md":
        yield from _read_sections(origin, file.body, (), at, level=1)
    elif below[-1] == "memory_summary.md":
        body = file.body.removeprefix("v1\n")
        for each in _read_sections(origin, body, (), at, level=2):
            if not each.title.casefold().startswith("what's in memory"):
                yield each


def read_openclaw(file: MarkdownFile) -> Iterator[Item]:
    """Yield what an OpenClaw workspace remembers: MEMORY.md, USER.md, SOUL.md and `memory/`.

    https://docs.openclaw.ai/concepts/memory. A day of `memory/` is one note, of its day.
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
            kind=Kind.EPISODIC_TRACE if day else Kind.SEMANTIC_FACT,
            created=_read_day(day[0]) if day else file.modified,
        )


def read_basic_memory(file: MarkdownFile) -> Iterator[Item]:
    """Yield a note of Basic Memory as it is: observations and relations are markdown and links.

    https://docs.basicmemory.com/concepts/knowledge-format. Links mean titles and permalinks.
    """
    title, permalink = file.text_of("title") or file.stem, file.text_of("permalink")
    kind = Kind.DECISION if file.text_of("type").casefold() == "decision" else Kind.SEMANTIC_FACT
    more = file.properties.get("aliases", ())
    names = {title, permalink, *((more,) if isinstance(more, str) else more)} - {"", file.stem}
    own = keep_properties({k: v for k, v in file.properties.items() if k != "permalink"})
    if names:
        own["aliases"] = tuple(sorted(names))
    created = read_moment(file.text_of("created")) or read_moment(file.text_of("date"))
    if text := read_text(file.body):
        yield MemoryItem(
            permalink or "/".join(file.below),
            text,
            title=title,
            folders=file.below[:-1],
            name=file.stem,
            kind=kind,
            tags=read_tags(file.properties.get("tags")),
            created=created or file.modified,
            own=own,
        )


def _read_sections(
    origin: str, text: str, folders: tuple[str, ...], at: datetime | None, level: int = 0
) -> Iterator[MemoryItem]:
    for title, body in divide_text(read_text(text), level):
        yield MemoryItem(f"{origin}#{title}", body, title, folders, created=at)


def _read_day(text: str) -> datetime | None:
    """Return the beginning of a day, wherever it was."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
