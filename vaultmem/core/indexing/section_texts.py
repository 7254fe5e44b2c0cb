"""Convert a note to the texts and terms that the index stores.

A mark is a term that cannot be a word:

- `maren:` for a section spoken by Maren
- `[]` for a section with hardly more than links to notes
- `?` for a section that ends with a question
- `1a2b3c4d=` for the first section of a note with a certain name
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.indexing.note_facts import NoteFacts, describe_note
from vaultmem.core.lifecycle import OPEN_STATES, OWNER_KINDS, SOURCES, NoteState
from vaultmem.core.notes.comments import strip_hidden
from vaultmem.core.notes.conflict import find_conflict
from vaultmem.core.notes.link_syntax import Link, find_links
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.obsidian import DailyNotes
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.preferences import SpeakerRole, find_in_note
from vaultmem.core.search.query import asks
from vaultmem.core.search.terms import (
    ASKS,
    LINKS_ALONE,
    mark_name,
    mark_speaker,
    split_words,
    stem_word,
    term_sequence,
)
from vaultmem.core.text.paths import note_context
from vaultmem.core.text.token_count import count_tokens

if TYPE_CHECKING:
    from vaultmem.core.notes.conflict import ConflictingText
    from vaultmem.core.notes.sections import Section


_WORD = r"[^\W\d_][\w.'’-]{0,30}"
#: A word, or up to three capitalized words. `The tide turns:` is not a speaker.
_CAPITAL = rf"(?=[^\W\d_a-zß-öø-ÿ]){_WORD}"
_NAME = rf"(?:{_CAPITAL}(?: {_CAPITAL}){{1,2}}|{_WORD})"

#: The label of a turn: `Maren:`, `**Maren Vogel (CTO):**`, `- [10:15] Maren said, `.
_TURN = (
    r"^[ \t]*(?:[-*+>][ \t]+)*(?:\[?\d[\d:.,/T -]{3,30}Z?\]?[ \t]+)?"
    rf"[*_]{{0,2}}({_NAME})[*_]{{0,2}}(?:[ \t]*\([^()\n]{{1,30}}\))?[*_]{{0,2}}"
    r"(?:[ \t]*:|[ \t]+(?:said|says|wrote|asked|replied|sagte|schrieb)[,:])[*_]{0,2}[ \t]+\S"
)

#: A link to another note, not to the web.
_LINK = (
    r"!?\[\[[^\[\]\n]*\]\]"
    r"|!?\[[^\[\]\n]*\]\((?![A-Za-z][A-Za-z0-9+.-]+:|//)[^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)"
)
#: Maximum characters for each link, including other words.
_MAX_CHARS_PER_LINK = 200


class SectionTexts(NamedTuple):
    """A section's names (together its title), its tags, its body, and its marks."""

    title: Sequence[str]
    tags: str
    body: str
    marks: tuple[str, ...] = ()


def list_texts(note: Note, context: str) -> list[SectionTexts]:
    """Return the texts of a note's sections.

    The title contains the note's title and the headings down to the section. The first section also
    contains aliases, references and the user's own properties.
    """
    bodies = [note.section_text(section) for section in note.sections]
    return _list_texts(note, note.sections, bodies, context)


#: Maximum characters of a date, commit, tag or path that limits a note's validity.
_LONGEST_LIMIT = 400


def list_full_texts(
    note: Note, full_note: Note, context: str
) -> tuple[list[SectionTexts], list[int]]:
    """Return the texts of a compacted note, and the ordinal of the section that shows each.

    They are the texts of `full_note`, followed by text added since. Words that are in both
    count once.
    """
    from vaultmem.core.similarity.statement import list_added

    full_text = full_note.visible_body
    added_texts = [
        " ".join(list_added(note.section_text(each), full_text)) for each in note.sections
    ]
    headings = {each.heading for each in full_note.sections} | {""}
    added_sections = [
        (section, body)
        for section, body in zip(note.sections, added_texts, strict=True)
        if body or section.heading not in headings
    ]
    sections = [*full_note.sections, *(section for section, _ in added_sections)]
    bodies = [
        *map(full_note.section_text, full_note.sections),
        *(body for _, body in added_sections),
    ]
    # By heading only: its parent headings are possibly removed.
    ordinals_by_heading = {section.heading: section.ordinal for section in reversed(note.sections)}
    ordinals = [ordinals_by_heading.get(section.heading, 0) for section in full_note.sections]
    ordinals += [section.ordinal for section, _ in added_sections]
    return _list_texts(note, sections, bodies, context), ordinals


def _list_texts(
    note: Note, sections: Sequence[Section], bodies: Sequence[str], context: str
) -> list[SectionTexts]:
    tags = " ".join([*note.tags, context])
    is_name = re.fullmatch(_NAME, note.source) and note.source.lower() not in SOURCES
    source = note.source if is_name else ""
    texts: list[SectionTexts] = []
    for section, body in zip(sections, bodies, strict=True):
        title = [note.title, *section.parents, section.heading]
        marks = dict.fromkeys(_list_marks(body, source))
        if not texts:
            title.extend([*note.aliases, _list_missing(note.path.stem, title)])
            body = "\n".join([body, note.extra, *note.cites])
            names = map(mark_name, [note.title, note.path.stem, *note.aliases])
            marks |= dict.fromkeys(filter(None, names))
        texts.append(SectionTexts(tuple(dict.fromkeys(title)), tags, body, tuple(marks)))
    return texts


def _list_missing(name: str, title: Sequence[str]) -> str:
    """Return the words of a file name whose terms are not in the titles, without numbers."""
    title_terms = {*term_sequence("\n".join(title))}
    words = (word for word in split_words(name) if not any(map(str.isdigit, word)))
    return " ".join(word for word in words if stem_word(word) not in title_terms)


def _list_marks(body: str, source: str) -> Iterator[str]:
    names = [name for name in (find_speaker(body), source) if name]
    if names:
        yield from map(mark_speaker, ["", *term_sequence(" ".join(names))])
    if is_links_alone(body):
        yield LINKS_ALONE
    if asks(body):
        yield ASKS


def find_speaker(body: str) -> str:
    """Return the only speaker of a text, by the labels of its turns, or ""."""
    first = re.match(_TURN, body)
    if first is None:
        return ""
    names = {name.casefold() for name in re.findall(_TURN, body, re.MULTILINE)}
    return first[1] if len(names) == 1 else ""


def is_links_alone(body: str) -> bool:
    """Return whether a text has fewer other words than links to notes."""
    links = body.count("](") + body.count("[[")
    if not links or len(body) > _MAX_CHARS_PER_LINK * links:
        return False
    rest, links = re.subn(_LINK, " ", body)
    return len(re.findall(r"\w+", rest)) < links


# Compute everything that manifest and index store of a note from its bytes.

_DAILY = DailyNotes()


class AnalysedNote(NamedTuple):
    """A note: its record without document number, and the texts of its sections.

    `ordinals` are the sections that show these texts; a compacted note can repeat one. `is_invalid`
    is true if the note is invalid, or possibly invalid: conflict markers in a code block.
    `conflicting_texts` is the conflicting text of other merge sides, by section number.
    """

    record: NoteRecord
    visible: str
    sections: tuple[Section, ...]
    texts: list[SectionTexts]
    ordinals: list[int]
    facts: NoteFacts
    aliases: tuple[str, ...]
    links: tuple[Link, ...]
    is_invalid: bool
    conflicting_texts: Mapping[int, tuple[ConflictingText, ...]]


def read_limit(note: Note, name: str) -> str:
    """Return a validity limit of a note, as written in its property, or ""."""
    prop = note.frontmatter.get(name)
    value = prop.value if prop else None
    return "" if value is None or isinstance(value, tuple) else str(value)[:_LONGEST_LIMIT]


def analyse_note(
    path: PurePosixPath, data: bytes, full: bytes = b"", daily: DailyNotes = _DAILY
) -> AnalysedNote:
    """Parse a note. For a compacted note, its `full` text is indexed too.

    `daily` defines the names of daily notes in Obsidian.

    Raises:
        UnreadableNoteError: the bytes are not text.
    """
    note = parse_note(path, data, daily)
    record = make_record(note)
    full_note = _read_full(path, full)
    if full_note is None:
        texts, ordinals = list_texts(note, record.context), [*range(len(note.sections))]
    else:
        texts, ordinals = list_full_texts(note, full_note, record.context)
    return AnalysedNote(
        record=record,
        visible=note.visible,
        sections=note.sections,
        texts=texts,
        ordinals=ordinals,
        facts=describe_note(note.state, note.created, note.updated, note.session, note.tags),
        aliases=note.aliases,
        links=find_links(note.text, note.frontmatter, note.fences),
        is_invalid=bool(note.problem or find_conflict(note.text)),
        conflicting_texts=note.conflicting_texts,
    )


def make_record(note: Note) -> NoteRecord:
    """Return what the manifest stores of a note, without its document number and file time."""
    return NoteRecord(
        document=0,
        path=str(note.path),
        blob=note.blob,
        title=note.title,
        kind=note.kind.value,
        state=note.state.value,
        pinned=note.pinned,
        context=note_context(note.path),
        tags=note.tags,
        created=note.created,
        updated=note.updated,
        confidence=note.confidence,
        source=note.source,
        agent=note.agent,
        session=note.session,
        tokens=count_tokens(strip_hidden(note.visible)),
        body_digest=digest_body(note),
        full_text=note.full_text,
        project=note.project,
        valid_from=read_limit(note, "valid_from"),
        valid_until=read_limit(note, "valid_until"),
        warnings=(*filter(None, [note.conflict]), *note.warnings),
        changed=0.0,
        problem=note.problem,
        wishes=_find_wishes(note),
    )


def _find_wishes(note: Note) -> tuple[str, ...]:
    """Return the sentences that state a preference, () for preferences, policies and skills."""
    if note.kind in OWNER_KINDS or note.state not in OPEN_STATES:
        return ()
    speaker = SpeakerRole.AGENT if note.agent else SpeakerRole.OWNER
    return find_in_note(note.visible_body, speaker)


def digest_body(note: Note) -> str:
    """Return the sha256 of a note's text without its properties, which the trust record stores."""
    return hashlib.sha256(note.body.encode("utf-8", "surrogatepass")).hexdigest()


def _read_full(path: PurePosixPath, full: bytes) -> Note | None:
    """Return the note before it was compacted, or None if it must not be indexed."""
    if not full:
        return None
    try:
        full_note = parse_note(path, full)
    except UnreadableNoteError:
        return None
    return None if full_note.problem or full_note.state is NoteState.QUARANTINED else full_note
