"""SIGKILL in the middle of any session command: the note whole, what was answered there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath

import pytest
from support import git

from vaultmem.core.notes.note import parse_note
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.sessions.find_session import get_session
from vaultmem.services.sessions.windows import read_tally
from vaultmem.storage.session_table import Transcripts
from vaultmem.vault import open_vault

COMMANDS = ("note", "question", "decide", "touch", "turn", "summarize", "resume", "close", "start")


def run_command(root: Path, words: list[str], patience: float | None) -> bool:
    """Run a command in the session and kill it after a time; tell whether it ended by itself."""
    for lock in (root / ".git").rglob("*.lock"):
        lock.unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", "session", *words],
        cwd=root,
        env={**os.environ, "VAULTMEM_AGENT": "claude"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        _, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False
    assert process.returncode == 0, err.decode()
    return True


def arguments(name: str, round_: int, session: str) -> list[str]:
    mark = f"mark{round_}x"
    return {
        "note": ["note", mark],
        "question": ["note", "--question", f"{mark}?"],
        "decide": ["decide", f"{mark} {round_ * 7919} is decided", "--title", mark],
        "touch": ["touch", f"{mark}.py"],
        "turn": ["turn", "user", mark],
        "summarize": ["summarize", mark],
        "resume": ["resume", session],
        "close": ["close", session],
        "start": ["start", "--id", f"s-{round_}", "--pid", str(os.getpid())],
    }[name]


def check(root: Path, acknowledged: dict[str, tuple[str, str]]) -> None:
    """Each note is whole, git is sound, each transcript reads, and what was answered is there."""
    for file in (root / "sessions").glob("*.md"):
        note = parse_note(PurePosixPath("sessions", file.name), file.read_bytes())
        assert note.warnings == ()
        assert parse_session(note).facts.started
    assert "error" not in git(root, "fsck", "--no-dangling", "--no-progress")
    for mark, (name, session) in acknowledged.items():
        if name == "turn":
            lines = Transcripts(root, 10**9).read(session)
            assert mark in [getattr(line, "text", "") for line in lines]
        elif name != "start":
            assert mark in (root / f"sessions/{session}.md").read_text()


def run_campaign(root: Path, kills: int, seed: int) -> dict[str, int]:
    create_vault(root).vault.close()
    chance = random.Random(seed)
    acknowledged: dict[str, tuple[str, str]] = {}
    killed: dict[str, int] = {}
    session, rounds, name = "s-0", 0, ""
    run_command(root, arguments("start", 0, session), None)
    started = time.monotonic()
    run_command(root, ["show"], None)
    usual = time.monotonic() - started
    while sum(killed.values()) < kills or name == "close":  # The next one is not begun then.
        rounds += 1
        name = COMMANDS[rounds % len(COMMANDS)]
        words = arguments(name, rounds, session)
        if run_command(root, words, usual * 1.4 * chance.random() ** 0.5):
            acknowledged[f"mark{rounds}x"] = (name, session)
        else:
            killed[name] = killed.get(name, 0) + 1
        if name == "close":  # Again, it goes on from wherever it was.
            run_command(root, words, None)
            session = f"s-{rounds + 1}"
        elif name == "start":
            run_command(root, words, None)
            session = f"s-{rounds}"
        check(root, {m: v for m, v in acknowledged.items() if v[0] not in {"resume", "close"}})
    run_command(root, ["close", session], None)
    vault = open_vault(root, agent="claude")
    for each in {where for _, where in acknowledged.values()}:
        assert get_session(vault, each).facts.status in {"ok", "open"}
        assert read_tally(vault, each).turns >= 0
    vault.close()
    left = git(root, "status", "--porcelain", "-uall").splitlines()
    assert [line for line in left if not line.endswith(".tmp")] == []
    return killed


@pytest.mark.long
def test_a_hundred_kills_lose_nothing_that_was_answered(home: Path, tmp_path: Path) -> None:
    killed = run_campaign(tmp_path / "v", kills=100, seed=20261121)

    assert set(killed) == set(COMMANDS)
