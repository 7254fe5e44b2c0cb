"""The group `session` on the command line: what it prints, as text and as JSON, and its exits."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from conftest import Make, Result, RunCli
from in_process import run_here
from support import git, write_notes

CLAUDE = {"VAULTMEM_AGENT": "claude"}

FACTS = {
    *("session", "path", "blob", "title", "agent", "status", "started", "ended", "goal"),
    *("workspace", "project", "edges", "pending_restore_at", "counts", "machine", "last_seen"),
}
SESSION = FACTS | {
    *("decisions", "questions", "answered", "touched", "windows", "summary", "details"),
}
COMMITS = {"commit", "commits", "paths", "skipped"}


class Desk:
    """A folder in which an agent gives commands."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *arguments: str, code: int = 0, **env: str) -> Result:
        result = run_here("session", *arguments, cwd=self.root, env={**CLAUDE, **env})
        assert result.code == code, result
        assert "Traceback" not in result.err
        return result

    def json(self, *arguments: str, **env: str) -> dict[str, object]:
        return self.run(*arguments, "--json", **env).json  # type: ignore[no-any-return]


@pytest.fixture
def desk(make_vault: Make) -> Desk:
    return Desk(make_vault())


def test_a_session_from_start_to_end(desk: Desk) -> None:
    assert desk.run("start", "--id", "s-1", "--goal", "Ferries").out == (
        "started  s-1  (sessions/s-1.md)\n"
    )
    assert desk.run("start", "--id", "s-1").out == "open     s-1  (sessions/s-1.md)\n"
    assert desk.run("add", "note", "a", "note").out == "noted    s-1\n"
    assert desk.run("add", "note", "--question", "why?").out == "asked    s-1\n"
    assert desk.run("add", "decision", "We sail at six.", "--pin").out == (
        "decided  notes/inbox/we-sail-at-six.md  (s-1)\n"
    )
    assert desk.run("add", "file", "MEMORY.md", "gone.py").out == "touched  s-1\n"
    assert desk.run("add", "turn", "user", "hello").out.startswith("turn     1 of s-1, 1 tokens")
    assert desk.run("add", "summary", "All is well.").out == "summed   s-1\n"

    shown = desk.run("show").out

    for line in (
        r"s-1  Ferries",
        r"status       open  \(claude, 20.*\)",
        r"transcript   1 turn, 1 tokens",
        r"summary      All is well\.",
        r"decisions    \[\[we-sail-at-six\]\]: We sail at six",
        r"questions    why\?",
        r"touched      MEMORY.md  [0-9a-f]{7}",
        r"             gone.py  gone",
    ):
        assert re.search(f"^{line}$", shown, re.MULTILINE), line
    closed = desk.run("close", "--status", "error", "--learn", "The dock is wet.").out
    assert re.fullmatch(
        r"closed   s-1  \(error\)\nlearned  MEMORY.md\n[0-9a-f]{7}  session-close: Ferries[^\n]*\n",
        closed,
    )
    assert re.fullmatch(r"s-1  error  claude  20.{14}  Ferries\n", desk.run("list").out)


def test_every_command_answers_in_json(desk: Desk) -> None:
    started = desk.json("start", "--id", "s-1", "--goal", "Ferries")
    assert set(started) == SESSION | {"new", "restore", "restored", "recovered"}
    for arguments in (
        ("add", "note", "a note"),
        ("add", "file", "x.py"),
        ("add", "summary", "All is well."),
        ("mark-restore",),
    ):
        assert set(desk.json(*arguments)) == SESSION
    assert set(desk.json("add", "turn", "user", "hello")) == {"session", "turns", "tokens"}
    decided = desk.json(
        "add", "decision", "We sail at six.", "--context", "deck", "--confidence", "0.8"
    )
    assert set(decided) == SESSION | {"decision"}
    assert set(desk.json("show")) == SESSION | {"transcript"}
    resumed = desk.json("resume")
    assert resumed["restored"] == "s-1"
    assert "## Decisions" in str(resumed["restore"])
    forked = desk.json("fork", "s-1", "--id", "s-2")
    assert forked["edges"] == [{"relation": "forked_from", "session": "s-1"}]
    closed = desk.json("close", "s-1", "--summary", "Done.")
    assert set(closed) == SESSION | COMMITS | {"learned", "proposed", "dead_ends"}
    listed = desk.json("list", "--status", "open")
    assert set(listed) == {"sessions", "recovered"}
    assert [set(each) for each in listed["sessions"]] == [FACTS]  # type: ignore[attr-defined]
    found = desk.json("search", "sail", "six")["sessions"]
    assert found[0]["session"] == "s-1"  # type: ignore[index]
    assert set(found[0]) == FACTS | {"hits"}  # type: ignore[index]
    chain = desk.json("links", "s-2", "--depth", "3")
    assert set(chain) == {"session", "earlier", "followers"}
    restored = desk.json("restore", "s-2", "--budget", "300")
    assert set(restored) == {"session", "text", "sessions", "tokens", "shown", "omitted"}
    assert restored["tokens"]["sent"] <= 300  # type: ignore[index]
    assert desk.json("stats")["statuses"] == {"open": 1, "ok": 1}
    which = desk.json("current")
    assert (which["session"], str(which["source"])[:14]) == ("s-2", "active session")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("add", "note", "x"), 4, "no session: none is named and none is open here"),
        (("show", "s-9"), 4, "s-9: there is no such session"),
        (("start", "--id", "a/b"), 5, '"a/b" cannot be a session\'s id'),
        (("start", "--continues", "s-9"), 4, "s-9: there is no such session"),
        (("show", "../../etc/passwd"), 5, "leaves the vault"),
        (("list", "--status", "done"), 5, 'unknown status "done"; use open, ok, error, canceled'),
        (("links", "--depth", "0"), 4, "no session"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_what_is_wrong_is_said_and_ends_with_its_code(
    desk: Desk, arguments: tuple[str, ...], code: int, told: str
) -> None:
    assert told in desk.run(*arguments, code=code).err


def test_what_is_refused_writes_nothing(desk: Desk) -> None:
    desk.run("start", "--id", "s-1")
    before = (desk.root / "sessions/s-1.md").read_bytes()
    for arguments, code in (
        (("close", "--status", "done"), 5),
        (("add", "note", "AKIA" + "ABCDEFGHIJKLMNOP"), 5),
        (("add", "decision", "AKIA" + "ABCDEFGHIJKLMNOP"), 5),
        (("close", "--learn", "AKIA" + "ABCDEFGHIJKLMNOP"), 5),
        (("restore", "--budget", "100"), 5),
        (("add", "note", " "), 5),
    ):
        desk.run(*arguments, code=code)
    assert (desk.root / "sessions/s-1.md").read_bytes() == before
    assert not (desk.root / "notes").exists()


def test_after_its_end_the_last_session_is_what_is_looked_at(desk: Desk) -> None:
    for session in ("s-1", "s-2"):
        desk.run("start", "--id", session)
        desk.run("close")
    for command in ("show", "chain"):
        assert desk.run(command).out.startswith("s-2  ")
    assert desk.run("restore").out.startswith("# Session s-2   [ok | agent claude | ")
    assert "no session" in desk.run("add", "note", "late", code=4).err
    assert desk.run("current").out.startswith("No session is named")
    assert "no session" in desk.run("show", code=4, VAULTMEM_AGENT="codex").err


def test_two_agents_have_their_own_sessions_in_one_folder(desk: Desk) -> None:
    desk.run("start", "--id", "s-1")
    desk.run("start", "--id", "s-2", VAULTMEM_AGENT="codex")
    desk.run("add", "note", "of claude")
    desk.run("add", "note", "of codex", VAULTMEM_AGENT="codex")
    desk.run("add", "note", "by the variable", CLAUDE_CODE_SESSION_ID="s-2")
    assert "of claude" in (desk.root / "sessions/s-1.md").read_text()
    text = (desk.root / "sessions/s-2.md").read_text()
    assert "of codex" in text
    assert "by the variable" in text
    which = desk.run("current", CLAUDE_CODE_SESSION_ID="w:1").out
    assert re.search(
        r"^\* \$CLAUDE_CODE_SESSION_ID +s-w-1-[0-9a-f]{8}  \(short for w:1\)$", which, re.M
    )


def test_chains_and_search_read_well(desk: Desk) -> None:
    write_notes(
        desk.root,
        {
            "sessions/s-1.md": "---\nstatus: ok\ngoal: One\n---\n## Summary\n\nThe gangway.\n",
            "sessions/s-2.md": "---\nstatus: error\ngoal: Two\ncontinues: s-1\n---\n",
            "sessions/s-3.md": "---\nstatus: open\ngoal: Three\nforked_from: s-2\nrelated: x\n---",
        },
    )
    assert desk.run("links", "s-3").out.splitlines() == [
        "s-3  open      Three",
        "  forked from s-2  error     Two",
        "  related x  (no such note)",
        "    continues s-1  ok        One",
    ]
    assert desk.run("links", "s-1").out.splitlines()[0] == "  s-2  error     continues this  Two"
    assert desk.run("search", "gangway").out.splitlines() == [
        "s-1  ok    One",
        "    Summary: The gangway.",
    ]
    assert desk.run("search", "nothing").out == "No session answers that.\n"


def test_a_session_is_named_by_the_beginning_of_its_id_or_by_its_link(desk: Desk) -> None:
    desk.run("start", "--id", "s-2026-a")
    desk.run("start", "--id", "s-2027-b")
    assert desk.json("show", "s-2026")["session"] == "s-2026-a"
    assert desk.json("show", "[[s-2027-b]]")["session"] == "s-2027-b"
    assert desk.json("show", "sessions/s-2027-b.md")["session"] == "s-2027-b"
    assert (
        "could be sessions/s-2026-a.md, sessions/s-2027-b.md" in desk.run("show", "s-", code=4).err
    )


@pytest.mark.campaign
def test_the_command_as_a_process_reads_standard_input_and_knows_whose_it_is(
    make_vault: Make, start_cli: RunCli
) -> None:
    root = make_vault()
    env = {**CLAUDE, "VAULTMEM_SESSION_ID": "s-1"}
    assert start_cli("session", "start", cwd=root, env=env).code == 0
    [file] = Path(os.environ["XDG_STATE_HOME"]).rglob("sessions/*.json")
    assert [each["pid"] for each in json.loads(file.read_text())["processes"]] == [os.getpid()]
    done = start_cli(
        "session", "add", "summary", "-", cwd=root, env=env, stdin="From\nstandard input.\n"
    )
    assert done.out == "summed   s-1\n"
    assert "\nFrom\nstandard input.\n" in (root / "sessions/s-1.md").read_text()
    assert start_cli("session", "add", "note", "-", cwd=root, env=env, stdin=b"\xff").code == 5
    assert git(root, "status", "--porcelain") == "?? sessions/"
