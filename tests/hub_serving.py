"""A hub that is served by this process, and people and agents with tokens who come to it."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from support import git

from vaultmem.hub.hub_server import HubServer, ServeOptions
from vaultmem.serve.http import ListenAddress
from vaultmem.services.fleet.pool import Lane, LocalPool, Pool
from vaultmem.services.hub.grants import GrantKind, GrantScope, make_grant
from vaultmem.services.hub.hub_folder import Hub, make_hub
from vaultmem.services.hub.repositories import make_repository

Result = TypeVar("Result")


class Team:
    """A hub with its vaults, and who comes to it."""

    def __init__(self, folder: Path, template: Path, vaults: Sequence[str]) -> None:
        self.folder = folder
        self.hub: Hub = make_hub(folder / "hub")
        for name in vaults:
            make_repository(self.hub, name, os.environ, str(template), "main")
        self.server: HubServer | None = None
        self.address = ""

    def serve(
        self, port: int = 0, names: tuple[str, ...] = (), pool: Pool | None = None, **served: Any
    ) -> None:
        self.server = HubServer(self.hub, ServeOptions(ListenAddress(port, names=names), **served))
        self.server.start(None if pool is None else lambda: pool)
        self.address = self.server.address

    def close(self) -> None:
        if self.server is not None:
            self.server.close()

    def person(self, name: str, expires: float = 0.0, **scopes: str) -> str:
        """Return the token of a person: `own="*"`."""
        return self._grant(name, GrantKind.PERSON, expires, scopes)

    def agent(self, name: str, expires: float = 0.0, **scopes: str) -> str:
        return self._grant(name, GrantKind.AGENT, expires, scopes)

    def _grant(self, name: str, kind: GrantKind, expires: float, scopes: dict[str, str]) -> str:
        given = {GrantScope(scope): [vaults] for scope, vaults in scopes.items()}
        emails = [f"{name} <{name}@example.org>"] if kind is GrantKind.PERSON else []
        return make_grant(self.hub, name, kind, given, time.time(), emails, expires=expires)[1]

    def url(self, vault: str, token: str = "", user: str = "anybody") -> str:
        place = self.address.removeprefix("http://")
        who = f"{user}:{token}@" if token else ""
        return f"http://{who}{place}/git/{vault}.git"

    def clone(self, vault: str, name: str, token: str) -> Path:
        """Return a clone of somebody's, with whose name they commit in it."""
        root = self.folder / f"{name}-{vault}"
        shutil.rmtree(root, ignore_errors=True)
        git(self.folder, "clone", "-q", self.url(vault, token, name), str(root))
        git(root, "config", "user.name", name)
        git(root, "config", "user.email", f"{name}@example.org")
        return root

    def client(self, token: str = "", **headers: str) -> httpx2.Client:
        """Return a program with a token."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return httpx2.Client(base_url=self.address, headers=headers, timeout=60)

    def tip(self, vault: str, ref: str = "refs/heads/main") -> str:
        """Return the commit that a ref of a hub's repository is at, "" if there is none."""
        return git(
            self.hub.repositories / f"{vault}.git", "rev-parse", "-q", "--verify", ref, check=False
        )

    def enlarge(self, vault: str) -> None:
        """Commit a file of 15 MB to a vault: an answer that has it fits in no buffer."""
        bare = self.hub.repositories / f"{vault}.git"
        chart = self.folder / "chart.bin"
        chart.write_bytes(random.Random(7).randbytes(15_000_000))
        blob = git(bare, "hash-object", "-w", str(chart))
        files = f"{git(bare, 'ls-tree', 'main')}\n100644 blob {blob}\tchart.bin\n"
        tree = git(bare, "mktree", stdin=files)
        commit = git(bare, "commit-tree", "-p", "main", "-m", "Add a chart", tree)
        git(bare, "update-ref", "refs/heads/main", commit)

    def connect(self) -> socket.socket:
        host, _, port = self.address.removeprefix("http://").rpartition(":")
        return socket.create_connection((host, int(port)), 120)

    def write_head(self, token: str, kind: str, size: int, *more: str) -> bytes:
        """Return the head of a request by git's client to `harbour`; kind: upload or receive."""
        lines = (
            f"POST /git/harbour.git/git-{kind}-pack HTTP/1.1",
            f"Host: {self.address.removeprefix('http://')}",
            f"Authorization: Bearer {token}",
            f"Content-Type: application/x-git-{kind}-pack-request",
            f"Content-Length: {size}",
            *more,
        )
        return "\r\n".join([*lines, "", ""]).encode()

    def ask_for_all(self, token: str) -> socket.socket:
        """Ask for all that `harbour` has, as git does that clones, and do not read the answer."""
        wanted = b"0032want %s\n00000009done\n" % self.tip("harbour").encode()
        wire = self.connect()
        wire.sendall(self.write_head(token, "upload", len(wanted)) + wanted)
        return wire


class PicklingPool(LocalPool):
    """A pool to which, and from which, everything goes as it would to another process."""

    def submit(self, name: str, work: Any, *args: Any, lane: Lane = Lane.READ) -> Future[Any]:
        work, args = pickle.loads(pickle.dumps((work, args)))
        return super().submit(name, _answer_in_bytes, work, args, lane=lane)

    def call_parts(self, given: Any, work: Any, opening: Any, *args: Any) -> Any:
        sent = pickle.loads(pickle.dumps((given, work, opening, args)))
        return pickle.loads(pickle.dumps(super().call_parts(*sent[:3], *sent[3])))


def _answer_in_bytes(clones: Any, name: str, work: Any, args: Any) -> Any:
    return pickle.loads(pickle.dumps(work(clones, name, *args)))


def push(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Push as a person would; what git says is on stderr."""
    command = ["git", "push", *(words or ("origin", "HEAD"))]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def play_at(address: str, token: str, scene: Callable[[Any], Awaitable[Result]]) -> Result:
    """Run a scene with the SDK's own client, which names a token."""
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> Result:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as web,
            Client(streamable_http_client(address, http_client=web)) as client,
        ):
            return await scene(client)

    return asyncio.run(run())
