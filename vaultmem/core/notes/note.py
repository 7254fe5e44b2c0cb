"""A note: one markdown file, its properties and its sections."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.anchors import CITE_PROPERTIES
from vaultmem.core.clients import auto_memory
from vaultmem.core.lifecycle import HIDDEN_STATES, SOURCES, NoteKind, NoteState, most_restricted
from vaultmem.core.notes.canvas import decode_note
from vaultmem.core.notes.comments import hide_unseen, strip_hidden
from vaultmem.core.notes.conflict import (
    ConflictingText,
    describe_conflict,
    find_callouts,
    find_conflict,
    find_spans,
)
from vaultmem.core.notes.encoding import CANVAS, describe_encoding
from vaultmem.core.notes.frontmatter import (
    Frontmatter,
    PropertyReader,
    read_frontmatter,
    read_state_lines,
)
from vaultmem.core.notes.obsidian import DailyNotes, read_day
from vaultmem.core.notes.sections import (
    Section,
    blank_fences,
    check_full_text,
    find_blocks,
    find_title,
    split_sections,
)
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import format_names
from vaultmem.core.text.paths import OWN_FOLDERS, PINNED_FILES
from vaultmem.core.text.patterns import compile_later
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoteNotFoundError

# Only in managed notes `kind` and `state` are vaultmem's properties.

#: Lists that only vaultmem writes: links to other notes, and confirmations.
_OWN_LISTS = frozenset({"supersedes", "supersedes_part", "superseded_by", "contradicts"})
_OWN_LISTS |= {"differs_from", "confirmed_by", "also_said"}

#: Properties that are lists of texts or links in any note.
LISTS = _OWN_LISTS | {"tags", "aliases", *CITE_PROPERTIES, "parents", "related"}

#: Properties that only vaultmem writes.
_MANAGED_PROPERTIES = _OWN_LISTS | {"agent", "tool_call", "state_reason", "fidelity", "full_text"}
_MANAGED_PROPERTIES |= {"primed", "imported"}

#: Properties with a meaning in vaultmem; all others are the user's.
KNOWN_PROPERTIES = (
    _MANAGED_PROPERTIES | LISTS | {"title", "kind", "state", "pinned", "created", "updated"}
)
KNOWN_PROPERTIES |= {"confidence", "source", "session", "suspicious", "reviewed", "project"}

_KINDS = frozenset(kind.value for kind in NoteKind)


def is_managed(path: PurePosixPath, frontmatter: Frontmatter) -> bool:
    """Return whether vaultmem interprets a note's `kind` and `state`.

    A managed note has a known kind or source, a property that only vaultmem writes, or a path where
    vaultmem writes. In all other notes `kind: book` and `state: archived` are the user's own.
    """
    name = str(path)
    if name.startswith(OWN_FOLDERS) or name in PINNED_FILES or auto_memory.find_writer(name):
        return True
    for prop in frontmatter.properties:
        if prop.name in _MANAGED_PROPERTIES:
            return True
        if isinstance(prop.value, str):
            word = prop.value.strip().lower()
            if (prop.name == "kind" and word in _KINDS) or (
                prop.name == "source" and word in SOURCES
            ):
                return True
    return False


_STATES = frozenset(state.value for state in NoteState)

_WORD, _LETTERS = compile_later(r"\w{4,}"), compile_later(r"\w")
_MAX_STATE = 80

#: Similarity (0 to 1) from which a word might be a misspelt state.
_MIN_STATE_SIMILARITY = 0.8

#: The user's own properties, unless the note is managed.
_WORDS = frozenset({"kind", "state", "project"})

_HIDDEN_STATE_NAMES = tuple(each.value for each in HIDDEN_STATES)
_QUARANTINED = NoteState.QUARANTINED.value

_DAILY = DailyNotes()

#: A tag after a blank or bracket, but not in a link's target. The look-behinds come second, so the
#: search is for `#`.
INLINE_TAG = compile_later(r"#(?<![^\s(,;]#)(?<!\]\(#)([\w/-]*[^\W\d][\w/-]*)")
#: Text that might be a tag, before code is removed.
_NEARLY_TAG = compile_later(r"#(?<![^\s(,;`]#)[\w/-]*[^\W\d]")
_INLINE_CODE = compile_later(r"`[^`\n]*`")


class Note(NamedTuple):
    """A parsed note: (path, blob) is its identity, `text` its whole decoded content.

    `visible` is the text without hidden parts (`core.notes.comments`); sections and fences are
    found in it. `warnings` are problems in reading. `created` and `updated` are ISO 8601 texts, ""
    if missing. `extra` is the text of unknown properties, `fences` are the spans of fenced code.
    `encoding` is "" for UTF-8; only UTF-8 notes are written. `problem` is why a note is invalid;
    then it is not pinned, and its state is `unreadable`, or a more restricted one from its lines.
    `full_text` is the location of a compacted note's full text (see `core.notes.sections`).
    `project` is the project in which the note was learned, "" for a global note.
    """

    path: PurePosixPath
    blob: str
    text: str
    visible: str
    title: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    kind: NoteKind
    state: NoteState
    pinned: bool
    created: str
    updated: str
    confidence: float | None
    source: str
    agent: str
    session: str
    cites: tuple[str, ...]
    extra: str
    frontmatter: Frontmatter
    sections: tuple[Section, ...]
    fences: Sequence[tuple[int, int]]
    warnings: tuple[str, ...]
    encoding: str = ""
    problem: str = ""
    full_text: str = ""
    project: str = ""

    @property
    def body(self) -> str:
        """The text after the frontmatter."""
        return self.text[self.frontmatter.body :]

    @property
    def conflict(self) -> str:
        """A message about conflict callouts of other authors, "" without any."""
        is_canvas = self.encoding == CANVAS  # No merge writes into a canvas.
        return (
            "" if is_canvas else describe_conflict(find_callouts(self.text, self.frontmatter.body))
        )

    @property
    def conflicting_texts(self) -> dict[int, tuple[ConflictingText, ...]]:
        """The other sides' texts in conflict callouts, by section number."""
        texts: dict[int, tuple[ConflictingText, ...]] = {}
        placed = find_callouts(self.text, self.frontmatter.body)
        spans = find_spans(self.text, self.frontmatter.body)
        for (start, _), (callout, *_) in zip(spans, placed, strict=True):
            inside = (each.ordinal for each in self.sections if each.start <= start < each.end)
            ordinal = next(inside, self.sections[-1].ordinal)
            if callout.lines:
                text = ConflictingText(callout.speaker.author, "\n".join(callout.lines))
                texts[ordinal] = (*texts.get(ordinal, ()), text)
        return texts

    @property
    def visible_body(self) -> str:
        """The visible text after the frontmatter."""
        return strip_hidden(self.visible[self.frontmatter.body :])

    def section_text(self, section: Section) -> str:
        """Return the visible text of a section, without its heading."""
        return strip_hidden(self.visible[section.start : section.end]).strip()

    def find_section(self, heading: str) -> Section | None:
        """Return the section with this heading, ignoring case and spacing, or None."""
        key = " ".join(heading.split()).casefold()
        for section in self.sections:
            if " ".join(section.heading.split()).casefold() == key:
                return section
        return None

    def require_section(self, heading: str) -> Section:
        """Return the section with this heading.

        Raises:
            NoteNotFoundError: the heading is missing; the error lists similar or existing headings.
        """
        if section := self.find_section(heading):
            return section
        names = [each.heading for each in self.sections if each.heading]
        fallback = f"; it has {format_names(names, 10)}" if names else "; it has no headings"
        suggestion = suggest_similar(heading, names, fallback)
        raise NoteNotFoundError(f'{self.path}: no heading "{heading}"{suggestion}')


class UnreadableNoteError(ValueError):
    """A file is not a note; the message gives the reason."""


class NoteText(NamedTuple):
    """A note's text, its encoding ("" for UTF-8), and its frontmatter."""

    text: str
    encoding: str
    frontmatter: Frontmatter


def decode_bytes(path: PurePosixPath, data: bytes) -> NoteText:
    """Return the text of a note's bytes; enough for comparing two versions.

    Raises:
        UnreadableNoteError: the bytes are not text, or not a canvas despite the path.
    """
    try:
        text, encoding = decode_note(str(path), data)
    except ValueError as error:
        raise UnreadableNoteError(str(error)) from None
    if "\0" in text:
        raise UnreadableNoteError("it contains NUL bytes, so it is not text")
    return NoteText(text, encoding, read_frontmatter(text))


def parse_note(path: PurePosixPath, data: bytes, daily: DailyNotes = _DAILY) -> Note:
    """Return the note of some bytes; `daily` are Obsidian's settings for daily notes.

    Raises:
        UnreadableNoteError: as for `decode_bytes`.
    """
    text, encoding, frontmatter = decode_bytes(path, data)
    visible, unclosed = hide_unseen(text, frontmatter.body)
    headings, fences = find_blocks(visible, frontmatter.body)
    sections, first_heading = split_sections(visible, frontmatter.body, headings)
    is_own = is_managed(path, frontmatter)
    reader = PropertyReader(frontmatter, is_strict=is_own)
    aliases = reader.texts(*reader.names_like("aliases", "alias"))
    tags = reader.texts(*reader.names_like("tags", "tag"))
    writer = auto_memory.find_writer(str(path))
    block = text[frontmatter.start : frontmatter.end] if writer else ""
    agent = reader.text("agent") or writer
    extra = reader.unknown_text(KNOWN_PROPERTIES if is_own else KNOWN_PROPERTIES - _WORDS)
    misspelt = _find_misspelt(
        reader, frontmatter, _HIDDEN_STATE_NAMES if is_own else [_QUARANTINED]
    )
    problem = find_conflict(text, fences) or frontmatter.problem or misspelt
    state = reader.member("state", NoteState, NoteState.ACTIVE)
    if not is_own and state is not NoteState.QUARANTINED:
        state = NoteState.ACTIVE
    return Note(
        path=path,
        blob=blob_id(data),
        text=text,
        visible=visible,
        title=reader.text("title")
        or (reader.text("name") if writer else "")
        or find_title(path.stem, first_heading, aliases, visible[frontmatter.body :]),
        aliases=aliases,
        tags=_all_tags(tags, blank_fences(visible, fences), frontmatter.body),
        kind=reader.member(
            "kind", NoteKind, NoteKind(auto_memory.read_kind(block) or NoteKind.SEMANTIC_FACT)
        ),
        state=_restrict(state, text, frontmatter, problem, is_own),
        pinned=not problem and (reader.flag("pinned") or str(path) in PINNED_FILES),
        created=reader.timestamp("created") or reader.day("date") or read_day(str(path), daily),
        updated=reader.timestamp("updated"),
        confidence=reader.share("confidence"),
        source=reader.text("source") or _describe_source(reader, agent),
        agent=agent,
        session=reader.text("session")
        or auto_memory.read_session(block)
        or (path.stem if path.parts[0] == "sessions" else ""),
        cites=tuple(text for name in CITE_PROPERTIES for text in reader.texts(name)),
        extra=extra,
        frontmatter=frontmatter,
        sections=sections,
        fences=fences,
        warnings=_all_warnings((problem, unclosed), encoding, frontmatter, reader),
        encoding=encoding,
        problem=problem,
        full_text=check_full_text(reader.text("full_text")),
        project=reader.text("project") or (auto_memory.find_project(str(path)) if writer else ""),
    )


def parse_readable_note(path: str | PurePosixPath, data: bytes) -> Note | None:
    """Return the note that the bytes of a file are, None if they cannot be read as one."""
    try:
        return parse_note(PurePosixPath(path), data)
    except UnreadableNoteError:
        return None


def _describe_source(reader: PropertyReader, agent: str) -> str:
    """Return the origin of a note without the property `source`."""
    if reader.text("imported") or reader.text("primed"):
        return "import"
    return "agent" if agent else ""


def _find_misspelt(reader: PropertyReader, frontmatter: Frontmatter, hidden: Sequence[str]) -> str:
    """Return a problem if properties might be a misspelt state that hides the note, else ""."""
    state = reader.text("state").lower()
    for each in frontmatter.properties:
        name = each.name
        if len(name) <= 5 and name != "state" and name.casefold() == "state":
            values = {each.value} if isinstance(each.value, str) else {*each.value}
            if states := {value.strip().lower() for value in values}.intersection(hidden) - {state}:
                return f'it has "{name}: {min(states)}", and the name has to be "state"'
    others = {*frontmatter.states}.intersection(hidden) - {state}
    if others and not _is_twice(frontmatter):
        return "it gives a state that is not a property of its own"
    if state in _STATES:
        return ""
    if not state:
        names = [each.name for each in frontmatter.properties if each.value == _QUARANTINED]
        return f'"{names[0]}: quarantined" is in it, and no state' if names else ""
    from difflib import get_close_matches

    whole = "".join(_LETTERS.findall(state[:_MAX_STATE]))
    words = (whole, *_WORD.findall(state[:_MAX_STATE]))
    matches = [
        match
        for word in words
        for match in get_close_matches(word, hidden, 1, _MIN_STATE_SIMILARITY)
    ]
    return f'its state is "{state[:40]}", which may mean {matches[0]}' if matches else ""


def _is_twice(frontmatter: Frontmatter) -> bool:
    return any('"state" occurs twice' in each for each in frontmatter.warnings)


def _restrict(
    state: NoteState, text: str, frontmatter: Frontmatter, problem: str, is_managed: bool
) -> NoteState:
    """Return the most restricted state that a note with uncertain properties might have."""
    if not problem and not _is_twice(frontmatter):
        return state
    states = [NoteState(each) for each in read_state_lines(text, frontmatter)]
    if not (problem or is_managed):
        states = [each for each in states if each is NoteState.QUARANTINED]
    return most_restricted(state, *states, *([NoteState.UNREADABLE] if problem else []))


def _all_tags(declared: tuple[str, ...], prose: str, body: int) -> tuple[str, ...]:
    """Return the declared and inline tags, without `#`, each once, in order.

    `prose` is the note's text with its fenced code blanked.
    """
    tags = {tag.strip().lstrip("#"): None for tag in declared}
    if _NEARLY_TAG.search(prose, body):
        prose = _INLINE_CODE.sub(" ", prose[body:])
        tags.update((tag.strip("/"), None) for tag in INLINE_TAG.findall(prose))
    return tuple(tag for tag in tags if tag)


def _all_warnings(
    problems: tuple[str, ...], encoding: str, frontmatter: Frontmatter, reader: PropertyReader
) -> tuple[str, ...]:
    warning = describe_encoding(encoding) if encoding not in {"", CANVAS} else ""
    return (*filter(None, (*problems, warning)), *frontmatter.warnings, *reader.warnings)
