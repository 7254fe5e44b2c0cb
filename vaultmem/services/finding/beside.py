"""Bring the short note that was written next to one that was found: it may answer or go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.services.finding.eligible import choose_scope
from vaultmem.services.finding.hits import find_places, name_refs
from vaultmem.services.reading.texts import read_section
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter

#: Of the hits, best first, how many are looked at, and what of its score one gives to the note
#: that was written next.
_FIRST, _SHARE = 5, 0.7


def add_next(vault: Vault, hits: Sequence[Hit], note_filter: NoteFilter) -> list[Hit]:
    """Return the hits, behind each of the first the note next to it, as beside it.

    Who is next to whom is what the ranking knows: short notes of a session, or with a tag in
    common. Such a note is brought without a word of the question of its own, for a share of the
    score: where one asks, the next may answer. What was found itself stays as it was found.
    """
    known = {hit.local_key for hit in hits}
    nexts = _find_next(vault, note_filter, hits[:_FIRST])
    ordered: list[Hit] = []
    for hit in hits:
        ordered.append(hit)
        beside = nexts.get(hit.local_key)
        if beside and beside.local_key not in known:
            known.add(beside.local_key)
            ordered.append(beside)
    return ordered


def _find_next(
    vault: Vault, note_filter: NoteFilter, hits: Sequence[Hit]
) -> dict[tuple[int, int], Hit]:
    """Return by document and section the section written next, of those that have one."""
    from vaultmem.core.finding.weights import WEIGHTS

    scope = choose_scope(vault, note_filter)
    if scope is None or scope.eligible.neighbours is None:
        return {}
    _, snapshot, eligible = scope
    after = scope.eligible.neighbours[len(WEIGHTS.neighbours)]
    documents = snapshot.column("document")
    found = {}
    for hit in hits:
        rows = after[(documents == hit.record.document) & eligible.mask]
        places = find_places(scope, rows[rows >= 0].tolist())
        for record, section in places.values():
            if (text := read_section(vault, record, section)) is not None:
                refs = name_refs(vault, record)
                score, path = _SHARE * hit.score, hit.record.path
                beside = Hit(record, section, text, score, (), 0.0, 1.0, refs, beside=path)
                found[hit.local_key] = beside
    return found
