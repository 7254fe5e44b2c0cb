"""A server of a vault and the SDK's own client, in one process or as two."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from support import wait_until

from vaultmem.storage.lock import is_held
from vaultmem.workers import Caller, Workers

if TYPE_CHECKING:
    from mcp.client.client import Client

Result = TypeVar("Result")
Play = Callable[["Client"], Awaitable[Result]]

#: How a client begins.
HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
)


def play(root: Path, scene: Play[Result], *, mode: str = "auto", **who: Any) -> Result:
    """Run a scene with a client whose server is in this process."""

    from mcp.client.client import Client

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.tool_server import build_server

    async def run() -> Result:
        subscribers = Subscribers()
        workers = Workers(root, subscribers.notice)
        caller = Caller(**{"agent": "claude", "may_write": True, "environment": os.environ} | who)
        try:
            async with Client(build_server(workers, caller, subscribers), mode=mode) as client:
                return await scene(client)
        finally:
            await asyncio.to_thread(workers.close)

    return asyncio.run(run())


def play_stdio(root: Path, scene: Play[Result], *options: str) -> Result:
    """Run a scene with a client whose server is a process of its own."""

    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def run() -> Result:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "vaultmem", "mcp", "--vault", str(root), *options],
            env=dict(os.environ),
        )
        async with Client(stdio_client(server)) as client:
            return await scene(client)

    return asyncio.run(run())


@contextlib.contextmanager
def serving(root: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Serve over HTTP, and give its port and token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token_file = root.parent / "token"
    command = [sys.executable, "-P", "-m", "vaultmem", "serve", "--vault", str(root)]
    command += ["--port", str(port), "--token-file", str(token_file), *options]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_served(port), 40)
        yield port, token_file.read_text().strip()
    finally:
        process.terminate()
        assert process.wait(timeout=20) is not None


def is_served(port: int) -> bool:
    """Return whether a process accepts connections at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.asynccontextmanager
async def connected(
    port: int, token: str, *, mode: str = "auto", ends: bool = True
) -> AsyncIterator[Client]:
    """Connect the SDK's client over HTTP; at its end it ends its session, unless not `ends`."""
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as web:
        place = f"http://127.0.0.1:{port}/mcp"
        stream = streamable_http_client(place, http_client=web, terminate_on_close=ends)
        async with Client(stream, mode=mode) as client:
            yield client


async def call(client: Client, name: str, **given: Any) -> dict[str, Any]:
    """Call a tool that has to answer, and return all its data."""
    done = await client.call_tool(name, {"detail": True, **given})
    assert not done.is_error, told(done)
    assert isinstance(done.structured_content, dict)
    return done.structured_content


async def refused(client: Client, name: str, **given: Any) -> str:
    """Call a tool that has to refuse, or is none, and return what is said."""
    from mcp.shared.exceptions import MCPError

    try:
        done = await client.call_tool(name, given)
    except MCPError as error:
        return error.error.message
    assert done.is_error, told(done)
    return told(done)


def told(done: Any) -> str:
    """Return the text of a tool's answer."""
    return "\n".join(each.text for each in done.content)


class Session:
    """A client of `vaultmem mcp`, by hand: what it says and hears are lines."""

    def __init__(self, root: Path, *options: str, **env: str) -> None:
        command = [sys.executable, "-P", "-m", "vaultmem", "mcp", "--vault", str(root), *options]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, env={**os.environ, **env}, **pipes)
        self._number = 1

    def greet(self) -> None:
        self.say(HELLO)
        assert self.hear()["result"]["serverInfo"]["name"] == "vaultmem"
        self.say('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, tool: str, **given: Any) -> int:
        self._number += 1
        params = {"name": tool, "arguments": given}
        asked = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params}
        self.say(json.dumps(asked))
        return self._number

    def call(self, tool: str, **given: Any) -> Any:
        number = self.ask(tool, **given)
        answer = self.hear()
        assert answer["id"] == number, answer
        assert not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]


@contextlib.contextmanager
def session(root: Path, *options: str, **env: str) -> Iterator[Session]:
    """Have a session until the end of a `with`."""
    made = Session(root, *options, **env)
    try:
        made.greet()
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def find_residents(state: Path) -> dict[Path, int]:
    """Return the processes that agents started and that still are, by their vault's state."""
    found: dict[Path, int] = {}
    for file in state.glob("vaultmem/vaults/*/watch.json"):
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(file.read_text())
            if told["passing"] and is_held(file.with_name("watch.lock")):
                found[file.parent] = told["pid"]
    return found


def end_residents(state: Path) -> None:
    """End the processes that agents started, and wait until they have ended."""
    for folder, pid in find_residents(state).items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda folder=folder: not is_held(folder / "watch.lock"), 20)
