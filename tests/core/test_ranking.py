"""Scores: the documented formulas, computed here by hand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.search.eligible import EligibleRows, make_eligible
from vaultmem.core.search.query import WEIGHTS
from vaultmem.core.search.ranking import (
    Sequences,
    TermShare,
    add_shares,
    best_rows,
    find_occurrences,
    measure_closeness,
    measure_idf,
    measure_passages,
    score_term,
    weight_counts,
    weight_query,
)

FIELDS = {"title": WEIGHTS.title, "tags": 1.5, "body": 1.0}
Counts = dict[str, dict[str, int]]

#: Three sections: how often each term stands in each field.
#: No rows.
NONE = np.empty(0, np.int64)

VAULT: list[Counts] = [
    {"title": {"auth": 1}, "tags": {"auth": 1}, "body": {"token": 2, "key": 3}},
    {"title": {"db": 2}, "tags": {}, "body": {"token": 1, "pool": 4}},
    {"title": {"log": 1}, "tags": {"ops": 1}, "body": {"line": 2}},
]


def choose(vault: list[Counts], eligible: Sequence[bool]) -> EligibleRows:
    columns = {
        f"{f}_length": np.array([sum(s[f].values()) for s in vault], np.int64) for f in FIELDS
    }
    for name in ("state", "created", "updated"):
        columns[name] = np.zeros(len(vault), np.int64)
    columns["document"] = np.arange(len(vault))
    documents = [(number, 0.0) for number, kept in enumerate(eligible) if kept]
    labels = np.empty(0, np.uint32), np.zeros(len(vault) + 1, np.int64)
    marked = defaultdict(lambda: NONE)
    return make_eligible(columns, documents, [0], [1.0], labels, marked, 2_000_000_000.0)


def score(vault: list[Counts], terms: list[str], eligible: Sequence[bool]) -> list[TermShare]:
    chosen = choose(vault, eligible)
    shares = []
    for term in terms:
        counts = np.array([[section[field].get(term, 0) for field in FIELDS] for section in vault])
        rows = np.flatnonzero(counts.any(1))
        postings = (rows, rows.astype(np.uint32))  # Each section has a code of its own.
        idf = measure_idf(chosen.statistics.sections, int(chosen.mask[rows].sum()))
        shares.append(score_term([postings], NONE, weight_counts(counts), chosen, idf))
    return shares


def total_of(vault: list[Counts], terms: list[str], eligible: Sequence[bool]) -> list[float]:
    total = np.zeros(len(vault), np.float32)
    add_shares(score(vault, terms, eligible), total)
    found: list[float] = total.tolist()
    return found


def score_by_hand(vault: list[Counts], terms: list[str], number: int) -> float:
    """BM25F with one length norm, in plain Python, for sections that are short in the mean."""
    lengths = [sum(w * sum(s[f].values()) for f, w in FIELDS.items()) for s in vault]
    mean = sum(lengths) / len(vault)
    k1, b = WEIGHTS.k1[0], WEIGHTS.b[0]
    total = 0.0
    for term in terms:
        found = sum(any(term in section[f] for f in FIELDS) for section in vault)
        idf = math.log(1 + (len(vault) - found + 0.5) / (found + 0.5))
        tf = sum(w * vault[number][f].get(term, 0) for f, w in FIELDS.items())
        norm = k1 * (1 - b + b * lengths[number] / mean)
        total += idf * (k1 + 1) * tf / (tf + norm)
    return total


def test_scores_follow_the_formula() -> None:
    terms = ["auth", "token", "absent"]
    total = total_of(VAULT, terms, [True] * 3)
    for number in range(3):
        assert total[number] == pytest.approx(score_by_hand(VAULT, terms, number), rel=1e-5)
    assert total[0] > total[1] > total[2] == 0
    assert score(VAULT, ["auth"], [True] * 3)[0].idf == pytest.approx(math.log(1 + 2.5 / 1.5))


#: Counts that keep the mean length below the first of `lengths`, as `score_by_hand` has it.
_WORDS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 3), max_size=3)
_SECTIONS = st.lists(st.fixed_dictionaries(dict.fromkeys(FIELDS, _WORDS)), min_size=1, max_size=7)


@pytest.mark.campaign
@settings(max_examples=80, deadline=None)
@given(_SECTIONS, st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True), st.data())
def test_mask_gives_the_scores_of_a_vault_of_just_those_sections(
    vault: list[Counts], terms: list[str], data: st.DataObject
) -> None:
    eligible = data.draw(st.lists(st.booleans(), min_size=len(vault), max_size=len(vault)))
    masked = total_of(vault, terms, eligible)
    small = [section for section, kept in zip(vault, eligible, strict=True) if kept]
    kept = [score for score, is_kept in zip(masked, eligible, strict=True) if is_kept]
    assert not any(score for score, is_kept in zip(masked, eligible, strict=True) if not is_kept)
    if small:
        assert kept == pytest.approx(total_of(small, terms, [True] * len(small)))
        for number in range(len(small)):
            by_hand = score_by_hand(small, terms, number) if any(map(_is_filled, small)) else 0
            assert kept[number] == pytest.approx(by_hand, rel=1e-4)


def _is_filled(section: Counts) -> bool:
    return any(section.values())


def test_no_eligible_section_gives_no_score() -> None:
    assert not any(total_of(VAULT, ["token"], [False] * 3))


def test_title_weighs_more_than_tags_and_tags_more_than_body() -> None:
    def only(field: str) -> Counts:
        return {f: ({"x": 1} if f == field else {"y": 1}) for f in FIELDS}

    total = total_of([only("title"), only("tags"), only("body")], ["x"], [True] * 3)
    assert total[0] > total[1] > total[2]


def test_length_counts_more_in_vaults_of_long_sections() -> None:
    def shape(terms: int) -> tuple[float, float, float]:
        return choose([{"title": {}, "tags": {}, "body": {"x": terms}}], [True]).length_norm

    (short_k1, long_k1), (short_b, long_b) = WEIGHTS.k1, WEIGHTS.b
    assert shape(10)[:2] == shape(50)[:2] == (short_k1, short_b)
    assert shape(150)[:2] == shape(9_999)[:2] == (long_k1, long_b)
    assert shape(100) == pytest.approx(((short_k1 + long_k1) / 2, (short_b + long_b) / 2, 100))


def test_a_repeated_term_counts_more_and_a_weak_one_half_beside_others() -> None:
    weak = frozenset({"need", "help"})
    assert weight_query(["auth", "auth", "need"], weak) == {
        "auth": pytest.approx(4 / 3),
        "need": 0.5,
    }
    assert weight_query(["need", "help"], weak) == {"need": 1.0, "help": 1.0}


@pytest.mark.campaign
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(-1, 14), st.data())
def test_best_rows_are_ordered_by_score_then_place_then_number(
    scores: list[int], limit: int, data: st.DataObject
) -> None:
    place = data.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores)))
    held = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    rows = np.flatnonzero(np.array(held, np.bool_) & (np.array(scores, np.int64) > 0))
    empty = np.empty(0, np.uint32)
    shares = [TermShare(1.0, rows, empty, np.empty(0, np.float32), NONE)]
    total = np.array([*scores, 0], np.float32)
    wanted = sorted((n for n, s in enumerate(scores) if s), key=lambda n: (-scores[n], place[n], n))
    found = best_rows(total, limit, np.array(place, np.int64), shares)
    assert found.tolist() == wanted[: max(limit, 0)]


def lay_out(texts: list[list[str]], terms: list[str]) -> Sequences:
    """Return bodies under no title and no tags as sequences, the terms marked."""
    marks: list[int] = []
    starts = [0]
    for text in texts:
        marks += [0, 0, *(terms.index(word) + 1 if word in terms else 0 for word in text)]
        starts.append(len(marks))
    zeros = np.zeros(len(texts), np.int64)
    return Sequences(np.array(marks, np.uint16), np.array(starts, np.int64), zeros, zeros)


def closeness(query: list[str], idf: dict[str, float], *texts: list[str]) -> list[float]:
    terms = list(dict.fromkeys(query))
    found = find_occurrences(lay_out(list(texts), terms))
    order = [terms.index(term) for term in query]
    idfs = np.array([idf.get(term, 1.0) for term in terms])
    bonus: list[float] = measure_closeness(found, len(texts), order, idfs).tolist()
    return bonus


def closeness_by_hand(query: list[str], idf: dict[str, float], text: list[str]) -> float:
    wanted = {(a, b) for a, b in pairwise(query) if a != b}
    pairs = wanted & set(pairwise(text))
    return sum(WEIGHTS.pair * min(idf[a], idf[b]) for a, b in pairs)


def test_words_side_by_side_add_the_smaller_idf_of_each_pair() -> None:
    terms, idf = ["auth", "token", "expiry"], {"auth": 1.0, "token": 2.0, "expiry": 3.0}
    bonus = closeness(
        terms,
        idf,
        ["auth", "token", "x", "expiry"],
        ["token", "expiry", "auth", "token"],
        ["x", *terms, "y"],
    )
    assert bonus == pytest.approx([0.6 * 1.0, 0.6 * (1.0 + 2.0), 0.6 * (1.0 + 2.0)])


@pytest.mark.campaign
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5),
    st.lists(st.lists(st.sampled_from("abcx"), max_size=9), min_size=1, max_size=4),
)
def test_closeness_is_that_of_a_count_by_hand(query: list[str], texts: list[list[str]]) -> None:
    idf = {"a": 1.0, "b": 2.0, "c": 3.5}
    wanted = [closeness_by_hand(query, idf, text) for text in texts]
    assert closeness(query, idf, *texts) == pytest.approx(wanted)


def test_phrase_beats_the_same_words_in_another_order() -> None:
    terms = ["auth", "token", "expiry"]
    phrase, pairs, apart = closeness(
        terms,
        {},
        ["auth", "token", "expiry", "x"],
        ["expiry", "x", "auth", "token"],
        ["expiry", "token", "auth", "x"],
    )
    assert phrase > pairs > apart == 0


def test_order_adds_nothing_to_one_word_or_an_empty_text() -> None:
    assert closeness(["a"], {}, ["a", "a"]) == [0]
    assert closeness(["a", "b"], {}, [], ["a"]) == [0, 0]
    assert closeness(["a", "a"], {}, ["a", "a"]) == [0]


def test_words_at_the_seam_of_two_sections_are_not_side_by_side() -> None:
    assert closeness(["a", "b"], {}, ["x", "a"], ["b", "x"]) == [0, 0]


def passage_gain(*texts: list[str]) -> list[float]:
    laid = lay_out(list(texts), ["a", "b"])
    found = find_occurrences(laid)
    gain = np.array([1.0, 2.0])
    change: list[float] = measure_passages(laid, found, gain, (1.2, 0.5, 100.0)).tolist()
    return change


def test_a_long_section_is_scored_half_by_its_best_passage() -> None:
    rest = ["x"] * 80
    together = ["a", "b", *rest[2:], *rest]
    apart = ["a", *rest[1:], "b", *rest[1:]]
    short = ["a", "b"] * 20
    gains = passage_gain(together, apart, short)

    def by_hand(tf_a: int, tf_b: int, length: int) -> float:
        norm = 1.2 * (1 - 0.5 + 0.5 * length / 100.0)
        return 1.0 * tf_a / (tf_a + norm) + 2.0 * tf_b / (tf_b + norm)

    whole = by_hand(1, 1, 160)
    assert gains == pytest.approx(
        [0.5 * (by_hand(1, 1, 80) - whole), 0.5 * (by_hand(0, 1, 80) - whole), 0.0]
    )
    assert gains[0] > 0 > gains[1]


def test_a_title_counts_in_each_passage() -> None:
    body = lay_out([["x"] * 160], ["a", "b"])
    marks = np.concatenate([np.array([1], np.uint16), body.marks])
    titled = body._replace(marks=marks, starts=np.array([0, len(marks)]), title=np.array([1]))
    gain = np.array([1.0, 0.0])
    found = find_occurrences(titled)
    change = measure_passages(titled, found, gain, (1.2, 0.5, 100.0))

    def by_hand(length: int) -> float:
        title = WEIGHTS.title
        return title / (title + 1.2 * (0.5 + 0.5 * (length + title) / 100.0))

    assert change.tolist() == pytest.approx([0.5 * (by_hand(80) - by_hand(160))])
