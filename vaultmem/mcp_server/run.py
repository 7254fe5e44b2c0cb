"""The MCP server over standard input and output, or over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vaultmem.mcp_server.session_tools import SESSION_HEADER
from vaultmem.storage.watch_socket import CLOSING, is_client_gone
from vaultmem.workers import Caller, Workers, shows_token, warm_up

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from vaultmem.mcp_server.resources import Subscribers


def serve_alone(root: Path, caller: Caller) -> None:
    """Serve a vault over standard input and output, without a resident process.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    import anyio

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.tool_server import build_server

    subscribers = Subscribers()
    workers = Workers(root, subscribers.notice)
    # Makes the first query faster; problems of the vault are reported with the first request.
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
    """The end of the server, caused by its client or a signal.

    Running requests are completed and the session is closed, as interrupted if the client's process
    is gone. After a signal the process exits itself, because the SDK would wait for another line of
    its client.
    """

    def __init__(self, workers: Workers, caller: Caller) -> None:
        self._workers = workers
        self._caller = caller
        self._client = os.getppid()
        self._finishing = threading.Lock()
        self._signalled = 0.0

    def on_signal(self, number: int, _: object) -> None:
        """End the server; a signal repeated after some seconds ends it at once."""
        if not self._signalled:
            self._signalled = monotonic()
            threading.Thread(target=self._exit, args=[number], daemon=True).start()
        elif monotonic() - self._signalled > CLOSING:
            os._exit(128 + number)

    def finish(self) -> None:
        """Complete running requests, and close the session and the workers."""
        with self._finishing:
            is_lost = not self._signalled and is_client_gone(self._client)
            self._workers.submit_close(self._caller, interrupted=is_lost)
            self._workers.close()

    def _exit(self, number: int) -> None:
        self.finish()
        os._exit(128 + number)


# The SDK and the modules that use it; importing them takes most of a second.

_LOCK = threading.Lock()


def load_server() -> None:
    """Import the modules that serve agents.

    One thread imports at a time: a second could find half-imported modules in an import cycle.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    with _LOCK:
        from vaultmem.mcp_server import resources, tool_server, tool_text  # noqa: F401


# The server over HTTP, at one path of an app: requires a token and exact Host and Origin.

#: Builds the MCP server after the SDK is imported.
Build = Callable[["Subscribers"], "Server[Any]"]


class McpMount:
    """An app that serves MCP at one path; the first request imports the SDK, within a second.

    `origins` are the allowed origins of pages.
    """

    def __init__(
        self, build: Build, hosts: Collection[str], origins: Collection[str], path: str
    ) -> None:
        self.path = path
        self._build = build
        self._hosts, self._origins = list(hosts), list(origins)
        self._lock = asyncio.Lock()
        self._app: ASGIApp | None = None
        self._subscribers: Subscribers | None = None
        self._running: asyncio.Task[None] | None = None

    def notice(self, path: str) -> None:
        """Notify agents that a path might have changed; any thread can call it."""
        if self._subscribers is not None:
            self._subscribers.notice(path)

    def close(self) -> None:
        """End all sessions; called in the event loop."""
        if self._running is not None:
            self._running.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the SDK's app."""
        async with self._lock:
            if self._app is None:
                try:
                    self._app = await self._begin()
                except ModuleNotFoundError:
                    from vaultmem.storage.user_files import how_to_install

                    self._app = JSONResponse(
                        {"error": f"MCP needs more; {how_to_install('mcp')}"}, 503
                    )
        if scope["method"] == "DELETE":
            send = self._release_before(send, Headers(scope=scope).get(SESSION_HEADER, ""))
        await self._app(scope, receive, send)

    def _release_before(self, send: Send, client: str) -> Send:
        """Return a `send` that releases an MCP session before a response with status 200."""

        async def release_and_send(message: Message) -> None:
            is_ended = message["type"] == "http.response.start" and message["status"] == 200
            if is_ended and self._subscribers is not None:
                await self._subscribers.held.release(client)
            await send(message)

        return release_and_send

    async def _begin(self) -> ASGIApp:
        await asyncio.to_thread(load_server)
        from mcp.server.transport_security import TransportSecuritySettings

        from vaultmem.mcp_server.resources import Subscribers

        self._subscribers = Subscribers()
        app = self._build(self._subscribers).streamable_http_app(
            streamable_http_path=self.path,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=self._hosts,
                allowed_origins=self._origins,
            ),
        )
        ready = asyncio.Event()
        self._running = asyncio.create_task(_keep(app.router.lifespan_context(app), ready))
        await ready.wait()
        return app


class McpApp(McpMount):
    """An app that serves a vault over MCP to clients with the token."""

    def __init__(
        self, workers: Workers, caller: Caller, token: str, hosts: Sequence[str], path: str
    ) -> None:
        build = partial(build_later, workers, caller)
        super().__init__(build, hosts, [f"http://{host}" for host in hosts], path)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the SDK's app, or answer 401."""
        if shows_token(scope["headers"], self._token):
            await super().__call__(scope, receive, send)
            return
        body = {"error": "no token, or not the right one"}
        headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
        await JSONResponse(body, 401, headers)(scope, receive, send)


def build_later(workers: Workers, caller: Caller, subscribers: Subscribers) -> Server[Any]:
    """Return a vault's MCP server; call it after the SDK is imported."""
    from vaultmem.mcp_server.tool_server import build_server

    return build_server(workers, caller, subscribers)


async def _keep(running: AbstractAsyncContextManager[object], ready: asyncio.Event) -> None:
    """Run the session manager in this task until the task is cancelled."""
    async with running:
        ready.set()
        await asyncio.Event().wait()
