"""Add the quotes that properties of notes need to be read, in one commit."""

from __future__ import annotations

from pathlib import PurePosixPath

from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.notes.edit_properties import add_quotes
from vaultmem.core.notes.problems import IN_DOUBT, NEEDS_QUOTES, RESTRICTED
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import write
from vaultmem.vault import Vault


def quote_properties(vault: Vault) -> tuple[str, ...]:
    """Add quotes to the values that need them, nothing else, and return the notes that changed.

    A note that has other problems as well stays as it is, and so does one that was hidden before.

    Raises:
        RefusedError: an agent asks: the note counts again as it says, and a person vouches for it.
        ConflictError, PendingError: as for `write`.
    """

    def plan(change: Change) -> None:
        for name, problem in vault.manifest.in_doubt():
            if NEEDS_QUOTES not in problem or f"{IN_DOUBT}{RESTRICTED}" in problem:
                continue
            note = change.read(PurePosixPath(name))
            text = note.text if note.encoding else add_quotes(note.text)
            if text != note.text:
                vault.require_person(f"{name}: in doubt, so only a person adds quotes")
                change.replace(note.path, text.encode("utf-8"), note.blob)
        if change.steps:
            subject = name_files("add quotes", change.steps)
            change.commit(Event("write", subject, vault.author, intent="refine"))

    report = write(vault, plan).report
    sync_vault(vault)
    return report.paths
