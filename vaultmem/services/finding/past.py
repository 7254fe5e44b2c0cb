"""Answer a question about a time with what held then, though another value took its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.lifecycle import State
from vaultmem.core.validity import Span, read_day
from vaultmem.services.reading.read_notes import find_note

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.vault import Vault


def keep_valid(vault: Vault, hits: Sequence[Hit], asked: Span) -> list[Hit]:
    """Return the hits without what was replaced and held at another time.

    What held at the time that is asked about says when, and stands before what replaced it.
    """
    kept: list[Hit] = []
    for hit in hits:
        told = _tell_validity(vault, hit, asked) if hit.record.state == State.DEPRECATED else ""
        if told:
            name = hit.record.path.removesuffix(".md")
            newer = (n for n, each in enumerate(kept) if _replaces(each, name))
            kept.insert(next(newer, len(kept)), hit._replace(caution=told))
        elif hit.record.state != State.DEPRECATED:
            kept.append(hit)
    return kept


def _replaces(hit: Hit, name: str) -> bool:
    return any(each in {name, name.rpartition("/")[2]} for each in hit.replaces)


def _tell_validity(vault: Vault, hit: Hit, asked: Span) -> str:
    """Return when a note held, "" if that was not at the time that is asked about."""
    note = find_note(vault, hit.record.path)
    if note is None:
        return ""
    start, end = (_read_day(note, name) for name in ("valid_from", "valid_until"))
    if end is None or not Span(start, end).overlaps(asked):
        return ""
    return f"held {f'from {start} ' if start else ''}until {end}, when another value took its place"


def _read_day(note: Note, name: str) -> date | None:
    said = note.matter.get(name)
    return read_day(str(said.value)) if said else None
