"""Write to a branch that is not checked out: each write is a commit of its own there.

There is no folder that could hold what is not committed, so the three events do not apply.
Work tree, index and editors see nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.core.paths import fold_name
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import PendingError, RefusedError
from vaultmem.services.reading.look import look_at
from vaultmem.services.writing.commit import draft_event
from vaultmem.services.writing.pending import find_leaks
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commits import File, RefMovedError, TreeEntry
from vaultmem.storage.git.trees import FOLDER, REGULAR, list_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.writing.divide import Event

_ATTEMPTS = 30
_NEW = "100644"


def commit_on_branch(
    vault: Vault, branch: str, event: Event, change: Callable[[Vault], Mapping[str, bytes | None]]
) -> str:
    """Commit what `change` makes of the vault as it is on the branch; return the commit.

    `change` returns bytes by path, None to remove a note; it is called again where somebody else
    committed there first. Without a difference nothing is committed, and "" is returned.

    Raises:
        RefusedError: something looks like a credential, or is too large; nothing was written.
        PendingError: others keep committing there.
    """
    history = vault.history
    with vault.lock():
        for _ in range(_ATTEMPTS):
            seen = look_at(vault, f"refs/heads/{branch}")
            parent = seen.view.sources[0].commit
            files = _as_files(vault, parent, change(seen))
            if not files:
                return ""
            _check(vault, files)
            draft = draft_event(vault, _name_paths(event, files), files, int(vault.now()))
            try:
                return history.write_branch_commits(f"refs/heads/{branch}", [draft], parent)[0]
            except RefMovedError:
                continue
    raise PendingError(f"{branch}: other commits keep coming in; try again")


def names_on_branch(seen: Vault, folder: PurePosixPath) -> set[str]:
    """Return the folded names of all that a branch has in a folder, be it a note or not."""
    paths = map(PurePosixPath, list_places(seen.history, seen.view.sources[0].commit))
    return {fold_name(path) for path in paths if path.parent == folder}


def _as_files(vault: Vault, parent: str, changed: Mapping[str, bytes | None]) -> dict[str, File]:
    places = list_places(vault.history, parent)
    files: dict[str, File] = {}
    for path, data in changed.items():
        entry = places.get(path)
        if data is None:
            if entry is not None:
                files[path] = None
        elif entry is None or entry.blob != blob_id(data):
            _check_place(places, path)
            files[path] = (entry.mode if entry else _NEW, data)
    return files


def _check_place(places: Mapping[str, TreeEntry], path: str) -> None:
    """Put a note where a file may be, and not in place of a folder, a link or what is above."""
    for folder in map(str, PurePosixPath(path).parents):
        if folder in places and places[folder].mode != FOLDER:
            raise RefusedError(f"{path}: {folder} is no folder on that branch; choose another")
    if path in places and places[path].mode not in REGULAR:
        raise RefusedError(f"{path}: not a regular file on that branch; choose another name")


def _check(vault: Vault, files: Mapping[str, File]) -> None:
    for path, file in files.items():
        if file is not None and len(file[1]) > MAX_FILE_BYTES:
            raise RefusedError(f"{path}: a note holds {MAX_FILE_BYTES:,} bytes at most")
    for places in find_leaks(vault, files).values():
        raise RefusedError(f"not written, this looks like a credential: {'; '.join(places)}")


def _name_paths(event: Event, files: Mapping[str, File]) -> Event:
    subject = event.subject.replace("{paths}", ", ".join(sorted(files)[:3]))
    if find_secrets("\n".join((subject, *event.body))):
        raise RefusedError("not written: the message looks like a credential; reword it")
    return event._replace(subject=subject)
