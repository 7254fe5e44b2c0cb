"""What happens to a vault, or to a call, while the server runs: it goes on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Open
from mcp.client.client import Client
from serving import HELLO, call, play, play_stdio, refused
from support import git, lock_git, write_notes

Play = Callable[..., object]

#: A server in this process, and one that is a process of its own.
_STDIO = pytest.param(play_stdio, marks=pytest.mark.long)

#: In this process, and in the long form by the relay and the process that it leads to.
everywhere = pytest.mark.parametrize("play", [play, _STDIO])

NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/pay/refunds.md": "---\nkind: decision\n---\n# Refunds\n\nOne job each.\n",
}


@everywhere
def test_a_server_outlives_its_vaults_accidents(play: Play, make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    aside = root.with_name("aside")

    async def scene(client: Client) -> None:
        assert (await call(client, "recall", query="refunds"))["hits"]
        root.rename(aside)
        assert "no such folder" in await refused(client, "recall", query="refunds")
        aside.rename(root)
        assert (await call(client, "recall", query="refunds"))["hits"]
        write_notes(root, {"notes/new.md": "Lighthouse lamps.\n"})
        found = await call(client, "recall", query="lighthouse lamps")
        assert found["hits"][0]["path"] == "notes/new.md"
        git(root, "checkout", "-q", "-b", "other")
        write_notes(root, {"vaultmem.yaml": "budget: nonsense\n"})
        assert "budget" in await refused(client, "recall", query="refunds")
        write_notes(root, {"vaultmem.yaml": ""})
        assert (await call(client, "recall", query="refunds"))["hits"]
        vault = opened(root)
        for file in vault.state_folder.rglob("*"):
            if file.is_file() and file.name != "lock":
                file.unlink()
        assert (await call(client, "recall", query="refunds"))["hits"]

    play(root, scene)


# Whoosh forgets to close a table of contents that it could not read.
@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@everywhere
def test_a_server_answers_rightly_whatever_is_damaged_between_two_calls(
    play: Play, make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)

    def damage(number: int) -> None:
        index = vault.state_folder / "index"
        files = [*index.glob("*.arrays"), *index.glob("*.toc"), vault.state.path, index]
        file = files[number % len(files)]
        if file.is_dir():
            shutil.rmtree(file)
        elif number < len(files):
            os.truncate(file, file.stat().st_size // 3)
        else:
            file.unlink()

    async def scene(client: Client) -> None:
        wanted = (await call(client, "recall", query="refunds"))["hits"]
        for number in range(8):
            damage(number)
            found = (await call(client, "recall", query="refunds"))["hits"]
            assert [hit["path"] for hit in found] == [hit["path"] for hit in wanted]
            damage(number)
            written = await call(client, "remember", text=f"Wave number {number} came in.")
            found = (await call(client, "recall", query=f"wave {number}"))["hits"]
            assert written["path"] in [hit["path"] for hit in found]

    play(root, scene)


@everywhere
def test_a_caller_who_gives_up_leaves_the_server_working(play: Play, make_vault: Make) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> None:
        calls = [
            asyncio.create_task(client.call_tool("remember", {"text": f"Wave number {n}."}))
            for n in range(20)
        ]
        await asyncio.sleep(0.05)
        for each in calls[5:]:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for n in range(5):
            found = await call(client, "recall", query=f"wave number {n}", limit=50)
            assert f"number {n}." in found["message"]

    play(root, scene)
    assert not list(root.rglob(".vaultmem-*"))


@everywhere
def test_a_server_goes_on_without_git_and_under_another_gits_lock(
    play: Play, make_vault: Make
) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> None:
        assert (await call(client, "recall", query="refunds"))["hits"]
        (root / ".git").rename(root / ".gone")
        assert (await call(client, "recall", query="refunds"))["hits"]
        assert "without git" in (await call(client, "context_pack", query="refunds"))["message"]
        assert "not in a git repository" in await refused(client, "checkpoint", note="x")
        (root / ".gone").rename(root / ".git")
        await call(client, "remember", text="Bollards are of iron.")
        lock_git(root)
        assert "the notes are safe on disk" in await refused(client, "checkpoint", note="locked")
        (root / ".git/index.lock").unlink()
        done = await call(client, "checkpoint", note="free")
        subjects = [each["subject"] for each in done["commits"]]
        assert subjects == ["checkpoint: locked", "checkpoint: free"]

    play(root, scene)
    assert git(root, "status", "--porcelain") == ""


@everywhere
def test_whoever_writes_waits_for_the_lock_and_whoever_reads_does_not(
    play: Play, make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> None:
        await call(client, "recall", query="refunds")
        vault = opened(root)
        with vault.lock():
            # This thread holds the lock, the server's threads are others.
            writing = asyncio.create_task(call(client, "remember", text="Bollards are of iron."))
            for _ in range(3):
                assert (await call(client, "recall", query="refunds"))["hits"]
            assert not writing.done()
        path = (await writing)["path"]
        assert (root / path).is_file()

    play(root, scene)


@everywhere
def test_another_vault_in_its_place_is_another_vault(play: Play, make_vault: Make) -> None:
    root, other = make_vault(NOTES), make_vault({"notes/zebra.md": "Zebras graze.\n"}, name="b")
    aside = root.with_name("aside")

    async def scene(client: Client) -> None:
        assert (await call(client, "recall", query="refunds"))["hits"]
        root.rename(aside)
        other.rename(root)
        found = await call(client, "recall", query="zebras graze")
        assert [hit["path"] for hit in found["hits"]] == ["notes/zebra.md"]
        assert not (await call(client, "recall", query="refunds"))["hits"]
        path = (await call(client, "remember", text="Lions do not graze."))["path"]
        assert (root / path).is_file()
        root.rename(other)
        aside.rename(root)
        assert not (await call(client, "recall", query="zebras"))["hits"]
        assert (await call(client, "recall", query="refunds"))["hits"]

    play(root, scene)


#: How a client ends a server, as one act after the other, and what it may be seen to end with.
_SINGLE: dict[Any, set[int]] = {
    "close": {0},
    "close and SIGTERM": {0, 143, -15},
    signal.SIGKILL: {-9},
    signal.SIGTERM: {143},
}


@pytest.mark.campaign
@pytest.mark.parametrize("endings", [_SINGLE, {signal.SIGINT: {130}}], ids=["one", "terminal"])
def test_a_server_ends_as_its_client_has_it(make_vault: Make, endings: dict[Any, set[int]]) -> None:
    root = make_vault(NOTES)
    for ending, codes in endings.items():
        end_server(root, ending, codes)


def end_server(root: Path, ending: Any, codes: set[int]) -> None:
    """Start a server, end it, and see how it ended and that it said nothing."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-P", "-m", "vaultmem", "mcp", "--vault", str(root)]
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
        process.stdin.write(HELLO + "\n")
        process.stdin.flush()
        assert "serverInfo" in process.stdout.readline()
        if ending == "close":
            process.stdin.close()
        elif ending == "close and SIGTERM":
            process.send_signal(signal.SIGTERM)
            process.stdin.close()
        elif ending == signal.SIGINT:  # As a terminal sends it: to all of them.
            os.killpg(process.pid, ending)
        else:
            process.send_signal(ending)
        assert process.wait(20) in codes, ending
        assert process.stderr.read() == "", ending
