"""Run the server until its client goes, or it is told to end."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.mcp_server.sdk import import_sdk
from vaultmem.mcp_server.workplace import Workplace

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


def serve(
    root: Path,
    agent: str,
    ref: str = "",
    read_only: bool = False,
    http: tuple[int, str] | None = None,
) -> None:
    """Serve a vault over standard input and output, or over HTTP at a port, with a token.

    `agent` is whose name stands on what is written; `ref` pins the server to a branch.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    gc.disable()  # Hundreds of thousands of objects are made now, and all of them stay.
    place = Workplace(root, agent, ref, read_only)
    try:
        place.watch()
        if http is None:
            import_sdk()
        import anyio

        from vaultmem.mcp_server.resources import Subscribers
        from vaultmem.mcp_server.server import build_server

        subscribers = Subscribers()
        place.notice = subscribers.notice
        server = build_server(place, subscribers)
        gc.freeze()
        gc.enable()
        anyio.run(_serve, server, place, http)
    finally:
        place.close()


async def _serve(server: Server[Any], place: Workplace, http: tuple[int, str] | None) -> None:
    place.warm_up()
    if http is None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    else:
        from vaultmem.mcp_server.http import serve_http

        await serve_http(server, *http)
