"""Notes that contradict each other: which are known to, which counts more, and where both stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.finding.terms import count_terms
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.packs.caution import written_at
from vaultmem.core.packs.pack_item import PackItem, changed_day


class Authority(IntEnum):
    """The ranks of what a vault can hold, highest first.

    Between the first and the second stand the person's current instruction and the repository as
    it is now: both are outside of any memory, and count more than all that follows.
    """

    PINNED_POLICY = 1
    EVAL_RESULT = 2
    VALIDATED_SKILL = 3
    PREFERENCE = 4
    TRUSTED_FACT = 5
    DECISION = 6
    OTHER_FACT = 7
    EPISODIC_TRACE = 8
    REFLECTION = 9
    OUTSIDE = 10


_NAMES = {
    Authority.PINNED_POLICY: "pinned policy",
    Authority.EVAL_RESULT: "validated eval result",
    Authority.VALIDATED_SKILL: "trusted policy or skill",
    Authority.PREFERENCE: "preference of the owner's",
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

#: Sources of an eval result that mean a run, and not somebody's word.
_RUNTIMES = frozenset({"eval", "tool"})


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
    if record.kind == Kind.PREFERENCE:
        return Authority.PREFERENCE if trusted else Authority.OTHER_FACT
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


#: Properties whose links say that two notes do not agree.
CONFLICT_PROPERTIES = ("contradicts", "supersedes", "superseded_by", "supersedes_part")

#: Why one of two counts more, whatever their days, as it is told.
ORDERED = {
    "supersedes": "it supersedes the other",
    "supersedes_part": "it supersedes a part of the other",
}

#: Opponents that are brought to one section's side.
MAX_RIVALS = 2

_SAME_TITLE = "same title and folder"

#: The share of words in common from which two texts of one hand and day say nearly the same.
_ALIKE = 0.5

#: Kinds of which one note a day or a session is usual: equal titles say nothing there.
_SERIAL = frozenset(
    {Kind.EPISODIC_TRACE, Kind.REFLECTION, Kind.WORKING_CONTEXT, Kind.ADAPTER_EXAMPLE}
)


class Contradiction(NamedTuple):
    """Two notes that do not agree, and how that is known; `why` is a property's name or words.

    Where `why` is "supersedes" or "supersedes_part", the first is the newer word. `told_by` is the
    note whose property says so.
    """

    first: NoteKey
    second: NoteKey
    why: str
    told_by: NoteKey | None = None


class Remarks(NamedTuple):
    """What is known besides the notes' own words.

    `relations` are pairs of notes that contradict each other, `handles` what short labels
    call a note, and `told` are lines that say how little the answer is worth.
    """

    relations: Sequence[Contradiction] = ()
    handles: Mapping[NoteKey, str] = MappingProxyType({})
    told: tuple[str, ...] = ()


def find_same_titles(hits: Sequence[Hit]) -> list[Contradiction]:
    """Return the pairs of notes that say different things under one title in one folder.

    A title that three notes or more share is that of a series, and they go on from one another;
    so do two that one hand wrote on one day, unless they say nearly the same.
    """
    groups: dict[tuple[str, str, str], list[Hit]] = {}
    for hit in hits:
        record = hit.record
        if record.kind in _SERIAL or record.path.startswith("primed/"):
            continue
        name = (record.title.casefold(), hit.section.heading.casefold(), record.context)
        groups.setdefault(name, []).append(hit)
    return [
        Contradiction(group[0].note, other.note, _SAME_TITLE)
        for group in groups.values()
        if len({hit.note for hit in group}) == 2
        for other in group[1:]
        if other.note != group[0].note and _are_rivals(group[0], other)
    ]


def _are_rivals(one: Hit, other: Hit) -> bool:
    """Tell whether two texts under one title may be two answers to one question.

    What is pinned in two vaults is what each of them has under that name.
    """
    if one.vault != other.vault and (one.record.pinned or other.record.pinned):
        return False
    if count_terms(one.text) == count_terms(other.text):
        return False
    if _hand_of(one) != _hand_of(other):
        return True
    ours, theirs = set(count_terms(one.text)), set(count_terms(other.text))
    adds = ours <= theirs or theirs <= ours
    return not adds and 2 * len(ours & theirs) >= _ALIKE * (len(ours) + len(theirs))


def _hand_of(hit: Hit) -> tuple[str, ...]:
    """Return who wrote a note as what, and on which day."""
    record = hit.record
    return (record.kind, record.agent, record.source, record.session, changed_day(hit))


def is_first_stronger(first: Hit, second: Hit, why: str, trusted: frozenset[NoteKey]) -> bool:
    """Tell which of two counts more: by authority, else what supersedes, else the later word."""

    def key(hit: Hit) -> tuple[int, bool, float, str]:
        rank = rank_authority(hit, hit.note in trusted)
        is_older = why in ORDERED and hit is second
        return (rank, is_older, -written_at(hit), hit.record.path)

    return key(first) < key(second)


def is_undecided(first: Hit, second: Hit, why: str, trusted: frozenset[NoteKey]) -> bool:
    """Tell whether time alone says which of two counts more: nobody said which one holds."""
    ranks = {rank_authority(hit, hit.note in trusted) for hit in (first, second)}
    return why not in ORDERED and len(ranks) == 1 and written_at(first) != written_at(second)


def describe_conflict(
    stronger: Hit, weaker: Hit, why: str, trusted: frozenset[NoteKey], name: Callable[[Hit], str]
) -> str:
    """Return the sentence that stands before two sections that contradict each other.

    `name` is what a note is called.
    """
    ranks = [rank_authority(h, h.note in trusted) for h in (stronger, weaker)]
    if ranks[0] != ranks[1]:
        reason = f"{name_authority(ranks[0])} before {name_authority(ranks[1])}"
    elif why in ORDERED:
        reason = ORDERED[why]
    elif is_undecided(stronger, weaker, why, trusted):
        days = f"{changed_day(weaker)}, then {changed_day(stronger)}"
        reason = f"the later of two alike ({days})"
    else:
        reason = "by name"
    return (
        f"In conflict ({why}): {name(stronger)} counts more than {name(weaker)}, "
        f"{reason}; what the user says now, or the repository holds now, counts more than both."
    )


def tell_conflict(
    relation: Contradiction,
    first: Hit,
    second: Hit,
    trusted: frozenset[NoteKey],
    name: Callable[[Hit], str],
) -> str:
    """Return the sentence about two sections that contradict each other."""
    if is_first_stronger(first, second, relation.why, trusted):
        return describe_conflict(first, second, relation.why, trusted, name)
    return describe_conflict(second, first, relation.why, trusted, name)


def list_opponents(relations: Iterable[Contradiction], note: NoteKey) -> set[NoteKey]:
    """Return the notes that contradict one."""
    return {
        each.second if each.first == note else each.first
        for each in relations
        if note in {each.first, each.second}
    }


def arrange_items(
    items: Sequence[PackItem],
    relations: Sequence[Contradiction],
    trusted: frozenset[NoteKey],
    name: Callable[[Hit], str],
) -> list[PackItem]:
    """Return the items with those that contradict each other side by side, the stronger first.

    Where nobody decided which one holds, the older is first, and both say their day.

    What is pinned keeps its place, and the sentence about the two stands before the first.
    """
    arranged = list(items)
    for relation in relations:
        pair = [
            next((i for i in arranged if i.hit.note == note), None)
            for note in (relation.first, relation.second)
        ]
        first, second = pair
        if first is None or second is None or first.part is not second.part:
            continue
        if not is_first_stronger(first.hit, second.hit, relation.why, trusted):
            first, second = second, first
        told = tell_conflict(relation, first.hit, second.hit, trusted, name)
        if told not in f"{first.conflict} {second.conflict}":
            continue
        if is_undecided(first.hit, second.hit, relation.why, trusted):
            first, second = second, first  # As it was said, one after the other.
        movable, fixed = (first, second) if second.pinned and not first.pinned else (second, first)
        arranged.remove(movable)
        place = arranged.index(fixed) + (movable is second)
        arranged.insert(place, movable)
        for item in (first, second):
            rest = item.conflict.replace(told, "").strip()
            conflict = f"{told} {rest}".strip() if item is first else rest
            arranged[arranged.index(item)] = item._replace(conflict=conflict)
    return arranged
