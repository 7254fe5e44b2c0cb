"""A person who only saves files finds each quiet period in `git log`, while agents write too."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Make
from support import git, wait_until
from watchers import watch_process

NOTES = [f"notes/n{number}.md" for number in range(4)]
EVENT = "%(trailers:key=Vault-Event,valueonly,separator=)"
AGENTS = ("claude", "codex")

#: A line that a person or an agent wrote: its word says whose it is.
LINE = re.compile(r"^\+(?:quagga|The okapi)([a-z]+)(\d+) ")


def save_in_place(file: Path, text: str) -> None:
    file.write_text(text)


def save_by_rename(file: Path, text: str) -> None:
    """Save as vim does: the old file becomes a backup while the new one is written."""
    backup = file.with_name(f"{file.name}~")
    os.rename(file, backup)
    spare = file.with_name(f".{file.name}.swx")
    spare.write_text(text)
    os.replace(spare, file)
    backup.unlink()


def save_twice(file: Path, text: str) -> None:
    """Save as Obsidian does while somebody types: a part of a line, and then all of it."""
    file.write_text(text[:-8])
    time.sleep(0.01)
    file.write_text(text)


def save_slowly(file: Path, text: str) -> None:
    """Remove the file, make it again, and write it in parts."""
    file.unlink()
    time.sleep(0.01)
    with file.open("w") as out:
        for start in range(0, len(text), 200):
            out.write(text[start : start + 200])
            out.flush()


WAYS = (save_in_place, save_by_rename, save_twice, save_slowly)


def vaultmem(root: Path, *words: str) -> int:
    command = [sys.executable, "-m", "vaultmem", *words, "--vault", str(root)]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode


class Agent(threading.Thread):
    """Remembers by the command line, and now and then tags a person's note or commits."""

    def __init__(self, root: Path, name: str, touches: bool) -> None:
        super().__init__()
        self._root, self._name, self._touches = root, name, touches
        self.remembered = 0
        self.is_over = False

    def run(self) -> None:
        chance = random.Random(self._name)
        who = ("--agent", self._name)
        while not self.is_over:
            sentence = f"The okapi{self._name}{self.remembered} sleeps by the quay."
            assert vaultmem(self._root, "remember", sentence, "--force", *who) == 0
            self.remembered += 1
            if self._touches and chance.random() < 0.5:
                vaultmem(self._root, "tag", chance.choice(NOTES), f"t{self.remembered % 3}", *who)
            if self._touches and chance.random() < 0.2:
                vaultmem(self._root, "checkpoint", f"after {self.remembered}", *who)


@contextmanager
def writing(root: Path, names: Sequence[str], touches: bool) -> Iterator[list[Agent]]:
    """Let agents write until the end of a `with`."""
    agents = [Agent(root, name, touches) for name in names]
    for agent in agents:
        agent.start()
    try:
        yield agents
    finally:
        for agent in agents:
            agent.is_over = True
        for agent in agents:
            agent.join(120)


def read_log(root: Path) -> dict[str, set[tuple[str, str]]]:
    """Return, by the writer and number of a line, author and event of the commits that add it."""
    found: dict[str, set[tuple[str, str]]] = {}
    commit = ("", "")
    for row in git(root, "log", "-p", f"--format=commit {EVENT} %an").splitlines():
        if row.startswith("commit "):
            _, event, author = row.split(" ", 2)
            commit = author, event
        elif line := LINE.match(row):
            found.setdefault(f"{line[1]}{line[2]}", set()).add(commit)
    return found


@pytest.mark.parametrize(
    ("bursts", "saves"),
    [(1, 8), pytest.param(10, 20, marks=pytest.mark.campaign)],
)
def test_each_quiet_periods_edits_are_in_git_under_the_persons_name(
    make_vault: Make, bursts: int, saves: int
) -> None:
    settings = {"vaultmem.yaml": "commit_edits_after_seconds: 1\n"}
    root = make_vault({name: f"# {name}\n" for name in NOTES} | settings)
    is_long = bursts > 1
    names = AGENTS if is_long else AGENTS[:1]
    chance = random.Random(7)
    typed: list[str] = []
    with watch_process(root) as watcher:
        with writing(root, names, touches=is_long) as agents:
            for burst in range(bursts):
                for _ in range(saves):
                    file = root / chance.choice(NOTES)
                    text = f"{file.read_text()}\nquaggahand{len(typed)} is typed in burst {burst}\n"
                    WAYS[len(typed) % len(WAYS)](file, text)
                    typed.append(f"hand{len(typed)}")
                wait_until(lambda: set(typed) <= read_log(root).keys(), 60)
            wait_until(lambda: all(agent.remembered for agent in agents), 60)
        watcher.terminate()
        out, err = watcher.communicate(timeout=60)
    assert (watcher.returncode, err) == (0, "")
    assert '"problem"' not in out
    edits = git(root, "log", "--format=%an", "--grep=^Vault-Event: edit").splitlines()
    assert set(edits) == {"Maren Person"}
    if not is_long:  # Nobody else commits: each quiet period is one commit.
        assert len(edits) <= 2, out
    for name in names:
        vaultmem(root, "checkpoint", "the end", "--agent", name)
    log = read_log(root)
    for line in typed:
        assert {author for author, _ in log[line]} == {"Maren Person"}, (line, log[line])
    for agent, name in zip(agents, names, strict=True):
        for number in range(agent.remembered):
            assert {author for author, _ in log[f"{name}{number}"]} == {name}
    assert git(root, "status", "--porcelain", "--", "notes") == ""
    now = "".join((root / name).read_text() for name in NOTES)
    lost = [line for line in typed if f"quagga{line} " not in now]
    print(
        f"{len(typed)} saves, {[agent.remembered for agent in agents]} memories, {len(edits)} edits"
    )
    assert lost == []
