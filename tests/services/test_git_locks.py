"""Locks of git's: our killed child's go with the next command, another's are waited for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Make, Open
from support import git, lock_git, wait_until, write_notes

from vaultmem.errors import PendingError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.health.status import read_status
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.git_locks import has_own_locks
from vaultmem.storage.lock import find_commands

#: A git that is killed, with who started it, when it has just made its lock.
_KILLED = """#!/bin/sh
case " $* " in
*" {command} "*) echo half > "$GIT_DIR/{lock}"; kill -9 {whom};;
esac
exec {git} "$@"
"""


@pytest.fixture
def root(make_vault: Make) -> Path:
    root = make_vault({"notes/a.md": "a\n"})
    write_notes(root, {"notes/a.md": "b\n"})
    return root


def kill_checkpoint(root: Path, command: str, lock: str, whom: str = "$PPID $$") -> int:
    """Make a checkpoint that is killed with its git, and return how it ended."""
    folder = root.parent / "bin"
    folder.mkdir()
    script = _KILLED.format(command=command, lock=lock, whom=whom, git=shutil.which("git"))
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "vaultmem", "checkpoint", "first"],
        cwd=root,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )
    assert (root / ".git" / lock).exists() is ("PPID" in whom)
    return done.returncode


LOCKS = [
    ("update-index", "index.lock"),
    ("update-ref", "HEAD.lock"),
    ("update-ref", "refs/heads/main.lock"),
]


@pytest.mark.guarantee
@pytest.mark.campaign
@pytest.mark.parametrize(("command", "lock"), LOCKS)
def test_a_lock_that_a_killed_git_of_ours_left_stops_no_commit(
    root: Path, opened: Open, command: str, lock: str
) -> None:
    assert kill_checkpoint(root, command, lock) == -9

    save_checkpoint(opened(root), "second")

    assert not list((root / ".git").rglob("*.lock"))
    assert git(root, "show", "HEAD:notes/a.md") == "b"
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.campaign
def test_where_git_alone_is_killed_its_lock_goes_at_once(root: Path, opened: Open) -> None:
    assert kill_checkpoint(root, "update-ref", "HEAD.lock", "$$") == 1

    save_checkpoint(opened(root), "second")
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.campaign
def test_a_recall_removes_it_as_well(root: Path, opened: Open) -> None:
    kill_checkpoint(root, "update-ref", "packed-refs.lock")
    unfinished = root / ".git/objects/00/tmp_obj_a1B2c3"
    unfinished.parent.mkdir(exist_ok=True)
    unfinished.touch()
    vault = opened(root)

    sync_vault(vault)

    assert not unfinished.exists()
    assert not list((root / ".git").rglob("*.lock"))
    assert not has_own_locks(vault.state_folder)


@pytest.mark.campaign
def test_it_is_left_while_a_git_is_at_work(root: Path, opened: Open) -> None:
    kill_checkpoint(root, "update-index", "index.lock")
    command = ["git", "hash-object", "--stdin"]
    other = subprocess.Popen(command, cwd=root / "notes", stdin=subprocess.PIPE)
    try:
        # A process has its name a moment after its start, and had made no lock before.
        wait_until(lambda: any(words[:3] == command for words, _ in find_commands("git")))
        sync_vault(opened(root))
        assert (root / ".git/index.lock").exists()
    finally:
        other.communicate()

    sync_vault(opened(root))
    assert not (root / ".git/index.lock").exists()


@pytest.mark.campaign
@pytest.mark.parametrize("seconds", [-5, 100])
def test_a_lock_of_another_time_is_not_ours(root: Path, opened: Open, seconds: int) -> None:
    kill_checkpoint(root, "update-ref", "refs/heads/main.lock")
    theirs = root / ".git/index.lock"
    theirs.touch()
    at = time.time() + seconds
    os.utime(theirs, (at, at))

    sync_vault(opened(root))

    assert theirs.exists()
    assert not (root / ".git/refs/heads/main.lock").exists()


@pytest.mark.parametrize("lock", ["index.lock", "refs/heads/main.lock"])
def test_another_gits_lock_is_waited_for(root: Path, opened: Open, lock: str) -> None:
    file = root / ".git" / lock
    file.touch()
    threading.Timer(0.3, file.unlink).start()

    save_checkpoint(opened(root), "waited")

    assert git(root, "show", "HEAD:notes/a.md") == "b"


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_one_that_stays_is_named_with_its_time_and_remedy(
    root: Path, opened: Open, lock: str
) -> None:
    file = lock_git(root, lock, 1_700_000_000)
    vault = opened(root)
    told = rf"{lock} exists\); wait for it, or if none is, remove that file, .* since 2023-11-1"

    with pytest.raises(PendingError, match=told):
        save_checkpoint(vault, "first")

    status = read_status(vault).git
    assert status is not None
    assert f"{lock} exists" in status.obstacle
    assert file.exists()
