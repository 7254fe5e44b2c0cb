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

#: Postings that are cached unpacked.
_KEPT_POSTINGS = 4_000_000

#: Terms whose places are cached.
_KEPT_TERMS = 8_192

_NO_RANK = (1 << 32) - 1


class Snapshot:
    """The sections of one generation, numbered by row from 0.

    All files are opened at once, because a writer removes the segments that it replaced.
    """

    def __init__(self, generation: int, parts: Sequence[SegmentArrays]) -> None:
        self.generation = generation
        self.size = sum(part.size for part in parts)
        #: A cache for callers, by any key, as long as the sections are the same.
        self.kept: dict[object, Any] = {}
        self._parts = [part for part in parts if part.size]
        #: The first row of each segment, and its first code in `counts`.
        self._rows = [0, *accumulate(part.size for part in self._parts)]
        self._codes = [0, *accumulate(part.codes for part in self._parts)]
        self._columns: dict[str, NDArray[Any]] = {}
        self._places: dict[str, list[int]] = {}
        self._ranks: dict[str, NDArray[np.uint32]] = {}
        self._postings: dict[str, tuple[NDArray[np.int64], NDArray[np.uint32]]] = {}
        self._remaining_postings = _KEPT_POSTINGS

    def is_as_opened(self) -> bool:
        """Return whether no segment file was written since it was opened."""
        return all(part.file.is_as_opened() for part in self._parts)

    def documents(self) -> set[int]:
        """Return the ids of all documents with a section, without numpy."""
        ids: set[int] = set()
        for part in self._parts:
            ids.update(part.file.numbers("document"))
        return ids

    def find_sections(self, term: str) -> list[tuple[int, Sequence[int]]]:
        """Return the sections with a term in any field, without numpy.

        Each item is the place of a segment, and section numbers from 0 within it.
        """
        places = self._find_places(term)
        return [
            (number, part.list_sections(place))
            for number, (part, place) in enumerate(zip(self._parts, places, strict=True))
            if place >= 0
        ]

    def count_sections(self, term: str) -> int:
        """Return the number of sections with a term in any field, without numpy."""
        pairs = zip(self._parts, self._find_places(term), strict=True)
        return sum(part.count_sections(place) for part, place in pairs if place >= 0)

    def locate(self, place: int, number: int) -> tuple[int, int]:
        """Return document and ordinal of a section in the segment at `place`, without numpy."""
        file = self._parts[place].file
        return file.numbers("document")[number], file.numbers("ordinal")[number]

    def column(self, name: str) -> NDArray[Any]:
        """Return one number for each section: "document", "ordinal", "<field>_length" and so on."""
        array = self._columns.get(name)
        if array is None:
            array = self._columns[name] = _join([part[name] for part in self._parts])
        return array

    @cached_property
    def counts(self) -> NDArray[Any]:
        """The counts of a term in each field, by the codes of `term` (shape: codes, fields)."""
        import numpy as np

        return np.concatenate([np.empty((0, 3), np.uint8), *(p.counts() for p in self._parts)])

    def term(self, term: str) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return the rows with a term in any field, and the codes of its counts."""
        postings = self._postings.get(term)
        if postings is not None:
            return postings
        result = self._unpack(self._find_places(term))
        self._remaining_postings -= len(result[0])
        if self._remaining_postings < 0:
            self._postings.clear()
            self._remaining_postings = _KEPT_POSTINGS
        self._postings[term] = result
        return result

    def _unpack(self, places: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        import numpy as np

        if max(places, default=-1) < 0:
            return _nothing()
        total = sum(
            part.count_sections(place)
            for part, place in zip(self._parts, places, strict=True)
            if place >= 0
        )
        # Each array is allocated and written once: for frequent terms, copies cost as much as sums.
        rows, codes = np.empty(total, np.int64), np.empty(total, np.uint32)
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
        """Return which term is at each word of some sections, and where each section starts.

        `rows` are ascending; `terms` has the forms of each term. The mark is 1 for the first term
        and so on, 0 for other words and between fields. Shapes: all words; rows + 1.
        """
        import numpy as np

        from vaultmem.core.indexing.packing import unpack_numbers

        sequences: list[bytes] = []
        bounds = rows.searchsorted(self._rows)
        of_part = np.diff(bounds)
        for number in of_part.nonzero()[0].tolist():
            part_rows = rows[bounds[number] : bounds[number + 1]] - self._rows[number]
            sequences += self._parts[number].sequences(part_rows.tolist())
        ranks = unpack_numbers(np.frombuffer(b"".join(sequences), np.uint8))
        sizes = np.full(len(rows), len(FIELDS) - 1)
        for name in FIELDS:
            sizes += self.column(f"{name}_length")[rows]
        starts = np.zeros(len(rows) + 1, np.int64)
        sizes.cumsum(out=starts[1:])
        marks = np.zeros(len(ranks), np.uint16)
        for number, forms in enumerate(terms, 1):
            for form in forms:
                term_ranks = self._find_ranks(form).repeat(of_part).repeat(sizes)
                np.putmask(marks, ranks == term_ranks, number)
        return marks, starts

    def labels(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the labels of all sections, and where each section's start (shape: rows + 1)."""
        import numpy as np

        starts: list[Any] = [np.zeros(1, np.int64)]
        for part in self._parts:
            starts.append(part["labels_start"][1:] + starts[-1][-1])
        return _join([part["labels"] for part in self._parts]), np.concatenate(starts)

    def vocabulary(self) -> list[tuple[bytes, NDArray[np.uint32]]]:
        """Return the terms of each segment as UTF-8, and where each starts (shape: terms + 1)."""
        return [
            (part.file.bytes("terms", 0, part.file.length("terms")), part["terms_start"])
            for part in self._parts
        ]

    def list_terms(self, prefix: str) -> list[str]:
        """Return the terms with a prefix, in order."""
        start = prefix.encode("utf-8", "surrogatepass")
        terms = {term for part in self._parts for term in part.list_terms(start)}
        return [term.decode("utf-8", "surrogatepass") for term in sorted(terms)]

    def _find_ranks(self, term: str) -> NDArray[np.uint32]:
        """Return a term's rank in each segment, `_NO_RANK` where it is absent."""
        import numpy as np

        rank_array = self._ranks.get(term)
        if rank_array is None:
            if len(self._ranks) >= _KEPT_TERMS:
                self._ranks.clear()
            places = zip(self._parts, self._find_places(term), strict=True)
            ranks = [part.rank(place) or _NO_RANK for part, place in places]
            rank_array = self._ranks[term] = np.asarray(ranks, np.uint32)
        return rank_array

    def _find_places(self, term: str) -> list[int]:
        """Return a term's place in each segment, -1 where it is absent."""
        places = self._places.get(term)
        if places is None:
            if len(self._places) >= _KEPT_TERMS:
                self._places.clear()
            key = term.encode("utf-8", "surrogatepass")
            places = self._places[term] = [part.find_term(key) for part in self._parts]
        return places


@cache
def _nothing() -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the empty result of a term without sections, cached because it is frequent."""
    import numpy as np

    return np.empty(0, np.int64), np.empty(0, np.uint32)


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    import numpy as np

    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, np.uint32)
