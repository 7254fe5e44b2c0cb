"""The postings of a batch's three fields as one list a term, in flat arrays.

Each is a section's number and its three counts packed in one (see `core.finding.ranking`). For a
batch of many sections numpy does what else takes seconds; for few, importing it takes longer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.storage.segment_batch import COUNT_BITS, MAX_COUNT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: By term, each posting packed as in `SegmentBatch`.
Postings = Mapping[str, "array[int]"]

_MAX_SHORT = 255

#: Where the count of each field stands in the packed one.
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
