"""A section that was found, and why."""

from __future__ import annotations

from typing import NamedTuple

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
        """The relevance by words over what was asked, see `core.finding.sureness`."""
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
