"""Kinds, states and changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.changing.changes import diff_trees
from vaultmem.core.lifecycle import (
    HIDDEN_STATES,
    STATE_WEIGHT,
    Kind,
    State,
    check_promotion,
    parse_kind,
    parse_state,
)
from vaultmem.errors import RefusedError

TREES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"]))


@pytest.mark.parametrize("kind", Kind)
def test_kinds_are_parsed_whatever_their_case(kind: Kind) -> None:
    assert parse_kind(f" {kind.value.upper()} ") is kind


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(RefusedError, match='unknown kind "gossip"; use working_context, episodic'):
        parse_kind("gossip")
    with pytest.raises(RefusedError, match='unknown state "dne"; use candidate, active, stale'):
        parse_state("dne")
    with pytest.raises(RefusedError):
        parse_state("")


@pytest.mark.parametrize("state", State)
def test_hidden_notes_are_not_promoted(state: State) -> None:
    if state in HIDDEN_STATES:
        with pytest.raises(RefusedError, match=f"n.md: a note that is {state.value}"):
            check_promotion("n.md", state)
    else:
        check_promotion("n.md", state)


def test_doubtful_states_weigh_less_and_stay_in_sight() -> None:
    assert 0 < STATE_WEIGHT[State.STALE] < STATE_WEIGHT[State.CANDIDATE] < 1
    assert HIDDEN_STATES.isdisjoint(STATE_WEIGHT)
    assert State.ACTIVE not in STATE_WEIGHT


def test_changes_are_what_was_added_changed_and_removed() -> None:
    changes = diff_trees({"a": "1", "b": "1", "c": "1"}, {"d": "1", "b": "2", "c": "1", "0": "1"})
    assert (changes.added, changes.changed, changes.removed) == (("0", "d"), ("b",), ("a",))
    assert changes.written == ("0", "b", "d")
    assert changes.paths == ("0", "a", "b", "d")


@settings(max_examples=100, deadline=None)
@given(TREES, TREES)
def test_applying_the_changes_gives_the_new_tree(old: dict[str, str], new: dict[str, str]) -> None:
    changes = diff_trees(old, new)
    tree = {path: blob for path, blob in old.items() if path not in changes.removed}
    tree.update((path, new[path]) for path in changes.written)
    assert tree == new
    assert bool(changes) is (old != new)
    assert len(set(changes.paths)) == len(changes.paths)
