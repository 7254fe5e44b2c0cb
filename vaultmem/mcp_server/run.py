"""Run the server over standard input and output, until its client goes or a signal comes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.workers.caller import Caller
from vaultmem.workers.kept_vault import warm_up
from vaultmem.workers.workers import Workers

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


def serve_alone(root: Path, caller: Caller) -> None:
    """Serve a vault over standard input and output, by this process alone.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    import anyio

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.server import build_server

    subscribers = Subscribers()
    workers = Workers(root, subscribers.notice)
    # The first question waits less; what is wrong with the vault is told when something is asked.
    workers.submit_read(warm_up, caller)
    try:
        anyio.run(_serve, build_server(workers, caller, subscribers), workers)
    finally:
        workers.close()


async def _serve(server: Server[Any], workers: Workers) -> None:
    from mcp.server.stdio import stdio_server

    _end_on_signals(workers)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _end_on_signals(workers: Workers) -> None:
    """Let Ctrl-C end the server when what is under way is done, and a second one at once.

    The SDK would wait for another line of its client.
    """
    import asyncio

    ending: list[int] = []

    def finish(number: int) -> None:
        workers.close()
        os._exit(128 + number)

    def end(number: int) -> None:
        if ending:
            os._exit(128 + number)
        ending.append(number)
        threading.Thread(target=finish, args=[number]).start()

    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # On Windows.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, number)
