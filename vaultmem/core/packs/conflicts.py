"""Find notes that contradict each other, rank them, and place them side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.packs.pack_item import PackItem, PackPart, changed_day
from vaultmem.core.packs.warnings import written_at
from vaultmem.core.search.query import Hit, NoteKey
from vaultmem.core.search.terms import count_terms


class Authority(IntEnum):
    """Ranks of a vault's content, highest first.

    The user's current instruction and the current repository rank between 1 and 2. They are not in
    the vault, and outrank everything below.
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
    NoteKind.DECISION: Authority.DECISION,
    NoteKind.EPISODIC_TRACE: Authority.EPISODIC_TRACE,
    NoteKind.WORKING_CONTEXT: Authority.EPISODIC_TRACE,
    NoteKind.REFLECTION: Authority.REFLECTION,
}

#: Sources of an eval result that was measured by a run.
_RUNTIMES = frozenset({"eval", "tool"})


def rank_authority(hit: Hit, trusted: bool) -> Authority:
    """Return the rank of a section. `trusted` means that its note is in the trust record."""
    record = hit.record
    if record.state != NoteState.ACTIVE or record.source == "import" or _is_primed(record.path):
        return Authority.OUTSIDE
    if record.kind in {NoteKind.POLICY_RULE, NoteKind.PROCEDURAL_SKILL}:
        if not trusted:
            return Authority.OTHER_FACT
        is_pinned_policy = record.kind == NoteKind.POLICY_RULE and record.pinned
        return Authority.PINNED_POLICY if is_pinned_policy else Authority.VALIDATED_SKILL
    if record.kind == NoteKind.PREFERENCE:
        return Authority.PREFERENCE if trusted else Authority.OTHER_FACT
    if record.kind == NoteKind.EVAL_RESULT:
        return Authority.EVAL_RESULT if record.source in _RUNTIMES else Authority.OTHER_FACT
    if record.kind == NoteKind.SEMANTIC_FACT:
        by_person = not record.agent and record.source in {"", "human"}
        return Authority.TRUSTED_FACT if by_person else Authority.OTHER_FACT
    return _BY_KIND.get(NoteKind(record.kind), Authority.OTHER_FACT)


def _is_primed(path: str) -> bool:
    return path.startswith("primed/")


#: Properties with links to notes that disagree.
CONFLICT_PROPERTIES = ("contradicts", "supersedes", "superseded_by", "supersedes_part")

#: Reasons, as text, for which a note outranks another one, independent of their dates.
ORDERED = {
    "supersedes": "it supersedes the other",
    "supersedes_part": "it supersedes a part of the other",
}

#: Maximum opponents to add for one section.
MAX_RIVALS = 2

_SAME_TITLE = "same title and folder"

#: Minimum share of common words for two texts of one author and day to be similar.
_MIN_COMMON_SHARE = 0.5

#: Kinds with typically one note for each day or session, where equal titles mean nothing.
_SERIAL = frozenset(
    {
        NoteKind.EPISODIC_TRACE,
        NoteKind.REFLECTION,
        NoteKind.WORKING_CONTEXT,
        NoteKind.ADAPTER_EXAMPLE,
    }
)


class Contradiction(NamedTuple):
    """Two notes that disagree. `reason` is a property's name, or text.

    If `reason` is "supersedes" or "supersedes_part", `first` is the newer note. `declaring_note` is
    the note with the property.
    """

    first: NoteKey
    second: NoteKey
    reason: str
    declaring_note: NoteKey | None = None


class Remarks(NamedTuple):
    """Information about notes that is not in their text.

    `relations` are pairs of contradicting notes. `handles` are the notes' ids in short labels.
    `notices` are lines about how weak the match is.
    """

    relations: Sequence[Contradiction] = ()
    handles: Mapping[NoteKey, str] = MappingProxyType({})
    notices: tuple[str, ...] = ()


def find_same_titles(hits: Sequence[Hit]) -> list[Contradiction]:
    """Return pairs of notes with different text under the same title in the same folder.

    Titles shared by three or more notes are ignored: they name a series. Two notes of the same
    author and day are ignored too, unless they are similar.
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
    """Return whether two texts under one title can be two answers to one question.

    Pinned notes of different vaults are not rivals: each vault has its own note of that name.
    """
    if one.vault != other.vault and (one.record.pinned or other.record.pinned):
        return False
    if count_terms(one.text) == count_terms(other.text):
        return False
    if _hand_of(one) != _hand_of(other):
        return True
    terms, other_terms = set(count_terms(one.text)), set(count_terms(other.text))
    is_subset = terms <= other_terms or other_terms <= terms
    return not is_subset and 2 * len(terms & other_terms) >= _MIN_COMMON_SHARE * (
        len(terms) + len(other_terms)
    )


def _hand_of(hit: Hit) -> tuple[str, ...]:
    """Return a note's kind, author and date."""
    record = hit.record
    return (record.kind, record.agent, record.source, record.session, changed_day(hit))


def is_first_stronger(first: Hit, second: Hit, reason: str, trusted: frozenset[NoteKey]) -> bool:
    """Return whether the first note outranks the second: by authority, supersession, then date."""

    def key(hit: Hit) -> tuple[int, bool, float, str]:
        rank = rank_authority(hit, hit.note in trusted)
        is_older = reason in ORDERED and hit is second
        return (rank, is_older, -written_at(hit), hit.record.path)

    return key(first) < key(second)


def group_opponents(
    hits: Sequence[Hit],
    relations: Iterable[Contradiction],
    partners: Mapping[NoteKey, Hit],
    trusted: frozenset[NoteKey],
) -> list[Hit]:
    """Return the hits in order, each followed directly by its opponents.

    `partners` are sections of opponents that are not hits. A partner is added only if it ranks at
    least as high as the hit, or if the hit names it. So a note cannot get into a pack by
    contradicting a better one.
    """
    related: dict[NoteKey, list[Contradiction]] = {}
    for each in relations:
        related.setdefault(each.first, []).append(each)
        related.setdefault(each.second, []).append(each)
    hits_by_note: dict[NoteKey, Hit] = {}
    for hit in hits:
        hits_by_note.setdefault(hit.note, hit)
    ordered: dict[tuple[NoteKey, int], Hit] = {}
    for hit in hits:
        ordered.setdefault(hit.key, hit)
        rivals = []
        for each in related.get(hit.note, ()):
            other = each.second if each.first == hit.note else each.first
            rival = hits_by_note.get(other) or partners.get(other)
            if rival and (other in hits_by_note or _may_join(hit, rival, each, trusted)):
                rivals.append(rival)
        rivals.sort(key=lambda each: rank_authority(each, each.note in trusted))
        for rival in rivals[:MAX_RIVALS]:
            ordered.setdefault(rival.key, rival)
    return list(ordered.values())


def _may_join(hit: Hit, rival: Hit, relation: Contradiction, trusted: frozenset[NoteKey]) -> bool:
    ranks = [rank_authority(h, h.note in trusted) for h in (rival, hit)]
    return ranks[0] <= ranks[1] or relation.declaring_note == hit.note


class ConflictMark(NamedTuple):
    """A short sentence before the adjacent sections of `documents`, in that order.

    For one document, it reports that its opponent is not shown.
    """

    documents: tuple[NoteKey, ...]
    text: str


def list_marks(
    items: Sequence[PackItem],
    remarks: Remarks,
    trusted: frozenset[NoteKey],
    name: Callable[[Hit], str],
    first_hits: Mapping[NoteKey, Hit],
) -> list[ConflictMark]:
    """Return one mark for each group of contradicting sections, and for each without its opponent.

    `name` formats a shown note. `first_hits` are the first sections of all considered documents.
    Pinned, instructing and preferred sections do not need a mark for a missing opponent.
    """
    items_by_note: dict[NoteKey, PackItem] = {}
    for item in items:
        items_by_note.setdefault(item.hit.note, item)
    weighed_notes = {document for document, item in items_by_note.items() if _is_weighed(item)}
    relations = [each for each in remarks.relations if weighed_notes & {each.first, each.second}]
    shown_relations = [
        each for each in relations if {each.first, each.second} <= items_by_note.keys()
    ]
    groups = _join(shown_relations)
    marks = [
        _mark_group([items_by_note[n].hit for n in each], shown_relations, trusted, name)
        for each in groups
    ]
    grouped_notes = frozenset().union(*groups)
    for document in sorted(weighed_notes - grouped_notes):
        others = (n for n in list_opponents(relations, document) if n in first_hits)
        if (other := next(others, None)) is not None:
            reason = next(e.reason for e in relations if {e.first, e.second} == {document, other})
            marks.append(
                _mark_alone(items_by_note[document].hit, first_hits[other], reason, trusted)
            )
    return marks


def _is_weighed(item: PackItem) -> bool:
    return item.part is PackPart.EVIDENCE and not item.pinned


def _join(relations: Iterable[Contradiction]) -> list[frozenset[NoteKey]]:
    """Return the connected groups of documents."""
    groups: list[frozenset[NoteKey]] = []
    for each in relations:
        pair = frozenset((each.first, each.second))
        joined_group = pair.union(*(group for group in groups if group & pair))
        groups = [*(group for group in groups if not group & pair), joined_group]
    return groups


def _mark_group(
    hits: Sequence[Hit],
    relations: Sequence[Contradiction],
    trusted: frozenset[NoteKey],
    name: Callable[[Hit], str],
) -> ConflictMark:
    """Return the mark of contradicting sections, the strongest first.

    If only time decides, the sections are ordered by time, oldest first.
    """
    replaced_notes = {_find_replaced(each) for each in relations}

    def key(hit: Hit) -> tuple[int, bool, float, str]:
        document = hit.note
        rank = rank_authority(hit, document in trusted)
        return (rank, document in replaced_notes, -written_at(hit), hit.record.path)

    ordered = sorted(hits, key=key)
    keys = [key(hit) for hit in ordered]
    is_undecided = len({each[:2] for each in keys}) == 1 and keys[0][2] != keys[-1][2]
    documents = [hit.note for hit in ordered]
    mark_order = tuple(documents[::-1] if is_undecided else documents)
    if len(ordered) > 2:
        names = ", ".join(map(name, ordered))
        order = "the later one counts more" if is_undecided else "what counts more first"
        return ConflictMark(mark_order, f"In conflict, {order}: {names}.")
    stronger, weaker = ordered
    if keys[0][0] != keys[1][0]:
        ranks = [_NAMES[Authority(rank)] for rank, *_ in keys]
        reason = f"{ranks[0]} before {ranks[1]}"
    elif keys[0][1] != keys[1][1]:
        reason = next(ORDERED[each.reason] for each in relations if each.reason in ORDERED)
    else:
        reason = "it is later" if is_undecided else "by name"
    return ConflictMark(
        mark_order, f"In conflict: {name(stronger)} counts more than {name(weaker)}, {reason}."
    )


def _find_replaced(relation: Contradiction) -> NoteKey | None:
    return relation.second if relation.reason in ORDERED else None


def _mark_alone(hit: Hit, other: Hit, reason: str, trusted: frozenset[NoteKey]) -> ConflictMark:
    counts = "less" if is_first_stronger(hit, other, reason, trusted) else "more"
    document = hit.note
    return ConflictMark(
        (document,), f"In conflict with a note that is not shown and counts {counts}."
    )


def list_opponents(relations: Iterable[Contradiction], note: NoteKey) -> set[NoteKey]:
    """Return the notes that contradict a note."""
    return {
        each.second if each.first == note else each.first
        for each in relations
        if note in {each.first, each.second}
    }


def arrange_items(items: Sequence[PackItem], marks: Iterable[ConflictMark]) -> list[PackItem]:
    """Return the items with those of a mark side by side, after its sentence.

    Pinned items and items of other parts keep their place. The sentence is before the first other
    item.
    """
    arranged = list(items)
    for mark in marks:
        firsts = [
            next(i for i in arranged if i.hit.note == document) for document in mark.documents
        ]
        moved_items = [item for item in firsts if _is_weighed(item)]
        fixed_items = [item for item in firsts if item.pinned and item.part is PackPart.EVIDENCE]
        place = min(arranged.index(item) for item in moved_items)
        if fixed_items:
            place = arranged.index(fixed_items[0]) + 1
        place -= sum(arranged.index(item) < place for item in moved_items)
        arranged = [item for item in arranged if item not in moved_items]
        arranged[place:place] = [moved_items[0]._replace(conflict=mark.text), *moved_items[1:]]
    return arranged
