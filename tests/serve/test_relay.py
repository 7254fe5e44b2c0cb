"""Sessions of agents that one resident process serves, through the relays that lead to it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from serving import HELLO, Session, find_residents, session
from support import git, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such sockets")

NOTES = {"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"}

#: Runs the command as an older version.
_OLD = """
import vaultmem

vaultmem.__version__ = "0.0.1"
from vaultmem.cli.start import main

main()
"""


@pytest.fixture
def residents(home: Path) -> Callable[[], list[int]]:
    """Return a function that lists the processes which serve agents' sessions."""
    return lambda: list(find_residents(home / "state").values())


@pytest.mark.campaign
def test_five_sessions_are_one_process_each_with_its_own_name_branch_and_rights(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")
    wanted: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("--agent", "ann"), {}),
        ((), {"VAULTMEM_AGENT": "bob"}),
        (("--agent", "cyd", "--ref", "draft"), {}),
        ((), {}),
        (("--agent", "eve", "--read-only"), {}),
    ]
    with contextlib.ExitStack() as ends:
        with ThreadPoolExecutor(5) as pool:  # All of them start it, and one is started.
            made = list(pool.map(lambda each: Session(root, *each[0], **each[1]), wanted))
        for each in made:
            ends.callback(each.process.communicate)
            ends.callback(each.process.kill)
        for each in made:
            each.greet()
        assert len(residents()) == 1
        numbers = [each.ask("remember", text=f"Plank {n}.") for n, each in enumerate(made)]
        heard = [each.hear() for each in made]
        assert numbers == [2] * 5
        assert "no such tool" in heard[4]["error"]["message"]
        paths = [each["result"]["structuredContent"]["path"] for each in heard[:4]]
        assert not (root / paths[2]).exists()
        assert "agent: cyd" in git(root, "show", f"draft:{paths[2]}")
        told = [(root / paths[n]).read_text() for n in (0, 1, 3)]
        agents = ("ann", "bob", "mcp")
        assert all(f"agent: {agent}\n" in text for agent, text in zip(agents, told, strict=True))
        assert made[0].call("recall", query="plank 2")["hits"][0]["path"] != paths[2]
        hits = made[2].call("recall", query="plank 2")["hits"]
        assert paths[2] in [each["path"] for each in hits]
        assert made[4].call("recall", query="pier")["hits"]
        (pid,) = residents()
        if sys.platform == "linux":  # The folder is watched once for all.
            opened = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
            assert opened.count("anon_inode:inotify") == 1
        assert not (root / "CONTEXT.md").exists()


@pytest.mark.long
def test_a_session_is_that_of_the_folder_it_was_started_in(
    make_vault: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault(NOTES)
    ids = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with session(root, CLAUDE_CODE_SESSION_ID="") as each:
            ids.append(each.call("session", action="start")["session"])
            each.call("session", action="touch", files=["plan.txt"])
    assert len(set(ids)) == 2
    monkeypatch.chdir(tmp_path / "one")
    with session(root) as each:
        assert each.call("session", action="resume")["session"] == ids[0]
    text = (root / f"sessions/{ids[1]}.md").read_text()
    assert "plan.txt" in text
    assert str(tmp_path) not in text


@pytest.mark.long
def test_sessions_go_on_when_their_process_ends(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    root = make_vault(NOTES)
    with session(root) as one, session(root, "--agent", "b") as two:
        uri = "vaultmem://note/notes/pier.md"
        asked_for = {"id": "s", "method": "resources/subscribe", "params": {"uri": uri}}
        one.say(json.dumps({"jsonrpc": "2.0", **asked_for}))
        assert one.hear()["id"] == "s"
        (first,) = residents()
        asked = [one.ask("remember", text=f"Wave {n}.") for n in range(5)]
        os.kill(first, signal.SIGTERM)
        answers = [one.hear() for _ in asked]
        assert [each["id"] for each in answers] == asked
        paths = {each["result"]["structuredContent"]["path"] for each in answers}
        assert len(paths) == 5
        assert all((root / path).is_file() for path in paths)
        assert two.call("recall", query="pier")["hits"]
        assert len(residents()) == 1
        assert residents() != [first]
        (root / "notes/pier.md").write_text("# Pier\n\nThe pier is of steel.\n")
        assert one.hear()["params"]["uri"] == uri


@pytest.mark.campaign
def test_who_waits_for_a_process_that_is_killed_is_told_and_loses_nothing(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    root = make_vault(NOTES)
    with session(root) as one:
        kept = []
        for n in range(2):
            kept.append(one.call("remember", text=f"Wave {n} came in.")["path"])
            number = one.ask("remember", text=f"Foam {n} went out.")
            os.kill(residents()[0], signal.SIGKILL)
            answer = one.hear()
            assert answer["id"] == number
            if "error" not in answer:  # It came before the end, of which the next who asks hears.
                number = one.ask("recall", query="foam")
                answer = one.hear()
                assert answer["id"] == number
            assert "may have been done" in answer.get("error", {}).get(
                "message", "may have been done"
            )
            assert one.call("recall", query=f"wave {n} came in")["hits"][0]["path"] in kept
    assert all((root / path).is_file() for path in kept)


@pytest.mark.campaign
def test_a_handshake_that_was_refused_is_not_repeated_to_the_next_process(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    """A client whose first probe is answered late sends both; the probe decided the protocol."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    def ask(one: Session, number: int, method: str, **params: Any) -> dict[str, Any]:
        request = {"id": number, "method": method, "params": {**params, "_meta": meta}}
        one.say(json.dumps({"jsonrpc": "2.0", **request}))
        return one.hear()

    one = Session(make_vault(NOTES))
    try:
        assert "result" in ask(one, 2, "server/discover")
        one.say(HELLO)
        assert "handshake is not accepted" in one.hear()["error"]["message"]
        (first,) = residents()
        os.kill(first, signal.SIGTERM)
        wait_until(lambda: first not in residents(), 20)
        listed = ask(one, 3, "tools/call", name="recall", arguments={"query": "pier"})
        assert "> The pier is of oak." in listed["result"]["content"][0]["text"]
    finally:
        one.process.kill()
        one.process.communicate()


@pytest.mark.long
def test_a_process_ends_with_its_last_session_and_a_watcher_takes_its_place(
    make_vault: Make, residents: Callable[[], list[int]], run_cli: Any
) -> None:
    root = make_vault(NOTES)
    with session(root, VAULTMEM_IDLE="0.01"):
        assert "ends when no agent" in run_cli("watch", "--status", "--vault", root).out
    wait_until(lambda: not residents(), 20)
    with session(root) as one:
        assert run_cli("watch", "--daemon", "--vault", root).code == 0
        try:
            assert not residents()
            assert one.call("recall", query="pier")["hits"]
            assert (root / "CONTEXT.md").exists()
        finally:
            run_cli("watch", "--stop", "--vault", root)
        assert one.call("recall", query="pier")["hits"]


@pytest.mark.long
def test_nothing_of_a_process_that_was_killed_is_in_the_way(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    root = make_vault(NOTES)
    with session(root):
        os.kill(residents()[0], signal.SIGKILL)
    with session(root) as one:
        assert one.call("recall", query="pier")["hits"]
    (pid,) = residents()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"  # So the folder can go while it is there.
    shutil.rmtree(root)
    with session(make_vault(NOTES)) as one:
        assert one.call("recall", query="pier")["hits"]


@pytest.mark.long
def test_a_process_of_another_version_makes_room_unless_it_serves_somebody(
    make_vault: Make, home: Path, residents: Callable[[], list[int]], tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    old = tmp_path / "old.py"
    old.write_text(_OLD)
    command = [
        sys.executable,
        str(old),
        "watch",
        "--json",
        "--idle-timeout",
        "1",
        "--vault",
        str(root),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: residents() == [process.pid], 20)
        wait_until(lambda: list(home.rglob("watch.sock")) != [], 20)
        with session(root) as one:
            assert one.call("recall", query="pier")["hits"]
            assert process.wait(20) == 0
            (pid,) = residents()
            assert pid != process.pid


@pytest.mark.campaign
def test_one_that_is_to_be_served_alone_starts_nothing(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    root = make_vault(NOTES)
    with session(root, "--in-process") as one:
        assert one.call("recall", query="pier")["hits"]
        assert not residents()


@pytest.mark.long
def test_one_that_cannot_be_served_by_it_is_served_alone(
    make_vault: Make, residents: Callable[[], list[int]]
) -> None:
    root = make_vault(NOTES)
    with session(root):
        (pid,) = residents()
        with session(root, TZ="Asia/Tokyo") as one:
            assert one.call("recall", query="pier")["hits"]
        os.kill(pid, signal.SIGSTOP)
        with session(root) as one:
            assert one.call("recall", query="pier")["hits"]
        os.kill(pid, signal.SIGCONT)
