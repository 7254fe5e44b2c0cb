"""A segment of the index: one file of arrays.

One a section: document, ordinal, state, created, updated and the length of each field. Many a
section, those of section n from <name>_start[n] to [n + 1]: labels, and sequence, the ranks of the
terms of all fields in their order, packed, with a 0 between two fields.

One a term, in the order of its UTF-8, which is in `terms` from terms_start[t] on: rank, its number
in sequences, 1 for the most frequent; fields, a bit for each in which it stands; and, in an order
of their own, hashes, the CRC-32 of all terms, ascending, and hashed, whose each is. Many a term,
from postings_start[t] to [t + 1]: section, in ascending order, and code, the row of `counts` that
has the posting's count in each field. A code of 255 is in rare_code, beside its place among all in
rare_place.

Segments that Whoosh's own writer wrote have some more. In a sequence a number above all ranks, by
n + 1, says that the next word stands n places behind the one before, and not 1; sequence_size has
how many numbers each section's sequence has. `column <name>` is a column as its own writer wrote
it, and stored, from stored_start on, what is stored of each section, pickled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from vaultmem.storage.index.array_file import ArrayFile, DamagedFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIX = ".arrays"

VERSION = "vaultmem-segment-1"

#: Sections in a segment at most: what is held in memory while it is written, some 2 kB for each,
#: and what an interruption loses.
MAX_SIZE = 32_768

#: What a segment has that was written in bulk, and one of Whoosh's own writer may lack.
OWN_ARRAYS = {
    *("document", "ordinal", "state", "created", "updated", "labels", "labels_start"),
    *("title_length", "tags_length", "body_length", "sequence", "sequence_start"),
}

#: The code that stands for all counts too rare for one of their own.
RARE = 255

#: Parts of a sequence end in it.
SEPARATOR = 0


class SegmentArrays:
    """The arrays of one segment."""

    def __init__(self, file: ArrayFile) -> None:
        """Take a file.

        Raises:
            DamagedFileError: it does not have what each segment has.
        """
        self.file = file
        try:
            self.size = int(file.facts["size"])
            self.fields: tuple[str, ...] = tuple(file.facts["fields"])
            #: The number of terms.
            self.terms = file.length("terms_start") - 1
            # What each look-up needs is read once, and at once: by maps, pages come one by one.
            self._starts = file.read("terms_start", 0, self.terms + 1)
            self._postings = file.read("postings_start", 0, self.terms + 1)
            self._hashes = file.read("hashes", 0, self.terms)
            self._hashed = file.read("hashed", 0, self.terms)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError from error

    @classmethod
    def open(cls, file: Path) -> SegmentArrays:
        """Open a segment's file.

        Raises:
            FileNotFoundError: there is none.
            DamagedFileError: it was cut short, or is of another version.
        """
        return cls(ArrayFile.open(file, VERSION))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.file[name]

    def term(self, place: int) -> bytes:
        """Return a term's UTF-8 by its place in the order of all."""
        return self.file.bytes("terms", self._starts[place], self._starts[place + 1])

    def find_place(self, term: bytes) -> int:
        """Return the place of a term, or of the first behind where it would be."""
        return bisect_left(range(self.terms), term, key=self.term)

    def find_term(self, term: bytes) -> int:
        """Return the place of a term, -1 if there is none."""
        hashed = crc32(term)
        number = bisect_left(self._hashes, hashed)
        while number < len(self._hashes) and self._hashes[number] == hashed:
            place: int = self._hashed[number]
            if self.term(place) == term:
                return place
            number += 1
        return -1

    @property
    def codes(self) -> int:
        """The number of codes of counts."""
        return len(self.file.numbers("counts")) // len(self.fields)

    def postings(self, place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the sections that have a term anywhere, and the codes of its counts."""
        import numpy as np

        start, end = self._postings[place : place + 2]
        sections = np.asarray(self.file.read("section", start, end))
        code: NDArray[Any] = np.asarray(self.file.read("code", start, end))
        rare = self.file.numbers("rare_place")
        first, last = bisect_left(rare, start), bisect_left(rare, end)
        if first < last:
            code = code.astype(self["rare_code"].dtype)
            code[self["rare_place"][first:last] - start] = self["rare_code"][first:last]
        return sections, code

    def count_sections(self, place: int) -> int:
        """Return how many sections have a term anywhere."""
        return int(self._postings[place + 1] - self._postings[place])

    def list_sections(self, place: int) -> Sequence[int]:
        """Return the sections that have a term anywhere, without numpy."""
        return self.file.read("section", *self._postings[place : place + 2])

    def rank(self, place: int) -> int:
        """Return a term's rank, 0 if its place is -1."""
        return self.file.read("rank", place, place + 1)[0] if place >= 0 else 0

    @cached_property
    def _sequences(self) -> memoryview[int]:
        return self.file.read("sequence_start", 0, self.size + 1)

    def sequences(self, sections: Iterable[int]) -> list[bytes]:
        """Return the sequences of sections, each packed."""
        starts, read = self._sequences, self.file.bytes
        return [read("sequence", starts[n], starts[n + 1]) for n in sections]

    def counts(self) -> NDArray[Any]:
        """Return the counts that codes stand for (shape: codes, fields)."""
        return self["counts"].reshape(-1, len(self.fields))
