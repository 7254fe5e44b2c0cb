"""Two scores become one: by their place between the lowest and the highest of the candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.search.ranking import best_groups, best_of_each, blend_scores, move_towards

_NUMBERS = st.floats(-100, 100, width=32)


def test_blend_is_the_weighted_mean_of_scaled_scores() -> None:
    blended = blend_scores(np.array([0.0, 5.0, 10.0]), np.array([0.9, 0.1, 0.5]), 0.6)
    assert blended.tolist() == pytest.approx([0.4, 0.3, 0.8])


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_NUMBERS, _NUMBERS), min_size=1, max_size=20), st.floats(0, 1))
def test_blend_stays_between_0_and_1_and_keeps_the_order_of_agreement(
    pairs: list[tuple[float, float]], weight: float
) -> None:
    words, meaning = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    blended = blend_scores(words, meaning, weight)
    assert ((blended >= 0) & (blended <= 1.0001)).all()
    for one in range(len(pairs)):
        for other in range(len(pairs)):
            if words[one] <= words[other] and meaning[one] <= meaning[other]:
                assert blended[one] <= blended[other] + 1e-5


def test_scale_of_either_score_does_not_matter() -> None:
    words, meaning = np.array([1.0, 4.0, 2.0]), np.array([0.2, 0.3, 0.9])
    there = blend_scores(words, meaning, 0.5)
    assert blend_scores(words * 7 + 3, meaning / 9, 0.5).tolist() == pytest.approx(there.tolist())


def test_candidate_without_a_vector_is_judged_by_its_words() -> None:
    words = np.array([10.0, 10.0, 10.0, 0.0])
    blended = blend_scores(words, np.array([0.9, 0.1, np.nan, 0.5]), 0.5)
    assert blended[0] > blended[2] > blended[1]
    assert blended[2] > blended[3]


def test_no_vector_at_all_leaves_the_order_of_words() -> None:
    blended = blend_scores(np.array([1.0, 3.0, 2.0]), np.full(3, np.nan), 0.5)
    assert np.argsort(-blended).tolist() == [1, 2, 0]


def test_equal_scores_and_no_candidates_are_no_trouble() -> None:
    assert blend_scores(np.array([2.0, 2.0]), np.array([0.5, 0.5]), 0.5).tolist() == [0.0, 0.0]
    assert len(blend_scores(np.array([]), np.array([]), 0.5)) == 0


def test_section_is_as_good_as_its_best_passage() -> None:
    scores = np.array([0.1, 0.9, 0.5, 0.3], np.float32)
    order, starts = np.array([3, 0, 2, 1]), np.array([0, 2])
    assert best_of_each(scores, order, starts).tolist() == pytest.approx([0.3, 0.9])
    assert len(best_of_each(scores[:0], order[:0], starts[:0])) == 0


def test_question_moves_towards_what_it_found() -> None:
    asked = np.array([1.0, 0.0], np.float32)
    moved = move_towards(asked, np.array([[0.0, 1.0], [0.6, 0.8]], np.float32))
    assert np.linalg.norm(moved) == pytest.approx(1.0)
    assert 0 < moved[1] < moved[0]


def test_best_groups_come_in_the_order_of_score_then_number() -> None:
    scores = np.array([0.5, 0.9, -np.inf, 0.5, 0.5], np.float32)
    assert best_groups(scores, 3) == [1, 0, 3]
    assert best_groups(scores, 9) == [1, 0, 3, 4]
    assert best_groups(scores[:0], 3) == []
