"""Keep what a session learned: in MEMORY.md while that has room, else in a note of its own."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.sessions.section_edit import append_to_section, as_item
from vaultmem.core.tokens import count_tokens
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.reading.sync import sync_paths
from vaultmem.services.sessions.write import act_in
from vaultmem.services.writing.edit_notes import edit_note
from vaultmem.storage.files import create_file
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.sessions.session import Session

MEMORY = PurePosixPath("MEMORY.md")
LEARNED = "Learned"


class Learned(NamedTuple):
    """What was learned, and where it stands now; `in_memory` tells whether that is MEMORY.md."""

    text: str
    path: str
    in_memory: bool


class _FullError(Exception):
    """MEMORY.md has no room."""


def memory_budget(vault: Vault) -> int:
    """Return how many tokens MEMORY.md may have: what a pack can show of pinned notes."""
    return int(vault.config.budget * vault.config.pinned_share)


def learn(vault: Vault, session: Session, text: str) -> Learned:
    """Add a line to MEMORY.md under "Learned", with a link to the session.

    Where MEMORY.md would grow beyond its budget, or its properties cannot be read, the text is
    remembered as a note. What is there already is not added again.
    """
    writer = act_in(vault, session.facts.id, session.facts.agent or None)
    line = " ".join(text.split())
    item = as_item(f"{line} ([[{session.facts.id}]])")
    budget = memory_budget(vault)

    def change(note: Note) -> str:
        if any(each.startswith(as_item(line)) for each in note.text.splitlines()):
            return note.text
        changed = append_to_section(note.text, LEARNED, item)
        if note.matter.problem or count_tokens(changed) > budget:
            raise _FullError
        return changed

    try:
        _create_memory(writer)
        edit_note(writer, MEMORY, change)
        return Learned(line, str(MEMORY), True)
    except (_FullError, RefusedError):
        from vaultmem.services.notes.memory import Memory
        from vaultmem.services.notes.remember import remember

        made = remember(writer, Memory(text, refs=(session.facts.path,)))
        return Learned(line, made.path, False)


def _create_memory(vault: Vault) -> None:
    """Make MEMORY.md where there is none."""
    if (vault.root / MEMORY).exists():
        return
    data = b"# Memory\n"
    vault.journal.record(str(MEMORY), blob_id(data), vault.author, vault.now())
    try:
        create_file(vault.root, MEMORY, data)
        sync_paths(vault, [MEMORY])
    except ConflictError:  # Somebody was faster.
        return
