"""A folder for a vault's state where the user's own cannot be written, as in a sandbox."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import FaultError
from vaultmem.storage.atomic import claim_private_folder

#: Where Linux keeps files in memory.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is its user's alone.


class StateFolder(NamedTuple):
    """Where a vault's state is, and why the user's own could not be written ("" if it could).

    A spare folder is one of a cache: what is in it was made from the notes, never copied, for the
    user's own may hold a change that is half done. Locks in it hold nobody off who uses the other.
    """

    path: Path
    lack: str = ""
    is_new: bool = False


def claim_state_folder(folder: Path) -> StateFolder:
    """Return a folder for the state of a vault: this one, else a spare one of the same name.

    Raises:
        VaultError: it is somebody else's, or no other folder can be written either.
    """
    try:
        claimed = claim_private_folder(folder)
        if os.access(claimed, os.W_OK):
            return StateFolder(claimed)
        raise FaultError(f"{folder}: the state folder cannot be written ({_find_reason(folder)})")
    except FaultError as error:
        for spare in _list_spares(folder.name):
            is_new = not spare.exists()
            try:
                return StateFolder(claim_private_folder(spare), error.fault, is_new)
            except FaultError:
                continue
        raise


def _list_spares(name: str) -> Iterator[Path]:
    """Yield folders that a temporary one can be made in, none of which is the current one."""
    found = Path(tempfile.gettempdir())  # The current folder, where no other can be written.
    user = f"vaultmem-{os.geteuid()}" if os.name == "posix" else "vaultmem"
    places = [] if found == Path.cwd() else [found]
    for place in (*places, _IN_MEMORY):
        if place.is_dir():
            yield place / user / name


def _find_reason(folder: Path) -> str:
    """Return why the system lets nobody write into a folder."""
    if os.name == "posix" and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    return os.strerror(errno.EACCES)
