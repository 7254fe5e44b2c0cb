"""The postings of one term as a matcher of Whoosh's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from copy import copy
from typing import Any

from whoosh.matching import LeafMatcher, ReadTooFar

#: So many postings are left out at once where none of them can be among the best.
_BLOCK = 128


class PostingMatcher(LeafMatcher):  # type: ignore[misc]
    """Documents in their order, each with the count of a term; values are made when asked for."""

    def __init__(
        self,
        ids: list[int],
        weights: list[int],
        lengths: memoryview | None,
        read_value: Callable[[int, int], bytes],
        term: tuple[str, bytes],
        format_: Any,
        scorer: Any,
    ) -> None:
        """Take postings; `lengths` are those of all documents, None if the field has none."""
        self._ids = ids
        self._weights = weights
        self._lengths = lengths
        self._read_value = read_value
        self._term = term
        self.format = format_
        self.scorer = scorer
        self._at = 0

    def is_active(self) -> bool:
        """Tell whether there is a posting here."""
        return self._at < len(self._ids)

    def reset(self) -> None:
        """Go to the first posting."""
        self._at = 0

    def copy(self) -> PostingMatcher:
        """Return another that stands where this one does."""
        return copy(self)

    def id(self) -> int:
        """Return the posting's document; behind the last that of the last, as AndNot asks there."""
        return self._ids[min(self._at, len(self._ids) - 1)]

    def weight(self) -> float:
        """Return how often the document has the term."""
        return float(self._weights[self._at])

    def value(self) -> bytes:
        """Return the posting's value as the field's format has it."""
        return self._read_value(self._ids[self._at], self._weights[self._at])

    def next(self) -> bool:
        """Go to the next posting; tell whether a block of postings begins there."""
        if not self.is_active():
            raise ReadTooFar
        self._at += 1
        return self._at % _BLOCK == 0 or not self.is_active()

    def skip_to(self, id: int) -> None:
        """Go to the first posting from here on that is of this document or a later one."""
        if not self.is_active():
            raise ReadTooFar
        self._at = bisect_left(self._ids, id, lo=self._at)

    def skip_to_quality(self, minquality: float) -> int:
        """Leave out blocks in which no posting has more than a quality; return how many."""
        skipped = 0
        while self.is_active() and self.block_quality() <= minquality:
            self._at = self._block().stop
            skipped += 1
        return skipped

    def _block(self) -> slice:
        first = self._at - self._at % _BLOCK
        return slice(first, first + _BLOCK)

    def _block_lengths(self) -> list[int]:
        """Return lengths of the block's documents, no shorter than scorers take them."""
        if self._lengths is None:
            return [1]
        return [self._lengths[number] or 1 for number in self._ids[self._block()]]

    def block_min_length(self) -> int:
        """Return the length of the block's shortest document."""
        return min(self._block_lengths())

    def block_max_length(self) -> int:
        """Return the length of the block's longest document."""
        return max(self._block_lengths())

    def block_max_weight(self) -> float:
        """Return the block's highest count."""
        return float(max(self._weights[self._block()]))
