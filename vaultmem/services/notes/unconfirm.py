"""Take back that a note was said again: who said it goes, and the words stay in git's history."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.notes.confirm import Confirmation, drop_confirmation, find_confirmation
from vaultmem.errors import RefusedError
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.ownership import AuthorScope
from vaultmem.services.writing.parts import FORGET, Event
from vaultmem.services.writing.write import replace_text, write
from vaultmem.vault import Vault


class Unconfirmed(NamedTuple):
    """A note, the confirmation that was taken back, and the commit that tells it."""

    path: str
    confirmation: Confirmation
    report: CommitReport


def forget_confirmation(vault: Vault, address: str, reason: str = "") -> Unconfirmed:
    """Take back a note's last confirmation, in a commit that has its words.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: nobody said it again, or an agent would change another's pinned note.
        PendingError: the note is changed; the commit has to wait.
    """
    path, _ = resolve_address(vault, address)

    def plan(change: Change) -> Confirmation:
        note = change.read(path)
        last = find_confirmation(note)
        if last is None:
            raise RefusedError(f"{path}: nobody said that again, so there is nothing to take back")
        replace_text(change, note, lambda note: drop_confirmation(note, last))
        told = f"{last.who} said: {last.wording}" if last.wording else f"{last.who} said it again"
        body = (told, *([reason] if reason else []))
        subject = name_files("forget", [str(path)], ", said once less")
        only = (str(path),)
        change.commit(
            Event(FORGET, subject, vault.author, body, "refine", only=only), AuthorScope.ANYBODY
        )
        return last

    done = write(vault, plan)
    return Unconfirmed(str(path), done.value, done.report)
