"""Run the server over standard input and output, until its client goes or a signal comes."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from vaultmem.storage.watch_socket import CLOSING
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
    server = build_server(workers, caller, subscribers)
    ending = _Ending(workers, caller)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ending.on_signal)
    try:
        anyio.run(_serve, server)
    finally:
        ending.finish()


async def _serve(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class _Ending:
    """The end of the server, after its client's or by a signal.

    The requests under way are completed, and the session is closed. At a signal the process then
    exits by itself: the SDK would wait for another line of its client.
    """

    def __init__(self, workers: Workers, caller: Caller) -> None:
        self._workers = workers
        self._caller = caller
        self._finishing = threading.Lock()
        self._signalled = 0.0

    def on_signal(self, number: int, _: object) -> None:
        """End the server; a signal that is repeated after some seconds ends it at once."""
        if not self._signalled:
            self._signalled = monotonic()
            threading.Thread(target=self._exit, args=[number], daemon=True).start()
        elif monotonic() - self._signalled > CLOSING:
            os._exit(128 + number)

    def finish(self) -> None:
        """Complete what is under way, and close the session; return when that is done."""
        with self._finishing:
            self._workers.submit_close(self._caller)
            self._workers.close()

    def _exit(self, number: int) -> None:
        self.finish()
        os._exit(128 + number)
