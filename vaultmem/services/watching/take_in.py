"""Take in what events named: these notes alone where that is enough, else the whole folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Set
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.config import read_config
from vaultmem.core.paths import GENERATED, is_note_name
from vaultmem.services.indexing import is_index_behind
from vaultmem.services.sync import stat_now, sync_paths, sync_vault
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.watcher import CHECKPOINT_FILE
from vaultmem.vault import Vault

#: More notes than these are looked at with all others.
_MANY = 500

_NOT_INDEXED = GENERATED | {CHECKPOINT_FILE}


class Taken(NamedTuple):
    """How many notes are new, changed and gone; whether the whole folder was looked at."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    is_full: bool = False

    def __str__(self) -> str:
        """Say it in a few words, in none where nothing was taken in."""
        counts = ((self.added, "new"), (self.changed, "changed"), (self.removed, "gone"))
        return ", ".join(f"{count:,} {name}" for count, name in counts if count)


def take_in_all(vault: Vault) -> Taken:
    """Make the index equal to the folder, under the settings that it has now."""
    vault.config = read_config(vault.root)
    report = sync_vault(vault)
    return Taken(report.added, report.changed, report.removed, is_full=True)


def take_in(vault: Vault, paths: Set[str]) -> Taken:
    """Make the index equal to the folder at these paths, or everywhere if that is not enough."""
    names = sorted(paths - _NOT_INDEXED)
    if len(names) > _MANY or not all(map(_is_text, names)):
        return take_in_all(vault)
    known = vault.manifest.files(names)
    # `sed -i` writes to a file of an odd name, which is gone again by now.
    stats = {path: known[path].stat for path in known}
    names = [path for path in names if stat_now(vault, path) != stats.get(path)]
    if not names:
        return Taken()
    if not all(_is_plain(vault, name) for name in names):
        return take_in_all(vault)
    with vault.lock():
        if is_index_behind(vault):
            return take_in_all(vault)
        before = vault.manifest.files(names)
        sync_paths(vault, map(PurePosixPath, names))
        after = vault.manifest.files(names)
    was, now = ({p: f.blob for p, f in each.items() if p in paths} for each in (before, after))
    return Taken(
        len(now.keys() - was.keys()),
        sum(was[path] != now[path] for path in was.keys() & now.keys()),
        len(was.keys() - now.keys()),
    )


def _is_text(path: str) -> bool:
    """Tell whether a path can be stored: bytes that are not UTF-8 cannot."""
    return path.isascii() or path == path.encode("utf-8", "replace").decode()


def _is_plain(vault: Vault, path: str) -> bool:
    """Tell whether a scan would read a note here, or would have before it was removed."""
    parts = path.split("/")
    above = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    if not is_note_name(path) or any(map(vault.config.ignores, above)):
        return False
    try:
        status = os.lstat(vault.root / path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES
