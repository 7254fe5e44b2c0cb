"""Reading waits for no writer: with the vault's lock held, the last index answers and says so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from conftest import Open, Result, RunCli
from in_process import run_here
from support import git, write_notes
from watchers import stopped, watch_process

from vaultmem.mcp_server.search_tools import recall_tool
from vaultmem.mcp_server.tool import run_tool
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.watching.lease import catch_up
from vaultmem.storage.journal import FileChanges
from vaultmem.vault import find_user_folders, open_vault
from vaultmem.workers import Caller, ThreadVault

pytestmark = pytest.mark.skipif(os.name != "posix", reason="nothing can be stopped")


NOTES = {
    "notes/gangway.md": "# Gangway\n\nThe gangway is blue, see [[bell]].\n",
    "notes/bell.md": "---\npinned: true\n---\n# Bell\n\nThe bell rings at seven.\n",
    "sessions/s-1.md": "---\nkind: session\nstatus: ok\n---\n# s-1\n\nGangway.\n",
}

#: Each command that only reads, and words of its answer.
READS = {
    "recall gangway": "The gangway is blue",
    "recall gangway --at HEAD": "The gangway is blue",
    "pack gangway": "The gangway is blue",
    "show notes/bell.md": "The bell rings",
    "list": "notes/gangway.md",
    "links notes/gangway.md": "bell",
    "links --to notes/bell.md": "gangway",
    "links --orphans": "",
    "stats": "vault",
    "pin": "notes/bell.md",
    "similar bell": "",
    "history notes/gangway.md": "",
    "blame notes/gangway.md": "not committed",
    "trace gangway": "gangway",
    "session list": "s-1",
    "task list": "",
    "curate": "",
    "dedup": "",
    "diff": "",
    "status": "as it was; without what was saved",
    "doctor": "was stopped while",
}

#: Seconds that a command may take here: a second is promised, and this machine may be busy.
SOON = 8.0


def run_soon(run_cli: RunCli, root: Path, *words: str, **more: object) -> Result:
    started = time.monotonic()
    done = run_cli(*words, cwd=root, **more)
    assert time.monotonic() - started < SOON, words
    return done


def save(root: Path) -> None:
    """Save what no index has: a new note, and another text of a known one."""
    write_notes(root, {"notes/late.md": "# Late\n\nquagga\n"})
    write_notes(root, {"notes/gangway.md": "# Gangway\n\nNobody knows its colour.\n"})


@pytest.mark.guarantee
@pytest.mark.campaign
def test_what_only_reads_answers_from_the_last_index_and_says_so(
    root: Path, run_cli: RunCli
) -> None:
    run_cli("recall", "gangway", "--at", "HEAD", cwd=root)
    save(root)

    def ask(line: str) -> Result:
        return run_soon(run_cli, root, *line.split())

    with stopped(root) as pid, ThreadPoolExecutor(6) as pool:
        for line, done in zip(READS, pool.map(ask, READS), strict=True):
            assert done.code == 0, (line, done)
            assert READS[line] in done.out, (line, done)
            assert "quagga" not in done.out
            assert f"process {pid}" in done.err, (line, done)
        asked = [f"{line} --json" for line in READS if line.split()[0] not in {"blame", "diff"}]
        for line, done in zip(asked, pool.map(ask, asked), strict=True):
            assert f"process {pid}" in done.json["behind"], line
    assert run_cli("recall", "quagga", "--json", cwd=root).json.keys().isdisjoint({"behind"})
    assert "late.md" in run_cli("recall", "quagga", cwd=root).out


def test_a_hook_reports_an_old_index_to_the_model_alone(root: Path, run_cli: RunCli) -> None:
    run_cli("list", cwd=root)
    save(root)
    with stopped(root) as pid:
        for event, shown in (("subagent-start", "The bell rings"), ("before-tool", "")):
            done = run_cli("hook", event, "--vault", root, stdin="{}")
            assert (done.code, done.err) == (0, "")
            assert shown in done.out
            assert (f"process {pid}" in done.out) is bool(shown)


@pytest.mark.campaign
def test_what_nobody_changed_is_in_sync_whoever_writes(root: Path, run_cli: RunCli) -> None:
    run_cli("list", cwd=root)
    time.sleep(0.15)  # A file that has just changed is looked at again.
    run_cli("list", cwd=root)
    with stopped(root):
        done = run_soon(run_cli, root, "recall", "gangway", "--json")
        assert "behind" not in done.json
        assert done.err == ""


@pytest.mark.campaign
@pytest.mark.parametrize("lost", ["state*", "index/*"])
def test_without_any_index_the_lock_is_named_at_once(
    root: Path, run_cli: RunCli, lost: str
) -> None:
    run_cli("list", cwd=root)
    state = open_vault(root).state_folder

    def forget() -> None:
        for file in state.glob(lost):  # The first index is written after the database.
            file.unlink()

    forget()
    with stopped(root) as pid:
        done = run_soon(run_cli, root, "recall", "gangway")
        assert done.code == 1
        assert "there is no index yet" in done.err
        assert f"kill -CONT {pid}" in done.err
    forget()
    if lost == "state*":
        with stopped(root, "state.lock"):
            assert "another vaultmem" in run_soon(run_cli, root, "recall", "gangway").err


def test_an_interrupted_transaction_is_left_to_whoever_has_the_lock(
    root: Path, run_cli: RunCli
) -> None:
    run_cli("list", cwd=root)
    operations = open_vault(root).operations
    operations.write_files(FileChanges("", False, {}, {}))
    with stopped(root):
        assert "blue" in run_soon(run_cli, root, "recall", "gangway").out
        assert operations.is_open()


@pytest.mark.campaign
def test_a_bisect_goes_on_beside_a_writer_unless_a_commit_was_never_looked_at(
    root: Path, run_cli: RunCli
) -> None:
    good = git(root, "rev-parse", "HEAD")
    for colour in ("green", "red"):
        write_notes(root, {"notes/gangway.md": f"# Gangway\n\nThe gangway is {colour}.\n"})
        run_here("checkpoint", colour, cwd=root)
    words = ("bisect", "gangway", "--contains", "blue", "--good", good)
    with stopped(root) as pid:
        done = run_soon(run_cli, root, *words)
        assert (done.code, f"process {pid}" in done.err) == (1, True), done
    known = run_here(*words, "--json", cwd=root).json
    save(root)
    with stopped(root) as pid:
        done = run_soon(run_cli, root, *words, "--json")
    told = done.json
    assert f"process {pid}" in told.pop("behind")
    assert told == known
    assert len(known["first_bad"]) == 1


@pytest.mark.campaign
def test_a_database_in_use_by_a_stopped_writer_keeps_nobody_from_reading(
    root: Path, run_cli: RunCli
) -> None:
    run_cli("recall", "gangway", "--at", "HEAD", cwd=root)
    save(root)
    database = open_vault(root).state.path
    script = "import sqlite3, sys\nfound = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    script += "found.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(database)], stdin=-1, stdout=-1
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"held\n"
        try:
            for line in ("recall gangway", "recall gangway --at HEAD", "pack gangway", "stats"):
                done = run_soon(run_cli, root, *line.split(), "--json")
                assert done.code == 0, done
                assert done.json["behind"], line
        finally:
            writer.kill()


@pytest.mark.campaign
def test_a_tool_and_a_library_say_that_they_are_behind(root: Path, opened: Open) -> None:
    place, caller = ThreadVault(root, find_user_folders(os.environ), reads=True), Caller("claude")
    tool = partial(run_tool, recall_tool, {"query": "gangway"})
    assert "behind" not in place.run(tool, caller)[1]
    save(root)
    vault = opened(root)
    with stopped(root) as pid:
        text, data = place.run(tool, caller)
        assert "The gangway is blue" in text
        assert f"process {pid}" in text
        assert f"process {pid}" in data["behind"]
        assert run_query(vault, Query("quagga")).hits == []
        assert f"process {pid}" in vault.notices.stale
    assert "behind" not in place.run(tool, caller)[1]
    place.discard()
    catch_up(vault)
    assert [hit.record.path for hit in run_query(vault, Query("quagga")).hits] == ["notes/late.md"]
    assert not vault.notices.stale


@pytest.mark.campaign
def test_an_agents_hooks_and_its_watcher_answer_beside_a_stopped_writer(
    root: Path, run_cli: RunCli
) -> None:
    run_cli("list", cwd=root)
    asked = '{"prompt": "Is the gangway blue?", "session_id": "c-1", "source": "startup"}'
    with watch_process(root), stopped(root) as pid:
        save(root)
        done = run_soon(run_cli, root, "recall", "gangway", "--json")
        assert "The gangway is blue" in done.out
        assert f"process {pid}" in done.json["behind"]
        for event in ("prompt", "session-start"):
            told = run_soon(run_cli, root, "hook", event, "--vault", str(root), stdin=asked)
            assert "The bell rings" in told.out or "The gangway is blue" in told.out
            assert f"process {pid}" in told.out
