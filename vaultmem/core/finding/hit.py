"""A section that was found, why, the sections of one note put together, and how sure they are.

A section's `strength` is its relevance by words over the idf of all that was asked, where a word
that the vault does not have counts as the rarest: a mean gain for each word, which neither the
length of the question nor the size of the vault shifts. `coverage` is the share of that idf that
is in the section. docs/decisions/0012 has how often evidence was there at each level.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.finding.terms import is_stop_term
from vaultmem.core.notes.conflict import Otherwise
from vaultmem.core.notes.record import NoteRecord, SectionRecord


class Match(NamedTuple):
    """One query term in a section: its fields, what it adds to the score, and its weighted idf.

    `word` is what was asked, where that is not the term itself.
    """

    term: str
    fields: tuple[str, ...]
    score: float
    idf: float = 0.0
    word: str = ""

    @property
    def shown(self) -> str:
        """The word that people see."""
        return self.word or self.term


#: A note among those of several vaults: its vault's name, its path and its blob id.
NoteKey = tuple[str, str, str]


class Further(NamedTuple):
    """Another section of a note that was found: its heading, the heading's line, its score."""

    heading: str
    line: int
    score: float


class Hit(NamedTuple):
    """A section with its text and score; `text` leaves the heading out.

    `refs` names the refs that hold it, where several were looked at together; `linked_from` is the
    note whose link brought it a share of that note's score; `replaces` are the notes that its own
    says it supersedes; `beside` is the note that asks what this one, written next, may answer;
    `also` are further sections of its note, where a hit stands for its note; `caution` says why it
    must be checked before use, or is in doubt; `vault` is the name of its own, where several were
    asked; `otherwise` is what another side of a merge says in place of words of it; `shown_line` is
    the sentence that shows the note where `text` has none, of its full text or another section.

    score = (sum of the matches + closeness + passage + named + neighbours + recency) *
    state_weight, see `core.finding.ranking`; where vectors were asked too (`semantic` is their
    score), it is their blend with the words' relevance. `asked` is the weighted idf of all terms
    of the question.

    Where a reranker put the best in its order, `rerank` is its own score, and `score` that of the
    place which the section has now.
    """

    record: NoteRecord
    section: SectionRecord
    text: str
    score: float
    matches: tuple[Match, ...]
    closeness: float
    state_weight: float
    refs: tuple[str, ...] = ()
    linked_from: str = ""
    passage: float = 0.0
    neighbours: float = 0.0
    recency: float = 0.0
    semantic: float = 0.0
    named: float = 0.0
    replaces: tuple[str, ...] = ()
    asked: float = 0.0
    rerank: float | None = None
    beside: str = ""
    also: tuple[Further, ...] = ()
    caution: str = ""
    vault: str = ""
    otherwise: tuple[Otherwise, ...] = ()
    shown_line: str = ""

    @property
    def note(self) -> NoteKey:
        """The note among all that are searched; refs can have different blobs of one path."""
        return self.vault, self.record.path, self.record.blob

    @property
    def key(self) -> tuple[NoteKey, int]:
        """The section among all that are searched: its note, and its position in that."""
        return self.note, self.section.ordinal

    @property
    def local_key(self) -> tuple[int, int]:
        """The section within its own vault: its document, and its position in that."""
        return self.record.document, self.section.ordinal

    @property
    def coverage(self) -> float:
        """The share of what was asked that the section has."""
        return sum(match.idf for match in self.matches) / (self.asked or 1.0)

    @property
    def relevance(self) -> float:
        """The score by words alone, before recency and state."""
        words = sum(match.score for match in self.matches)
        return words + (self.closeness + self.passage + self.named + self.neighbours)

    @property
    def strength(self) -> float:
        """The relevance by words over what was asked, see the module."""
        return self.relevance / (self.asked or 1.0)

    @property
    def address(self) -> str:
        """The section's address: `path#Heading` as in Obsidian, behind its vault's name if any."""
        path = f"{self.vault}:{self.record.path}" if self.vault else self.record.path
        return f"{path}#{self.section.heading}" if self.section.heading else path

    @property
    def name(self) -> str:
        """The note's title, and the heading where that says something else."""
        title, heading = self.record.title, self.section.heading
        return title if heading.casefold() in title.casefold() else f"{title} > {heading}"


def asks(text: str) -> bool:
    """Tell whether a text ends with a question."""
    return text.rstrip().endswith(("?", "？"))


#: Further sections that stand under a note's best one at most, and the share of its score that
#: each has at least.
_FURTHER = 3
_SHARE = 0.5


def group_places(notes: Sequence[Hashable], scores: Sequence[float]) -> list[list[int]]:
    """Return the places of the sections of each note that count, both best first.

    `notes` and `scores` are those of sections, best first. What a group leaves out is too weak
    beside its first, or one too many.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, (note, score) in enumerate(zip(notes, scores, strict=True)):
        group = groups.get(note)
        if group is None:
            groups[note] = [place]
        elif len(group) <= _FURTHER and score >= _SHARE * scores[group[0]]:
            group.append(place)
    return list(groups.values())


def group_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return each note's best hit, best first, with the note's further sections in `also`."""
    notes = [hit.note for hit in hits]
    if len(set(notes)) == len(notes):
        return list(hits)
    groups = group_places(notes, [hit.score for hit in hits])
    return [_join([hits[place] for place in group]) for group in groups]


def _join(hits: Sequence[Hit]) -> Hit:
    """Return the first hit with the others, and what stands under it already, in `also`."""
    best, *others = hits
    further = (*best.also, *(point_at(hit.section, hit.score) for hit in others))
    return best._replace(also=tuple({each.line: each for each in further}.values())[:_FURTHER])


def point_at(section: SectionRecord, score: float) -> Further:
    """Return what names a section of a note that is shown by another."""
    return Further(section.heading, section.line, score)


#: Strength from which an answer is no accident, and from which it is strong.
_WEAK, _STRONG = 0.1, 0.4

#: Sections, the best, by which an answer is judged.
JUDGED = 3

#: Share of what was asked that a strong answer has, at least.
_COVERAGE = 0.25


class Sureness(StrEnum):
    """What an answer is worth: `none` says that what was found probably answers nothing."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


def judge_hits(hits: Sequence[Hit]) -> Sureness:
    """Tell how sure an answer is by its best sections."""
    first = hits[:JUDGED]
    if any(map(is_strong, first)):
        return Sureness.STRONG
    if any(hit.strength >= _WEAK or (hit.semantic and not hit.matches) for hit in first):
        return Sureness.WEAK
    return Sureness.NONE


def is_strong(hit: Hit) -> bool:
    """Tell whether a section answers: a single word of several is no answer, however rare.

    Neither are stop words.
    """
    is_alone = len(hit.matches) == 1 and hit.coverage < 1
    if all(is_stop_term(match.term) for match in hit.matches):
        return False
    return hit.strength >= _STRONG and hit.coverage >= _COVERAGE and not is_alone


def tell_replaced(replaced: Mapping[str, str]) -> list[str]:
    """Return what is to be said of words that the vault does not have, a line each."""
    return [
        f'"{word}" is not in this vault; searched for "{other}".'
        for word, other in replaced.items()
    ]


def tell_sureness(sureness: Sureness | None, elsewhere: str = "") -> list[str]:
    """Return what is to be said of an answer that is not strong, a line each.

    None says that nothing was found, `elsewhere` who has an answer.
    """
    told = "Nothing in this vault answers that." if sureness is None else _TOLD.get(sureness, "")
    return [line for line in (told, elsewhere and f"{elsewhere}.") if line]


_TOLD = {
    Sureness.WEAK: "Not sure: this has only a part of what was asked.",
    Sureness.NONE: "Probably nothing in this vault answers that; this comes nearest.",
}
