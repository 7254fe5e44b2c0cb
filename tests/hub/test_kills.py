"""A hub that is killed at any moment loses nothing that somebody was told is there."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from hub_serving import Team, push
from support import git, wait_until

from vaultmem.hub.hub_server import sweep

_SERVE = """
import sys
from pathlib import Path
from vaultmem.hub.hub_server import HubServer, Served
from vaultmem.serve.http import ListenAddress
from vaultmem.services.hub.hub_folder import open_hub
server = HubServer(open_hub(Path(sys.argv[1])), Served(ListenAddress(int(sys.argv[2]))))
server.start()
print("serving", flush=True)
server.wait()
"""

_PLACE = "objects/*incoming-*"

_TELLS = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc tells which gits belong to the hub"
)


class Tellers:
    """Writers who go on whatever happens; `told` are the texts that they were told are there."""

    def __init__(self, team: Team) -> None:
        self.told: dict[str, list[str]] = {"harbour": [], "payments": []}
        self.failed = 0
        self.up = threading.Event()
        self._ended = threading.Event()
        maren, porter = team.person("maren", own="*"), team.agent("porter", write="*")
        pushed = {name: team.clone(name, "maren", maren) for name in self.told}
        works: list[Callable[[], None]] = [
            lambda: self._push("harbour", pushed["harbour"]),
            lambda: self._push("payments", pushed["payments"]),
            lambda: self._remember(team, "harbour", porter),
        ]
        self._threads = [threading.Thread(target=self._go_on, args=[work]) for work in works]
        self._count = iter(range(1_000_000))

    def __enter__(self) -> Tellers:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    def _go_on(self, work: Callable[[], None]) -> None:
        while not self._ended.is_set():
            if self.up.wait(0.5):
                work()

    def _push(self, name: str, clone: Path) -> None:
        text = f"Plank {next(self._count)} is of oak."
        (clone / f"notes/{text.split()[1]}-plank.md").write_text(f"# {text}\n")
        git(clone, "add", ".")
        git(clone, "commit", "-qm", text)
        pulled = subprocess.run(["git", "pull", "-q", "--rebase"], cwd=clone, capture_output=True)
        if pulled.returncode == 0 and push(clone).returncode == 0:
            self.told[name].append(text)
        else:
            self.failed += 1

    def _remember(self, team: Team, name: str, token: str) -> None:
        text = f"Rope {next(self._count)} is of hemp."
        try:
            with team.client(token) as client:
                done = client.post(f"/v/{name}/api/v1/notes", json={"text": text})
        except httpx2.HTTPError:
            done = None
        if done is not None and done.status_code == 201:
            self.told[name].append(text)
        else:
            self.failed += 1


@pytest.mark.campaign
def test_what_a_killed_git_left_keeps_nobody_out(team: Team) -> None:
    repository = team.hub.repositories / "harbour.git"
    lock, half = repository / "refs/heads/main.lock", repository / "objects/tmp_objdir-incoming-x"
    lock.touch()
    half.mkdir()
    clone = team.clone("harbour", "maren", team.person("maren", own="*"))
    git(clone, "commit", "-q", "--allow-empty", "-m", "Nothing")
    assert push(clone).returncode != 0
    os.utime(lock)
    sweep(repository, time.time())
    assert lock.exists()  # It may be somebody's who is at work.
    sweep(repository, time.time() + 60)
    assert not lock.exists()
    assert not half.exists()
    assert push(clone).returncode == 0


@_TELLS
@pytest.mark.campaign
def test_what_it_started_ends_with_it(team: Team) -> None:
    team.close()
    port = _find_port()
    team.enlarge("harbour")
    team.address = f"http://127.0.0.1:{port}"
    with _serving(team, port) as server, team.ask_for_all(team.person("maren", own="*")):
        wait_until(lambda: _find_gits(team))
        server.kill()
        wait_until(lambda: not _find_gits(team))


@_TELLS
@pytest.mark.parametrize(
    "rounds",
    [pytest.param(5, marks=pytest.mark.campaign), pytest.param(150, marks=pytest.mark.long)],
)
def test_nothing_that_was_told_is_lost(team: Team, rounds: int) -> None:
    team.close()
    port = _find_port()
    team.address = f"http://127.0.0.1:{port}"
    chance = random.Random(rounds)
    with _serving(team, port):
        tellers = Tellers(team)
    with tellers:
        for number in range(rounds):
            with _serving(team, port) as server:
                tellers.up.set()
                time.sleep(chance.uniform(0.1, 3.0))
                tellers.up.clear()
                victims = [server.pid, *(_find_gits(team) if number % 2 else [])]
                for pid in victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        with _serving(team, port):
            tellers.up.set()
            before = sum(map(len, tellers.told.values()))
            wait_until(lambda: sum(map(len, tellers.told.values())) > before + 4, 60)
    assert tellers.failed
    with _serving(team, port):
        wait_until(lambda: not _find_gits(team), 60)
        for name, texts in tellers.told.items():
            repository = team.hub.repositories / f"{name}.git"
            git(repository, "fsck", "--strict", "--no-dangling")
            there = git(repository, "grep", "-h", "-o", "-E", "(Plank|Rope) [0-9]+ is", "main")
            assert texts
            assert {each.rpartition(" of")[0] for each in texts} <= set(there.splitlines())
            wait_until(lambda: not list(repository.rglob("*.lock")), 30)  # noqa: B023
            wait_until(lambda: not list(repository.glob(_PLACE)), 30)  # noqa: B023


@contextlib.contextmanager
def _serving(team: Team, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-c", _SERVE, str(team.hub.folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "serving\n"
            yield server
        finally:
            server.terminate()


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _find_gits(team: Team) -> list[int]:
    """Return the processes of git and of its hook that work for the hub."""
    wanted, found = f"VAULTMEM_HUB={team.hub.folder}\0".encode(), []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in file.read_bytes() + b"\0":
                found.append(int(file.parent.name))
    return found
