"""Two days of work in three sessions: one compacted in between, one forked and killed, one more.

Agents are processes of their own that run the real command; what they say comes from a fixed seed.
The second day is another time zone, a whole day away.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import git, write_notes

from vaultmem.core.text.token_count import count_tokens

pytestmark = pytest.mark.campaign

SEED = 20_261_121
FORK = "The same for the scanner (2 decisions, 1 open question)"
DAYS = {"monday": "UTC", "tuesday": "XXX-24"}

_WHAT = ["The session cookie", "A refund's row", "The night report", "The scanner", "A sailing"]
_DOES = ["is signed with the ferry's key", "is written before the call", "waits for the tide table"]
_DOES += ["keeps its state for a day", "goes through the queue"]
_ASKS = ["Who tells Birgit about {}?", "Does the lock hold for {}?", "May we drop {} in winter?"]
_AGAIN = "README.md"
_FILES = ["api/auth.py", "api/refund.py", "ops/cron.sh", "scanner/sync.ts", "web/slip.svelte"]

#: Runs each line of standard input as a command, and answers with its exit code and its output.
#: Commands are processes of their own that are forked: most of their time would be imports.
_AGENT = """
import json, os, sys, tempfile
import vaultmem.cli.app, vaultmem.cli.session_commands, vaultmem.storage.index.codec
from vaultmem.cli.start import main
for line in sys.stdin:
    files = [tempfile.TemporaryFile() for _ in range(2)]
    pid = os.fork()
    if not pid:
        for number, file in enumerate(files, 1):
            os.dup2(file.fileno(), number)
        sys.argv = ["vaultmem", *json.loads(line)]
        try:
            main()
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code or 0)
        os._exit(70)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    printed = [code]
    for file in files:
        file.seek(0)
        printed.append(file.read().decode())
        file.close()
    print(json.dumps(printed), flush=True)
"""


@dataclass
class Told:
    """What the sessions of the story decided, asked and touched."""

    decisions: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class Agent:
    """A process that works in the code's folder on one of the days, and runs commands."""

    def __init__(self, code: Path, vault: Path, day: str) -> None:
        agent = {"VAULTMEM_AGENT": "claude", "VAULTMEM_VAULT": str(vault), "TZ": DAYS[day]}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AGENT],
            cwd=code,
            env={**os.environ, **agent},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(arguments), file=self.process.stdin, flush=True)
        code, out, err = json.loads(self.process.stdout.readline())
        assert code == 0, f"{arguments}: {err}"
        return str(out)

    def end(self, kill: bool = False) -> None:
        if kill:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@dataclass
class Story:
    """The vault and the code after two days, what was told, and what was printed on the way."""

    vault: Path
    code: Path
    told: Told
    important: list[str]
    compacted: str
    second_start: str
    pid: int
    agent: Agent


def work(agent: Agent, told: Told, chance: random.Random, session: str, decisions: int) -> None:
    """Do what a session does: decide, ask, touch two files; pin the story's first decision."""
    for _ in range(decisions):
        title = f"{_WHAT.pop(chance.randrange(len(_WHAT)))} {chance.choice(_DOES)}"
        pinned = [] if told.decisions else ["--pin"]
        agent.run(
            "session", "add", "decision", f"{title}. It was tried.", "--title", title, *pinned
        )
        told.decisions.append(title)
    question = chance.choice(_ASKS).format(f"{session} {len(told.questions)}")
    agent.run("session", "add", "note", "--question", question)
    told.questions.append(question)
    files = [_FILES.pop(chance.randrange(len(_FILES))), _AGAIN]
    agent.run("session", "add", "file", *files)
    told.files += files


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    chance = random.Random(SEED)
    folder = tmp_path_factory.mktemp("story")
    code, vault = folder / "ferrylane", folder / "vault"
    write_notes(code, {name: f"{name}\n" for name in [*_FILES, _AGAIN]})
    git(code, "init", "-q")
    git(code, "add", "-A")
    git(code, "commit", "-qm", "The code")
    subprocess.run(
        [sys.executable, "-m", "vaultmem", "init", str(vault)], check=True, capture_output=True
    )
    told = Told()

    agent = Agent(code, vault, "monday")
    agent.run("session", "start", "--id", "s-mon", "--goal", "Opaque session tokens")
    work(agent, told, chance, "s-mon", 2)
    agent.run("session", "add", "turn", "user", "Make the sessions opaque, please.")
    note = vault / "sessions/s-mon.md"
    by_hand = "Is the old cookie read until Sunday?"
    write_notes(vault, {"sessions/s-mon.md": f"{note.read_text()}- {by_hand}\n"})
    told.questions.append(by_hand)
    agent.run("session", "mark-restore")
    compacted = agent.run("session", "resume", "s-mon")
    agent.run("session", "add", "turn", "assistant", "Both kinds are read now.")
    write_notes(code, {told.files[0]: "changed\n"})
    git(code, "commit", "-qam", "Read both kinds of tokens")
    learned = "Tests of the scanner need the tablet."
    agent.run("session", "close", "--summary", "Opaque tokens are live.", "--learn", learned)
    agent.end()

    agent = Agent(code, vault, "monday")
    agent.run("session", "fork", "s-mon", "--id", "s-fork", "--goal", "The same for the scanner")
    work(agent, told, chance, "s-fork", 2)
    agent.run("--session", "s-fork", "remember", "The scanner has no clock.")
    agent.run("session", "add", "note", "Half of the scanner is ported.")
    pid = agent.process.pid
    agent.end(kill=True)

    agent = Agent(code, vault, "tuesday")
    started = agent.run("session", "start", "--id", "s-tue", "--goal", "Finish the scanner")
    before = len(told.decisions), len(told.questions)
    work(agent, told, chance, "s-tue", 1)
    own = [*told.decisions[before[0] :], *told.questions[before[1] :], *told.files[-2:]]
    important = ["Finish the scanner", *own, told.decisions[0], "s-fork", "s-mon"]
    yield Story(vault, code, told, important, compacted, started, pid, agent)
    agent.end()


def test_the_last_restore_holds_the_whole_story_at_4000_tokens(story: Story) -> None:
    text = story.agent.run("session", "restore", "s-tue", "--budget", "4000")

    assert count_tokens(text) <= 4000
    told = story.told
    assert len(told.decisions) == 5
    for each in (*told.decisions, *told.questions, *told.files):
        assert each in text, each
    assert '"Read both kinds of tokens"' in text
    assert "Half of the scanner is ported." in text


def test_the_last_restore_holds_what_matters_most_at_500_tokens(story: Story) -> None:
    text = story.agent.run("session", "restore", "s-tue", "--budget", "500")

    assert count_tokens(text) <= 500
    for each in story.important:
        assert each in text, each


def test_a_compacted_session_gets_its_restore_and_a_second_window(story: Story) -> None:
    assert "## Decisions" in story.compacted
    assert story.told.decisions[0] in story.compacted
    assert "Make the sessions opaque, please." in story.compacted
    text = (story.vault / "sessions/s-mon.md").read_text()
    assert "pending_restore_at" not in text
    assert '"1: tokens 0-' in text
    assert '"2: tokens ' in text


def test_the_start_after_a_kill_recovers_and_picks_up_the_killed_session(story: Story) -> None:
    assert "recovered  s-fork  (interrupted)" in story.second_start
    assert f"recover: {FORK}" in story.second_start
    assert "# Session s-fork" in story.second_start
    killed = (story.vault / "sessions/s-fork.md").read_text()
    assert "status: interrupted" in killed
    assert f"its process ({story.pid}) was gone; it left 3 files not committed" in killed
    assert "pending_restore_at" not in killed
    last = (story.vault / "sessions/s-tue.md").read_text()
    assert 'continues:\n  - "[[s-fork]]"' in last
    days = [
        line[9:19] for text in (killed, last) for line in text.splitlines() if "started" in line
    ]
    assert days[0] < days[1]


def test_git_log_shows_each_sessions_own_commits(story: Story) -> None:
    story.agent.run("session", "close", "s-tue", "--status", "ok", "--summary", "Done.")
    keys = ("Vault-Event", "Agent-Id", "Session-Id")
    trailers = "|".join(f"%(trailers:key={key},valueonly,separator=%x2C)" for key in keys)
    close = "|session-close|claude"

    rows = git(story.vault, "log", "--reverse", f"--format=%an|%s|{trailers}").splitlines()

    monday, tuesday = "Opaque session tokens", "Finish the scanner"
    assert rows[1:] == [
        "claude|write: session s-mon|write|claude|s-mon",
        "Maren Person|edit: session s-mon|edit||",
        f"claude|session-close: {monday} (2 decisions, 2 open questions){close}|s-mon",
        f"claude|recover: {FORK}|recover|claude|s-fork",
        f"claude|session-close: {tuesday} (1 decision, 1 open question){close}|s-tue",
    ]
    for subject, session in ((4, "s-fork"), (5, "s-tue")):
        commit = git(story.vault, "rev-list", "--reverse", "HEAD").split()[subject]
        wrote = git(story.vault, "show", "--format=", "--name-only", commit).split()
        assert f"sessions/{session}.md" in wrote
        assert sum(path.startswith("notes/inbox/") for path in wrote) == (3 if subject == 4 else 1)
    assert git(story.vault, "status", "--porcelain") == ""
    learned = git(story.vault, "grep", "-l", "Tests of the scanner need the tablet", "--", "notes")
    assert "project: ferrylane\n" in (story.vault / learned.strip()).read_text()
    assert "scanner" not in (story.vault / "MEMORY.md").read_text()
    assert (story.vault / "transcripts/s-mon.jsonl").is_file()
    assert "transcripts" not in git(story.vault, "ls-files")
