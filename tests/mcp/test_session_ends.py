"""Sessions over the server: each start goes on from the last, however that ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import RunCli
from serving import Session, session

Make = Callable[..., Path]

NOTES = {"notes/pier.md": "The pier is of oak.\n"}


def leave(client: Session) -> None:
    """Close a client as one is that ends in order."""
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


@pytest.mark.parametrize("how", [(), pytest.param(("--alone",), marks=pytest.mark.long)])
def test_a_start_goes_on_from_the_last_session_however_that_ended(
    make_vault: Make, how: tuple[str, ...]
) -> None:
    root = make_vault(NOTES)
    # A close is told of as the last that was begun here, so no other is of the same second.
    for end in (close, leave, kill, look_first):
        who = ("--agent", end.__name__, *how)
        with session(root, *who) as first:
            begun = first.call("session", action="start", goal=f"Mend it: {end.__name__}")
            first.call("session", action="note", text="The east end is rotten.")
            end(first)
        with session(root, *who) as second:
            if end is look_first:
                assert "Mend it" in second.call("session", action="restore")["told"]
            again = second.call("session", action="start", goal="Paint it", detail=True)
            assert again["session"] != begun["session"]
            # What had an end is not gone on with by itself, and told of all the same.
            assert again["restored"] == (None if end is close else begun["session"])
            assert f"Mend it: {end.__name__}" in again["told"]
            listed = second.call("session", action="list")["told"]
            assert f"> {again['session']} (open, {end.__name__}, " in listed
            assert f"): Mend it: {end.__name__}" in listed
            assert second.call("session", action="start")["session"] == again["session"]
            noted = second.call("session", action="note", text="Blue.")
            assert noted["session"] == again["session"]
            path = second.call("remember", text=f"Paint of {end.__name__} is blue.")["path"]
            assert f"session: {again['session']}\n" in (root / path).read_text()


def test_one_whose_id_is_said_is_taken_up_again_after_a_crash(make_vault: Make) -> None:
    root = make_vault(NOTES)
    for given, setting in (({"session": "day-1"}, {}), ({}, {"VAULTMEM_SESSION_ID": "day-2"})):
        with session(root, **setting) as first:
            begun = first.call("session", action="start", goal="Mend it", **given)
            kill(first)
        with session(root, **setting) as second:
            again = second.call("session", action="start", **given)
            assert (again["session"], again["status"]) == (begun["session"], "open")
            assert "Mend it" in again["told"]
            close(second)
    with session(root, VAULTMEM_SESSION_ID="day-2") as third:  # Its setting says which it is.
        assert third.call("session", action="start")["session"] == "day-2"


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
