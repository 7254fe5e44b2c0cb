"""Check what interrupted writes left behind; what exists elsewhere too can be removed."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath

from vaultmem.core.check import Check, Verdict
from vaultmem.core.packs.context_file import replace_block
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.watching.context import HEAD
from vaultmem.storage.files import find_temporaries, read_file
from vaultmem.storage.scan import list_folders
from vaultmem.vault import Vault

#: Seconds after which nobody is still writing a temporary file.
_OLD = 600.0


def check_temporaries(vault: Vault, fix: bool, now: float) -> Check:
    """Find what interrupted writes left behind; with `fix` remove what exists elsewhere too."""
    with vault.lock() if fix else contextlib.nullcontext():
        left = [file for file in _find_temporaries(vault) if _is_old(file, now)]
        fixed = []
        for file in list(left) if fix else []:
            if _is_held_elsewhere(vault, file):
                file.unlink()
                left.remove(file)
                fixed.append(f"{_name(vault, file)} is removed")
    if not left:
        return Check("interrupted writes", fixed=tuple(fixed))
    told = f"files left behind: {len(left):,}"
    remedy = (
        "their text is nowhere else: look into them, and remove what is not needed"
        if fix
        else "`vaultmem doctor --fix` removes those whose text is safe elsewhere"
    )
    paths = tuple(_name(vault, file) for file in left)
    return Check("interrupted writes", Verdict.PROBLEM, told, paths, remedy, tuple(fixed))


def _find_temporaries(vault: Vault) -> list[Path]:
    """Return them from the vault's folders, and from those in which blocks are kept."""
    here = PurePosixPath(".")
    found = [
        file
        for folder in list_folders(vault.root)
        for file in find_temporaries(vault.root, PurePosixPath(folder))
    ]
    for folder in {file.parent for file in _kept_files(vault)}:
        found += find_temporaries(folder, here)
    return sorted(set(found))


def _kept_files(vault: Vault) -> list[Path]:
    """Return the files of `keep_in`, if this vault may write to them."""
    if not vault.trust.is_trusted():
        return []
    files = []
    for name in vault.config.keep_in:
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            file = vault.root / Path(name).expanduser()
            files.append(file.parent.resolve() / file.name)
    return files


def _name(vault: Vault, file: Path) -> str:
    return str(file.relative_to(vault.root) if file.is_relative_to(vault.root) else file)


def _is_old(file: Path, now: float) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    # A note that is being removed is renamed, and keeps the time of its last change.
    return now - max(status.st_mtime, status.st_ctime) > _OLD


def _is_held_elsewhere(vault: Vault, file: Path) -> bool:
    """Tell whether a file's bytes are generated, or begin or are those of a file next to it."""
    try:
        data = read_file(file.parent, PurePosixPath(file.name))
    except VaultError:
        return False
    if not data or data.startswith(HEAD):
        return True
    kept = [_read(each) for each in _kept_files(vault) if each.parent == file.parent]
    if any(each.startswith(data) or _outside(each) == _outside(data) for each in kept):
        return True
    if not file.is_relative_to(vault.root):
        return False
    return any(each.startswith(data) for each in _read_beside(vault, file))


def _read(file: Path) -> bytes:
    try:
        return read_file(file.parent, PurePosixPath(file.name))
    except VaultError:
        return b""


def _outside(data: bytes) -> bytes:
    """Return a file's bytes with nothing in the block that is kept in it."""
    try:
        return replace_block(data, "")
    except RefusedError:
        return data


def _read_beside(vault: Vault, file: Path) -> list[bytes]:
    """Return the bytes of what is indexed or committed in a file's folder."""
    folder = PurePosixPath(file.parent.relative_to(vault.root).as_posix())
    found = []
    for path in vault.manifest.blobs():
        if PurePosixPath(path).parent == folder:
            found.append(_read(vault.root / path))
    head = vault.head()
    if head is not None and head.commit:
        entries = vault.history.tree(head.commit)
        blobs = [e.blob for path, e in entries.items() if PurePosixPath(path).parent == folder]
        found += [data for _, data in vault.history.objects.read_all(blobs)]
    return found
