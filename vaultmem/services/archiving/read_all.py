"""Read all notes, or those that a filter admits, one after the other: for other tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.notes.record import NoteRecord
from vaultmem.services.finding.links import FoundLink, LinkGraph
from vaultmem.services.reading.read_notes import find_note, list_notes
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note


class Lines(NamedTuple):
    """A file with a line of JSON for each of so many notes."""

    file: str
    notes: int


class WholeNote(NamedTuple):
    """A note with its properties, its body and its links; `note` is None where it cannot be read.

    Links are followed to notes, not to headings in them.
    """

    record: NoteRecord
    note: Note | None
    links: list[FoundLink]


def read_all(vault: Vault, note_filter: NoteFilter) -> Iterator[WholeNote]:
    """Yield the notes that the filter admits, by path; the vault must be in sync."""
    graph = LinkGraph(vault)
    for record in list_notes(vault, note_filter):
        yield WholeNote(record, find_note(vault, record.path), graph.links_of(record.document))
