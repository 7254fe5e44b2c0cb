"""All statements of many vaults, each once, and which of them share their rarest words."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.similarity.compare import KnownText
from vaultmem.core.similarity.titled import Stated
from vaultmem.services.fleetwork.signs import Sign, unpack_terms
from vaultmem.storage.index.sharing import choose_terms

#: Of no single vault.
_SEVERAL = -1

#: By how much a sum may be less for being rounded.
_ABOUT = 1 - 1e-9


class Place(NamedTuple):
    """A note: the place of its vault among those that are asked, and its own among those there."""

    vault: int
    note: int


class Candidate(NamedTuple):
    """A statement that may be like another, by which of its note's sections, and how much it has.

    `share` (0 to 1) is of the rarest words that are looked for.
    """

    statement: int
    sections: list[int]
    share: float


class Statements:
    """Statements by number, each with the first note that states it; about 1 kB a note."""

    def __init__(self) -> None:
        self.firsts: list[Place] = []
        self.written = array("d")
        #: All notes of what several state.
        self.copies: dict[int, list[Place]] = {}
        self._forms: dict[str, list[tuple[int, Stated]]] = {}
        self._vaults = array("i")
        self._terms, self._sections = array("I"), array("I")
        self._owners, self._ordinals = array("I"), array("I")

    def add(self, place: Place, sign: Sign) -> int:
        """Take a note, and return the number of its statement."""
        alike = self._forms.setdefault(sign.stated.form, [])
        number = next((n for n, each in alike if each.is_same(sign.stated)), len(self.firsts))
        if number < len(self.firsts):
            self.copies.setdefault(number, [self.firsts[number]]).append(place)
            self.written[number] = min(self.written[number], sign.written)
            if self._vaults[number] != place.vault:
                self._vaults[number] = _SEVERAL
            return number
        alike.append((number, sign.stated))
        self.firsts.append(place)
        self.written.append(sign.written)
        self._vaults.append(place.vault)
        for ordinal, packed in enumerate(sign.sections):
            terms = unpack_terms(packed)
            self._terms.extend(terms)
            self._sections.extend([len(self._owners)] * len(terms))
            self._owners.append(number)
            self._ordinals.append(ordinal)
        return number

    def are_apart(self, number: int, other: int) -> bool:
        """Tell whether two statements are not of one vault alone."""
        return self._vaults[number] != self._vaults[other] or self._vaults[number] == _SEVERAL

    def list_places(self, number: int) -> list[Place]:
        """Return all notes that state something."""
        return self.copies.get(number) or [self.firsts[number]]

    def list_same(self) -> Iterator[tuple[int, list[Place]]]:
        """Yield what is stated in several vaults, with all notes that do."""
        for number, places in self.copies.items():
            if self._vaults[number] == _SEVERAL:
                yield number, places

    @property
    def size(self) -> int:
        """How many sections there are."""
        return len(self._owners)

    def count_terms(self, terms: Sequence[int]) -> dict[int, int]:
        """Return in how many sections each word stands."""
        starts = self._find(terms)
        return dict(zip(terms, (starts[1] - starts[0]).tolist(), strict=True))

    def find_like(
        self, number: int, terms: Sequence[int], limit: int, least: float
    ) -> list[Candidate]:
        """Return the statements whose sections, `limit` at most, have most of the rarest words.

        They have a share of `least` of these at least. As `find_sharing` does for one vault; those
        of the same vault alone are left out.
        """
        wanted = choose_terms(self.count_terms(terms), self.size)
        whole = sum(weight for _, weight in wanted)
        found: dict[int, Candidate] = {}
        for section, score in self._score(wanted, least * whole)[:limit]:
            owner = self._owners[section]
            if owner != number and self.are_apart(owner, number) and score / whole >= least:
                known = found.setdefault(owner, Candidate(owner, [], score / whole))
                known.sections.append(self._ordinals[section])
        return list(found.values())

    def _score(self, wanted: Sequence[tuple[int, float]], least: float) -> list[tuple[int, float]]:
        """Return the sections that reach about so much, and what they reach, the best first."""
        if not wanted:
            return []
        starts, ends = self._find([term for term, _ in wanted])
        places = list(zip(starts.tolist(), ends.tolist(), strict=True))
        listed = [self._postings[1][start:end] for start, end in places]
        for sections, (_, weight) in zip(listed, wanted, strict=True):
            self._scores[sections] += weight
        touched = np.concatenate(listed)
        best = np.unique(touched[self._scores[touched] >= least * _ABOUT])
        scores = self._scores[best].tolist()
        self._scores[touched] = 0.0
        return sorted(zip(best.tolist(), scores, strict=True), key=lambda e: (-e[1], e[0]))

    def _find(self, terms: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        known = self._postings[0]
        wanted = np.asarray(terms, np.uint32)
        return known.searchsorted(wanted, "left"), known.searchsorted(wanted, "right")

    @cached_property
    def _scores(self) -> NDArray[np.float64]:
        """Room for a score of each section, all 0 between two questions."""
        return np.zeros(self.size)

    @cached_property
    def _postings(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """All words in order, and beside each the section that has it; nothing is added then."""
        terms = np.frombuffer(self._terms, np.uint32)
        order = terms.argsort(kind="stable")
        return terms[order], np.frombuffer(self._sections, np.uint32)[order]


class Held:
    """Which statements are held against which others, and against which of their notes' sections.

    They are put in by number in ascending order, and all before the first is asked for.
    """

    def __init__(self) -> None:
        self._rows = array("I")

    def put(self, number: int, others: Iterable[Candidate]) -> None:
        """Hold a statement against others."""
        for other in others:
            for section in other.sections:
                self._rows.extend((number, other.statement, section))

    def list_held(self, first: int, last: int) -> list[tuple[int, list[tuple[int, list[int]]]]]:
        """Return statements from `first` to before `last`, with others and their sections."""
        start, end = self._table[:, 0].searchsorted([first, last])
        held: dict[int, dict[int, list[int]]] = {}
        for number, other, section in self._table[start:end].tolist():
            held.setdefault(number, {}).setdefault(other, []).append(section)
        return [(number, list(others.items())) for number, others in held.items()]

    def list_wanted(self, first: int, last: int) -> dict[int, list[int]]:
        """Return the others from `first` to before `last` with the sections that are wanted."""
        start, end = self._wanted[:, 0].searchsorted([first, last])
        wanted: dict[int, list[int]] = {}
        for other, section in self._wanted[start:end].tolist():
            wanted.setdefault(other, []).append(section)
        return wanted

    @cached_property
    def _table(self) -> NDArray[np.uint32]:
        return np.frombuffer(self._rows, np.uint32).reshape(-1, 3)

    @cached_property
    def _wanted(self) -> NDArray[np.uint32]:
        return np.unique(self._table[:, 1:], axis=0)


class Texts:
    """Texts of sections by statement, in a file: they may be more than memory has room for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[int, tuple[int, int]] = {}

    def put(self, number: int, shown: dict[str, Any]) -> None:
        """Take the sections of a statement's first note, as JSON has them."""
        data = json.dumps(shown).encode()
        self._places[number] = (self._file.seek(0, 2), len(data))
        self._file.write(data)

    def read(self, number: int, sections: Sequence[int]) -> list[KnownText]:
        """Return what was shown of these sections; nothing of a vault that did not answer."""
        start, size = self._places.get(number, (0, 0))
        self._file.seek(start)
        shown = json.loads(self._file.read(size) or b"{}")
        return [KnownText(**known) for each in sections if (known := shown.get(str(each)))]
