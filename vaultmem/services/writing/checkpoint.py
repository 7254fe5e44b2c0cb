"""Commit everything that changed, under a note of why."""

from __future__ import annotations

from vaultmem.errors import RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.commit import CommitReport, commit_event
from vaultmem.services.writing.divide import Event
from vaultmem.vault import Vault


def save_checkpoint(vault: Vault, note: str, even_if_clean: bool = False) -> CommitReport:
    """Commit all changes as `checkpoint: {note}`.

    A clean tree makes no commit, unless `even_if_clean` is set.

    Raises:
        RefusedError: the note is empty.
        PendingError: git cannot take a commit now.
    """
    text = " ".join(note.split())
    if not text:
        raise RefusedError("a checkpoint needs a note: say in a few words what it stands for")
    if branch := find_branch(vault):
        raise RefusedError(
            f"{branch}: not checked out, so each write there is a commit already; "
            "there is nothing to checkpoint"
        )
    event = Event("checkpoint", f"checkpoint: {text}", vault.author, intent="checkpoint")
    return commit_event(vault, event, even_if_clean)
