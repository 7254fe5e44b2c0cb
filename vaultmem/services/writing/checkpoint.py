"""Commit everything that changed; the author's own part has their words."""

from __future__ import annotations

from vaultmem.errors import RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.commit import CommitReport, commit_event
from vaultmem.services.writing.divide import CHECKPOINT, Event
from vaultmem.vault import Vault


def save_checkpoint(vault: Vault, note: str = "", even_if_clean: bool = False) -> CommitReport:
    """Commit all changes; the author's own part is `checkpoint: {note}`.

    Without a note, its subject names the files. A clean tree makes no commit, unless
    `even_if_clean` is set.

    Raises:
        RefusedError: the branch is not checked out, or something looks like a credential.
        PendingError: git cannot take a commit now.
    """
    if branch := find_branch(vault):
        raise RefusedError(
            f"{branch}: not checked out, so each write there is a commit already; "
            "there is nothing to checkpoint"
        )
    text = " ".join(note.split())
    subject = f"{CHECKPOINT}: {text}" if text else ""
    event = Event(CHECKPOINT, subject, vault.author, intent="checkpoint")
    return commit_event(vault, event, even_if_clean)
