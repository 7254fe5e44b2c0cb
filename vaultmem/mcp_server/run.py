"""Run the server until its client goes, or it is told to end; over HTTP it asks for a token."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from vaultmem.errors import ConflictError, RefusedError
from vaultmem.mcp_server.sdk import import_sdk
from vaultmem.workers.caller import Caller
from vaultmem.workers.kept_vault import warm_up
from vaultmem.workers.workers import Workers

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

#: A shorter token could be guessed.
_LEAST = 16


def serve(root: Path, caller: Caller, http: tuple[int, str] | None = None) -> None:
    """Serve a vault over standard input and output, or over HTTP at a port, with a token.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    gc.disable()  # Hundreds of thousands of objects are made now, and all of them stay.
    if http is None:
        import_sdk()
    import anyio

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.server import build_server

    subscribers = Subscribers()
    workers = Workers(root, subscribers.notice)
    # The first question waits less; what is wrong with the vault is told when something is asked.
    workers.submit_read(warm_up, caller)
    server = build_server(workers, caller, subscribers)
    gc.freeze()
    gc.enable()
    try:
        anyio.run(_serve, server, workers, http)
    finally:
        workers.close()


async def _serve(server: Server[Any], workers: Workers, http: tuple[int, str] | None) -> None:
    if http is None:
        from mcp.server.stdio import stdio_server

        _end_on_signals(workers)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    else:
        from vaultmem.mcp_server.http import serve_http

        await serve_http(server, *http)


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


def read_token(file: Path) -> str:
    """Return the token in a file that only its owner can read; it is made if it is not there.

    Raises:
        RefusedError: others can read the file, or its token is shorter than 16 characters.
    """
    import secrets

    from vaultmem.storage.files import create_file

    if not file.exists():
        fresh = f"{secrets.token_urlsafe(32)}\n".encode()
        with contextlib.suppress(ConflictError):  # Another server made one meanwhile.
            create_file(file.parent, PurePosixPath(file.name), fresh, 0o600)
    if file.stat().st_mode & 0o077:
        raise RefusedError(f"{file}: others can read it; run `chmod 600 {file}`")
    token = file.read_text(encoding="ascii").strip()
    if len(token) < _LEAST:
        raise RefusedError(f"{file}: a token needs {_LEAST} characters or more")
    return token
