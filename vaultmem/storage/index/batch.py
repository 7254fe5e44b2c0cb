"""Sections collected in memory, to be written as one segment of the index."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.indexing.section_terms import SectionTerms


#: The fields that have terms; each section has a count of its terms in `<field>_length`.
TERM_FIELDS = ("body", "tags", "title")

#: Numbers of each section: its document's id, its ordinal there, its lengths in terms, the number
#: of its note's state, and the note's own dates (seconds since the epoch, 0 where it has none).
NUMBER_COLUMNS = (
    "document",
    "ordinal",
    "body_length",
    "tags_length",
    "title_length",
    "state",
    "created",
    "updated",
)

#: Bytes of each section: 32 bit numbers, as `SectionTerms` has them.
BYTES_COLUMNS = ("sequence", "labels")

#: Stored fields of each section; only the arrays next to a segment have them.
STORED = ("text", "place")

#: A posting is packed in one number: the section's number and 16 bits of count.
COUNT_BITS = 16
MAX_COUNT = (1 << COUNT_BITS) - 1

#: From so many postings on numpy is worth its import.
_MANY = 50_000


class FieldPostings:
    """The postings of one field: first as they come, section by section, then by term."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = _Numbers()
        self._terms = array("I")
        self._packed = array("Q")
        self._grouped: dict[str, array[int]] = {}

    def add(self, base: int, counts: dict[str, int]) -> None:
        """Add the terms of a section, whose number is in `base`, higher than all before."""
        self._grouped = {}
        self._terms.extend(map(self._numbers.__getitem__, counts))
        most = max(counts.values(), default=0)
        found: Iterable[int] = counts.values()
        if most > MAX_COUNT:
            found = (min(count, MAX_COUNT) for count in found)
        self._packed.extend(map(base.__add__, found))

    def extend(self, term: str, packed: Iterable[int]) -> None:
        """Add postings of one term, of sections higher than all before."""
        self._grouped = {}
        before = len(self._packed)
        self._packed.extend(packed)
        self._terms.extend([self._numbers[term]] * (len(self._packed) - before))

    def by_term(self) -> dict[str, array[int]]:
        """Return each term's postings in the order of sections; a term may have none."""
        self._grouped = self._grouped or self._group()
        return self._grouped

    def _group(self) -> dict[str, array[int]]:
        if len(self._terms) < _MANY:
            found: defaultdict[int, array[int]] = defaultdict(partial(array, "Q"))
            for number, packed in zip(self._terms, self._packed, strict=True):
                found[number].append(packed)
            return {term: found[number] for term, number in self._numbers.items()}
        import numpy as np

        terms = np.frombuffer(self._terms, np.uint32)
        data = np.frombuffer(self._packed, np.uint64)[terms.argsort(kind="stable")].tobytes()
        ends = (8 * np.bincount(terms, minlength=len(self._numbers)).cumsum()).tolist()
        return {
            term: array("Q", data[start:end])
            for term, start, end in zip(self._numbers, [0, *ends], ends, strict=False)
        }


class _Numbers(dict[str, int]):
    """The number of each term: in the order in which they come."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class SegmentBatch:
    """The sections of one segment: columns, and postings by field and term."""

    def __init__(self) -> None:
        self.numbers: dict[str, array[int]] = {name: array("I") for name in NUMBER_COLUMNS}
        #: What the segment itself does not hold of each section; empty where it is not at hand.
        self.stored: dict[str, list[bytes]] = {name: [] for name in STORED}
        self.bytes: dict[str, list[bytes]] = {name: [] for name in BYTES_COLUMNS}
        self.postings = {name: FieldPostings() for name in TERM_FIELDS}

    def __len__(self) -> int:
        return len(self.numbers["document"])

    def add(self, document: int, ordinal: int, terms: SectionTerms) -> None:
        """Add a section of a document."""
        base = len(self) << COUNT_BITS
        title, tags, body = terms.lengths
        facts = (terms.state, terms.created, terms.updated)
        values = (document, ordinal, body, tags, title, *facts)
        for column, value in zip(self.numbers.values(), values, strict=True):
            column.append(value)
        self.bytes["sequence"].append(terms.sequence)
        self.bytes["labels"].append(terms.labels)
        self.stored["text"].append(terms.text.encode("utf-8", "surrogatepass"))
        self.stored["place"].append(terms.place)
        for name in TERM_FIELDS:
            self.postings[name].add(base, terms.counts[name])

    def by_term(self) -> dict[str, dict[str, array[int]]]:
        """Return the postings of each field by term."""
        return {name: postings.by_term() for name, postings in self.postings.items()}


#: By term, each posting packed as in `SegmentBatch`.
Postings = Mapping[str, "array[int]"]

_MAX_SHORT = 255

#: Where the count of each field is in the packed one.
_SHIFTS = (("body", 0), ("tags", 16), ("title", 24))

#: From so many terms on numpy is worth its import.
_MANY_TERMS = 5_000


class MergedPostings(NamedTuple):
    """The terms' UTF-8 in order, how many postings each has, and these one after another."""

    keys: list[bytes]
    sizes: Iterable[int]
    sections: array[int] | bytes
    counts: array[int] | bytes


def merge_postings(fields: Mapping[str, Postings]) -> MergedPostings:
    """Merge the postings of "body", "tags" and "title"."""
    terms = set(chain.from_iterable(fields.values()))
    keys = sorted((term.encode("utf-8", "surrogatepass"), term) for term in terms)
    merge = _merge_many if len(keys) >= _MANY_TERMS else _merge_few
    return MergedPostings([key for key, _ in keys], *merge([term for _, term in keys], fields))


def _merge_few(
    terms: list[str], fields: Mapping[str, Postings]
) -> tuple[Iterable[int], array[int], array[int]]:
    sections, counts, sizes = array("I"), array("I"), array("I")
    for term in terms:
        merged: dict[int, int] = {}
        for name, shift in _SHIFTS:
            for posting in fields[name].get(term, ()):
                count = posting & MAX_COUNT
                section = posting >> COUNT_BITS
                most = min(count, _MAX_SHORT) << shift if shift else count
                merged[section] = merged.get(section, 0) | most
        sections.extend(sorted(merged))
        counts.extend(merged[section] for section in sorted(merged))
        sizes.append(len(merged))
    return sizes, sections, counts


def _merge_many(
    terms: list[str], fields: Mapping[str, Postings]
) -> tuple[Iterable[int], bytes, bytes]:
    import numpy as np

    places: list[NDArray[np.uint64]] = []
    counts: list[NDArray[np.uint32]] = []
    for name, shift in _SHIFTS:
        postings = [fields[name].get(term, b"") for term in terms]
        packed = np.frombuffer(b"".join(postings), np.uint64)
        numbers = np.repeat(np.arange(len(terms), dtype=np.uint64), [len(p) for p in postings])
        places.append((numbers << np.uint64(32)) | (packed >> np.uint64(COUNT_BITS)))
        count = (packed & np.uint64(MAX_COUNT)).astype(np.uint32)
        counts.append((np.minimum(count, _MAX_SHORT) if shift else count) << np.uint32(shift))
    place, count = np.concatenate(places), np.concatenate(counts)
    places.clear()
    counts.clear()
    order = np.argsort(place, kind="stable")
    place, count = place[order], count[order]
    first = np.flatnonzero(np.diff(place, prepend=~place[:1]))
    sizes = np.bincount((place[first] >> np.uint64(32)).astype(np.int64), minlength=len(terms))
    merged = np.bitwise_or.reduceat(count, first)
    return sizes.tolist(), place[first].astype(np.uint32).tobytes(), merged.tobytes()
