"""Locks of git's: what a killed child of ours left is removed, anybody else's is waited for.

Git makes `X.lock` while it writes X, and one that is killed leaves it for ever. So before a git of
ours may make one, a record in the state folder says which process starts it and when; it goes with
the child. Where it is left, that process is gone, and no git is at work in the repository, the
locks of that time are our own.
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

#: How old (s) another's lock is waited to become: git itself holds one for moments.
PATIENCE = 2.0

#: The commands of git that take locks, of those that we run.
_WRITERS = frozenset(
    [
        *("update-index", "update-ref", "symbolic-ref", "config", "notes", "branch", "fetch"),
        *("pack-refs", "maintenance", "gc", "repack", "prune", "worktree", "unpack-objects"),
        *("reset", "rebase", "stash"),
    ]
)
_RECORDS = "git-*.child"

#: A child has made its locks within so many seconds; clocks of files are that exact.
_MAKES_WITHIN, _EXACT = 60.0, 0.02

#: What git does for long, or for good, without a lock.
_HARMLESS = ("cat-file", "fsmonitor--daemon", "credential-")


class GitLocation(NamedTuple):
    """Where git works for a vault; `scratch` is the vault's state folder, None for no vault's."""

    work_tree: Path
    git_folder: Path
    scratch: Path | None = None


@contextlib.contextmanager
def is_own_lock(place: GitLocation, command: str) -> Iterator[Path | None]:
    """Keep it written down for a `with` that this process runs a git that takes locks."""
    if place.scratch is None or command not in _WRITERS:
        yield None
        return
    from vaultmem.storage.lock import find_process

    file = place.scratch / _RECORDS.replace("*", f"{os.getpid()}-{threading.get_ident()}")
    with contextlib.suppress(OSError):  # Without it, a lock that is left counts as another's.
        write_atomically(file, json.dumps(find_process(os.getpid())).encode(), durable=False)
    try:
        yield file
    finally:
        drop_file(file)


def find_locks(git_folder: Path, now: float) -> dict[Path, float]:
    """Return the locks that a git holds or has left behind, with their ages in seconds."""
    found: dict[Path, float] = {}
    for folder in {git_folder, common_folder(git_folder)}:
        objects = (folder / "objects").glob("*.lock")
        for file in (*folder.glob("*.lock"), *(folder / "refs").rglob("*.lock"), *objects):
            with contextlib.suppress(OSError):  # The git that held it is done.
                found[file] = now - file.lstat().st_mtime
    return dict(sorted(found.items()))


def has_own_locks(scratch: Path) -> bool:
    """Tell whether a git that takes locks is at work for a vault, or was when it was killed."""
    return any(True for _ in scratch.glob(_RECORDS))


def remove_left_locks(place: GitLocation, ended: Path | None = None) -> None:
    """Remove the locks and half objects that killed children of ours left, if known for that.

    `ended` is the record of a child that was killed while this process goes on.
    """
    if place.scratch is None or not has_own_locks(place.scratch):
        return
    with hold_lock(place.scratch / "git-locks.lock"):  # Nobody takes a new lock for the old one.
        times = _find_left(place.scratch, ended)
        if not times or is_git_at_work(place):
            return
        for file in (*find_locks(place.git_folder, 0.0), *_find_unfinished(place.git_folder)):
            if _is_of(file, list(times.values())):
                drop_file(file)
        for record in times:
            drop_file(record)


def free_lock(lock: Path, place: GitLocation, patience: float = PATIENCE) -> bool:
    """Tell whether a lock is gone: removed, where we left it, or waited for, where it is young."""
    if not lock.exists():
        return True
    remove_left_locks(place)
    end = time.monotonic() + patience
    while lock.exists():
        if time.monotonic() > end or _age_of(lock) > patience:
            return False
        time.sleep(0.02)
    return True


def describe_lock(lock: Path) -> str:
    """Return why nothing can be written while there is a lock, and what to do about it."""
    since = datetime.fromtimestamp(time.time() - _age_of(lock))
    return (
        f"another git is at work ({escape_bytes(str(lock))} exists); wait for it, or if none is, "
        f"remove that file, which has been there since {since:%Y-%m-%d %H:%M}"
    )


def _find_left(scratch: Path, ended: Path | None) -> dict[Path, float]:
    """Return the records whose process is gone, or whose child has ended, and their times."""
    from vaultmem.storage.lock import Process, is_gone

    found = {}
    for record in scratch.glob(_RECORDS):
        with contextlib.suppress(OSError, ValueError, TypeError):
            pid, started, here = json.loads(record.read_text(encoding="utf-8"))
            if record == ended or is_gone(Process(pid, started, tuple(here))):
                found[record] = record.stat().st_mtime
    return found


def _find_unfinished(git_folder: Path) -> Iterator[Path]:
    """Yield the objects that a git writes, or has left behind half written."""
    objects = common_folder(git_folder) / "objects"
    for pattern in ("tmp_obj_*", "??/tmp_obj_*", "pack/tmp_*"):
        yield from objects.glob(pattern)


def _is_of(file: Path, times: list[float]) -> bool:
    """Tell whether a file was made right after one of these times."""
    try:
        made = file.lstat().st_mtime
    except OSError:
        return False
    return any(at - _EXACT <= made <= at + _MAKES_WITHIN for at in times)


def is_git_at_work(place: GitLocation) -> bool:
    """Tell whether a git runs that may hold a lock of this repository."""
    from vaultmem.storage.lock import find_commands

    for words, folder in find_commands("git"):
        here = folder is None or any(
            Path(folder).is_relative_to(each) for each in (place.work_tree, place.git_folder)
        )
        if here and not any(word.startswith(_HARMLESS) for word in words):
            return True
    return False


def _age_of(lock: Path) -> float:
    try:
        return time.time() - lock.lstat().st_mtime
    except OSError:
        return 0.0
