"""What counts more when memories conflict: kind, state, trust and origin decide, never age."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.lifecycle import Kind, State


class Authority(IntEnum):
    """The ranks of what a vault can hold, highest first.

    Between the first and the second stand the person's current instruction and the repository as
    it is now: both are outside of any memory, and count more than all that follows.
    """

    PINNED_POLICY = 1
    EVAL_RESULT = 2
    VALIDATED_SKILL = 3
    TRUSTED_FACT = 4
    DECISION = 5
    OTHER_FACT = 6
    EPISODIC_TRACE = 7
    REFLECTION = 8
    OUTSIDE = 9


_NAMES = {
    Authority.PINNED_POLICY: "pinned policy",
    Authority.EVAL_RESULT: "validated eval result",
    Authority.VALIDATED_SKILL: "trusted policy or skill",
    Authority.TRUSTED_FACT: "current fact from a person",
    Authority.DECISION: "decision",
    Authority.OTHER_FACT: "other fact",
    Authority.EPISODIC_TRACE: "episodic trace",
    Authority.REFLECTION: "reflection",
    Authority.OUTSIDE: "doubtful or outside content",
}

_BY_KIND = {
    Kind.DECISION: Authority.DECISION,
    Kind.EPISODIC_TRACE: Authority.EPISODIC_TRACE,
    Kind.WORKING_CONTEXT: Authority.EPISODIC_TRACE,
    Kind.REFLECTION: Authority.REFLECTION,
}

#: Sources of an eval result that stand for a run, and not for somebody's word.
_RUNTIMES = frozenset({"eval", "tool"})


class Conflict(NamedTuple):
    """Two notes that say different things, the one that counts more first; `why` says how known."""

    stronger: str
    weaker: str
    why: str


def rank_authority(hit: Hit, trusted: bool) -> Authority:
    """Return what a section counts for; `trusted`: its note's promotion is on record."""
    record = hit.record
    if record.state != State.ACTIVE or record.source == "import" or _is_primed(record.path):
        return Authority.OUTSIDE
    if record.kind in {Kind.POLICY_RULE, Kind.PROCEDURAL_SKILL}:
        if not trusted:
            return Authority.OTHER_FACT
        is_pinned_policy = record.kind == Kind.POLICY_RULE and record.pinned
        return Authority.PINNED_POLICY if is_pinned_policy else Authority.VALIDATED_SKILL
    if record.kind == Kind.EVAL_RESULT:
        return Authority.EVAL_RESULT if record.source in _RUNTIMES else Authority.OTHER_FACT
    if record.kind == Kind.SEMANTIC_FACT:
        by_person = not record.agent and record.source in {"", "human"}
        return Authority.TRUSTED_FACT if by_person else Authority.OTHER_FACT
    return _BY_KIND.get(Kind(record.kind), Authority.OTHER_FACT)


def name_authority(authority: Authority) -> str:
    """Return a rank in words."""
    return _NAMES[authority]


def _is_primed(path: str) -> bool:
    return path.startswith("primed/")
