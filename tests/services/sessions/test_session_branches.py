"""Sessions and tasks on branches that are not checked out: all that is done is a commit there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from branching import look_around
from conftest import Make, Open
from in_process import run_here
from mcp.client.client import Client
from serving import call, play
from support import git

from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import recover_sessions
from vaultmem.services.sessions.edit_session import add_detail
from vaultmem.services.sessions.find_session import find_dead, get_session
from vaultmem.services.sessions.identify import identify_session
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.session_table import ActiveSessions

CLAUDE = {"VAULTMEM_AGENT": "claude"}


@pytest.fixture
def root(make_vault: Make) -> Path:
    root = make_vault({"notes/ferry.md": "# Ferry\n\nThe ferry leaves at noon.\n"})
    git(root, "branch", "side")
    return root


@pytest.mark.campaign
def test_a_session_from_start_to_end_without_a_checkout(root: Path) -> None:
    before = look_around(root)

    def run(*words: str, ref: str = "side") -> str:
        given = ("session", *words, *(("--ref", ref) if ref else ()))
        done = run_here(*given, cwd=root, env=CLAUDE)
        assert done.code == 0, done.err
        return done.out

    started = run("start", "--id", "s-1", "--goal", "Paint the buoys")
    run("note", "The first is red.")
    run("note", "And the second?", "--question")
    run("decide", "Buoys are red.", "--title", "Red buoys")
    run("touch", "notes/ferry.md")
    run("turn", "user", "Hello.")
    shown = run("show")
    listed = run("list")
    found = run("search", "second red")
    restored = run("restore", "s-1")
    closed = run("close", "--summary", "All are red.", "--learn", "Red paint lasts.")
    after = run("list")

    assert started == "started  s-1  (sessions/s-1.md)\non  side, which is not checked out\n"
    assert "Red buoys" in shown
    assert "And the second?" in shown
    assert listed.startswith("s-1  open  claude")
    assert found.startswith("s-1  open")
    assert "The first is red." in restored
    assert "Buoys are red." in restored
    assert closed.splitlines()[0] == "closed   s-1  (ok)"
    assert closed.splitlines()[-1] == "on  side, which is not checked out"
    assert after.startswith("s-1  ok")
    assert run("list", ref="") == "There are no such sessions.\n"
    shutil.rmtree(root / "transcripts")
    assert look_around(root) == before
    files = git(root, "ls-tree", "-r", "--name-only", "side").splitlines()
    assert {"MEMORY.md", "notes/inbox/red-buoys.md", "sessions/s-1.md"} < set(files)
    last = git(root, "log", "-1", "--format=%an|%s|%b", "side")
    assert last.startswith(
        "claude|session-close: Paint the buoys (1 decision, 1 open question)|"
        "session s-1\nagent claude\nstatus ok\nAll are red."
    )
    assert {"Agent-Id: claude", "Session-Id: s-1", "Vault-Event: session-close"} < set(
        last.splitlines()
    )


@pytest.mark.campaign
def test_a_task_is_kept_where_its_session_is(root: Path) -> None:
    def run(*words: str) -> str:
        done = run_here(*words, "--ref", "side", cwd=root, env=CLAUDE)
        assert done.code == 0, done.err
        return done.out

    run("session", "start", "--id", "s-1")
    added = run("task", "add", "Paint the buoys")
    again = run("task", "add", "Paint the buoys")
    changed = run("task", "update", "paint-the-buoys-2", "--status", "doing")
    run("task", "handoff", "paint-the-buoys-2", "--note", "One is done.")
    listed = run("task", "list")
    history = run("task", "history", "paint-the-buoys-2")
    here = run_here("task", "list", cwd=root)

    assert added == "added  paint-the-buoys  (open)\non  side, which is not checked out\n"
    assert again.startswith("added  paint-the-buoys-2")
    assert changed.startswith("set    paint-the-buoys-2  (doing)")
    assert len(listed.splitlines()) == 2
    assert "One is done." in history
    assert "s-1" in run("task", "show", "paint-the-buoys-2")
    assert here.out == "No task is open.\n"
    assert git(root, "log", "-1", "--format=%an", "side") == "claude"


@pytest.mark.campaign
def test_which_session_is_meant_goes_by_the_branch(root: Path, opened: Open) -> None:
    here, there = opened(root, agent="claude"), opened(root, agent="claude", ref="side")
    start_session(here, NewSession("s-main"))
    start_session(there, NewSession("s-side"))

    assert identify_session(opened(root, agent="claude")).session == "s-main"
    assert identify_session(opened(root, agent="claude", ref="main")).session == "s-main"
    assert identify_session(there).session == "s-side"
    with pytest.raises(NoteNotFoundError, match="it is kept on side; name that with --ref"):
        add_detail(here, "s-side", "The tide is high.")
    with pytest.raises(RefusedError, match="not a branch"):
        start_session(opened(root, ref=git(root, "rev-parse", "main")), NewSession("s-3"))

    assert run_here("checkpoint", "so far", cwd=root).code == 0
    assert run_here("switch", "side", cwd=root).code == 0
    assert identify_session(opened(root, agent="claude")).session == "s-side"
    add_detail(opened(root, agent="claude"), "s-side", "The tide is high.")
    assert "The tide is high." in (root / "sessions/s-side.md").read_text()
    assert identify_session(opened(root, agent="claude", ref="main")).session == "s-main"


@pytest.mark.campaign
def test_a_session_whose_process_is_gone_is_recovered_on_its_branch(
    root: Path, opened: Open
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    there = opened(root, agent="claude", ref="side")
    start_session(there, NewSession("s-1", pid=process.pid))
    add_detail(there, "s-1", "The tide is high.")
    before = look_around(root)
    process.kill()
    process.communicate()

    vault = opened(root)
    sync_vault(vault)
    assert [each.id for each in find_dead(vault)] == ["s-1"]
    [done] = recover_sessions(vault)

    assert (done.session, done.status, done.problem) == ("s-1", "interrupted", "")
    assert look_around(root) == before
    last = git(root, "log", "-1", "--format=%an|%s", "side")
    assert last == "claude|recover: s-1"
    assert get_session(opened(root, ref="side"), "s-1").facts.pending
    assert recover_sessions(vault) == []
    resumed = run_here("session", "resume", "s-1", "--ref", "side", cwd=root, env=CLAUDE)
    assert "The tide is high." in resumed.out
    assert ActiveSessions(vault.state_folder).find("s-1").ref == "side"  # type: ignore[union-attr]


@pytest.mark.campaign
def test_an_agent_keeps_its_session_on_the_branch_that_each_call_names(root: Path) -> None:
    before = look_around(root)

    async def scene(client: Client) -> None:
        begun = await call(client, "session", action="start", goal="Buoys", ref="side")
        name = begun["session"]
        made = await call(client, "remember", text="Buoys are red.", ref="side")
        await call(client, "session", action="note", text="One is done.", ref="side")
        told = await call(client, "session", action="restore", ref="side")
        assert (told["session"], "One is done." in told["message"]) == (name, True)
        asked = {"action": "blame", "path": made["path"], "ref": "side"}
        rows = (await call(client, "history", **asked))["rows"]
        assert {each["session"] for each in rows} == {name}
        done = await call(client, "session", action="close", ref="side")
        assert (done["status"], done["ref"]) == ("ok", "side")
        subjects = [each["subject"] for each in done["commits"]]
        assert subjects == ["session-close: Buoys"]

    play(root, scene)
    assert look_around(root) == before
