"""Kinds and states of a memory, and what each counts for."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import RefusedError


class Kind(StrEnum):
    """What a note records; `semantic_fact` where it does not say."""

    WORKING_CONTEXT = "working_context"
    EPISODIC_TRACE = "episodic_trace"
    SEMANTIC_FACT = "semantic_fact"
    DECISION = "decision"
    PROCEDURAL_SKILL = "procedural_skill"
    POLICY_RULE = "policy_rule"
    PREFERENCE = "preference"
    REFLECTION = "reflection"
    DEAD_END = "dead_end"
    EVAL_RESULT = "eval_result"
    ADAPTER_EXAMPLE = "adapter_example"


class State(StrEnum):
    """How far a note is in its life; `active` where it does not say."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"
    DEPRECATED = "deprecated"
    QUARANTINED = "quarantined"
    #: Given to no note: its properties cannot be read, and nobody knows what they were.
    UNREADABLE = "unreadable"


#: The state that a note has, whatever state is written in it, in which others say otherwise.
CONFLICTED = "conflicted"

#: What the property `source` says of where a note is from, in the words of vaultmem.
SOURCES = frozenset({"human", "agent", "tool", "import", "eval"})

#: States in which a note takes in what is said again, and its value counts still.
OPEN_STATES = frozenset({State.CANDIDATE, State.ACTIVE, State.STALE})

#: Kinds that may become instruction, once active and trusted.
INSTRUCTION_KINDS = frozenset({Kind.POLICY_RULE, Kind.PROCEDURAL_SKILL})

#: Kinds that are what they say only on the owner's word: active, and their text on record.
OWNER_KINDS = INSTRUCTION_KINDS | {Kind.PREFERENCE}

#: States of notes that are no longer in use; recall finds only the archived ones of them.
HIDDEN_STATES = frozenset({State.ARCHIVED, State.DEPRECATED, State.QUARANTINED})

#: States in which a note stands for nothing: it replaces none, and nothing is made of it unasked.
CLOSED_STATES = HIDDEN_STATES | {State.UNREADABLE}

#: The states from the one that lets a note do most to the one that lets it do least.
_BY_RESTRICTION = (
    State.ACTIVE,
    State.STALE,
    State.CANDIDATE,
    State.UNREADABLE,
    State.ARCHIVED,
    State.DEPRECATED,
    State.QUARANTINED,
)

#: What each state's relevance is multiplied by: doubtful memories rank lower.
STATE_WEIGHT = {
    State.STALE: 0.7,
    State.CANDIDATE: 0.9,
    State.ARCHIVED: 0.9,
    State.UNREADABLE: 0.7,
}

#: Where a note may go from each state. Each step has its way back, so the table is symmetric:
#: candidate - active - stale - archived in a row, deprecated beside the first three, quarantined
#: beside all.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.CANDIDATE: frozenset({State.ACTIVE, State.DEPRECATED, State.QUARANTINED}),
    State.ACTIVE: frozenset({State.CANDIDATE, State.STALE, State.DEPRECATED, State.QUARANTINED}),
    State.STALE: frozenset({State.ACTIVE, State.ARCHIVED, State.DEPRECATED, State.QUARANTINED}),
    State.ARCHIVED: frozenset({State.STALE, State.QUARANTINED}),
    State.DEPRECATED: frozenset({State.CANDIDATE, State.ACTIVE, State.STALE, State.QUARANTINED}),
    State.QUARANTINED: frozenset(State) - {State.QUARANTINED},
    State.UNREADABLE: frozenset({State.QUARANTINED}),
}


class Mover(NamedTuple):
    """Who moves a note: a person, or a machine (an agent, or what runs unattended).

    `may_instruct` tells whether its word counts for policies and skills.
    """

    is_machine: bool
    may_instruct: bool


def parse_kind(text: str) -> Kind:
    """Return the kind that `text` names.

    Raises:
        RefusedError: no kind has that name.
    """
    return Kind(_member(text, [kind.value for kind in Kind], "kind"))


def parse_state(text: str, *, to_find: bool = False) -> State:
    """Return the state that `text` names: one that a note may be given, or one `to_find` notes.

    Raises:
        RefusedError: no state has that name.
    """
    names = [state.value for state in State if to_find or state is not State.UNREADABLE]
    return State(_member(text, names, "state"))


def is_proposal(kind: str, state: str) -> bool:
    """Tell whether a note is a preference that waits for the owner's word."""
    return kind == Kind.PREFERENCE and state == State.CANDIDATE


def is_more_restricted(state: State, than: State) -> bool:
    """Tell whether a state lets a note do less than another."""
    return _BY_RESTRICTION.index(state) > _BY_RESTRICTION.index(than)


def most_restricted(*states: State) -> State:
    """Return the state that lets a note do least."""
    return max(states, key=_BY_RESTRICTION.index)


def rank_state(name: str) -> int:
    """Return how much a state restricts a note, by its name; one that is none counts as unreadable.

    No name is `active`.
    """
    known = {state.value: rank for rank, state in enumerate(_BY_RESTRICTION)}
    return known.get(name or State.ACTIVE.value, known[State.UNREADABLE.value])


def check_promotion(path: str, state: State) -> None:
    """Allow candidate, active or stale notes to be promoted to active.

    Raises:
        RefusedError: the note is archived, deprecated or quarantined.
    """
    if state in CLOSED_STATES:
        raise RefusedError(
            f"{path}: a note that is {state.value} cannot be promoted; "
            "set its state to candidate first"
        )


def check_transition(
    path: str, kind: Kind, before: State, after: State, is_pinned: bool, mover: Mover
) -> None:
    """Allow a step of the table above; what is pinned or quarantined only a person moves.

    Whether a policy or skill instructs, and what the owner prefers, is not for a machine to say,
    unless it may promote.

    Raises:
        RefusedError: the step is none, or not this mover's.
    """
    if after not in TRANSITIONS[before]:
        names = ", ".join(state.value for state in State if state in TRANSITIONS[before])
        raise RefusedError(f"{path}: {before} notes cannot become {after}; only {names}")
    if not mover.is_machine:
        return
    if is_pinned:
        raise RefusedError(f"{path}: pinned, so only a person moves it; unpin it first")
    if before is State.QUARANTINED:
        raise RefusedError(f"{path}: quarantined, so only a person lets it out")
    if kind in OWNER_KINDS and State.ACTIVE in {before, after} and not mover.may_instruct:
        raise RefusedError(
            f"{path}: a {kind} is moved by a person, or by an agent under promoters in "
            "vaultmem.yaml"
        )


def _member(text: str, names: list[str], what: str) -> str:
    name = text.strip().lower()
    if name not in names:
        near = suggest_similar(name, names, f"; use {', '.join(names)}")
        raise RefusedError(f'unknown {what} "{text}"{near}')
    return name
