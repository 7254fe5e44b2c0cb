"""Kinds and states of a memory, and their effects."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import RefusedError


class NoteKind(StrEnum):
    """The kind of content that a note records; the default is `semantic_fact`."""

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
    """The state of a note in its lifecycle; the default is `active`."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"
    DEPRECATED = "deprecated"
    QUARANTINED = "quarantined"
    #: Never written: the state of a note whose properties cannot be read.
    UNREADABLE = "unreadable"


#: The label of a note with text from the other side of a merge, whatever its state.
CONFLICTED = "conflicted"

#: Vaultmem's values of the property `source`, the origin of a note.
SOURCES = frozenset({"human", "agent", "tool", "import", "eval"})

#: States in which a note accepts confirmations, and its value is current.
OPEN_STATES = frozenset({NoteState.CANDIDATE, NoteState.ACTIVE, NoteState.STALE})

#: Kinds that can instruct an agent if active and trusted.
INSTRUCTION_KINDS = frozenset({NoteKind.POLICY_RULE, NoteKind.PROCEDURAL_SKILL})

#: Kinds that have an effect only if the owner made them active and trusts their text.
OWNER_KINDS = INSTRUCTION_KINDS | {NoteKind.PREFERENCE}

#: States of notes that are not in use; of these, recall finds only archived notes.
HIDDEN_STATES = frozenset({NoteState.ARCHIVED, NoteState.DEPRECATED, NoteState.QUARANTINED})

#: States of notes that replace no other note and are never used automatically.
CLOSED_STATES = HIDDEN_STATES | {NoteState.UNREADABLE}

#: The states from least to most restricted.
_BY_RESTRICTION = (
    NoteState.ACTIVE,
    NoteState.STALE,
    NoteState.CANDIDATE,
    NoteState.UNREADABLE,
    NoteState.ARCHIVED,
    NoteState.DEPRECATED,
    NoteState.QUARANTINED,
)

#: Factors for the relevance of notes in each state: uncertain memories rank lower.
STATE_WEIGHT = {
    NoteState.STALE: 0.7,
    NoteState.CANDIDATE: 0.9,
    NoteState.UNREADABLE: 0.7,
}

#: The possible next states of each state. Each step can be undone, so the table is symmetric:
#: candidate - active - stale - archived in a row; deprecated is linked to the first three, and
#: quarantined to all.
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


class StateChanger(NamedTuple):
    """The party that changes a note's state: a person, or a machine (an agent or unattended job).

    `may_instruct` is whether it can activate policies and skills.
    """

    is_machine: bool
    may_instruct: bool


def parse_kind(text: str) -> NoteKind:
    """Return the kind of this name.

    Raises:
        RefusedError: no kind has that name.
    """
    return NoteKind(_member(text, [kind.value for kind in NoteKind], "kind"))


def parse_state(text: str, *, to_find: bool = False) -> NoteState:
    """Return the state of this name; only with `to_find`, `unreadable` is allowed.

    Raises:
        RefusedError: no state has that name.
    """
    names = [state.value for state in NoteState if to_find or state is not NoteState.UNREADABLE]
    return NoteState(_member(text, names, "state"))


def is_proposal(kind: str, state: str) -> bool:
    """Return whether a note is a preference that waits for the owner's decision."""
    return kind == NoteKind.PREFERENCE and state == NoteState.CANDIDATE


def is_more_restricted(state: NoteState, than: NoteState) -> bool:
    """Return whether a state is more restricted than another."""
    return _BY_RESTRICTION.index(state) > _BY_RESTRICTION.index(than)


def most_restricted(*states: NoteState) -> NoteState:
    """Return the most restricted state."""
    return max(states, key=_BY_RESTRICTION.index)


def rank_state(name: str) -> int:
    """Return how restricted a state is, by name, 0 for least; unknown names count as unreadable.

    "" counts as `active`.
    """
    ranks = {state.value: rank for rank, state in enumerate(_BY_RESTRICTION)}
    return ranks.get(name or NoteState.ACTIVE.value, ranks[NoteState.UNREADABLE.value])


def check_promotion(path: str, state: NoteState) -> None:
    """Allow candidate, active or stale notes to be promoted to active.

    Raises:
        RefusedError: the note is archived, deprecated, quarantined or unreadable.
    """
    if state in CLOSED_STATES:
        raise RefusedError(
            f"{path}: a note that is {state.value} cannot be promoted; "
            "set its state to candidate first"
        )


def check_transition(
    path: str,
    kind: NoteKind,
    before: NoteState,
    after: NoteState,
    is_pinned: bool,
    mover: StateChanger,
) -> None:
    """Check a step of the table above; only a person moves pinned or quarantined notes.

    A machine needs `may_instruct` to change policies, skills and preferences to or from active.

    Raises:
        RefusedError: the step is not in the table, or not allowed for this mover.
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


def _member(text: str, names: list[str], label: str) -> str:
    name = text.strip().lower()
    if name not in names:
        near = suggest_similar(name, names, f"; use {', '.join(names)}")
        raise RefusedError(f'unknown {label} "{text}"{near}')
    return name
