"""Kinds and states of a memory, and what each counts for."""

from __future__ import annotations

from enum import StrEnum

from vaultmem.errors import RefusedError


class Kind(StrEnum):
    """What a note records; `semantic_fact` where it does not say."""

    WORKING_CONTEXT = "working_context"
    EPISODIC_TRACE = "episodic_trace"
    SEMANTIC_FACT = "semantic_fact"
    DECISION = "decision"
    PROCEDURAL_SKILL = "procedural_skill"
    POLICY_RULE = "policy_rule"
    REFLECTION = "reflection"
    EVAL_RESULT = "eval_result"
    ADAPTER_EXAMPLE = "adapter_example"


class State(StrEnum):
    """Where a note stands in its life; `active` where it does not say."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"
    DEPRECATED = "deprecated"
    QUARANTINED = "quarantined"


#: Kinds that may become instruction, once active and trusted.
INSTRUCTION_KINDS = frozenset({Kind.POLICY_RULE, Kind.PROCEDURAL_SKILL})

#: States that ordinary recall leaves out.
HIDDEN_STATES = frozenset({State.ARCHIVED, State.DEPRECATED, State.QUARANTINED})

#: What each state's relevance is multiplied by: doubtful memories rank lower.
STATE_WEIGHT = {State.STALE: 0.7, State.CANDIDATE: 0.9}


def parse_kind(text: str) -> Kind:
    """Return the kind that `text` names.

    Raises:
        RefusedError: no kind has that name.
    """
    return Kind(_member(text, [kind.value for kind in Kind], "kind"))


def parse_state(text: str) -> State:
    """Return the state that `text` names.

    Raises:
        RefusedError: no state has that name.
    """
    return State(_member(text, [state.value for state in State], "state"))


def check_promotion(path: str, state: State) -> None:
    """Allow candidate, active or stale notes to be promoted to active.

    Raises:
        RefusedError: the note is archived, deprecated or quarantined.
    """
    if state in HIDDEN_STATES:
        raise RefusedError(
            f"{path}: a note that is {state.value} cannot be promoted; "
            "set its state to candidate first"
        )


def _member(text: str, names: list[str], what: str) -> str:
    name = text.strip().lower()
    if name not in names:
        raise RefusedError(f'unknown {what} "{text}"; use {", ".join(names)}')
    return name
