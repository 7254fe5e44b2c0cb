"""The contents of the index at one time, as numpy arrays numbered through all segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from vaultmem.core.search.terms import FIELDS
from vaultmem.storage.index.segments import SegmentArrays

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Postings that are kept unpacked for the next question.
_KEPT_POSTINGS = 4_000_000

#: Terms whose places are kept.
_KEPT_TERMS = 8_192

_NO_RANK = (1 << 32) - 1


class Snapshot:
    """The sections of one generation; each has a number from 0 up, its row.

    Everything is open from the beginning: a writer removes the segments that it replaced.
    """

    def __init__(self, generation: int, parts: Sequence[SegmentArrays]) -> None:
        self.generation = generation
        self.size = sum(part.size for part in parts)
        #: What whoever reads wants to keep as long as the sections are these, by any key.
        self.kept: dict[object, Any] = {}
        self._parts = [part for part in parts if part.size]
        #: The first row of each segment, and the first of its codes in `counts`.
        self._rows = [0, *accumulate(part.size for part in self._parts)]
        self._codes = [0, *accumulate(part.codes for part in self._parts)]
        self._columns: dict[str, NDArray[Any]] = {}
        self._places: dict[str, list[int]] = {}
        self._ranks: dict[str, NDArray[np.uint32]] = {}
        self._found: dict[str, tuple[NDArray[np.int64], NDArray[np.uint32]]] = {}
        self._left = _KEPT_POSTINGS

    def is_as_opened(self) -> bool:
        """Tell whether nobody wrote to a file of these since they were opened."""
        return all(part.file.is_as_opened() for part in self._parts)

    def documents(self) -> set[int]:
        """Return the ids of all documents that have a section, without numpy."""
        found: set[int] = set()
        for part in self._parts:
            found.update(part.file.numbers("document"))
        return found

    def find_sections(self, term: str) -> list[tuple[int, Sequence[int]]]:
        """Return the sections that have a term anywhere, without numpy.

        They are numbered in each segment from 0, with the segment's place.
        """
        places = self._find_places(term)
        return [
            (number, part.list_sections(place))
            for number, (part, place) in enumerate(zip(self._parts, places, strict=True))
            if place >= 0
        ]

    def count_sections(self, term: str) -> int:
        """Return how many sections have a term anywhere, without numpy."""
        found = zip(self._parts, self._find_places(term), strict=True)
        return sum(part.count_sections(place) for part, place in found if place >= 0)

    def locate(self, place: int, number: int) -> tuple[int, int]:
        """Return document and ordinal of a section of the segment at a place, without numpy."""
        file = self._parts[place].file
        return file.numbers("document")[number], file.numbers("ordinal")[number]

    def column(self, name: str) -> NDArray[Any]:
        """Return one number a section: "document", "ordinal", "<field>_length" and so on."""
        known = self._columns.get(name)
        if known is None:
            known = self._columns[name] = _join([part[name] for part in self._parts])
        return known

    @cached_property
    def counts(self) -> NDArray[Any]:
        """How often a term stands in each field, by the codes of `term` (shape: codes, fields)."""
        import numpy as np

        return np.concatenate([np.empty((0, 3), np.uint8), *(p.counts() for p in self._parts)])

    def term(self, term: str) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return the sections that have a term anywhere, and the codes of its counts."""
        known = self._found.get(term)
        if known is not None:
            return known
        result = self._unpack(self._find_places(term))
        self._left -= len(result[0])
        if self._left < 0:
            self._found.clear()
            self._left = _KEPT_POSTINGS
        self._found[term] = result
        return result

    def _unpack(self, places: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        import numpy as np

        if max(places, default=-1) < 0:
            return _nothing()
        many = sum(
            part.count_sections(place)
            for part, place in zip(self._parts, places, strict=True)
            if place >= 0
        )
        # Each is written once: what is allocated for a frequent term costs as much as its sums.
        rows, codes = np.empty(many, np.int64), np.empty(many, np.uint32)
        end = 0
        for number, (part, place) in enumerate(zip(self._parts, places, strict=True)):
            if place >= 0:
                sections, code = part.postings(place)
                begin, end = end, end + len(sections)
                np.add(sections, np.int64(self._rows[number]), out=rows[begin:end])
                np.add(code, np.uint32(self._codes[number]), out=codes[begin:end])
        return rows, codes

    def mark_sequences(
        self, rows: NDArray[np.int64], terms: Sequence[Sequence[str]]
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return the places of some sections, which of the terms is at each, and their starts.

        `terms` has the forms of each. `rows` are in ascending order. A place has 1 for the first of
        the terms and so on, 0 for all others and between fields.
        Shapes: all places, and one more than rows.
        """
        import numpy as np

        from vaultmem.core.indexing.packing import unpack_numbers

        packed: list[bytes] = []
        bounds = rows.searchsorted(self._rows)
        of_part = np.diff(bounds)
        for number in of_part.nonzero()[0].tolist():
            some = rows[bounds[number] : bounds[number + 1]] - self._rows[number]
            packed += self._parts[number].sequences(some.tolist())
        ranks = unpack_numbers(np.frombuffer(b"".join(packed), np.uint8))
        sizes = np.full(len(rows), len(FIELDS) - 1)
        for name in FIELDS:
            sizes += self.column(f"{name}_length")[rows]
        starts = np.zeros(len(rows) + 1, np.int64)
        sizes.cumsum(out=starts[1:])
        marks = np.zeros(len(ranks), np.uint16)
        for number, forms in enumerate(terms, 1):
            for form in forms:
                wanted = self._find_ranks(form).repeat(of_part).repeat(sizes)
                np.putmask(marks, ranks == wanted, number)
        return marks, starts

    def labels(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the labels of all sections, and where each one's begin and the last end."""
        import numpy as np

        starts: list[Any] = [np.zeros(1, np.int64)]
        for part in self._parts:
            starts.append(part["labels_start"][1:] + starts[-1][-1])
        return _join([part["labels"] for part in self._parts]), np.concatenate(starts)

    def vocabulary(self) -> list[tuple[bytes, NDArray[np.uint32]]]:
        """Return for each segment its terms as UTF-8, and where each begins and the last ends."""
        return [
            (part.file.bytes("terms", 0, part.file.length("terms")), part["terms_start"])
            for part in self._parts
        ]

    def list_terms(self, prefix: str) -> list[str]:
        """Return the terms that begin with some letters, in order."""
        start = prefix.encode("utf-8", "surrogatepass")
        found = {term for part in self._parts for term in part.list_terms(start)}
        return [term.decode("utf-8", "surrogatepass") for term in sorted(found)]

    def _find_ranks(self, term: str) -> NDArray[np.uint32]:
        """Return a term's rank in each segment; where it is not, one that none has."""
        import numpy as np

        known = self._ranks.get(term)
        if known is None:
            if len(self._ranks) >= _KEPT_TERMS:
                self._ranks.clear()
            places = zip(self._parts, self._find_places(term), strict=True)
            ranks = [part.rank(place) or _NO_RANK for part, place in places]
            known = self._ranks[term] = np.asarray(ranks, np.uint32)
        return known

    def _find_places(self, term: str) -> list[int]:
        """Return a term's place in each segment, -1 where it is not."""
        known = self._places.get(term)
        if known is None:
            if len(self._places) >= _KEPT_TERMS:
                self._places.clear()
            key = term.encode("utf-8", "surrogatepass")
            known = self._places[term] = [part.find_term(key) for part in self._parts]
        return known


@cache
def _nothing() -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return what there is of a term that no section has: many vaults lack most of a question."""
    import numpy as np

    return np.empty(0, np.int64), np.empty(0, np.uint32)


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    import numpy as np

    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, np.uint32)
