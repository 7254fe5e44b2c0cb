"""What a question is searched in: vaults of this process, or what others tell of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vaultmem.core.finding.hit import Match
from vaultmem.core.notes.record import NoteRecord, SectionRecord

if TYPE_CHECKING:
    from vaultmem.core.finding.joined import Slice
    from vaultmem.core.finding.query import RecallQuery
    from vaultmem.core.finding.statistics import Statistics


class Near(NamedTuple):
    """A term spelt almost as a word: in how many letters not, and how many sections have it.

    The sections are those that the question may find.
    """

    distance: int
    term: str
    sections: int


class Place(NamedTuple):
    """What a found section is; if it is shown, with what a `Hit` has of it."""

    record: NoteRecord
    section: SectionRecord
    text: str = ""
    matches: tuple[Match, ...] = ()
    refs: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    vault: str = ""


class Ground(Protocol):
    """Where a question is searched: figures that add up, and then what it finds.

    What goes in and comes out are plain values.
    """

    @property
    def recency(self) -> float:
        """The share of the score that what is new has."""

    @property
    def by_words(self) -> float:
        """The share of the score by words, where meaning is asked as well."""

    def count_terms(self, terms: Sequence[str]) -> Statistics:
        """Return the figures of the sections that can be found."""

    def count_all(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Return how many sections have each term, whether they can be found or not."""

    def find_near(self, words: Mapping[str, int], is_alone: bool) -> Mapping[str, Sequence[Near]]:
        """Return for each word the terms that differ in at most so many letters.

        `is_alone` is as in `find_near_stems`.
        """

    def read_words(
        self, terms: Sequence[str], most: int
    ) -> Mapping[str, Sequence[tuple[int, set[str]]]]:
        """Return the words of each term that stand in the first sections which have it.

        So many sections are looked at, in the order of the vaults; each is told with the place of
        its own.
        """

    def cut(self, query: RecallQuery, statistics: Statistics) -> Slice:
        """Return what may answer, scored by the figures of all who are asked."""

    def read(
        self,
        found: Slice,
        shown: Sequence[int],
        named: Sequence[int],
        words: Mapping[str, str],
    ) -> Mapping[int, Place]:
        """Return what sections of a slice of the last question are, some shown, some only named.

        `words` are those of the terms. What is gone meanwhile is left out.
        """
