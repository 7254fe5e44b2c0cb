"""Why a note stays that is old enough to be shortened: others lean on it, or it alone knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vaultmem.core.finding.terms import term_sequence
from vaultmem.core.lifecycle import HIDDEN_STATES
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.paths import DREAMS
from vaultmem.core.preferences.standing import Speaker, find_standing
from vaultmem.core.upkeep.fidelity import is_short
from vaultmem.core.upkeep.memory_file import MEMORY
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.finding.links import LinkGraph
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.writing.bullets import read_dreamt
from vaultmem.vault import Vault

#: Properties by which a note leans on another; by others, vaultmem names what is like it.
_LEANING = frozenset({"", "refs", "parents"})

#: Notes of what was done name all that was touched.
_TOLD_OF = "sessions/"


def find_reasons(vault: Vault, records: Sequence[NoteRecord]) -> Callable[[int, Note], str]:
    """Return what tells why a document and its note stay, "" if nothing keeps them.

    `records` are the notes that count. Of long notes, which tell of many things, keywords keep the
    numbers, and the index has the rest. The vault must be in sync.
    """
    linked = _find_linked(vault)
    snapshot = vault.index.snapshot()
    in_play = {record.document for record in records}

    def has_own_number(document: int, text: str) -> bool:
        for term in {term for term in term_sequence(text) if term[0].isdigit()}:
            found = snapshot.find_sections(term)
            holders = {snapshot.locate(place, n)[0] for place, ns in found for n in ns}
            if holders & in_play <= {document}:
                return True
        return False

    def find_reason(document: int, note: Note) -> str:
        if str(note.path) in linked:
            return "linked by another note"
        if find_standing(note.visible_body, Speaker.OWNER):
            return "a standing instruction"
        if is_short(note) and has_own_number(document, note.visible_body):
            return "a number that no other note has"
        return ""

    return find_reason


def _find_linked(vault: Vault) -> set[str]:
    """Return the notes that another one in play links to; what a dream wrote is no link."""
    records = vault.view.records()
    hidden = {record.path for record in records if record.state in HIDDEN_STATES}
    dreamt = _find_dreamt_lines(vault)
    return {
        found.target
        for found in LinkGraph(vault).links()
        if found.target
        and found.source != found.target
        and found.link.property in _LEANING
        and found.source not in hidden | {str(DREAMS)}
        and not found.source.startswith(_TOLD_OF)
        and not (found.source == str(MEMORY) and found.link.line in dreamt)
    }


def _find_dreamt_lines(vault: Vault) -> set[int]:
    """Return the lines of MEMORY.md, from 1, that dreams wrote."""
    head = vault.head()
    try:
        lines = read_note(vault, MEMORY).text.splitlines()
    except (NoteNotFoundError, RefusedError):
        return set()
    dreamt = read_dreamt(vault, head.commit) if head is not None and "[[" in "".join(lines) else ()
    return {number for number, line in enumerate(lines, 1) if line in dreamt}
