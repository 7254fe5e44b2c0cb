"""Which segments are merged with a batch: few are looked through, and none is written too often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vaultmem.storage.index.segments import read_column

#: Segments up to this many sections are always merged with the next batch.
SMALL_SEGMENT = 16

#: This many segments of about the same size are merged into one.
MERGE_FACTOR = 4

#: Sections in a merged segment at most: while it is written it takes 8 kB of memory for each.
MAX_MERGED = 65_536


def choose_merge(readers: Iterable[tuple[Any, Any]], incoming: int, dropped: set[int]) -> set[str]:
    """Return the ids of segments to merge with the batch, by size and share of dead."""
    chosen: set[str] = set()
    tiers: dict[int, list[tuple[int, str]]] = {}
    for segment, reader in readers:
        documents = read_column(reader, "document")
        dead = sum(document in dropped for document in documents) if dropped else 0
        size = len(documents) - dead
        if size <= SMALL_SEGMENT or dead > len(documents) // 4:
            chosen.add(segment.segid)
            incoming += size
        else:
            tiers.setdefault(size.bit_length() // 2, []).append((size, segment.segid))
    room = MAX_MERGED - incoming
    for tier in sorted(tiers):
        same = tier <= incoming.bit_length() // 2
        if len(tiers[tier]) + same > MERGE_FACTOR:
            fitting = _take_fitting(tiers[tier], room)
            if len(fitting) + same > 1:
                chosen.update(name for _, name in fitting)
                room -= sum(size for size, _ in fitting)
    return chosen


def _take_fitting(segments: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
    """Return the smallest segments (size, id), as many as there is room for."""
    fitting: list[tuple[int, str]] = []
    for size, name in sorted(segments):
        room -= size
        if room < 0:
            break
        fitting.append((size, name))
    return fitting
