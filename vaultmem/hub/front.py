"""The app of a hub, and of a fleet: which address leads to git, to a vault, or to all of them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from vaultmem.hub.gate import HubGate, HubSite
from vaultmem.hub.git import BASE as GIT
from vaultmem.hub.git import GitApp
from vaultmem.hub.guests import Guests, make_visitor
from vaultmem.hub.overall import Overall, build_overall
from vaultmem.hub.pages import ROUTES, show_vaults, sign_in, sign_out
from vaultmem.hub.pool_workers import Doorkeeper
from vaultmem.hub.request_log import RequestLog
from vaultmem.hub.vault_apps import BASE, MCP_PATH, VaultApps, keep, make_caller
from vaultmem.mcp_server.http import McpPlace
from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.grants import Grant
from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.status import write_metrics
from vaultmem.web.app import STATIC, tell_nothing_here
from vaultmem.web.refusing import refuse
from vaultmem.workers.caller import Caller


class Front:
    """Answers over HTTP for the vaults of a pool, by the grants of a hub; an ASGI app.

    `with_git` is whether the hub has their repositories: git passes its door there. Else who writes
    does that here.
    """

    def __init__(
        self,
        hub: Hub,
        hub_site: HubSite,
        find_pool: Callable[[], Pool],
        with_git: bool = True,
    ) -> None:
        self._hub = hub
        self._site = site = hub_site.site
        log = RequestLog(hub)
        self._overall = Overall(hub, find_pool, log, site.environment)
        doorkeeper = None if with_git else Doorkeeper(hub)
        self._vaults = VaultApps(hub, site, find_pool, log, doorkeeper)
        self._agents: OrderedDict[str, McpPlace] = OrderedDict()
        self._find_pool = find_pool
        guests = Guests(hub)
        self._own = self._make_own(guests)
        self._gate = HubGate(self._divide, hub_site, guests, log)
        self._git = GitApp(hub, self._gate.admit, self._vaults.notice) if with_git else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_git = scope["type"] == "http" and scope["path"].startswith(GIT)
        app = self._git if is_git and self._git is not None else self._gate
        await app(scope, receive, send)

    async def close(self) -> None:
        """End what goes on for long, so that nobody waits for its end."""
        self._vaults.close()
        for each in self._agents.values():
            each.close()

    async def _divide(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request that was let in on to a vault, to agents' place, or to pages over all."""
        path = scope["path"]
        if scope["type"] == "http" and path.startswith(BASE):
            await self._vaults(scope, receive, send)
        elif scope["type"] == "http" and path == MCP_PATH:
            await self._find_agents(Request(scope).state.grant)(scope, receive, send)
        else:
            await self._own(scope, receive, send)

    def _make_own(self, guests: Guests) -> Starlette:
        app = Starlette(
            routes=[
                Route("/", show_vaults),
                Route("/sign-in", sign_in, methods=["GET", "POST"]),
                Route("/sign-out", sign_out, methods=["POST"]),
                Route("/alive", _tell_alive),
                Route("/metrics", self._show_metrics),
                *ROUTES,
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            middleware=[Middleware(GZipMiddleware, minimum_size=1_000)],
            exception_handlers={404: tell_nothing_here, 405: tell_nothing_here},
        )
        app.state.guests, app.state.site, app.state.overall = guests, self._site, self._overall
        return app

    def _find_agents(self, grant: Grant) -> McpPlace:
        """Return where somebody's agent is served over all vaults, made anew with another grant."""

        def make() -> McpPlace:
            build = partial(build_overall, self._overall, grant, self._find_vault)
            return McpPlace(build, self._site.hosts, self._site.origins, MCP_PATH)

        key = json.dumps([grant.id, grant.scopes])
        return keep(self._agents, key, make, McpPlace.close)

    def _find_vault(self, name: str, grant: Grant) -> tuple[Any, Caller]:
        visitor = make_visitor(grant, name, "mcp")
        return self._vaults.find_workers(name), make_caller(visitor, self._site.environment)

    async def _show_metrics(self, request: Request) -> Response:
        grant: Grant = request.state.grant
        if not any("*" in each for each in grant.scopes.values()):
            return refuse(request, 404, "Nothing is measured here, or not for you.")
        told = await to_thread.run_sync(lambda: write_metrics(self._find_pool().status()))
        return PlainTextResponse(told, media_type="text/plain; version=0.0.4")


async def _tell_alive(_: Request) -> Response:
    return PlainTextResponse("alive\n")
