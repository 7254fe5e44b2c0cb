"""The id of a vault's folder, by which a moved vault finds its data on this machine.

The id is a file in the git folder of the vault's work tree. `mv` and `cp -r` keep it; clones and
other work trees have none. The user's state folder contains, for each id, the path of the vault
that owns its data: state, receipts and artifacts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import VaultError
from vaultmem.storage.atomic import make_private_folder, write_atomically
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.lock import hold_lock

_ID = re.compile(r"[0-9a-f]{32}")

#: The folder in the user's state folder with a file for each id: the vault's path and data key.
_PLACES = "ids"


class VaultId(NamedTuple):
    """A vault's id ("" if it has none yet), and the path of the vault it is a copy of ("")."""

    id: str = ""
    copied_from: str = ""


def make_key(root: Path) -> str:
    """Return the name of the data folders of the vault at a path."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:32]


def find_id(root: Path, state: Path, data_parents: Iterable[Path]) -> VaultId:
    """Return a vault's id; if the vault was moved, move its data to the key of its new path.

    `data_parents` are the parents of the data folders. Data of another vault under this key is
    renamed so that its vault still finds it.
    """
    own = _read_id(root)
    if not own:
        return VaultId()
    entry = _read_place(state, own)
    if entry is not None and entry.root != root and _read_id(entry.root) == own:
        return VaultId(own, str(entry.root))
    if entry != _Place(root, make_key(root)):
        with contextlib.suppress(OSError, VaultError):  # For example in a sandbox; done next time.
            _move_data(root, own, state, data_parents)
    return VaultId(own)


def make_id(root: Path, state: Path) -> str:
    """Give a vault a new id, replacing an old one, and return it; "" outside of git.

    Raises:
        OSError: writing failed.
    """
    file = _id_file(root)
    if file is None:
        return ""
    vault_id = os.urandom(16).hex()
    assign_id(root, state, vault_id)
    write_atomically(file, f"{vault_id}\n".encode("ascii"))
    return vault_id


def assign_id(root: Path, state: Path, vault_id: str) -> None:
    """Make the vault at a path the owner of the data of an id.

    Raises:
        OSError: writing failed.
    """
    _write_place(state, vault_id, _Place(root, make_key(root)))


def forget_ids(folder: Path, state: Path) -> None:
    """Delete the entries of the vaults in a folder."""
    for file in (state / _PLACES).glob("*"):
        place = _read_place(state, file.name)
        if place is not None and folder in (place.root, *place.root.parents):
            file.unlink()
    with contextlib.suppress(OSError):  # Not empty: other vaults have entries.
        (state / _PLACES).rmdir()


def _id_file(root: Path) -> Path | None:
    """Return the file of a vault's id, None outside of git; vaults of one repository differ."""
    folders = find_git_folder(root)
    if folders is None:
        return None
    work_tree, git_folder = folders
    folder = root.relative_to(work_tree)
    ending = f"-{make_key(folder)}" if folder.parts else ""
    return git_folder / f"vaultmem-id{ending}"


def _read_id(root: Path) -> str:
    try:
        file = _id_file(root)
        text = file.read_text(encoding="ascii").strip() if file else ""
    except (OSError, ValueError):
        return ""
    return text if _ID.fullmatch(text) else ""


class _Place(NamedTuple):
    """The path of the vault that owns the data of an id, and the name of its data folders."""

    root: Path
    key: str


def _read_place(state: Path, vault_id: str) -> _Place | None:
    try:
        path, _, key = (state / _PLACES / vault_id).read_bytes().partition(b"\0")
    except OSError:
        return None
    return _Place(Path(os.fsdecode(path)), os.fsdecode(key)) if path and key else None


def _write_place(state: Path, vault_id: str, place: _Place) -> None:
    make_private_folder(state / _PLACES)
    data = os.fsencode(place.root) + b"\0" + os.fsencode(place.key)
    write_atomically(state / _PLACES / vault_id, data, mode=0o600)


def _move_data(root: Path, vault_id: str, state: Path, data_parents: Iterable[Path]) -> None:
    """Rename the data folders of a moved vault, and store its new path."""
    make_private_folder(state / _PLACES)
    with hold_lock(state / _PLACES / "lock"):
        entry, place = _read_place(state, vault_id), _Place(root, make_key(root))
        if entry is not None and entry != place:  # Not yet done by another process.
            new_name = _set_aside(root, state)
            for folder in data_parents:
                if (folder / entry.key).is_dir():
                    _rename(folder / place.key, folder / new_name)
                    _rename(folder / entry.key, folder / place.key)
        _write_place(state, vault_id, place)


def _set_aside(root: Path, state: Path) -> str:
    """Return a new name for data of another vault under a path's key; store it for that vault."""
    key = make_key(root)
    for file in (state / _PLACES).iterdir():
        place = _read_place(state, file.name)
        if place is not None and place.key == key:
            new_name = f"{key}-{file.name}"
            _write_place(state, file.name, place._replace(key=new_name))
            return new_name
    return f"{key}.before"


def _rename(old: Path, new: Path) -> None:
    if old.is_dir():
        shutil.rmtree(new, ignore_errors=True)
        old.rename(new)
