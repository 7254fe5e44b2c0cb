"""Numbers in few bytes: what is packed comes back, each number from where it begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaultmem.core.indexing.packing import pack_numbers, spread, unpack_numbers

#: Numbers of each length, the first and last of each among them.
EDGES = [edge + step for bits in (7, 14, 21, 28, 32) for edge in [1 << bits] for step in (-1, 0)]
NUMBERS = st.sampled_from([0, 1, *EDGES[:-1]]) | st.integers(0, (1 << 32) - 1)


@given(st.lists(NUMBERS, max_size=50))
def test_numbers_come_back_together_and_each_by_itself(numbers: list[int]) -> None:
    packed, starts = pack_numbers(np.array(numbers, np.uint32))

    assert unpack_numbers(packed).tolist() == numbers
    spans = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    assert [unpack_numbers(packed[start:end]).tolist() for start, end in spans] == [
        [number] for number in numbers
    ]
    assert [*starts] == [0, *np.cumsum([max(1, -(-n.bit_length() // 7)) for n in numbers])]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_each_kind_of_number_is_packed(kind: type[np.unsignedinteger[Any]]) -> None:
    largest = int(np.iinfo(kind).max)
    numbers = np.array([0, 127, 128, largest], kind)

    assert unpack_numbers(pack_numbers(numbers)[0]).tolist() == [0, 127, 128, largest]


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 20)), max_size=20))
def test_runs_are_spread_to_their_places(runs: list[tuple[int, int]]) -> None:
    starts, sizes = (np.array([run[n] for run in runs], np.uint32) for n in (0, 1))

    places = spread(starts, sizes)

    assert places.tolist() == [n for start, size in runs for n in range(start, start + size)]
