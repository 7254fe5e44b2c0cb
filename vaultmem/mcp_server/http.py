"""The server over HTTP, for this machine alone: a token, and exact Host and Origin."""

from __future__ import annotations

import secrets
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

ADDRESS = "127.0.0.1"


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
        host=ADDRESS,
        port=port,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=2,
    )
    await uvicorn.Server(config).serve()


class RequireToken:
    """Lets only those in who name the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = b"Bearer " + token.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "http" and not self._admits(scope):
            told = {"error": "no token, or not the right one"}
            refusal = JSONResponse(told, 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and secrets.compare_digest(given[0], self._wanted)
