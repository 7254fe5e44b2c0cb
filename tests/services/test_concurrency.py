"""Several processes at once: every commit that was reported is reachable, no note is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support import git

from vaultmem.core.query import parse_query
from vaultmem.errors import VaultError
from vaultmem.services.recall import recall
from vaultmem.services.remember import Memory, remember
from vaultmem.services.sync import sync_vault
from vaultmem.storage.lock import hold_lock
from vaultmem.vault import Vault

Open = Callable[..., Vault]
Make = Callable[..., Path]

WRITERS, COMMITS = 4, 15

_WRITER = """
import sys
from vaultmem import Memory, open_vault, remember, save_checkpoint
from vaultmem.errors import PendingError
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
vault = open_vault(root, agent=name)
for number in range(count):
    done = remember(vault, Memory(f"gangway {name} {number}", title="same title"))
    print("note", done.path, flush=True)
    for _ in range(200):
        try:
            report = save_checkpoint(vault, f"{name} {number}")
        except PendingError:
            continue
        for commit, _ in report.commits:
            print("commit", commit, flush=True)
        break
    else:
        sys.exit("never committed")
"""


def test_commits_of_four_processes_and_of_plain_git_are_all_reachable(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(root), f"agent{n}", str(COMMITS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(WRITERS)
    ]
    plain: list[str] = []
    done = threading.Event()

    def commit_plainly() -> None:
        while not done.is_set() or not plain:
            message = f"plain {len(plain)}"
            made = subprocess.run(
                ["git", "commit", "-q", "--allow-empty", "-m", message],
                cwd=root,
                capture_output=True,
                check=False,
            )
            if made.returncode == 0:
                plain.append(message)
            done.wait(0.1)

    committer = threading.Thread(target=commit_plainly)
    committer.start()
    try:
        outputs = [process.communicate(timeout=120) for process in writers]
    finally:
        done.set()
        committer.join()

    assert [process.returncode for process in writers] == [0] * WRITERS, outputs
    lines = [line.split(" ", 1) for out, _ in outputs for line in out.splitlines()]
    notes = [value for word, value in lines if word == "note"]
    reported = {value for word, value in lines if word == "commit"}
    reachable = git(root, "rev-list", "HEAD").split()
    assert len(set(notes)) == WRITERS * COMMITS
    assert len(reported) >= WRITERS * COMMITS // 2
    assert reported <= set(reachable)
    assert set(notes) <= set(git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    subjects = git(root, "log", "--format=%s").splitlines()
    assert plain
    assert set(plain) <= set(subjects)
    assert git(root, "rev-list", "--merges", "HEAD") == ""
    assert git(root, "status", "--porcelain") == ""
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")
    vault = opened(root)
    sync_vault(vault)
    hits = recall(vault, parse_query("gangway", limit=100))
    assert {hit.record.path for hit in hits} == set(notes)


def test_a_lock_that_another_process_holds_is_waited_for_and_then_reported(
    tmp_path: Path, home: Path
) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from vaultmem.storage.lock import hold_lock\n"
        "with hold_lock(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(VaultError, match="another vaultmem"), hold_lock(path, timeout=0.2):
            pass
        other.kill()
    with hold_lock(path, timeout=5):
        pass


def test_nested_uses_of_the_lock_are_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(path):
        with hold_lock(path, timeout=0.1):
            pass
        with hold_lock(path, timeout=0.1):
            pass


def test_threads_that_remember_at_once_lose_nothing(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            vault = opened(root, agent=name)
            for number in range(5):
                remember(vault, Memory(f"gangway {name} {number}", title="same"))
            vault.close()
        except BaseException as error:  # noqa: BLE001 - reported below.
            failures.append(error)

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    vault = opened(root)
    sync_vault(vault)
    assert len(recall(vault, parse_query("gangway", limit=50))) == 15
