"""Three made-up days of work through hooks alone: what the next context gets of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Make, RunCli
from days import DAYS
from recording import RECORDINGS, Recording
from support import wait_until

from vaultmem.core.text.token_count import count_tokens

HERE = Path(__file__).parent
FACTS: dict[str, list[dict[str, Any]]] = tomllib.loads((HERE / "facts.toml").read_text())
NOTES = {"MEMORY.md": "# Memory\n\nThe association has 212 plots.\n"}

#: Tokens of a restore, and of what a plain start tells of the last session.
BUDGET, LAST = 500, 300
LEAST = 9


class HookedClient:
    """A client of which vaultmem sees nothing but its hooks."""

    def __init__(self, agent: str, vault: Path, folder: Path, scale: int, *options: str) -> None:
        self.agent, self.vault, self.scale, self.options = agent, vault, scale, options
        self.workspace, self.transcripts = folder / "gardens", folder / "transcripts"
        self.sessions, self.on = 0, None
        self.process: subprocess.Popen[str] | None = None
        self.transcripts.mkdir()
        self.workspace.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.workspace, check=True)

    def hook(self, event: str, **given: object) -> str:
        assert self.process
        assert self.on
        told = {"session_id": self.on.session, "cwd": str(self.workspace), **given}
        told["transcript_path"] = str(self.on.file)
        words = [event, "--vault", str(self.vault), "--agent", self.agent, *self.options]
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        stdin.write(json.dumps({"words": words, "given": told}) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        assert answer["err"] == ""
        wait_until(lambda: not self.is_busy(), 60)
        return read_context(answer["out"])

    def is_busy(self) -> bool:
        """Tell whether a hook is still carried out by a process of its own."""
        wanted = os.fsencode(self.vault)
        return any(
            b"--wait" in words and wanted in words
            for file in Path("/proc").glob("[0-9]*/cmdline")
            if (words := read_words(file))
        )

    def start(self, source: str = "startup") -> str:
        if source == "startup":
            self.sessions += 1
            at = datetime(2026, 11, 16, 9) + timedelta(hours=5 * self.sessions)
            name = f"0193a7c2-55d1-7b{self.sessions:02}-9c1e-{self.agent[:2]}4f5a6b7c8d"
            self.on = RECORDINGS[self.agent](name, self.workspace, self.transcripts, at)
            self.process = start_process()
        return self.hook("session-start", hook_event_name="SessionStart", source=source)

    def turn(self, request: str, work: Callable[[Recording], None], ends: bool = True) -> None:
        assert self.on
        if self.scale > 1:
            self.hook("prompt", hook_event_name="UserPromptSubmit", prompt=request)
        self.on.ask(request)
        work(self.on)
        if ends:
            self.hook("stop", hook_event_name="Stop", stop_hook_active=False)

    def compact(self, summary: str) -> None:
        assert self.on
        self.hook("pre-compact", hook_event_name="PreCompact", trigger="auto")
        self.on.compact(summary)

    def end(self) -> None:
        self.hook("session-end", hook_event_name="SessionEnd", reason="other")
        self.kill()

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None


class Score(NamedTuple):
    """What of a day's facts a text holds: how many, those that are missing, and its tokens."""

    found: int
    missing: tuple[str, ...]
    tokens: int


def start_process() -> subprocess.Popen[str]:
    words = [sys.executable, str(HERE / "client_process.py")]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_words(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def read_context(out: str) -> str:
    told = json.loads(out) if out.strip() else {}
    return str(told.get("hookSpecificOutput", {}).get("additionalContext", ""))


def score(day: str, text: str) -> Score:
    plain = " ".join(text.replace("\n>", "\n").split())
    missing = [
        fact["what"]
        for fact in FACTS[day]
        if not any(re.search(each, plain) for each in fact["says"])
    ]
    return Score(len(FACTS[day]) - len(missing), tuple(missing), count_tokens(text))


def earlier_part(context: str) -> str:
    """Return what a start's context tells of the session before; the rest is what is pinned."""
    return context[max(context.rfind("# Last time here"), context.rfind("# Session ")) :]


@pytest.fixture
def live(make_vault: Make, tmp_path: Path, run_cli: RunCli) -> Iterator[Callable[..., Any]]:
    clients: list[HookedClient] = []

    def run(agent: str, days: list[str], scale: int, *options: str) -> Iterator[tuple[Any, ...]]:
        client = HookedClient(agent, make_vault(NOTES), tmp_path, scale, *options)
        clients.append(client)
        for day in days:
            DAYS[day](client)
            who = ("--vault", client.vault, "--agent", agent)
            done = run_cli(
                "session", "restore", "--budget", str(BUDGET), *who, cwd=client.workspace
            )
            assert done.code == 0, done.err
            context = client.start()
            client.end()
            yield day, earlier_part(context), done.out, client

    yield run
    for client in clients:
        client.kill()


@pytest.mark.long
@pytest.mark.parametrize("agent", sorted(RECORDINGS))
def test_three_days_through_hooks_alone(live: Callable[..., Any], agent: str) -> None:
    for day, begun, restored, _client in live(agent, list(DAYS), 12):
        for where, text in (("next start", begun), ("restore", restored)):
            told = score(day, text)
            print(
                f"{agent:12} {day} {where:10} {told.found:2} of 10 in {told.tokens} tokens",
                *told.missing,
            )
            assert told.tokens <= (LAST if where == "next start" and day != "day2" else BUDGET)
            assert told.found >= LEAST, f"{day}, {where}: {told.missing}\n{text}"


@pytest.mark.campaign
def test_a_client_that_is_killed_loses_at_most_its_last_turn(live: Callable[..., Any]) -> None:
    [(day, begun, _, client)] = live("claude-code", ["day2"], 1, "--wait")
    assert score(day, begun).found >= LEAST, begun
    [note] = [n for n in (client.vault / "sessions").glob("*.md") if "lock.py" in n.read_text()]
    assert "A row in job_locks. Then the runbook." in note.read_text()
    assert "Celery" not in note.read_text()
