"""Encode sections as the arrays of a segment (see `segments`), and choose segments to merge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.indexing.packing import pack_numbers, spread, unpack_numbers
from vaultmem.core.indexing.term_arrays import MAX_COUNTS, SHIFTS, TermArrays
from vaultmem.core.search.terms import FIELDS
from vaultmem.storage.index.batch import NUMBER_COLUMNS, SectionArrays
from vaultmem.storage.index.segments import (
    MAX_SIZE,
    RARE,
    VERSION,
    SegmentArrays,
    encode_arrays,
    narrow,
)

Numbers = NDArray[np.uint32]


class Postings(NamedTuple):
    """Postings in the order of terms, then sections; `many` is the number for each term.

    `code` is the row of `counts` (shape: codes, fields) with the counts of a posting.
    """

    terms: Sequence[bytes]
    many: NDArray[np.int64]
    section: Numbers
    code: Numbers
    counts: Numbers


def encode_segment(parts: Sequence[SectionArrays]) -> list[bytes]:
    """Return the bytes of one segment file with the sections of all parts, in order."""
    terms, places = _join_terms([part.terms for part in parts])
    size = sum(map(len, parts))
    label_start = np.zeros(size + 1, np.uint32)
    np.concatenate([part.label_counts for part in parts]).cumsum(out=label_start[1:])
    lengths = np.concatenate([part.terms.lengths for part in parts])
    arrays: dict[str, NDArray[Any] | bytes] = {
        **{f"{name}_length": narrow(lengths[:, n]) for n, name in enumerate(FIELDS)},
        **{
            name: narrow(np.concatenate([part.numbers[name] for part in parts]))
            for name in NUMBER_COLUMNS
        },
        "labels": np.concatenate([part.labels for part in parts]),
        "labels_start": label_start,
        **encode_postings(_sort_postings(parts, terms, places)),
        **encode_sequences(
            [(place, part.terms.sequence) for place, part in zip(places, parts, strict=True)],
            [part.terms.lengths for part in parts],
            len(terms),
        ),
    }
    return encode_arrays(arrays, {"fields": FIELDS, "size": size}, VERSION)


def _join_terms(parts: Sequence[TermArrays]) -> tuple[list[bytes], list[Numbers]]:
    """Return the sorted terms of all parts, and for each part its terms' places in them."""
    names: set[bytes] = set()
    for part in parts:
        names.update(part.terms)
    terms = sorted(names)
    places = {term: place for place, term in enumerate(terms)}
    return terms, [
        np.fromiter(map(places.__getitem__, part.terms), np.uint32, len(part.terms))
        for part in parts
    ]


def _sort_postings(
    parts: Sequence[SectionArrays], terms: list[bytes], places: Sequence[Numbers]
) -> Postings:
    """Return the postings of all parts.

    Each part is sorted by term, then section, so a posting goes after those that earlier parts
    have of its term.
    """
    posting_counts = [
        np.bincount(part.terms.term, minlength=len(part.terms.terms)) for part in parts
    ]
    total = np.zeros(len(terms), np.int64)
    for place, own in zip(places, posting_counts, strict=True):
        total[place] += own
    following = total.cumsum() - total
    section, packed = (np.empty(int(total.sum()), np.uint32) for _ in range(2))
    first = 0
    for part, place, own in zip(parts, places, posting_counts, strict=True):
        target = spread(following[place], own)
        section[target] = part.terms.section + np.uint32(first)
        packed[target] = part.terms.packed
        following[place] += own
        first += len(part)
    code, distinct_counts = _number_counts(packed)
    counts = distinct_counts[:, None] >> np.array(SHIFTS, np.uint32) & np.array(
        MAX_COUNTS, np.uint32
    )
    return Postings(terms, total, section, code, counts)


def _number_counts(packed: Numbers) -> tuple[Numbers, Numbers]:
    """Return the code of each packed count, and the distinct counts, most frequent first."""
    frequency = np.bincount(packed)  # As long as the largest value: small in most writes.
    distinct_counts = np.flatnonzero(frequency)
    distinct_counts = distinct_counts[np.argsort(-frequency[distinct_counts], kind="stable")]
    numbers = np.zeros(len(frequency), np.uint32)
    numbers[distinct_counts] = np.arange(len(distinct_counts))
    return numbers[packed], distinct_counts.astype(np.uint32)


def encode_postings(postings: Postings) -> dict[str, NDArray[Any] | bytes]:
    """Return the arrays of terms and their postings."""
    posting_counts = postings.many
    start = np.zeros(len(posting_counts) + 1, np.uint32)
    posting_counts.cumsum(out=start[1:])
    bits = (1 << np.arange(postings.counts.shape[1])).astype(np.uint8)
    in_field = (postings.counts > 0) @ bits
    fields = np.zeros(len(posting_counts), np.uint8)
    if len(posting_counts):
        fields = np.bitwise_or.reduceat(in_field[postings.code], start[:-1].astype(np.int64))
    rare = np.flatnonzero(postings.code >= RARE)
    hashes = np.array(list(map(crc32, postings.terms)), np.uint32)
    hash_order = hashes.argsort()
    terms_start = np.zeros(len(posting_counts) + 1, np.uint32)
    np.array(list(map(len, postings.terms)), np.uint32).cumsum(out=terms_start[1:])
    return {
        "terms": b"".join(postings.terms),
        "terms_start": terms_start,
        "hashes": hashes[hash_order],
        "hashed": narrow(hash_order),
        "postings_start": start,
        "fields": fields,
        "section": narrow(postings.section),
        "code": np.minimum(postings.code, RARE).astype(np.uint8),
        "rare_place": rare.astype(np.uint32),
        "rare_code": narrow(postings.code[rare]),
        "counts": narrow(postings.counts.ravel()),
    }


def encode_sequences(
    parts: Sequence[tuple[Numbers, Numbers]], lengths: Sequence[Numbers], term_count: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the sections' sequences.

    Each part has the numbers of its terms in this segment, and the terms of all its sections in
    order. `lengths` (shape of each: sections, fields) are the words of each field, `term_count` is
    the number of terms in the segment.
    """
    frequency = np.zeros(term_count, np.int64)
    for places, sequence in parts:
        own = np.bincount(sequence, minlength=len(places))
        frequency += np.bincount(places, own, term_count).astype(np.int64)
    rank = rank_terms(frequency)
    packed = [
        pack_sequences(rank[places][sequence], length)
        for (places, sequence), length in zip(parts, lengths, strict=True)
    ]
    sizes = np.concatenate([np.zeros(1, np.int64), *(each[1] for each in packed)])
    return {
        "sequence": np.concatenate([np.empty(0, np.uint8), *(each[0] for each in packed)]),
        "sequence_start": sizes.cumsum().astype(np.uint32),
        "rank": rank,
    }


def rank_terms(frequency: NDArray[np.int64]) -> Numbers:
    """Return the rank of each term, 1 for the most frequent in sequences."""
    rank = np.zeros(len(frequency), np.uint32)
    rank[np.argsort(-frequency, kind="stable")] = np.arange(1, len(frequency) + 1)
    return rank


def pack_sequences(
    ranks: NDArray[Any], lengths: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the packed sequences of sections, with a 0 between two fields, and their sizes."""
    sections, fields = lengths.shape
    # The n-th field of a section follows all separators of earlier sections, and n more.
    field = np.arange(sections * fields)
    places = np.arange(len(ranks)) + np.repeat(field - field // fields, lengths.ravel())
    padded_ranks = np.zeros(len(ranks) + sections * (fields - 1), np.uint32)
    padded_ranks[places] = ranks
    packed, starts = pack_numbers(padded_ranks)
    ends = starts[(lengths.sum(1, dtype=np.int64) + fields - 1).cumsum()]
    return packed, np.diff(ends, prepend=0)


def decode_segment(segment: SegmentArrays) -> SectionArrays:
    """Return the sections of a segment."""
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
    posting_counts = starts[1:] - starts[:-1]
    code: NDArray[Any] = segment["code"]
    if len(segment["rare_place"]):
        code = code.astype(np.uint32)
        code[segment["rare_place"]] = segment["rare_code"]
    term = np.repeat(np.arange(len(posting_counts), dtype=np.uint32), posting_counts)
    return term, segment["section"].astype(np.uint32), code


# The choice of segments to merge: few segments are fast to search, small ones fast to merge.

#: Segments up to this number of sections are always merged with the next batch.
SMALL_SEGMENT = 16

#: This many segments of about the same size are merged into one.
MERGE_FACTOR = 4


def choose_merge(
    segments: Mapping[str, SegmentArrays], incoming: int, dropped: set[int]
) -> set[str]:
    """Return the names of segments to merge with `incoming` new sections.

    The choice depends on each segment's size, and its share of dropped documents.
    """
    names: set[str] = set()
    tiers: dict[int, list[tuple[int, str]]] = {}
    for name, segment in segments.items():
        dead = int(find_dropped(segment, dropped).sum())
        size = segment.size - dead
        if size <= SMALL_SEGMENT or dead > segment.size // 4:
            names.add(name)
            incoming += size
        else:
            tiers.setdefault(size.bit_length() // 2, []).append((size, name))
    room = MAX_SIZE - incoming
    for tier in sorted(tiers):
        has_incoming = tier <= incoming.bit_length() // 2
        if len(tiers[tier]) + has_incoming > MERGE_FACTOR:
            fitting = _select_fitting(tiers[tier], room)
            if len(fitting) + has_incoming > 1:
                names.update(name for _, name in fitting)
                room -= sum(size for size, _ in fitting)
    return names


def find_dropped(
    segment: SegmentArrays, dropped: set[int]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each section of a segment whether its document is dropped."""
    if not dropped:
        return np.zeros(segment.size, np.bool_)
    return np.isin(segment["document"], np.fromiter(dropped, np.int64, len(dropped)))


def _select_fitting(segments: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
    """Return the smallest segments (size, name) that together have at most `room` sections."""
    fitting: list[tuple[int, str]] = []
    for size, name in sorted(segments):
        room -= size
        if room < 0:
            break
        fitting.append((size, name))
    return fitting
