"""Kinds and states."""

from __future__ import annotations

import pytest

from vaultmem.core.lifecycle import (
    CLOSED_STATES,
    HIDDEN_STATES,
    STATE_WEIGHT,
    NoteKind,
    NoteState,
    check_promotion,
    parse_kind,
    parse_state,
)
from vaultmem.errors import RefusedError


@pytest.mark.parametrize("kind", NoteKind)
def test_kinds_are_parsed_whatever_their_case(kind: NoteKind) -> None:
    assert parse_kind(f" {kind.value.upper()} ") is kind


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(RefusedError, match='unknown kind "gossip"; use working_context, episodic'):
        parse_kind("gossip")
    with pytest.raises(RefusedError, match='unknown state "dne"; use candidate, active, stale'):
        parse_state("dne")
    with pytest.raises(RefusedError):
        parse_state("")


@pytest.mark.parametrize("state", NoteState)
def test_hidden_notes_are_not_promoted(state: NoteState) -> None:
    if state in CLOSED_STATES:
        with pytest.raises(RefusedError, match=f"n.md: a note that is {state.value}"):
            check_promotion("n.md", state)
    else:
        check_promotion("n.md", state)


def test_doubtful_states_weigh_less_and_stay_in_sight() -> None:
    assert 0 < STATE_WEIGHT[NoteState.STALE] < STATE_WEIGHT[NoteState.CANDIDATE] < 1
    assert not (HIDDEN_STATES | {NoteState.ACTIVE}) & STATE_WEIGHT.keys()
