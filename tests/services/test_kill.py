"""SIGKILL at any moment: old or new, never half; nothing that was acknowledged is lost.

Real processes are killed after a random time between 0 and what they usually take. Half of the
kills take the whole process group (as a power cut does, git's own children included), the other
half the process alone. A lock that a killed git leaves is git's own and is removed by hand here,
as git tells its user to.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest
from conftest import PERSON
from process_server import run_script
from support import git, write_notes

from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.query import parse_query
from vaultmem.errors import VaultError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import open_vault


@dataclass
class Campaign:
    """One vault, many kills; `written` are the bytes that a hand gave each of its notes."""

    root: Path
    state_home: Path
    random: random.Random
    notes: int
    durations: dict[str, float] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)
    finished: int = 0
    stale_locks: int = 0
    rounds: int = 0

    def change_notes(self) -> None:
        """Write a new version of all notes, each as an editor does: whole."""
        for number in range(self.notes):
            path = f"notes/n{number:03}.md"
            words = f"version{self.rounds} note{number} gangway {'ferry ' * (number % 7)}"
            text = (
                f"---\nstate: active\n---\n# Note {number}\n\n{words}\n\n## End\n\nwhole{number}\n"
            )
            file = self.root / path
            file.parent.mkdir(exist_ok=True)
            spare = file.with_name(f".{file.name}.test")
            spare.write_text(text)
            os.replace(spare, file)
            self.written[path] = text.encode()

    def command(self, name: str) -> list[str]:
        token = f"token{self.rounds}x"
        options = ["--json", "--vault", str(self.root)]
        return {
            "remember": ["remember", f"{token} is whole\n\nend of {token}", *options],
            "index": ["index", *options],
            "checkpoint": ["checkpoint", f"round {self.rounds}", *options],
        }[name]

    def measure(self) -> None:
        """Run each command once to its end, to learn how long it takes."""
        for name in ("index", "remember", "checkpoint"):
            self.rounds += 1
            self.change_notes()
            started = time.monotonic()
            done = subprocess.run(self._arguments(name), capture_output=True, check=True)
            self.durations[name] = time.monotonic() - started
            self._acknowledge(name, done.stdout)

    def kill_once(self) -> None:
        """Start a command, kill it somewhere, and look at what it left."""
        name = self.random.choice(["remember", "index", "checkpoint"])
        group = self.random.random() < 0.5
        # Half of each command is Python's start; the square root moves kills to what comes after.
        usual = self.durations[name] * (1.3 if name == "remember" else 1.0)
        delay = usual * self.random.random() ** 0.5
        self.rounds += 1
        if name != "remember":
            self.change_notes()
        process = subprocess.Popen(
            self._arguments(name),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=delay)
            assert process.returncode == 0, err.decode()
            self.finished += 1
        except subprocess.TimeoutExpired:
            (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            self.killed[name] = self.killed.get(name, 0) + 1
        self._acknowledge(name, out)
        self.check()

    def check(self) -> None:
        """Every file is whole, git is sound, and the next command succeeds by itself."""
        for path, data in self.written.items():
            assert (self.root / path).read_bytes() == data
        for file in (self.root / "notes").rglob("*.md"):
            relative = PurePosixPath(file.relative_to(self.root).as_posix())
            note = parse_note(relative, file.read_bytes())
            assert note.warnings == (), relative
            if relative.parts[1] == "inbox":
                token = note.title.split()[0]
                assert note.body.strip() == f"{token} is whole\n\nend of {token}"
        assert "error" not in git(self.root, "fsck", "--no-dangling", "--no-progress")
        assert git(self.root, "rev-parse", "--verify", "HEAD^{commit}")
        vault = open_vault(self.root)
        try:
            sync_vault(vault)
            for token, path in list(self.acknowledged.items())[-3:]:
                found = [hit.record.path for hit in recall(vault, parse_query(token))]
                assert found == [path], token
        finally:
            vault.close()

    def check_end(self) -> None:
        """All that was acknowledged is found; index and history are what fresh ones would be."""
        self.remove_stale_locks()
        vault = open_vault(self.root)
        sync_vault(vault)
        for token, path in self.acknowledged.items():
            assert [hit.record.path for hit in recall(vault, parse_query(token))] == [path]
        save_checkpoint(vault, "the end")
        visible = [
            line
            for line in git(self.root, "status", "--porcelain", "-uall").splitlines()
            if not line.endswith(".tmp")
        ]
        assert visible == []
        assert git(self.root, "diff", "--cached", "--name-status") == ""
        assert "error" not in git(self.root, "fsck", "--strict", "--no-dangling", "--no-progress")
        answers = answer(self.root, vault_queries(self.acknowledged))
        vault.close()
        kept = os.environ["XDG_STATE_HOME"]
        os.environ["XDG_STATE_HOME"] = str(self.state_home)
        try:
            assert answer(self.root, vault_queries(self.acknowledged)) == answers
        finally:
            os.environ["XDG_STATE_HOME"] = kept

    def remove_stale_locks(self) -> None:
        for lock in (self.root / ".git").rglob("*.lock"):
            self.stale_locks += 1
            lock.unlink()

    def _arguments(self, name: str) -> list[str]:
        self.remove_stale_locks()
        return [sys.executable, "-m", "vaultmem", *self.command(name)]

    def _acknowledge(self, name: str, out: bytes) -> None:
        if name != "remember":
            return
        try:
            path = json.loads(out)["path"]
        except ValueError:
            return
        self.acknowledged[f"token{self.rounds}x"] = path


def vault_queries(tokens: dict[str, str]) -> list[str]:
    return ["gangway", "ferry gangway", "note7 version", "whole59", *list(tokens)[:20]]


def answer(root: Path, queries: Sequence[str]) -> list[list[tuple[str, str, float]]]:
    """Return path, heading and score of the hits for each query, from a vault opened anew."""
    vault = open_vault(root)
    try:
        sync_vault(vault)
        asked = (recall(vault, parse_query(query, limit=50)) for query in queries)
        return [
            [(hit.record.path, hit.section.heading, round(hit.score, 4)) for hit in hits]
            for hits in asked
        ]
    finally:
        vault.close()


def run_campaign(folder: Path, kills: int, notes: int, seed: int) -> Campaign:
    created = create_vault(folder / "vault")
    created.vault.close()
    campaign = Campaign(created.vault.root, folder / "fresh-state", random.Random(seed), notes)
    campaign.measure()
    while sum(campaign.killed.values()) < kills or len(campaign.killed) < 3:
        campaign.kill_once()
    campaign.check_end()
    return campaign


@pytest.mark.long
def test_row_26_two_hundred_kills_leave_every_note_whole_and_every_answer_right(
    home: Path, tmp_path: Path
) -> None:
    campaign = run_campaign(tmp_path, kills=200, notes=300, seed=7)

    assert min(campaign.killed.values()) >= 40
    print(
        f"\n{campaign.killed} killed, {campaign.finished} finished first, "
        f"{len(campaign.acknowledged)} acknowledged, {campaign.stale_locks} stale git locks"
    )


def test_row_26_a_kill_between_the_database_and_the_index_is_repaired_by_the_next_sync(
    home: Path, tmp_path: Path
) -> None:
    create_vault(tmp_path / "v").vault.close()
    write_notes(tmp_path / "v", {"notes/a.md": "gangway\n"})
    script = (
        "import os, sys\n"
        "from vaultmem.storage.index.search_index import SearchIndex\n"
        "from vaultmem import open_vault, sync_vault\n"
        "SearchIndex.write = lambda *a: os.kill(os.getpid(), 9)\n"
        "sync_vault(open_vault(sys.argv[1]))\n"
    )

    assert run_script(script, tmp_path / "v") == -signal.SIGKILL
    assert answer(tmp_path / "v", ["gangway"])[0]


def test_a_disk_error_between_the_database_and_the_index_is_repaired_by_the_next_sync(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = create_vault(tmp_path / "v").vault
    write_notes(vault.root, {"notes/a.md": "gangway\n"})

    def fail(*_: object) -> None:
        raise VaultError("disk full")

    monkeypatch.setattr("vaultmem.storage.index.search_index.SearchIndex.write", fail)
    with pytest.raises(VaultError):
        sync_vault(vault)
    monkeypatch.undo()
    vault.close()

    assert answer(tmp_path / "v", ["gangway"])[0]


_KILLED_COMMIT = """
import os, signal, sys
from vaultmem import open_vault, save_checkpoint
from vaultmem.storage.git.commit_writer import CommitWriter
setattr(CommitWriter, sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
save_checkpoint(open_vault(sys.argv[1], agent="bot", session="s-2"), "killed")
"""


@pytest.mark.parametrize("step", ["move_head", "move_branch"])
def test_row_26_a_kill_before_the_branch_moves_loses_no_authors_part(
    home: Path, tmp_path: Path, step: str
) -> None:
    root = tmp_path / "v"
    create_vault(root).vault.close()
    for agent, session in (("alice", "s-1"), ("bot", "s-2")):
        vault = open_vault(root, agent=agent, session=session)
        remember(vault, Memory(f"gangway of {agent}", title=agent))
        vault.close()
    write_notes(root, {"notes/hand.md": "gangway by hand\n"})
    head = git(root, "rev-parse", "HEAD")

    assert run_script(_KILLED_COMMIT, root, step) == -signal.SIGKILL
    assert git(root, "rev-parse", "HEAD") == head
    vault = open_vault(root, agent="bot", session="s-2")
    save_checkpoint(vault, "after")
    vault.close()
    assert git(root, "log", f"{head}..", "--reverse", "--format=%an|%s").splitlines() == [
        f"{PERSON[0]}|edit: hand",
        "alice|write: alice",
        "bot|checkpoint: after",
    ]
    added = git(root, "log", f"{head}..", "--reverse", "--format=", "--name-only").split()
    assert added == ["notes/hand.md", "notes/inbox/alice.md", "notes/inbox/bot.md"]
    assert git(root, "status", "--porcelain") == ""
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")


def test_row_26_what_a_killed_commit_staged_goes_when_nothing_is_left_to_commit(
    home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "v"
    create_vault(root).vault.close()
    write_notes(root, {"notes/hand.md": "gangway\n"})
    assert run_script(_KILLED_COMMIT, root, "move_branch") == -signal.SIGKILL
    assert git(root, "diff", "--cached", "--name-only") == "notes/hand.md"
    (root / "notes/hand.md").unlink()

    vault = open_vault(root)
    report = save_checkpoint(vault, "nothing")
    vault.close()

    assert report.commits == ()
    assert git(root, "status", "--porcelain") == ""
