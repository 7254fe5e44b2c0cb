"""The server over HTTP, for this machine alone: a token, and exact Host and Origin."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, ClassVar

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

ADDRESS = "127.0.0.1"

#: Connections that have not said yet what they want: how many at most, and for how long (seconds).
HALF_OPEN = 64
PATIENCE = 3.0


async def serve_http(server: Server[Any], port: int, token: str) -> None:
    """Serve at http://127.0.0.1:PORT/mcp until the process is told to end."""
    names = [f"{ADDRESS}:{port}", f"localhost:{port}"]
    app = server.streamable_http_app(
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=names,
            allowed_origins=[f"http://{name}" for name in names],
        )
    )
    config = uvicorn.Config(
        RequireToken(app, token),
        http=BoundedProtocol,
        host=ADDRESS,
        port=port,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=2,
    )
    await uvicorn.Server(config).serve()


class BoundedProtocol(H11Protocol):
    """A connection that has to say what it wants, and soon: anybody here can open thousands.

    Where too many have not, the one that has waited longest goes.
    """

    _silent: ClassVar[dict[BoundedProtocol, asyncio.TimerHandle]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; after an answer, the next request has as much time as the first."""
        if self.cycle and self.cycle.response_complete and self not in self._silent:
            self._await_request()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._end_wait()

    def _await_request(self) -> None:
        self._silent[self] = self.loop.call_later(PATIENCE, self._give_up)
        if len(self._silent) > HALF_OPEN:
            next(iter(self._silent))._give_up()

    def _end_wait(self) -> None:
        if timer := self._silent.pop(self, None):
            timer.cancel()

    def _give_up(self) -> None:
        self._end_wait()
        self.transport.abort()


class RequireToken:
    """Lets only those in who name the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = b"Bearer " + token.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "http" and not self._admits(scope):
            told = {"error": "no token, or not the right one"}
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            refusal = JSONResponse(told, 401, headers)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and secrets.compare_digest(given[0], self._wanted)
