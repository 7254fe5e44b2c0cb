"""The estimate of tokens: never less for more text, and replaceable by an exact count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.packs.tokens import count_tokens, set_tokenizer


@pytest.fixture
def estimate_again() -> Iterator[None]:
    yield
    set_tokenizer(None)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert count_tokens(text) <= count_tokens(text + more)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_cost_of_two_texts_is_their_sum_up_to_the_seam(one: str, other: str) -> None:
    together, apart = count_tokens(one + other), count_tokens(one) + count_tokens(other)
    assert together <= apart + 1  # Two single blanks, which are free, become a run.


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=6))
def test_lines_cost_what_they_cost_alone_and_their_breaks(lines: list[str]) -> None:
    lines = ["".join(line.split()) + "x" for line in lines]
    breaks = max(len(lines) - 1, 0)
    assert count_tokens("\n".join(lines)) == sum(map(count_tokens, lines)) + breaks


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 0),
        ("word", 1),
        ("letters", 2),
        ("two words", 2),
        ("1234", 2),
        ("\n", 1),
        ("\n\n", 1),
        ("...", 2),
        ("a_b", 3),
        ("认证令牌", 4),
        ("größe", 3),
    ],
)
def test_cost_follows_the_documented_rule(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@pytest.mark.usefixtures("estimate_again")
def test_exact_tokenizer_takes_the_place_of_the_estimate() -> None:
    set_tokenizer(len)
    assert count_tokens("exactly this") == 12
    set_tokenizer(None)
    assert count_tokens("exactly this") == 3
