"""Several values of one thing are one decision: of three notes or more, the newest one against all.

Pairs of notes are found one by one. Eight values of one thing are up to 28 pairs, and one question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vaultmem.core.notes.note import Note
from vaultmem.core.similarity.canonical import canonical_form
from vaultmem.core.similarity.compare import KnownText, compare_texts, compare_titled
from vaultmem.core.similarity.facts import read_facts
from vaultmem.core.similarity.updates import find_update
from vaultmem.core.upkeep.proposal import Action, Proposal
from vaultmem.services.likeness.updates import are_apart
from vaultmem.services.reading.read_notes import find_note
from vaultmem.vault import Vault

#: Notes from which on they are a group.
_LEAST = 3

#: What two notes, or more, have to say another value for.
_VALUES = frozenset({Action.UPDATE, Action.CONTRADICTION, Action.VALUE_GROUP})

#: A note and its bytes.
_Place = tuple[str, str]


class _Group(NamedTuple):
    """The notes of proposals that share some, and what of the evidence says where they are from."""

    places: dict[_Place, None]
    evidence: dict[str, None]


def group_values(vault: Vault, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Return proposals, those about several values of one thing as one, where its first was.

    Each older note says another value than the newest; what does not stays a pair.
    """
    grouped: dict[_Place, Proposal] = {}
    for group in _join(each for each in proposals if each.action in _VALUES):
        if len(group.places) >= _LEAST and (made := _make(vault, group)):
            grouped |= dict.fromkeys(made.places, made)
    found: dict[str, Proposal] = {}
    for each in proposals:
        groups = {grouped.get(place) for place in each.places} if each.action in _VALUES else {None}
        kept = groups.pop() if len(groups) == 1 else None
        found.setdefault((kept or each).id, kept or each)
    return tuple(found.values())


def _join(proposals: Iterable[Proposal]) -> Iterable[_Group]:
    """Return the notes that proposals connect."""
    groups: dict[_Place, _Group] = {}
    for each in proposals:
        merged = _Group({}, {})
        for known in {id(groups[p]): groups[p] for p in each.places if p in groups}.values():
            merged.places.update(known.places)
            merged.evidence.update(known.evidence)
        merged.places.update(dict.fromkeys(each.places))
        merged.evidence.update({line: None for line in each.evidence if " arrived from " in line})
        groups |= dict.fromkeys(merged.places, merged)
    return {id(each): each for each in groups.values()}.values()


def _make(vault: Vault, group: _Group) -> Proposal | None:
    """Return one proposal for the notes that say another value than the newest of them."""
    marks = ", ".join("?" * len(group.places))
    records = vault.view.records(f"d.path IN ({marks})", [path for path, _ in group.places])
    dated = sorted((each.written, each.path) for each in records)
    notes = [note for _, path in dated if (note := find_note(vault, path))]
    notes = [note for note in notes if (str(note.path), note.blob) in group.places]
    others = [note for note in notes[:-1] if _says_otherwise(note, notes[-1])]
    values = {canonical_form(note.visible_body) for note in others}
    if len(values) + 1 < _LEAST:  # Two that state the same are one value.
        return None
    first, *more, last = ((str(note.path), note.blob) for note in (*others, notes[-1]))
    reason = f"{len(values) + 1} values of one thing, the last one in {last[0]}"
    evidence = tuple(group.evidence)
    return Proposal(Action.VALUE_GROUP, *first, reason, evidence, *last, more=tuple(more))


def _says_otherwise(old: Note, new: Note) -> bool:
    if are_apart(old, new):
        return False
    known = KnownText(old.visible_body, old.title)
    found = compare_texts(new.visible_body, known, context=new.title)
    found = compare_titled(new.visible_body, new.title, known, found)
    facts = read_facts(old.visible_body), read_facts(new.visible_body)
    return found.is_contradiction or find_update(*facts) is not None
