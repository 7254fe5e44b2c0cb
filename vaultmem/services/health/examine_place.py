"""Check where the vault lives: its derived state, the clock, the disk and what may be watched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vaultmem.core.check import Check, Verdict
from vaultmem.services.indexing import is_index_behind
from vaultmem.services.sync import sync_vault
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.passed_over import count_folders
from vaultmem.storage.state_health import find_damage, find_index_damage
from vaultmem.vault import Vault

_LIMIT_FILE = Path("/proc/sys/fs/inotify/max_user_watches")

#: Bytes that a disk should have left: an index is built beside the old one.
ENOUGH = 256 * 1024 * 1024

_MEGABYTE = 1024 * 1024


def check_state(vault: Vault, fix: bool) -> Check:
    """See to it that index and database are whole and belong together."""
    if told := find_damage(vault.state):
        file = vault.state_folder / "state.sqlite3"
        remedy = "`vaultmem checkpoint` what waits, and remove this file: it is built again"
        return Check("index", Verdict.PROBLEM, told, (str(file),), remedy)
    told = _find_lack(vault)
    if told:
        with vault.lock():  # What is being written is behind for a moment.
            told = _find_lack(vault)
    done: tuple[str, ...] = ()
    if told and fix:
        with vault.lock():
            vault.index.reset()
            sync_vault(vault)
        told = _find_lack(vault)
        done = ("the index is built again from the notes",)
    if told:
        remedy = "" if fix else "`vaultmem doctor --fix` builds it again from the notes"
        return Check("index", Verdict.PROBLEM, told, remedy=remedy, fixed=done)
    return _check_damaged(vault, fix, done)


def _find_lack(vault: Vault) -> str:
    """Return what is wrong with the index, empty if it can be read and has all documents."""
    if damage := find_index_damage(vault.index):
        return damage
    if vault.manifest.documents() - vault.index.documents() or is_index_behind(vault):
        return "the index is behind the notes"
    return ""


def _check_damaged(vault: Vault, fix: bool, done: tuple[str, ...]) -> Check:
    """Tell of what was set aside as damaged; the database may say who wrote what."""
    index = vault.state_folder / "index.damaged"
    if fix and index.is_dir() and not index.is_symlink():
        shutil.rmtree(index, ignore_errors=True)
        done = (*done, f"{index} is removed")
    damaged = tuple(str(file) for file in sorted(vault.state_folder.glob("*.damaged")))
    if not damaged:
        return Check("index", told="in sync", fixed=done)
    told = "it was damaged, and was built again"
    return Check("index", Verdict.WARNING, told, damaged, "remove what was set aside", done)


def check_clock(vault: Vault, now: float) -> Check:
    """Name files from the future."""
    late = (now + 60) * 1e9
    stats = vault.manifest.stats()
    found = tuple(path for path, (_, modified, _, _) in sorted(stats.items()) if modified > late)
    if not found:
        return Check("clock")
    told = f"files from the future: {len(found):,}"
    remedy = "set the clock, then `touch` the files: until then they count as the newest"
    return Check("clock", Verdict.PROBLEM, told, found, remedy)


def check_disk(vault: Vault, enough: int = ENOUGH) -> Check:
    """Tell whether there is space left (bytes) for notes, commits and the index."""
    git = find_git_folder(vault.root)
    folders = [vault.root, vault.state_folder, *(git[1:] if git is not None else ())]
    disks = {os.stat(folder).st_dev: folder for folder in reversed(folders)}
    free = {folder: shutil.disk_usage(folder).free for folder in disks.values()}
    full = {folder: left for folder, left in sorted(free.items()) if left < enough}
    least = f"{min(free.values()) // _MEGABYTE:,} MB are free"
    if not full:
        return Check("disk", told=least)
    paths = tuple(f"{folder}  ({left // _MEGABYTE:,} MB)" for folder, left in full.items())
    return Check("disk", Verdict.PROBLEM, f"nearly full: {least}", paths, "make space")


def check_watch_limit(vault: Vault, limit_file: Path = _LIMIT_FILE) -> Check:
    """Tell whether the system can watch as many folders as there are (Linux)."""
    try:
        limit = int(limit_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("watch limit")
    folders = count_folders(vault.root, limit + 1)
    if folders <= limit:
        return Check("watch limit", told=f"{folders:,} of {limit:,} folders")
    told = f"there are more folders than the {limit:,} that may be watched: `watch` polls"
    remedy = f"raise it: `sudo sysctl fs.inotify.max_user_watches={max(524_288, 2 * limit)}`"
    return Check("watch limit", Verdict.PROBLEM, told, remedy=remedy)
