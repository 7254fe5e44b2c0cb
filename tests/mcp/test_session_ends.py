"""Sessions over the server: each start goes on from the last, however that ended."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Make, RunCli
from mcp.client.client import Client
from serving import Session, call, connected, play, play_stdio, serving, session
from support import git, wait_until

NOTES = {"notes/pier.md": "The pier is of oak.\n"}


def leave(client: Session) -> None:
    """Close a client as one is that ends in order."""
    client.process.communicate()


def terminate(client: Session) -> None:
    """End a client's server by a signal."""
    client.process.terminate()
    client.process.communicate()


def hurry(client: Session) -> None:
    """Close a client, and send its server two signals at once while the session is closed."""
    assert client.process.stdin is not None
    client.process.stdin.close()
    client.process.stdin = None
    for number in (signal.SIGINT, signal.SIGTERM):
        client.process.send_signal(number)
    client.process.communicate()


def kill(client: Session) -> None:
    """Kill a client's server in the middle."""
    client.process.kill()
    client.process.communicate()


def look_first(client: Session) -> None:
    """Close a client; the next one asks what the session knew before it begins its own."""
    leave(client)


def close(client: Session) -> None:
    """Close the session, and then the client."""
    client.call("session", action="close", summary="Half of it is mended.")
    leave(client)


def test_a_start_while_one_is_open_begins_none_and_a_resume_is_called_that(
    make_vault: Make,
) -> None:
    async def scene(client: Client) -> None:
        begun = (await call(client, "session", action="start", goal="Mend it"))["session"]
        again = await call(client, "session", action="start", goal="Paint it")
        assert again["session"] == begun
        assert "No session was begun." in again["message"]
        assert '`session {"action": "close"}`' in again["message"]
        closed = await call(client, "session", action="close", learned=["Oak is hard."])
        assert "Learned: MEMORY.md." in closed["message"]
        resumed = await call(client, "session", action="resume", session=begun)
        assert resumed["message"].startswith(f"Resumed {begun}")

    play(make_vault(NOTES), scene)


@pytest.mark.parametrize("how", [(), pytest.param(("--in-process",), marks=pytest.mark.long)])
def test_a_start_goes_on_from_the_last_session_however_that_ended(
    make_vault: Make, how: tuple[str, ...]
) -> None:
    root = make_vault(NOTES)
    last = int(time.time())
    for end in (close, leave, kill, look_first):
        # Of closed sessions the one begun last counts, so no two begin in the same second.
        wait_until(lambda than=last: int(time.time()) > than)
        who = ("--agent", end.__name__, *how)
        with session(root, *who) as first:
            begun = first.call("session", action="start", goal=f"Mend it: {end.__name__}")
            first.call("session", action="note", text="The east end is rotten.")
            end(first)
        with session(root, *who) as second:
            if end is look_first:
                assert "Mend it" in second.call("session", action="restore")["message"]
            again = second.call("session", action="start", goal="Paint it", detail=True)
            assert again["session"] != begun["session"]
            # What had an end is not gone on with by itself, and told of all the same.
            assert again["restored"] == (begun["session"] if end is kill else None)
            assert f"Mend it: {end.__name__}" in again["message"]
            listed = second.call("session", action="list")["message"]
            assert f"> {again['session']} (open, {end.__name__}, " in listed
            assert f"): Mend it: {end.__name__}" in listed
            assert second.call("session", action="start")["session"] == again["session"]
            noted = second.call("session", action="note", text="Blue.")
            assert noted["session"] == again["session"]
            path = second.call("remember", text=f"Paint of {end.__name__} is blue.")["path"]
            assert f"session: {again['session']}\n" in (root / path).read_text()
        last = int(time.time())


@pytest.mark.campaign
def test_one_whose_id_is_said_is_taken_up_again_after_a_crash(make_vault: Make) -> None:
    root = make_vault(NOTES)
    for given, setting in (({"session": "day-1"}, {}), ({}, {"VAULTMEM_SESSION_ID": "day-2"})):
        with session(root, **setting) as first:
            begun = first.call("session", action="start", goal="Mend it", **given)
            kill(first)
        with session(root, **setting) as second:
            again = second.call("session", action="start", **given)
            assert (again["session"], again["status"]) == (begun["session"], "open")
            assert "Mend it" in again["message"]
            close(second)
    with session(root, VAULTMEM_SESSION_ID="day-2") as third:  # Its setting says which it is.
        assert third.call("session", action="start")["session"] == "day-2"


@pytest.mark.campaign
def test_two_servers_of_one_agent_in_one_folder_are_two_sessions(
    make_vault: Make, start_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    with session(root) as one, session(root) as two:
        first = one.call("session", action="start", goal="Mend it")["session"]
        path = two.call("remember", text="Ropes are of hemp.")["path"]
        assert first not in (root / path).read_text()
        second = two.call("session", action="start", goal="Paint it")["session"]
        assert first != second
        assert one.call("session", action="note", text="East end.")["session"] == first
        assert one.call("session", action="close")["session"] == first
        assert two.call("session", action="note", text="Blue.")["session"] == second
        joined = one.call("session", action="start", session=second)["session"]
        assert joined == second
        # What the client began by a command is the session of each of its servers that has none.
        start_cli("session", "start", "--id", "day-1", "--agent", "claude", "--vault", root)
        with session(root, "--agent", "claude") as third:
            path = third.call("remember", text="Tar is of pine.")["path"]
        assert "session: day-1\n" in (root / path).read_text()


#: The server that is a relay to the resident process, and the one that serves alone.
_BOTH = pytest.mark.parametrize(
    "how", [(), pytest.param(("--in-process",), marks=pytest.mark.campaign)], ids=["relay", "alone"]
)


def list_sessions(run_cli: RunCli, root: Path) -> dict[str, str]:
    """Return goals and statuses of all sessions; those whose process is gone are recovered."""
    found = run_cli("session", "list", "--vault", root, "--json").json
    return {each["goal"]: each["status"] for each in found["sessions"]}


def list_commits(root: Path) -> list[str]:
    """Return authors and subjects of the agents' commits, the last one first."""
    return git(root, "log", "--format=%an: %s", "--grep=^Session-Id: ").splitlines()


@pytest.mark.campaign
@_BOTH
def test_a_client_that_ends_in_order_leaves_a_closed_session(
    make_vault: Make, run_cli: RunCli, how: tuple[str, ...]
) -> None:
    root = make_vault(NOTES)
    for number, end in enumerate((leave, terminate, hurry), 1):
        with session(root, "--agent", "bob", *how) as client:
            client.call("session", action="start", goal=f"Mend {number}")
            path = client.call("remember", text=f"Plank {number} is of elm.")["path"]
            end(client)
        subject, *_ = list_commits(root)
        assert subject == f"bob: session-close: Mend {number}"
        assert path in git(root, "show", "--name-only", "--format=")
    assert set(list_sessions(run_cli, root).values()) == {"ok"}
    assert git(root, "status", "--porcelain") == ""
    with session(root, "--agent", "bob", *how) as client:
        client.call("session", action="start", goal="Mend 4")
        kill(client)
    assert list_sessions(run_cli, root)["Mend 4"] == "interrupted"
    assert list_commits(root)[0] == "bob: recover: Mend 4"


#: A client of the SDK that begins a session and then stays, until it is killed.
_STAYING = """
import asyncio, os, sys
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def run():
    words = ["-P", "-m", "vaultmem", "mcp", *sys.argv[1:]]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        await client.call_tool("session", {"action": "start", "goal": "Mend it"})
        await client.call_tool("remember", {"text": "Planks are of elm."})
        print("begun", flush=True)
        await asyncio.sleep(600)

asyncio.run(run())
"""


@pytest.mark.parametrize("how", [(), ("--in-process",)], ids=["relay", "alone"])
def test_the_server_closes_the_session_of_a_client_that_is_killed(
    make_vault: Make, run_cli: RunCli, how: tuple[str, ...]
) -> None:
    root = make_vault(NOTES)
    words = [sys.executable, "-c", _STAYING, "--vault", str(root), "--agent", "bob", *how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        client.kill()

    wait_until(lambda: list_commits(root) == ["bob: recover: Mend it"])  # By nobody's command.
    (note,) = (root / "sessions").glob("*.md")
    assert "status: interrupted\n" in note.read_text()
    assert "planks-are-of-elm" in git(root, "show", "--name-only", "--format=")
    assert list_sessions(run_cli, root) == {"Mend it": "interrupted"}
    with session(root, "--agent", "bob") as second:
        assert "Mend it" in second.call("session", action="start", goal="Paint it")["message"]
    assert len([each for each in list_commits(root) if "Mend it" in each]) == 1


def test_the_server_closes_the_session_of_a_relay_that_is_killed(make_vault: Make) -> None:
    root = make_vault(NOTES)
    with session(root, "--agent", "amy"), session(root, "--agent", "bob") as client:
        client.call("session", action="start", goal="Mend it")
        kill(client)
        wait_until(lambda: list_commits(root) == ["bob: recover: Mend it"])
        (note,) = (root / "sessions").glob("*.md")
        assert "status: interrupted\n" in note.read_text()


@pytest.mark.campaign
@_BOTH
def test_the_exit_of_the_sdks_client_closes_the_session(
    make_vault: Make, run_cli: RunCli, how: tuple[str, ...]
) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> None:
        await call(client, "session", action="start", goal="Mend it")
        await call(client, "session", action="note", text="The east end is rotten.")

    play_stdio(root, scene, "--agent", "bob", *how)
    assert list_commits(root) == ["bob: session-close: Mend it"]
    assert list_sessions(run_cli, root) == {"Mend it": "ok"}


@pytest.mark.campaign
@_BOTH
def test_a_client_that_began_no_session_leaves_no_commit(
    make_vault: Make, how: tuple[str, ...]
) -> None:
    root = make_vault(NOTES)
    for given in (("--agent", "bob"), ("--read-only",)):
        with session(root, *given, *how) as client:
            assert client.call("recall", query="pier oak")["hits"]
            leave(client)
    assert list_commits(root) == []
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.campaign
def test_a_session_on_a_branch_is_closed_there(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")
    with session(root, "--agent", "bob", "--ref", "draft") as client:
        client.call("session", action="start", goal="Mend it")
        leave(client)
    assert "session-close: Mend it" in git(root, "log", "-1", "--format=%s", "draft")
    assert list_commits(root) == []
    assert list_sessions(run_cli, root) == {}


@pytest.mark.campaign
def test_a_session_stays_open_while_another_process_is_in_it(
    make_vault: Make, start_cli: RunCli, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    # By the client, which is this process, as a hook of it does.
    start_cli(
        "session", "start", "--id", "day-1", "--goal", "Mend it", "--agent", "bob", "--vault", root
    )
    with session(root, "--agent", "bob") as one:
        assert one.call("session", action="start")["session"] == "day-1"
        leave(one)
    assert list_sessions(run_cli, root) == {"Mend it": "open"}
    with session(root, "--agent", "amy") as one, session(root, "--agent", "amy") as two:
        begun = one.call("session", action="start", goal="Paint it")["session"]
        two.call("session", action="start", session=begun)
        leave(one)
        assert list_sessions(run_cli, root)["Paint it"] == "open"
        leave(two)
    assert list_sessions(run_cli, root) == {"Mend it": "open", "Paint it": "ok"}


@pytest.mark.campaign
def test_a_session_that_was_left_is_open_again_when_it_is_written_to(make_vault: Make) -> None:
    root = make_vault(NOTES)
    for action, given in {"note": {"text": "Blue."}, "start": {}}.items():
        with session(root, "--agent", "bob") as client:
            begun = client.call("session", action="start", goal=f"Mend it: {action}")["session"]
            leave(client)
        with session(root, "--agent", "bob") as client:
            again = client.call("session", action=action, session=begun, **given)
            assert (again["session"], "ended:" in (root / f"sessions/{begun}.md").read_text()) == (
                begun,
                False,
            )
            leave(client)
        assert "status: ok" in (root / f"sessions/{begun}.md").read_text()


@pytest.mark.campaign
def test_the_end_of_an_mcp_session_over_http_closes_the_session(
    make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)

    async def scene(port: int, token: str) -> None:
        async with connected(port, token, mode="legacy") as one:
            begun = (await call(one, "session", action="start", goal="Mend it"))["session"]
            async with connected(port, token, mode="legacy") as two:
                await call(two, "session", action="start", session=begun)
                await call(two, "remember", text="Bollards are of iron.")
            assert list_sessions(run_cli, root) == {"Mend it": "open"}  # It is one's too.
        assert list_sessions(run_cli, root) == {"Mend it": "ok"}
        assert list_commits(root) == ["web: session-close: Mend it"]

    with serving(root, "--agent", "web") as (port, token):
        asyncio.run(scene(port, token))
    assert list_commits(root) == ["web: session-close: Mend it"]


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_end_of_a_server_over_http_closes_the_sessions_begun_there(
    make_vault: Make, run_cli: RunCli, mode: str
) -> None:
    root = make_vault(NOTES)

    async def begin(port: int, token: str) -> None:
        async with connected(port, token, mode=mode, ends=False) as client:
            await call(client, "session", action="start", goal="Mend it")

    with serving(root, "--agent", "web") as (port, token):
        asyncio.run(begin(port, token))
        assert list_sessions(run_cli, root) == {"Mend it": "open"}
    assert list_commits(root) == ["web: session-close: Mend it"]
    assert list_sessions(run_cli, root) == {"Mend it": "ok"}
