"""Git's lock files: those of our killed child processes are removed, others are waited for.

Git creates `X.lock` while it writes X; a killed git leaves it. So before vaultmem starts a git that
takes locks, a record in the state folder names the process and the time. The record is removed with
the child. If a record remains although its process is gone, and no git is running in the
repository, the locks of that time are ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.text.display import escape_bytes
from vaultmem.storage.atomic import drop_file, write_atomically
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.lock import hold_lock

#: Age in seconds up to which another git's lock is waited for: git holds one only briefly.
MAX_LOCK_AGE_SECONDS = 2.0

#: Git commands that vaultmem runs and that take locks.
_WRITERS = frozenset(
    [
        *("update-index", "update-ref", "symbolic-ref", "config", "notes", "branch", "fetch"),
        *("pack-refs", "maintenance", "gc", "repack", "prune", "worktree", "unpack-objects"),
        *("reset", "rebase", "stash"),
    ]
)
_RECORDS = "git-*.child"

#: Seconds within which a child creates its locks, and the precision of file times.
_LOCK_CREATION_SECONDS, _MTIME_PRECISION_SECONDS = 60.0, 0.02

#: Long-running git commands that take no lock.
_HARMLESS = ("cat-file", "fsmonitor--daemon", "credential-")


class GitLocation(NamedTuple):
    """A vault's work tree and git folder; `scratch` is its state folder, None without a vault."""

    work_tree: Path
    git_folder: Path
    scratch: Path | None = None


@contextlib.contextmanager
def is_own_lock(location: GitLocation, command: str) -> Iterator[Path | None]:
    """Record, while the context is open, that this process runs a git that takes locks."""
    if location.scratch is None or command not in _WRITERS:
        yield None
        return
    from vaultmem.storage.lock import find_process

    file = location.scratch / _RECORDS.replace("*", f"{os.getpid()}-{threading.get_ident()}")
    with contextlib.suppress(OSError):  # Without the record, a left lock counts as another's.
        write_atomically(file, json.dumps(find_process(os.getpid())).encode(), durable=False)
    try:
        yield file
    finally:
        drop_file(file)


def find_locks(git_folder: Path, now: float) -> dict[Path, float]:
    """Return git's lock files, held or left, with their ages in seconds."""
    ages: dict[Path, float] = {}
    for folder in {git_folder, common_folder(git_folder)}:
        objects = (folder / "objects").glob("*.lock")
        for file in (*folder.glob("*.lock"), *(folder / "refs").rglob("*.lock"), *objects):
            with contextlib.suppress(OSError):  # The lock was released.
                ages[file] = now - file.lstat().st_mtime
    return dict(sorted(ages.items()))


def has_own_locks(scratch: Path) -> bool:
    """Return whether a git of this vault that takes locks is running, or was killed."""
    return any(True for _ in scratch.glob(_RECORDS))


def remove_left_locks(location: GitLocation, child_record: Path | None = None) -> None:
    """Remove locks and partial objects that are known to be from our killed children.

    `child_record` is of a killed child whose parent, this process, still runs.
    """
    if location.scratch is None or not has_own_locks(location.scratch):
        return
    with hold_lock(location.scratch / "git-locks.lock"):  # No new lock is taken for the old one.
        times = _find_left(location.scratch, child_record)
        if not times or is_git_at_work(location):
            return
        for file in (*find_locks(location.git_folder, 0.0), *_find_unfinished(location.git_folder)):
            if _is_of(file, list(times.values())):
                drop_file(file)
        for record in times:
            drop_file(record)


def free_lock(lock: Path, location: GitLocation, patience: float = MAX_LOCK_AGE_SECONDS) -> bool:
    """Return whether a lock is gone: removed if ours, or released in time by another git."""
    if not lock.exists():
        return True
    remove_left_locks(location)
    end = time.monotonic() + patience
    while lock.exists():
        if time.monotonic() > end or _age_of(lock) > patience:
            return False
        time.sleep(0.02)
    return True


def describe_lock(lock: Path) -> str:
    """Return why nothing can be written while a lock exists, and what to do."""
    since = datetime.fromtimestamp(time.time() - _age_of(lock))
    return (
        f"another git is at work ({escape_bytes(str(lock))} exists); wait for it, or if none is, "
        f"remove that file, which has been there since {since:%Y-%m-%d %H:%M}"
    )


def _find_left(scratch: Path, child_record: Path | None) -> dict[Path, float]:
    """Return the records whose process is gone or whose child has ended, with their times."""
    from vaultmem.storage.lock import Process, is_gone

    times = {}
    for record in scratch.glob(_RECORDS):
        with contextlib.suppress(OSError, ValueError, TypeError):
            pid, start_time, place = json.loads(record.read_text(encoding="utf-8"))
            if record == child_record or is_gone(Process(pid, start_time, tuple(place))):
                times[record] = record.stat().st_mtime
    return times


def _find_unfinished(git_folder: Path) -> Iterator[Path]:
    """Yield git's temporary object files, in use or left."""
    objects = common_folder(git_folder) / "objects"
    for pattern in ("tmp_obj_*", "??/tmp_obj_*", "pack/tmp_*"):
        yield from objects.glob(pattern)


def _is_of(file: Path, times: list[float]) -> bool:
    """Return whether a file was made right after one of these times."""
    try:
        mtime = file.lstat().st_mtime
    except OSError:
        return False
    return any(
        at - _MTIME_PRECISION_SECONDS <= mtime <= at + _LOCK_CREATION_SECONDS for at in times
    )


def is_git_at_work(location: GitLocation) -> bool:
    """Return whether a running git could hold a lock of this repository."""
    from vaultmem.storage.lock import find_commands

    for words, folder in find_commands("git"):
        is_inside = folder is None or any(
            Path(folder).is_relative_to(each) for each in (location.work_tree, location.git_folder)
        )
        if is_inside and not any(word.startswith(_HARMLESS) for word in words):
            return True
    return False


def _age_of(lock: Path) -> float:
    try:
        return time.time() - lock.lstat().st_mtime
    except OSError:
        return 0.0
