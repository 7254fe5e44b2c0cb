"""Check where the vault lives, and who works on it: processes, hooks and sessions."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

import vaultmem
from vaultmem.core.check import Check, Verdict, count_found
from vaultmem.core.counting import count_things
from vaultmem.errors import VaultError
from vaultmem.services.reading.indexing import is_index_behind
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.sessions.read import find_dead, list_facts, open_transcripts
from vaultmem.services.sessions.recover import recover_sessions
from vaultmem.services.watching.lease import find_watcher
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.hook_trouble import TROUBLE_FILE
from vaultmem.storage.lock import find_holders, hold_lock, is_held
from vaultmem.storage.processes import is_stopped
from vaultmem.storage.scan import count_folders
from vaultmem.vault import Vault

_LIMIT_FILE = Path("/proc/sys/fs/inotify/max_user_watches")

#: Bytes that a disk should have left: a new index is built while the old one is there.
ENOUGH = 256 * 1024 * 1024

_MEGABYTE = 1024 * 1024


def check_state(vault: Vault, fix: bool) -> Check:
    """See to it that index and database are whole and belong together."""
    if told := vault.state.find_damage():
        file = vault.state.path
        remedy = "`vaultmem checkpoint` what waits, and remove this file: it is built again"
        return Check("index", Verdict.PROBLEM, told, (str(file),), remedy)
    told = _find_lack(vault)
    if told:
        with vault.lock_caches():  # What is being written is behind for a moment.
            told = _find_lack(vault)
    done: tuple[str, ...] = ()
    if told and fix:
        with vault.lock_caches():
            vault.index.reset()
            sync_vault(vault)
        told = _find_lack(vault)
        done = ("the index is built again from the notes",)
    if told:
        remedy = "" if fix else "`vaultmem doctor --fix` builds it again from the notes"
        return Check("index", Verdict.PROBLEM, told, remedy=remedy, fixed=done)
    if vault.store.state_place.lack:
        return Check(
            "index",
            Verdict.WARNING,
            f"a spare one in {vault.state_folder}: {vault.store.state_place.lack}",
            remedy="let this process write to that folder: until then it can write no note",
            fixed=done,
        )
    return _check_damaged(vault, fix, done)


def _find_lack(vault: Vault) -> str:
    """Return what is wrong with the index, empty if it can be read and has all documents."""
    if damage := vault.index.find_damage():
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
    found = (path for path, (_, modified, _, _) in sorted(stats.items()) if modified > late)
    remedy = "set the clock, then `touch` the files: until then they count as the newest"
    return count_found("clock", Verdict.PROBLEM, "files from the future", found, remedy)


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


#: What a watcher that was killed leaves in the state folder.
_LEFT = ("watch.json", "watch.sock")

_LAST_BYTES = 64 * 1024


def check_watcher(vault: Vault, fix: bool) -> Check:
    """Tell who watches, and see to it that nothing is left of a watcher that was killed."""
    folder = vault.state_folder
    if is_held(folder / "watch.lock"):
        found = find_watcher(vault)
        if found is None:
            told = "a process watches, and does not say which"
            holders = _name(find_holders(folder / "watch.lock"))
            return Check("watcher", Verdict.WARNING, told, holders, "end it, and start it again")
        told = f"process {found.pid} watches"
        if is_stopped(found.pid):
            remedy = f"`kill -CONT {found.pid}` lets it go on; or end it"
            return Check("watcher", Verdict.WARNING, f"{told}, and was stopped", remedy=remedy)
        if found.version == vaultmem.__version__:
            return Check("watcher", told=told)
        told += f", of version {found.version}; this is {vaultmem.__version__}"
        remedy = "`vaultmem watch --stop`, and start it again"
        return Check("watcher", Verdict.WARNING, told, remedy=remedy)
    left = [folder / name for name in _LEFT if os.path.lexists(folder / name)]
    done: list[str] = []
    if left and fix:
        with contextlib.suppress(VaultError), hold_lock(folder / "watch.lock", 0.0):
            for file in left:
                file.unlink(missing_ok=True)
                done.append(f"{file} is removed")
            left = []
    if not left:
        return Check("watcher", told="none is running", fixed=tuple(done))
    remedy = "`vaultmem watch` starts another; `vaultmem doctor --fix` removes what this one left"
    told = "a watcher was killed"
    return Check("watcher", Verdict.PROBLEM, told, tuple(map(str, left)), remedy)


def check_lock(vault: Vault) -> Check:
    """Tell whether somebody writes to the vault; the system gives the lock of a dead one back."""
    file = vault.state_folder / "lock"
    if not is_held(file):
        return Check("vault's lock")
    remedy = "wait for it; if it stays, end that process"
    told = "another vaultmem writes to this vault"
    holders = find_holders(file)
    if any(map(is_stopped, holders)):
        told += ", and was stopped while doing so"
        remedy = f"`kill -CONT {holders[0]}` lets it go on; or end it"
    return Check("vault's lock", Verdict.WARNING, told, _name(holders), remedy)


def check_hooks(vault: Vault) -> Check:
    """Tell of what went wrong in hooks, which never stop an agent and so never say it."""
    file = vault.state_folder / TROUBLE_FILE
    try:
        with open(file, "rb") as lines:
            size = os.fstat(lines.fileno()).st_size
            lines.seek(max(size - _LAST_BYTES, 0))
            text = lines.read(_LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return Check("hooks")
    told = [_describe_trouble(line) for line in text.splitlines()[size > _LAST_BYTES :] if line]
    if not told:
        return Check("hooks")
    return Check(
        "hooks",
        Verdict.WARNING,
        f"{count_things(len(told), 'time')} something went wrong, "
        f"last {told[-1].partition('  ')[0]}",
        tuple(reversed(told)),
        f"correct what they tell, and remove {file}",
    )


def _describe_trouble(line: str) -> str:
    try:
        told = json.loads(line)
        at, event, error = told["at"], told["event"], told["error"]
    except (ValueError, KeyError, TypeError):
        return line
    with contextlib.suppress(OverflowError, OSError, ValueError):
        if isinstance(at, (int, float)):
            at = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    return f"{at}  {event}: {error}"


def _name(processes: list[int]) -> tuple[str, ...]:
    return tuple(f"process {pid}" for pid in processes)


def check_sessions(vault: Vault, fix: bool) -> Check:
    """See to it that sessions whose process is gone have an end; the vault must be in sync."""
    fixed = []
    if fix:
        for each in recover_sessions(vault):
            if not each.problem:
                fixed.append(f"{each.session} has an end ({each.status})")
    dead = find_dead(vault)
    if dead:
        told = f"{count_things(len(dead), 'session')} without an end, the process gone"
        remedy = "`vaultmem doctor --fix` or `vaultmem session list` recovers them"
        paths = tuple(record.id for record in dead)
        return Check("sessions", Verdict.WARNING, told, paths, remedy, tuple(fixed))
    facts = list_facts(vault)
    still = sum(each.is_open for each in facts)
    size = sum(open_transcripts(vault).size(each.id) for each in facts)
    told = f"{len(facts):,}, {still:,} open, transcripts of {size / 1024 / 1024:.1f} MB"
    return Check("sessions", told=told, fixed=tuple(fixed))
