"""What a question is searched in where the vaults are in several groups, each somewhere else.

Nobody needs to have them all: figures are added up, what each group cuts out is joined and ranked,
and of what is shown the texts are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.core.finding.query import NoteFilter, RecallQuery
from vaultmem.core.finding.statistics import Statistics, add_statistics
from vaultmem.core.notes.record import find_place
from vaultmem.services.finding.ground import Near, Place

if TYPE_CHECKING:
    from vaultmem.core.finding.joined import Slice

#: Has groups do something by the name of a method (`Group.tell`), each with what is given for it;
#: returns what they tell, in the order of the groups.
Tell = Callable[[NoteFilter, str, Mapping[int, Sequence[Any]]], Mapping[int, Any]]


class DividedGround:
    """The sections that a question may find in groups of vaults.

    `groups` has by place the number of each vault's group.
    """

    by_words = 1.0

    def __init__(
        self, tell: Tell, groups: Sequence[int], names: Sequence[str], recency: float
    ) -> None:
        self.recency = recency
        self._tell, self._groups, self._names = tell, groups, names
        self._asked = sorted(set(groups))
        self._filter = NoteFilter()
        self._figures = Statistics()
        self._counts: dict[str, int] = {}

    def choose(self, query: RecallQuery) -> DividedGround | None:
        """Return what a query can find by its filter, None without a note in any vault."""
        found = DividedGround(self._tell, self._groups, self._names, self.recency)
        found._filter = query.filter
        told = found._ask("count_terms", [*dict.fromkeys([*query.terms, *query.compounds])])
        found._asked = [*told]
        found._add(told.values())
        return found if told else None

    def count_terms(self, terms: Sequence[str]) -> Statistics:
        """Return the figures of the sections that can be found."""
        unknown = [term for term in terms if term not in self._counts]
        if unknown:
            self._add(self._ask("count_terms", unknown).values())
        return self._figures._replace(counts={term: self._counts[term] for term in terms})

    def count_all(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many sections have each term, whether they can be found or not."""
        told = self._ask("count_all", [*terms]).values()
        return {term: sum(each[term] for each in told) for term in terms}

    def find_near(self, words: Mapping[str, int], is_alone: bool) -> dict[str, list[Near]]:
        """Return for each word the terms that differ in at most so many letters."""
        counted: dict[str, Counter[tuple[int, str]]] = {word: Counter() for word in words}
        for told in self._ask("find_near", words, is_alone).values() if words else ():
            for word, near in told.items():
                counted[word].update({(distance, term): many for distance, term, many in near})
        return {
            word: [Near(*each, many) for each, many in found.items()]
            for word, found in counted.items()
        }

    def read_words(self, terms: Sequence[str], most: int) -> dict[str, list[tuple[int, set[str]]]]:
        """Return the words of each term in the first sections that have it, and whose they are."""
        told = self._ask("read_words", [*terms], most).values()
        found = {term: [each for group in told for each in group[term]] for term in terms}
        return {term: sorted(each, key=_place)[:most] for term, each in found.items()}

    def cut(self, query: RecallQuery, statistics: Statistics) -> Slice:
        """Return what may answer, scored by the figures of all."""
        from vaultmem.core.finding.joined import join_slices

        return join_slices([*self._ask("cut", query._replace(text=""), statistics).values()])

    def read(
        self, found: Slice, shown: Sequence[int], named: Sequence[int], words: Mapping[str, str]
    ) -> dict[int, Place]:
        """Return what sections of a slice are, some shown, some only named."""
        documents, rows = found.documents, found.rows
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for nth, asked in enumerate((shown, named)):
            for each in asked:
                group = self._groups[find_place(int(documents[each]))]
                groups.setdefault(group, ([], []))[nth].append(each)
        given = {
            group: (*(rows[each].tolist() for each in asked), words)
            for group, asked in groups.items()
        }
        told = self._tell(self._filter, "read_rows", given)
        names = self._names if len(self._names) > 1 else [""]
        return {
            each: place._replace(vault=names[find_place(place.record.document)])
            for group, asked in groups.items()
            for each in (*asked[0], *asked[1])
            if (place := told[group].get(int(rows[each])))
        }

    def _ask(self, method: str, *args: Any) -> dict[int, Any]:
        """Return what all groups tell that have a note."""
        told = self._tell(self._filter, method, dict.fromkeys(self._asked, args))
        return {group: each for group, each in told.items() if each is not None}

    def _add(self, told: Iterable[Statistics]) -> None:
        """Take in figures of terms; those without terms are the same each time."""
        self._figures = add_statistics(told)
        self._counts |= self._figures.counts


def _place(read: tuple[int, set[str]]) -> int:
    return read[0]
