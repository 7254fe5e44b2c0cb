"""Scores: the documented formula, computed here by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.finding.ranking import (
    PAIR_WEIGHT,
    PHRASE_WEIGHT,
    RankingWeights,
    Scoring,
    best_sections,
    measure_closeness,
    score_sections,
)

FIELDS = {"title": 3.0, "tags": 1.5, "body": 1.0}
Counts = dict[str, dict[str, int]]

#: Three sections: how often each term stands in each field.
VAULT: list[Counts] = [
    {"title": {"auth": 1}, "tags": {"auth": 1}, "body": {"token": 2, "key": 3}},
    {"title": {"db": 2}, "tags": {}, "body": {"token": 1, "pool": 4}},
    {"title": {"log": 1}, "tags": {"ops": 1}, "body": {"line": 2}},
]


def score(vault: list[Counts], terms: list[str], eligible: list[bool]) -> Scoring:
    postings = []
    for term in terms:
        fields = {}
        for name in FIELDS:
            numbers = [n for n, section in enumerate(vault) if term in section[name]]
            counts = [vault[n][name][term] for n in numbers]
            fields[name] = (np.array(numbers, np.int64), np.array(counts, np.float32))
        postings.append(fields)
    lengths = {f: np.array([sum(s[f].values()) for s in vault], np.int64) for f in FIELDS}
    return score_sections(postings, lengths, np.array(eligible, np.bool_), RankingWeights())


def score_by_hand(vault: list[Counts], terms: list[str], number: int) -> float:
    """BM25F with one length norm, in plain Python; k1 1.2, b 0.5."""
    lengths = [sum(w * sum(s[f].values()) for f, w in FIELDS.items()) for s in vault]
    mean = sum(lengths) / len(vault)
    total = 0.0
    for term in terms:
        found = sum(any(term in section[f] for f in FIELDS) for section in vault)
        idf = math.log(1 + (len(vault) - found + 0.5) / (found + 0.5))
        tf = sum(w * vault[number][f].get(term, 0) for f, w in FIELDS.items())
        norm = 1.2 * (1 - 0.5 + 0.5 * lengths[number] / mean)
        total += idf * 2.2 * tf / (tf + norm)
    return total


def test_scores_follow_the_formula() -> None:
    terms = ["auth", "token", "absent"]
    scoring = score(VAULT, terms, [True] * 3)
    for number in range(3):
        assert scoring.total[number] == pytest.approx(score_by_hand(VAULT, terms, number), rel=1e-5)
    assert scoring.total[0] > scoring.total[1] > scoring.total[2] == 0
    assert scoring.idf[0] == pytest.approx(math.log(1 + 2.5 / 1.5))
    assert scoring.total == pytest.approx(sum(scoring.shares))


_WORDS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 4), max_size=3)
_SECTIONS = st.lists(st.fixed_dictionaries(dict.fromkeys(FIELDS, _WORDS)), min_size=1, max_size=7)


@settings(max_examples=80, deadline=None)
@given(_SECTIONS, st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True), st.data())
def test_mask_gives_the_scores_of_a_vault_of_just_those_sections(
    vault: list[Counts], terms: list[str], data: st.DataObject
) -> None:
    eligible = data.draw(st.lists(st.booleans(), min_size=len(vault), max_size=len(vault)))
    masked = score(vault, terms, eligible)
    small = [section for section, kept in zip(vault, eligible, strict=True) if kept]
    alone = score(small, terms, [True] * len(small))
    assert list(masked.total[np.array(eligible)]) == pytest.approx(list(alone.total))
    assert not masked.total[~np.array(eligible)].any()
    if small:
        assert masked.idf == pytest.approx(alone.idf)
        for number in range(len(small)):
            by_hand = score_by_hand(small, terms, number) if any(map(_is_filled, small)) else 0
            assert alone.total[number] == pytest.approx(by_hand, rel=1e-4)


def _is_filled(section: Counts) -> bool:
    return any(section.values())


def test_no_eligible_section_gives_no_score() -> None:
    assert not score(VAULT, ["token"], [False] * 3).total.any()


def test_title_weighs_more_than_tags_and_tags_more_than_body() -> None:
    def only(field: str) -> Counts:
        return {f: ({"x": 1} if f == field else {"y": 1}) for f in FIELDS}

    total = score([only("title"), only("tags"), only("body")], ["x"], [True] * 3).total
    assert total[0] > total[1] > total[2]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(-1, 14))
def test_best_sections_are_ordered_by_score_then_number(scores: list[int], limit: int) -> None:
    total = np.array(scores, np.float32)
    wanted = sorted((n for n, s in enumerate(scores) if s), key=lambda n: (-scores[n], n))
    assert best_sections(total, limit) == wanted[: max(limit, 0)]


def test_neighbours_of_the_query_add_the_smaller_idf_of_each_pair() -> None:
    terms, idf = ["auth", "token", "expiry"], [1.0, 2.0, 3.0]
    assert measure_closeness(terms, idf, ["auth", "token", "x", "expiry"]) == pytest.approx(
        PAIR_WEIGHT * 1.0
    )
    assert measure_closeness(terms, idf, ["token", "expiry", "auth", "token"]) == pytest.approx(
        PAIR_WEIGHT * (1.0 + 2.0)
    )
    assert measure_closeness(terms, idf, ["x", *terms, "y"]) == pytest.approx(
        PAIR_WEIGHT * (1.0 + 2.0) + PHRASE_WEIGHT * 6.0
    )


def test_phrase_beats_the_same_words_in_another_order() -> None:
    terms, idf = ["auth", "token", "expiry"], [1.0, 1.0, 1.0]
    phrase = measure_closeness(terms, idf, ["auth", "token", "expiry", "x"])
    pairs = measure_closeness(terms, idf, ["token", "expiry", "x", "auth", "token"])
    apart = measure_closeness(terms, idf, ["expiry", "token", "auth", "x"])
    assert phrase > pairs > apart == 0


def test_order_adds_nothing_to_one_word_or_an_empty_text() -> None:
    assert measure_closeness(["a"], [1.0], ["a", "a"]) == 0
    assert measure_closeness([], [], ["a"]) == 0
    assert measure_closeness(["a", "b"], [1.0, 1.0], []) == 0
    assert measure_closeness(["a", "a"], [1.0, 1.0], ["a"]) == 0
