"""What the resident process serves over HTTP, as sockets see it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Make
from support import wait_until

pytest.importorskip("starlette")

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from vaultmem.serve.http import BoundedProtocol


def test_the_end_of_an_answer_waits_for_no_acknowledgement_of_its_beginning() -> None:
    assert asyncio.run(_is_sent_at_once())


async def _is_sent_at_once() -> bool:
    config, state = uvicorn.Config(Starlette(), lifespan="off"), ServerState()
    config.load()
    listening = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(
        lambda: BoundedProtocol(config, state, {}), sock=listening
    )
    async with server:
        _, writer = await asyncio.open_connection(*listening.getsockname())
        while not state.connections:
            await asyncio.sleep(0.01)
        (accepted,) = state.connections
        taken = accepted.transport.get_extra_info("socket")
        writer.close()
        return bool(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process has loaded")
def test_the_first_agent_finds_the_sdk_imported(make_vault: Make) -> None:
    pytest.importorskip("mcp")
    root = make_vault({"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"})
    command = [sys.executable, "-P", "-m", "vaultmem", "serve", "--vault", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            loaded = Path(f"/proc/{process.pid}/maps")
            wait_until(lambda: "pydantic_core" in loaded.read_text(), 40)
        finally:
            process.terminate()
