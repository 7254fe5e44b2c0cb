"""The contexts that a note was in before it was moved."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from vaultmem.core.notes.note import Note
from vaultmem.core.paths import note_context
from vaultmem.errors import VaultError
from vaultmem.services.writing.pending import read_pending
from vaultmem.storage.git.log import follow_path
from vaultmem.vault import Vault


def find_earlier_contexts(vault: Vault, note: Note) -> frozenset[str]:
    """Return the contexts of a note under its earlier paths, moves without a commit included.

    Without git, none is known. A note's whole history is walked, so ask for few.
    """
    path, paths = str(note.path), []
    with contextlib.suppress(VaultError, ImportError):
        if vault.view.is_work_tree:
            paths += [written for written, _ in vault.journal.find_moved(note.blob)]
            head = vault.head()
            commit = head.commit if head else ""
            moved = read_pending(vault).moved if commit else {}
            for _ in moved:  # From move to move.
                path = moved.get(path, path)
                paths.append(path)
        else:
            commit = vault.view.sources[0].commit
        for _, change in follow_path(vault.history, commit, path) if commit else ():
            paths += [change.path, change.previous]
    return frozenset(note_context(PurePosixPath(each)) for each in paths if each)
