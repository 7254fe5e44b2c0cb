"""Kinds and states of a memory, and what each counts for."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import RefusedError


class NoteKind(StrEnum):
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


class NoteState(StrEnum):
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
OPEN_STATES = frozenset({NoteState.CANDIDATE, NoteState.ACTIVE, NoteState.STALE})

#: Kinds that may become instruction, once active and trusted.
INSTRUCTION_KINDS = frozenset({NoteKind.POLICY_RULE, NoteKind.PROCEDURAL_SKILL})

#: Kinds that are what they say only on the owner's word: active, and their text on record.
OWNER_KINDS = INSTRUCTION_KINDS | {NoteKind.PREFERENCE}

#: States of notes that are no longer in use; recall finds only the archived ones of them.
HIDDEN_STATES = frozenset({NoteState.ARCHIVED, NoteState.DEPRECATED, NoteState.QUARANTINED})

#: States in which a note stands for nothing: it replaces none, and nothing is made of it unasked.
CLOSED_STATES = HIDDEN_STATES | {NoteState.UNREADABLE}

#: The states from the one that lets a note do most to the one that lets it do least.
_BY_RESTRICTION = (
    NoteState.ACTIVE,
    NoteState.STALE,
    NoteState.CANDIDATE,
    NoteState.UNREADABLE,
    NoteState.ARCHIVED,
    NoteState.DEPRECATED,
    NoteState.QUARANTINED,
)

#: What each state's relevance is multiplied by: doubtful memories rank lower.
STATE_WEIGHT = {
    NoteState.STALE: 0.7,
    NoteState.CANDIDATE: 0.9,
    NoteState.UNREADABLE: 0.7,
}

#: Where a note may go from each state. Each step has its way back, so the table is symmetric:
#: candidate - active - stale - archived in a row, deprecated beside the first three, quarantined
#: beside all.
TRANSITIONS: dict[NoteState, frozenset[NoteState]] = {
    NoteState.CANDIDATE: frozenset({NoteState.ACTIVE, NoteState.DEPRECATED, NoteState.QUARANTINED}),
    NoteState.ACTIVE: frozenset(
        {NoteState.CANDIDATE, NoteState.STALE, NoteState.DEPRECATED, NoteState.QUARANTINED}
    ),
    NoteState.STALE: frozenset(
        {NoteState.ACTIVE, NoteState.ARCHIVED, NoteState.DEPRECATED, NoteState.QUARANTINED}
    ),
    NoteState.ARCHIVED: frozenset({NoteState.STALE, NoteState.QUARANTINED}),
    NoteState.DEPRECATED: frozenset(
        {NoteState.CANDIDATE, NoteState.ACTIVE, NoteState.STALE, NoteState.QUARANTINED}
    ),
    NoteState.QUARANTINED: frozenset(NoteState) - {NoteState.QUARANTINED},
    NoteState.UNREADABLE: frozenset({NoteState.QUARANTINED}),
}


class Mover(NamedTuple):
    """Who moves a note: a person, or a machine (an agent, or what runs unattended).

    `may_instruct` tells whether its word counts for policies and skills.
    """

    is_machine: bool
    may_instruct: bool


def parse_kind(text: str) -> NoteKind:
    """Return the kind that `text` names.

    Raises:
        RefusedError: no kind has that name.
    """
    return NoteKind(_member(text, [kind.value for kind in NoteKind], "kind"))


def parse_state(text: str, *, to_find: bool = False) -> NoteState:
    """Return the state that `text` names: one that a note may be given, or one `to_find` notes.

    Raises:
        RefusedError: no state has that name.
    """
    names = [state.value for state in NoteState if to_find or state is not NoteState.UNREADABLE]
    return NoteState(_member(text, names, "state"))


def is_proposal(kind: str, state: str) -> bool:
    """Return whether a note is a preference that waits for the owner's word."""
    return kind == NoteKind.PREFERENCE and state == NoteState.CANDIDATE


def is_more_restricted(state: NoteState, than: NoteState) -> bool:
    """Return whether a state lets a note do less than another."""
    return _BY_RESTRICTION.index(state) > _BY_RESTRICTION.index(than)


def most_restricted(*states: NoteState) -> NoteState:
    """Return the state that lets a note do least."""
    return max(states, key=_BY_RESTRICTION.index)


def rank_state(name: str) -> int:
    """Return how much a state restricts a note, by its name; one that is none counts as unreadable.

    No name is `active`.
    """
    known = {state.value: rank for rank, state in enumerate(_BY_RESTRICTION)}
    return known.get(name or NoteState.ACTIVE.value, known[NoteState.UNREADABLE.value])


def check_promotion(path: str, state: NoteState) -> None:
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
    path: str, kind: NoteKind, before: NoteState, after: NoteState, is_pinned: bool, mover: Mover
) -> None:
    """Allow a step of the table above; what is pinned or quarantined only a person moves.

    Whether a policy or skill instructs, and what the owner prefers, is not for a machine to say,
    unless it may promote.

    Raises:
        RefusedError: the step is none, or not this mover's.
    """
    if after not in TRANSITIONS[before]:
        names = ", ".join(state.value for state in NoteState if state in TRANSITIONS[before])
        raise RefusedError(f"{path}: {before} notes cannot become {after}; only {names}")
    if not mover.is_machine:
        return
    if is_pinned:
        raise RefusedError(f"{path}: pinned, so only a person moves it; unpin it first")
    if before is NoteState.QUARANTINED:
        raise RefusedError(f"{path}: quarantined, so only a person lets it out")
    if kind in OWNER_KINDS and NoteState.ACTIVE in {before, after} and not mover.may_instruct:
        raise RefusedError(
            f"{path}: a {kind} is moved by a person, or by an agent under promoting_agents in "
            "vaultmem.yaml"
        )


def _member(text: str, names: list[str], what: str) -> str:
    name = text.strip().lower()
    if name not in names:
        near = suggest_similar(name, names, f"; use {', '.join(names)}")
        raise RefusedError(f'unknown {what} "{text}"{near}')
    return name
