"""All sections of a segment as arrays again, so that they can be merged with others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.finding.terms import FIELDS
from vaultmem.core.indexing.packing import unpack_numbers
from vaultmem.core.indexing.term_arrays import SHIFTS, TermArrays
from vaultmem.storage.index.batch import NUMBER_COLUMNS, SectionArrays
from vaultmem.storage.index.segment_arrays import SegmentArrays


def decode_segment(segment: SegmentArrays) -> SectionArrays:
    """Return what a segment holds."""
    term, section, code = decode_postings(segment)
    packed = (segment.counts().astype(np.uint32) << np.array(SHIFTS, np.uint32)).sum(1)
    ranks = unpack_numbers(segment["sequence"])
    place = np.zeros(segment.terms + 1, np.uint32)
    place[segment["rank"]] = np.arange(segment.terms)
    terms = TermArrays(
        terms=[segment.term(number) for number in range(segment.terms)],
        term=term,
        section=section,
        packed=packed.astype(np.uint32)[code],
        sequence=place[ranks[ranks > 0]],
        lengths=np.stack([segment[f"{name}_length"] for name in FIELDS], 1).astype(np.uint32),
    )
    numbers = {name: segment[name].astype(np.uint32) for name in NUMBER_COLUMNS}
    counts = np.diff(segment["labels_start"]).astype(np.uint32)
    return SectionArrays(terms, numbers, segment["labels"].astype(np.uint32), counts)


def decode_postings(
    segment: SegmentArrays,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[Any]]:
    """Return term, section and code of all postings, in the order of terms."""
    starts = segment["postings_start"].astype(np.int64)
    many = starts[1:] - starts[:-1]
    code: NDArray[Any] = segment["code"]
    if len(segment["rare_place"]):
        code = code.astype(np.uint32)
        code[segment["rare_place"]] = segment["rare_code"]
    term = np.repeat(np.arange(len(many), dtype=np.uint32), many)
    return term, segment["section"].astype(np.uint32), code
