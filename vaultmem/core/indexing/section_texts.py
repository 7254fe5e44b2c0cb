"""What each section of a note is found by: its title, its tags, its body, and what marks it.

A mark is a term that no word can be: `maren:` of a section that Maren said, `[]` of one that is
hardly more than links to other notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.terms import LINKS_ALONE, mark_speaker, term_sequence

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note

_WORD = r"[^\W\d_][\w.'’-]{0,30}"
#: A word, or up to three that begin with a capital: `The tide turns:` says who nobody is.
_CAPITAL = rf"(?=[^\W\d_a-zß-öø-ÿ]){_WORD}"
_NAME = rf"(?:{_CAPITAL}(?: {_CAPITAL}){{1,2}}|{_WORD})"

#: The label of a turn: `Maren:`, `**Maren Vogel (CTO):**`, `- [10:15] Maren said, `.
_TURN = (
    r"^[ \t]*(?:[-*+>][ \t]+)*(?:\[?\d[\d:.,/T -]{3,30}Z?\]?[ \t]+)?"
    rf"[*_]{{0,2}}({_NAME})[*_]{{0,2}}(?:[ \t]*\([^()\n]{{1,30}}\))?[*_]{{0,2}}"
    r"(?:[ \t]*:|[ \t]+(?:said|says|wrote|asked|replied|sagte|schrieb)[,:])[*_]{0,2}[ \t]+\S"
)

#: Sources that name no one.
_ROLES = frozenset({"human", "agent", "import", "tool", "eval"})

#: A link to another note, not to the web.
_LINK = (
    r"!?\[\[[^\[\]\n]*\]\]"
    r"|!?\[[^\[\]\n]*\]\((?![A-Za-z][A-Za-z0-9+.-]+:|//)[^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)"
)
#: Characters of a link, its part of the words included, at most.
_LONGEST = 200


class SectionTexts(NamedTuple):
    """A section's names, which are its title together, its tags, its body, and its marks."""

    title: Sequence[str]
    tags: str
    body: str
    marks: tuple[str, ...] = ()


def list_texts(note: Note, context: str, full: str = "") -> list[SectionTexts]:
    """List the texts of a note's sections; `full` is what a note said before it was shortened.

    The title holds the note's title and the headings down to the section; the first section
    also answers for aliases, references, properties that are the person's own, and the full text.
    """
    tags = " ".join([*note.tags, context])
    is_name = re.fullmatch(_NAME, note.source) and note.source.lower() not in _ROLES
    source = note.source if is_name else ""
    found: list[SectionTexts] = []
    for section in note.sections:
        title = [note.title, *section.parents, section.heading]
        body = note.section_text(section)
        if full and section.ordinal == 0:
            from vaultmem.core.similarity.statement import list_new

            body = "\n".join([full, *list_new(body, full)])
        marks = tuple(dict.fromkeys(_list_marks(body, source)))
        if section.ordinal == 0:
            title.extend(note.aliases)
            body = "\n".join([body, note.extra, *note.refs])
        found.append(SectionTexts(tuple(dict.fromkeys(title)), tags, body, marks))
    return found


def _list_marks(body: str, source: str) -> Iterator[str]:
    names = [name for name in (find_speaker(body), source) if name]
    if names:
        yield from map(mark_speaker, ["", *term_sequence(" ".join(names))])
    if is_links_alone(body):
        yield LINKS_ALONE


def find_speaker(body: str) -> str:
    """Return who says all that a text has, by the labels of its turns; empty if nobody does."""
    first = re.match(_TURN, body)
    if first is None:
        return ""
    names = {name.casefold() for name in re.findall(_TURN, body, re.MULTILINE)}
    return first[1] if len(names) == 1 else ""


def is_links_alone(body: str) -> bool:
    """Tell whether a text has fewer words of its own than links to other notes."""
    links = body.count("](") + body.count("[[")
    if not links or len(body) > _LONGEST * links:
        return False
    own, links = re.subn(_LINK, " ", body)
    return len(re.findall(r"\w+", own)) < links
