"""The server over a socket: a message a line, as on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from vaultmem.storage.watch_socket import GOODBYE

#: A longer line (bytes) ends its connection.
_LONGEST = 1 << 26


class LineConnection:
    """A client's connection: the lines that come, and those that go.

    `at_end` is awaited when the client has ended in order, before it is hung up on.
    """

    def __init__(self, connection: socket.socket, at_end: Callable[[], Awaitable[object]]) -> None:
        self._connection = connection
        self._at_end = at_end
        self._has_ended = False
        self._is_held = False
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, server: Server[Any]) -> None:
        """Serve until the client goes, or `leave`."""
        self._task = asyncio.create_task(self._serve(server))
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def hold(self) -> None:
        """Take no more requests; what was taken is still answered."""
        self._is_held = True

    async def leave(self) -> None:
        """End, and tell the client that nothing is left half done."""
        with contextlib.suppress(OSError):
            await self.write(GOODBYE.decode())
        if self._task is not None:
            self._task.cancel()

    async def _serve(self, server: Server[Any]) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=self._connection, limit=_LONGEST)
        self._reader, self._writer = reader, writer
        try:
            await self._talk(server)
            if self._has_ended:
                await self._at_end()
        finally:
            writer.close()

    async def _talk(self, server: Server[Any]) -> None:
        both = cast(Any, self)
        try:
            async with stdio_server(both, both) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        except* (OSError, ValueError):  # The client went in the middle, or sends no lines.
            pass

    def __aiter__(self) -> LineConnection:
        """Give the lines that come."""
        return self

    async def __anext__(self) -> str:
        """Return the next line."""
        line = await self._reader.readline()
        while self._is_held and line and line != GOODBYE:  # The client asks another process.
            line = await self._reader.readline()
        self._has_ended = line == GOODBYE
        if not line or self._has_ended:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def write(self, line: str) -> None:
        """Send a line, once the client has room for it."""
        if self._writer is not None:
            self._writer.write(line.encode())
            await self._writer.drain()

    async def flush(self) -> None:
        """Do nothing: a line that was written is on its way."""
