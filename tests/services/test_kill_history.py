"""SIGKILL while history is written: promote, a session's writes, merge and switch.

The process is killed at a random moment of the work itself, not of Python's start. The next
command finds all of it or nothing, and whatever is not committed is then committed under the name
of who wrote it. Half of the kills take git's own processes along, as a power cut does. Locks that
a killed git leaves are git's own, and are removed by hand here, as git tells its user to.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from branching import NOTE, change, commit_on, disk_bytes, is_clean, tree_bytes
from conftest import PERSON
from process_server import run_script
from support import git, write_notes

from vaultmem.core.lifecycle import NoteState
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import open_vault

_WORK = """
import sys
from vaultmem import Memory, open_vault, promote_notes, remember, save_checkpoint, sync_vault
from vaultmem.services.merging.merge import merge_branch
from vaultmem.services.merging.branches import switch_branch

root, work, name = sys.argv[1:]
agent = {"agent": "claude", "session": f"s-{name}"} if work == "session" else {}
vault = open_vault(root, **agent)
sync_vault(vault)
vault.history.settings()
print("go", flush=True)
if work == "session":
    for part in "ab":
        path = remember(vault, Memory(f"by claude {name}{part}", title=f"c{name}{part}")).path
        print("wrote", path, flush=True)
    print("commit", save_checkpoint(vault, name).commit, flush=True)
elif work == "promote":
    done = promote_notes(vault, [f"notes/inbox/p{name}.md"])
    print("commit", done.report.commit, flush=True)
elif work == "merge":
    print("commit", merge_branch(vault, f"m{name}").commit, flush=True)
else:
    print("commit", switch_branch(vault, f"s{name}")[0].commit, flush=True)
print("done", flush=True)
"""

WORKS = ("promote", "session", "merge", "switch")


@dataclass
class Campaign:
    """One vault, many kills; `kept` are bytes that must be in every later commit, by path."""

    root: Path
    random: random.Random
    durations: dict[str, float] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)
    undone: dict[str, int] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    rounds: int = 0

    def prepare(self, work: str) -> None:
        """Give the work something to do, and leave somebody else's words uncommitted beside it."""
        name = str(self.rounds)
        if work == "promote":
            vault = open_vault(self.root, agent="claude", session=f"p-{name}")
            memory = Memory(f"by claude p{name}", title=f"p{name}", state=NoteState.CANDIDATE)
            assert remember(vault, memory).path == f"notes/inbox/p{name}.md"
            vault.close()
        if work in {"promote", "session"}:
            text = f"by hand {name}\n"
            write_notes(self.root, {f"notes/hand/{name}.md": text})
            self.kept[f"notes/hand/{name}.md"] = text.encode()
        elif work == "merge":
            shared = (self.root / "notes/shared.md").read_text()
            theirs = change(shared, "tags:\n", f"tags:\n  - theirs{name}\n")
            bobs = {f"notes/bob/{name}-{n}.md": f"by Bob {name}\n" for n in range(8)}
            commit_on(self.root, f"m{name}", {**bobs, "notes/shared.md": theirs})
            write_notes(self.root, {"notes/shared.md": f"{shared}- ours {name}\n"})
            git(self.root, "commit", "-qam", "by hand")
        else:
            gone = sorted((self.root / "notes/bob").glob("*.md"))[:4]
            names = [file.relative_to(self.root).as_posix() for file in gone]
            files = {f"notes/bob/{name}-s{n}.md": f"by Bob {name}\n" for n in range(12)}
            commit_on(self.root, f"s{name}", {**files, **dict.fromkeys(names)})

    def run(self, work: str, kill: bool) -> None:
        """Do the work in a process of its own, and kill it on the way if that is wanted."""
        self.rounds += 1
        self.prepare(work)
        before, tree = git(self.root, "rev-parse", "HEAD"), disk_bytes(self.root)
        command = [sys.executable, "-c", _WORK, str(self.root), work, str(self.rounds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        started = time.monotonic()
        if kill:
            time.sleep(self.durations[work] * self.random.random())
            (os.killpg if self.random.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
        out = process.stdout.read().decode()
        process.stdout.close()
        process.wait()
        self.durations.setdefault(work, time.monotonic() - started)
        assert kill or out.endswith("done\n"), out
        if kill and not out.endswith("done\n"):
            self.killed[work] = self.killed.get(work, 0) + 1
        # A line that the kill cut off, or left empty, acknowledges nothing.
        whole = [line.split() for line in out.splitlines(keepends=True) if line.endswith("\n")]
        lines = [words for words in whole if len(words) > 1]
        self.reported |= {line[1] for line in lines if line[0] == "commit"}
        written = [line[1] for line in lines if line[0] == "wrote"]
        self.kept |= {path: (self.root / path).read_bytes() for path in written}
        self.recover(work, before, tree, out)

    def recover(self, work: str, before: str, tree: dict[str, tuple[str, bytes]], out: str) -> None:
        """Let the next command come, and look at what it finds and makes of it."""
        for lock in (self.root / ".git").rglob("*.lock"):
            lock.unlink()
        vault = open_vault(self.root)
        report = save_checkpoint(vault, f"after {self.rounds}")
        assert not vault.operations.is_open()
        vault.close()
        left = list(self.root.rglob(".vaultmem-*.tmp"))
        assert not left or work in {"promote", "session"}  # Of a note's own write, as told there.
        for file in left:
            file.unlink()
        assert is_clean(self.root)
        assert disk_bytes(self.root) == tree_bytes(self.root, "HEAD")
        if work in {"merge", "switch"}:
            self.check_whole(work, before, tree, out, report.commits)
        self.check_authors(before)
        for path, data in self.kept.items():
            assert (self.root / path).read_bytes() == data, path

    def check_whole(
        self,
        work: str,
        before: str,
        tree: dict[str, tuple[str, bytes]],
        out: str,
        commits: tuple[tuple[str, str], ...],
    ) -> None:
        """It came about, or nothing did; and nothing of it looks like anybody's edit."""
        assert commits == ()
        head, name = git(self.root, "rev-parse", "HEAD"), self.rounds
        if head == before:
            assert "commit" not in out
            assert disk_bytes(self.root) == tree
            self.undone[work] = self.undone.get(work, 0) + 1
        elif work == "switch":
            assert head == git(self.root, "rev-parse", f"s{name}")
            assert git(self.root, "symbolic-ref", "--short", "HEAD") == f"s{name}"
        else:
            parents = git(self.root, "log", "-1", "--format=%P").split()
            assert parents == [before, git(self.root, "rev-parse", f"m{name}")]
            shared = (self.root / "notes/shared.md").read_text()
            assert f"  - theirs{name}\n" in shared
            assert f"- ours {name}\n" in shared

    def check_authors(self, before: str) -> None:
        """Each author's changes are in commits of their own, and sessions are named."""
        form = "--format=%x01%an|%s|%(trailers:key=Session-Id,valueonly,separator=)"
        out = git(self.root, "log", "--no-merges", "--name-status", form, f"{before}..HEAD")
        for text in filter(None, out.split("\x01")):
            head, *rows = filter(None, text.splitlines())
            author, subject, session = head.split("|")
            for row in rows:
                status, path = row.split("\t")
                if path.startswith("notes/hand/"):
                    assert author == PERSON[0], text
                    assert subject.startswith("edit: "), text
                elif path.startswith("notes/inbox/") and status == "A":
                    number = path.removeprefix("notes/inbox/")[1:].rstrip("abmd.")
                    assert author == "claude", text
                    kind = "p" if path.startswith("notes/inbox/p") else "s"
                    assert session == f"{kind}-{number}", text
                elif path.startswith("notes/inbox/"):
                    assert (author, status) == (PERSON[0], "M"), text
                else:
                    assert author in {"Bob", PERSON[0]}, text

    def check_end(self) -> None:
        """Whatever was reported is still reachable, and the state folder is not littered."""
        reachable = set(git(self.root, "rev-list", "--branches").split())
        assert self.reported - {""} <= reachable
        vault = open_vault(self.root)
        file = vault.state.path.name
        left = {each.name for each in vault.state_folder.iterdir()} - {"merging"}
        assert left <= {
            "index",
            "lock",
            "lock.next",
            "index.lock",
            "index.lock.next",
            "git-locks.lock",
            "git-locks.lock.next",
            "state",
            "state.lock",
            "state.lock.next",
            file,
            f"{file}-wal",
            f"{file}-shm",
        }
        vault.close()


def run_campaign(folder: Path, kills: int, seed: int) -> Campaign:
    create_vault(folder / "vault").vault.close()
    campaign = Campaign(folder / "vault", random.Random(seed))
    write_notes(campaign.root, {"notes/shared.md": NOTE + "\n## Items\n\n- one\n"})
    git(campaign.root, "add", "-A")
    git(campaign.root, "commit", "-qm", "notes")
    for work in WORKS:
        campaign.run(work, kill=False)
    while sum(campaign.killed.values()) < kills:
        campaign.run(WORKS[campaign.rounds % len(WORKS)], kill=True)
    campaign.check_end()
    return campaign


@pytest.mark.long
def test_two_hundred_kills_leave_all_or_nothing_and_each_author_their_own_commits(
    home: Path, tmp_path: Path
) -> None:
    campaign = run_campaign(tmp_path, kills=200, seed=7)

    print(f"\n{campaign.killed} killed in {campaign.rounds} rounds; undone: {campaign.undone}")
    assert set(campaign.killed) == set(WORKS)
    assert min(campaign.killed.values()) >= 30


_KILLED = """
import os, signal, sys
from vaultmem import open_vault
from vaultmem.services.merging.merge import merge_branch
from vaultmem.storage.git.vault_history import VaultHistory
VaultHistory.write_commits = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
merge_branch(open_vault(sys.argv[1]), "side")
"""


@pytest.mark.campaign
def test_a_kill_before_git_has_what_was_merged_is_undone_with_all_it_left(
    home: Path, tmp_path: Path
) -> None:
    """What both sides make together is in files, and in no object of git's yet."""
    root = tmp_path / "vault"
    create_vault(root).vault.close()
    commit_on(root, "main", {"notes/a.md": NOTE})
    commit_on(root, "side", {"notes/a.md": change(NOTE, "weekly", "daily")})
    commit_on(root, "main", {"notes/a.md": change(NOTE, "title: Session", "title: Our")})
    git(root, "reset", "-q", "--hard")
    before = disk_bytes(root)

    assert run_script(_KILLED, root) == -signal.SIGKILL
    merged = (root / "notes/a.md").read_text()
    assert ("daily" in merged, "title: Our" in merged) == (True, True)
    write_notes(root, {"notes/.vaultmem-0123456789ab.tmp": merged[:40]})
    taken_out = ".vaultmem-ba9876543210-0123456789abcdef-0123456789abcdef-a.md.old"
    write_notes(root, {f"notes/{taken_out}": "a person's"})
    vault = open_vault(root)
    sync_vault(vault)
    vault.close()
    (kept,) = (root / "notes").glob("a.conflict-*.md")
    assert kept.read_text() == "a person's"
    kept.unlink()
    assert disk_bytes(root) == before
    assert is_clean(root)
