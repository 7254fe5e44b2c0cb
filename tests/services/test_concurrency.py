"""Several processes at once: every commit that was reported is reachable, no note is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem.core.search.query import parse_query
from vaultmem.errors import VaultError
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.lock import hold_lock

WRITERS = 4

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


#: How a person's git commits beside us: one file, or all that differs from the index.
_ONLY = ("--only", "by-hand.txt")
_ALL = ("--all",)


def _commit_plainly(root: Path, how: tuple[str, ...], done: threading.Event) -> list[str]:
    """Change a file and commit it with git, again and again; return the subjects of commits."""
    plain: list[str] = []
    while not done.is_set() or not plain:
        subject = f"plain {len(plain)}"
        (root / "by-hand.txt").write_text(subject)
        made = subprocess.run(
            ["git", "commit", "-q", "-m", subject, *how],
            cwd=root,
            capture_output=True,
            check=False,
        )
        if made.returncode == 0:
            plain.append(subject)
        done.wait(0.2)
    return plain


def _write_at_once(
    root: Path, prefix: str, commits: int, how: tuple[str, ...]
) -> tuple[set[str], set[str]]:
    """Let agents and a person's git commit at once; return notes and commits as reported."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(root / prefix), f"agent{n}", str(commits)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(WRITERS)
    ]
    done = threading.Event()
    with ThreadPoolExecutor() as pool:
        plain = pool.submit(_commit_plainly, root, how, done)
        try:
            outputs = [process.communicate(timeout=1_800) for process in writers]
        finally:
            done.set()
    assert [process.returncode for process in writers] == [0] * WRITERS, outputs
    lines = [line.split(" ", 1) for out, _ in outputs for line in out.splitlines()]
    notes = {prefix + value for word, value in lines if word == "note"}
    reported = {value for word, value in lines if word == "commit"}
    assert len(notes) == WRITERS * commits
    assert len(reported) >= WRITERS * commits // 2
    assert plain.result()
    assert set(plain.result()) <= set(git(root, "log", "--format=%s").splitlines())
    return notes, reported


def _check_history(root: Path, notes: set[str], reported: set[str]) -> None:
    """Every reported commit is reachable, and no commit took back what another had made."""
    assert reported <= set(git(root, "rev-list", "HEAD").split())
    assert notes <= set(git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert git(root, "rev-list", "--merges", "HEAD") == ""
    assert git(root, "log", "--format=%s", "--diff-filter=D") == ""
    changed = git(root, "log", "--format=", "--name-only", "--diff-filter=M").split()
    assert set(changed) <= {"by-hand.txt"}
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")


@pytest.mark.parametrize(
    "commits",
    [pytest.param(4, marks=pytest.mark.campaign), pytest.param(50, marks=pytest.mark.long)],
)
def test_commits_of_four_processes_and_of_plain_git_are_all_reachable(
    home: Path, tmp_path: Path, opened: Open, commits: int
) -> None:
    root = tmp_path / "repo"
    git(tmp_path, "init", "-q", str(root))
    write_notes(root, {"by-hand.txt": "", "staged.txt": "one\n", "removed.txt": "x\n"})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "first")
    create_vault(root / "memory").vault.close()
    write_notes(root, {"staged.txt": "two\n", "added.txt": "new\n"})
    git(root, "add", "staged.txt", "added.txt")
    git(root, "rm", "-q", "--cached", "removed.txt")
    write_notes(root, {"staged.txt": "three, not staged\n"})
    staged, status = git(root, "diff", "--cached", "--binary"), git(root, "diff", "--binary")

    notes, reported = _write_at_once(root, "memory/", commits, _ONLY)

    assert len(staged.splitlines()) > 10
    assert git(root, "diff", "--cached", "--binary") == staged
    assert git(root, "diff", "--binary", "--", "staged.txt") == status
    assert git(root, "status", "--porcelain", "-uall", "--", "memory") == ""
    _check_history(root, notes, reported)
    vault = opened(root / "memory")
    sync_vault(vault)
    hits = recall(vault, parse_query("gangway", limit=300))
    assert {f"memory/{hit.record.path}" for hit in hits} == notes


@pytest.mark.campaign
def test_commits_of_four_processes_and_of_git_commit_all_are_all_reachable(
    make_vault: Make,
) -> None:
    root = make_vault({"by-hand.txt": ""})

    notes, reported = _write_at_once(root, "", 5, _ALL)

    _check_history(root, notes, reported)
    assert git(root, "status", "--porcelain", "-uall", "--", "notes") == ""


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
        with (
            pytest.raises(VaultError, match=r"another vaultmem .* is writing .*; wait for it$"),
            hold_lock(path, timeout=0.2),
        ):
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


@pytest.mark.campaign
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
