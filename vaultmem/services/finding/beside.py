"""Bring the answer where a question was found: the short note that was written next beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit, asks
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.finding.hits import find_places, name_refs
from vaultmem.services.reading.texts import read_section
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter

#: Of the hits, best first, how many are looked at, and what of its score one that asks gives to
#: the note that may answer.
_FIRST, _SHARE = 5, 0.6


def add_answers(vault: Vault, note_filter: NoteFilter, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, behind each of the first that asks the note next to it, as beside it.

    Who is next to whom is what the ranking knows: short notes of a session, or with a tag in
    common. Such a note is brought without a word of the question of its own, for a share of the
    score: most answer something else. What was found itself stays as it was found.
    """
    asking = [hit for hit in hits[:_FIRST] if asks(hit.text)]
    if not asking:
        return list(hits)
    answers = _find_next(vault, note_filter, asking)
    known = {(hit.record.document, hit.section.ordinal) for hit in hits}
    ordered: dict[tuple[int, int], Hit] = {}
    for hit in hits:
        key = (hit.record.document, hit.section.ordinal)
        ordered.setdefault(key, hit)
        answer = answers.get(key)
        if answer and (answer.record.document, answer.section.ordinal) not in known:
            ordered.setdefault((answer.record.document, answer.section.ordinal), answer)
    return list(ordered.values())


def _find_next(
    vault: Vault, note_filter: NoteFilter, asking: Sequence[Hit]
) -> dict[tuple[int, int], Hit]:
    """Return by document and section the section written next, of those that have one."""
    from vaultmem.core.finding.weights import WEIGHTS

    snapshot = vault.index.snapshot()
    eligible = choose_sections(vault, snapshot, note_filter, WEIGHTS)
    if eligible.neighbours is None:
        return {}
    after = eligible.neighbours[len(WEIGHTS.neighbours)]
    documents = snapshot.column("document")
    found = {}
    for hit in asking:
        rows = after[(documents == hit.record.document) & eligible.mask]
        next_rows = [row for row in rows.tolist() if row >= 0]
        places = find_places(vault, snapshot, eligible, next_rows)
        for record, section in places.values():
            if (text := read_section(vault, record, section)) is not None:
                refs = name_refs(vault, record)
                score, path = _SHARE * hit.score, hit.record.path
                answer = Hit(record, section, text, score, (), 0.0, 1.0, refs, beside=path)
                found[hit.record.document, hit.section.ordinal] = answer
    return found
