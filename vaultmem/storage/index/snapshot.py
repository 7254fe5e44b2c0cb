"""What the index holds at one time, as numpy arrays numbered through all segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.storage.index.segment_arrays import SegmentArrays

#: Where a field's count is in a packed one: bits to shift, and the largest count.
_PLACES = {"body": (0, 0xFFFF), "tags": (16, 0xFF), "title": (24, 0xFF)}

_KEPT_TERMS = 8_192


class Snapshot:
    """The sections of one generation; each has a number from 0 up, its row.

    Everything is open from the beginning: a writer removes the segments that it replaced.
    """

    def __init__(
        self,
        generation: int,
        parts: Sequence[SegmentArrays],
        open_readers: Callable[[], list[Any]],
    ) -> None:
        self.generation = generation
        self.size = sum(part.size for part in parts)
        #: What whoever reads wants to keep as long as the sections are these, by any key.
        self.kept: dict[object, Any] = {}
        self._parts = [part for part in parts if part.size]
        self._open_readers = open_readers
        self._columns: dict[str, NDArray[np.int64]] = {}
        self._found: dict[str, tuple[NDArray[np.int64], NDArray[np.uint32]]] = {}

    @cached_property
    def readers(self) -> list[Any]:
        """Whoosh's own readers of the segments, opened now."""
        return self._open_readers()

    def documents(self) -> set[int]:
        """Return the ids of all documents that have a section, without numpy."""
        found: set[int] = set()
        for part in self._parts:
            found.update(part.numbers("document"))
        return found

    def find_sections(self, term: str) -> list[tuple[int, memoryview]]:
        """Return the sections that have a term anywhere, without numpy.

        They are numbered in each segment from 0, with the segment's place.
        """
        found = ((place, part.find_sections(term)) for place, part in enumerate(self._parts))
        return [(place, numbers) for place, numbers in found if numbers is not None]

    def locate(self, place: int, number: int) -> tuple[int, int]:
        """Return document and ordinal of a section of the segment at a place, without numpy."""
        part = self._parts[place]
        return part.numbers("document")[number], part.numbers("ordinal")[number]

    def column(self, name: str) -> NDArray[np.int64]:
        """Return one number a section: "document", "ordinal", "<field>_length" and so on."""
        known = self._columns.get(name)
        if known is None:
            import numpy as np

            parts = [part[name] for part in self._parts] or [_none()]
            known = self._columns[name] = np.concatenate(parts).astype(np.int64)
        return known

    def term(self, term: str) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return the sections that have a term anywhere, and its packed counts."""
        known = self._found.get(term)
        if known is not None:
            return known
        import numpy as np

        base = 0
        numbers: list[Any] = []
        counts: list[Any] = []
        for part in self._parts:
            if (found := part.find(term)) is not None:
                rows = found[0].astype(np.int64)
                numbers.append(rows + base if base else rows)
                counts.append(found[1])
            base += part.size
        if not numbers:
            result = (np.empty(0, np.int64), _none())
        elif len(numbers) == 1:
            result = (numbers[0], counts[0])
        else:
            result = (np.concatenate(numbers), np.concatenate(counts))
        if len(self._found) >= _KEPT_TERMS:
            self._found.clear()
        self._found[term] = result
        return result

    def postings(self, field: str, term: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the sections that have a term in one field, and how often."""
        import numpy as np

        numbers, packed = self.term(term)
        shift, most = _PLACES[field]
        counts = (packed >> shift) & most
        has = counts > 0
        return numbers[has], counts[has].astype(np.float32)

    def slices(
        self, name: str, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return "sequence" or "labels" of some sections, joined; and where each begins and ends.

        The rows are in ascending order. Shapes: all numbers, and one more than rows.
        """
        import numpy as np

        pieces: list[Any] = []
        sizes: list[Any] = [np.zeros(1, np.int64)]
        base = first = 0
        for part in self._parts:
            last = int(rows.searchsorted(base + part.size))
            if first < last:
                values, counts = part.gather(name, rows[first:last] - base)
                pieces.append(values)
                sizes.append(counts)
            base, first = base + part.size, last
        joined = pieces[0] if len(pieces) == 1 else np.concatenate([_none(), *pieces])
        return joined, np.concatenate(sizes).cumsum()

    def all_of(self, name: str) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return "sequence" or "labels" of all sections, as `slices` does."""
        import numpy as np

        pieces: list[Any] = [_none()]
        starts: list[Any] = [np.zeros(1, np.int64)]
        for part in self._parts:
            starts.append(part[f"{name}_start"][1:].astype(np.int64) + starts[-1][-1])
            pieces.append(part[name])
        return np.concatenate(pieces), np.concatenate(starts)

    def stored(self, name: str, row: int) -> bytes:
        """Return "text" (UTF-8) or "place" of a section, empty if it is not at hand."""
        for part in self._parts:
            if row < part.size:
                return part.stored(name, row)
            row -= part.size
        return b""

    def vocabulary(self) -> list[tuple[bytes, NDArray[np.uint32]]]:
        """Return for each segment its terms as UTF-8, and where each begins and the last ends."""
        return [(part.names(), part["terms_start"]) for part in self._parts]

    def close(self) -> None:
        """Close what is open."""
        for reader in self.__dict__.get("readers", ()):
            reader.close()


def _none() -> NDArray[np.uint32]:
    import numpy as np

    return np.empty(0, np.uint32)
