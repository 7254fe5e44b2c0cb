"""Which segments are merged with a batch: few segments are quick to search, small ones to merge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from vaultmem.storage.index.segment_arrays import MAX_SIZE, SegmentArrays

#: Segments up to this many sections are always merged with the next batch.
SMALL_SEGMENT = 16

#: This many segments of about the same size are merged into one.
MERGE_FACTOR = 4


def choose_merge(
    segments: Mapping[str, SegmentArrays], incoming: int, dropped: set[int]
) -> set[str]:
    """Return the names of segments to merge with the batch, by size and share of dead."""
    chosen: set[str] = set()
    tiers: dict[int, list[tuple[int, str]]] = {}
    for name, segment in segments.items():
        dead = int(find_dropped(segment, dropped).sum())
        size = segment.size - dead
        if size <= SMALL_SEGMENT or dead > segment.size // 4:
            chosen.add(name)
            incoming += size
        else:
            tiers.setdefault(size.bit_length() // 2, []).append((size, name))
    room = MAX_SIZE - incoming
    for tier in sorted(tiers):
        same = tier <= incoming.bit_length() // 2
        if len(tiers[tier]) + same > MERGE_FACTOR:
            fitting = _take_fitting(tiers[tier], room)
            if len(fitting) + same > 1:
                chosen.update(name for _, name in fitting)
                room -= sum(size for size, _ in fitting)
    return chosen


def find_dropped(
    segment: SegmentArrays, dropped: set[int]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell for each section of a segment whether its document is among the dropped ones."""
    if not dropped:
        return np.zeros(segment.size, np.bool_)
    return np.isin(segment["document"], np.fromiter(dropped, np.int64, len(dropped)))


def _take_fitting(segments: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
    """Return the smallest segments (size, name), as many as there is room for."""
    fitting: list[tuple[int, str]] = []
    for size, name in sorted(segments):
        room -= size
        if room < 0:
            break
        fitting.append((size, name))
    return fitting
