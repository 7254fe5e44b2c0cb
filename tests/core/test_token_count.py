"""The estimate of tokens: near what a real tokenizer counts, and replaceable by an exact count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.text.token_count import count_tokens, set_tokenizer
from vaultmem.errors import VaultError
from vaultmem.storage.tokenizer import load_tokenizer, use_tokenizer

TEXTS = Path(__file__).with_name("token_texts")
COUNTS = json.loads((TEXTS / "counts.json").read_text())


@pytest.fixture
def estimate_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("vaultmem.storage.tokenizer._used", "")
    yield
    set_tokenizer(None)


@pytest.mark.parametrize("name", ["english", "code", "german", "japanese", "chinese"])
def test_estimate_is_within_15_percent_of_a_real_tokenizer(name: str) -> None:
    text = (TEXTS / f"{name}.txt").read_text(encoding="utf-8")
    assert count_tokens(text) == pytest.approx(COUNTS[name]["o200k_base"], rel=0.15)


def test_recorded_counts_are_those_of_the_tokenizer() -> None:
    from bpe_openai import get_encoding

    for which in ("o200k_base", "cl100k_base"):
        encoding = get_encoding(which)
        for name, recorded in COUNTS.items():
            text = (TEXTS / f"{name}.txt").read_text(encoding="utf-8")
            assert len(encoding.encode_ordinary(text)) == recorded[which], name


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert count_tokens(text) <= count_tokens(text + more)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_two_texts_together_cost_no_more_than_apart_up_to_the_seam(one: str, other: str) -> None:
    together, apart = count_tokens(one + other), count_tokens(one) + count_tokens(other)
    assert together <= apart + 1  # A long word or an indent may only come to be at the seam.


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=6))
def test_lines_cost_what_they_cost_alone_and_their_breaks(lines: list[str]) -> None:
    lines = ["".join(line.split()) + "x" for line in lines]
    breaks = max(len(lines) - 1, 0)
    apart = sum(map(count_tokens, lines)) + breaks
    assert apart - len(lines) <= count_tokens("\n".join(lines)) <= apart


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 0),
        ("letter", 1),
        ("two words", 2),
        ("extraordinary", 3),
        ("1234", 3),
        ("\n", 1),
        ("\n\n", 1),
        ("\n  ", 2),
        ("....", 3),
        ("....................", 7),
        ("a_b", 3),
        ("认证令牌", 4),
        ("トークン", 4),
        ("ください", 3),
        ("größe", 7),
        ("–", 2),
    ],
)
def test_cost_follows_the_documented_rule(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@settings(max_examples=300, deadline=None)
@given(st.text("ab1.- \n", max_size=60))
def test_words_numbers_and_marks_cost_what_the_rule_says(text: str) -> None:
    cost = 100 * (text.count("\n") - text.count("\n\n")) + 50 * text.count("\n  ")
    cost += sum(100 + 18 * max(len(word) - 6, 0) for word in re.findall("[ab]+", text))
    cost += sum(140 * -(-len(number) // 3) for number in re.findall("1+", text))
    cost += sum(
        55 * min(len(run), 4) + 25 * max(len(run) - 4, 0) for run in re.findall("[.-]+", text)
    )
    assert count_tokens(text) == -(-cost // 100)


@given(st.from_regex("[0-9a-f]{7}", fullmatch=True))
def test_which_commit_it_is_costs_nothing(commit: str) -> None:
    assert count_tokens(f"main@{commit}, notes/a.md@{commit}]") == count_tokens(
        "main@0000000, notes/a.md@fffffff]"
    )


@given(st.from_regex("[0-9a-f]{4}", fullmatch=True))
def test_which_note_it_is_costs_nothing(handle: str) -> None:
    for text in ("[{} | 3 Nov]", "[{}] counts more than [{}], by name", "\n[{}]\n> x"):
        assert count_tokens(text.format(handle, handle)) == count_tokens(
            text.format("c59b", "0000")
        )


@pytest.mark.parametrize("mark", [".", "。", "é", "漢", "1", "a", "\n", "😀", "\u0301"])
def test_no_character_is_free_in_bulk(mark: str) -> None:
    assert count_tokens(mark * 10_000) >= 1_000


@pytest.mark.usefixtures("estimate_again")
def test_exact_tokenizer_takes_the_place_of_the_estimate() -> None:
    set_tokenizer(len)
    assert count_tokens("exactly this") == 12
    set_tokenizer(None)
    assert count_tokens("exactly this") == 3


@pytest.mark.usefixtures("estimate_again")
def test_an_encoding_names_an_exact_tokenizer() -> None:
    with pytest.raises(VaultError, match="no-such-encoding"):
        load_tokenizer("no-such-encoding")
    use_tokenizer("")
    assert count_tokens("exactly this") == 3
    use_tokenizer("o200k_base")
    text = (TEXTS / "chinese.txt").read_text(encoding="utf-8")
    assert count_tokens(text) == COUNTS["chinese"]["o200k_base"]
