"""The server over HTTP, at one address of an app: a token, and exact Host and Origin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from vaultmem.mcp_server.resources import Subscribers
from vaultmem.mcp_server.loading import load_server
from vaultmem.workers.caller import Caller, shows_token
from vaultmem.workers.workers import Workers


class McpApp:
    """Serves who names the token; the SDK is imported for the first of them, within a second."""

    def __init__(
        self, workers: Workers, caller: Caller, token: str, hosts: Sequence[str], path: str
    ) -> None:
        self.path = path
        self._workers = workers
        self._caller = caller
        self._hosts = list(hosts)
        self._token = token
        self._lock = asyncio.Lock()
        self._app: ASGIApp | None = None
        self._subscribers: Subscribers | None = None

    def notice(self, path: str) -> None:
        """Tell agents that a path may have changed; called from any thread."""
        if self._subscribers is not None:
            self._subscribers.notice(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if not shows_token(scope["headers"], self._token):
            told = {"error": "no token, or not the right one"}
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            await JSONResponse(told, 401, headers)(scope, receive, send)
            return
        async with self._lock:
            if self._app is None:
                try:
                    self._app = await self._begin()
                except ModuleNotFoundError:
                    from vaultmem.storage.missing import how_to_install

                    self._app = JSONResponse(
                        {"error": f"MCP needs more; {how_to_install('mcp')}"}, 503
                    )
        await self._app(scope, receive, send)

    async def _begin(self) -> ASGIApp:
        await asyncio.to_thread(load_server)
        from mcp.server.transport_security import TransportSecuritySettings

        from vaultmem.mcp_server.resources import Subscribers
        from vaultmem.mcp_server.server import build_server

        self._subscribers = Subscribers()
        app = build_server(self._workers, self._caller, self._subscribers).streamable_http_app(
            streamable_http_path=self.path,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=self._hosts,
                allowed_origins=[f"http://{host}" for host in self._hosts],
            ),
        )
        ready = asyncio.Event()
        self._running = asyncio.create_task(_keep(app.router.lifespan_context(app), ready))
        await ready.wait()
        return app


async def _keep(running: AbstractAsyncContextManager[object], ready: asyncio.Event) -> None:
    """Keep what serves sessions running, in the task that began it, until that is cancelled."""
    async with running:
        ready.set()
        await asyncio.Event().wait()
