"""The page, API and MCP of each vault of a hub, created on first request."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from vaultmem.hub.authentication import RequestLog
from vaultmem.hub.pool_workers import PoolWorkers, WriteGuard
from vaultmem.hub.principals import make_visitor
from vaultmem.mcp_server.run import McpMount, build_later
from vaultmem.services.fleet.pool import Pool
from vaultmem.services.hub.grants import Grant, may
from vaultmem.services.hub.grants import GrantScope as Right
from vaultmem.services.hub.hub_folder import Hub
from vaultmem.storage.user_files import is_vault_name
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.web.background_jobs import Events
from vaultmem.web.page_requests import refuse
from vaultmem.web.rendering import BELOW, Site, Visitor
from vaultmem.web.web_app import create_pages
from vaultmem.workers import Caller, HubPrincipal

#: Address prefix of the vaults.
BASE = "/v/"

#: Address of the MCP endpoint, here and over all vaults.
MCP_PATH = "/mcp"

_PLACE = re.compile(rb"/v/([^/]+)(/.*)?", re.DOTALL)

#: Most apps of vaults, and of agents in vaults, that are cached; the least recently used is
#: dropped.
MAX_CACHED_APPS = 256

#: Pages that run a query.
_QUESTIONS = {"/search", "/pack"}

Value = TypeVar("Value")


class _Served(NamedTuple):
    app: Starlette
    workers: PoolWorkers
    events: Events


class VaultApps:
    """The apps of vaults; each request goes to the app of the vault in its address."""

    def __init__(
        self,
        hub: Hub,
        site: Site,
        find_pool: Callable[[], Pool],
        log: RequestLog,
        write_guard: WriteGuard | None,
    ) -> None:
        self._hub = hub
        self._write_guard = write_guard
        self._site = site
        self._find_pool = find_pool
        self._log = log
        self._served: OrderedDict[str, _Served] = OrderedDict()
        self._agents: OrderedDict[tuple[str, Visitor], McpMount] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of an authenticated caller."""
        request = Request(scope)
        grant: Grant = request.state.grant
        name, raw_path = _read_place(scope)
        if not name or name not in self._find_pool().names or not may(grant, name, Right.READ):
            reason = "This hub has no such vault, or not for you."
            guest = HubPrincipal(grant.name, grant.id, origin=_format_origin(unquote(raw_path)))
            vaults = [name] if name else []
            await to_thread.run_sync(self._log.add_refusal, vaults, guest, "ask", "", reason)
            await refuse(request, 404, reason)(scope, receive, send)
        elif not raw_path:
            await RedirectResponse(f"{BASE}{quote(name)}/", 308)(scope, receive, send)
        else:
            await self._pass_on(name, raw_path, grant, scope, receive, send)

    def notice(self, name: str) -> None:
        """Notify event listeners that a vault has changed."""
        if served := self._served.get(name):
            served.events.notice(EVERYTHING)
        for (vault, _), agents in list(self._agents.items()):
            if vault == name:
                agents.notice(EVERYTHING)

    def close(self) -> None:
        """End long-running responses: sessions of agents, streams of events."""
        for served in self._served.values():
            served.events.end()
        for each in self._agents.values():
            each.close()

    async def _pass_on(
        self, name: str, raw_path: bytes, grant: Grant, scope: Scope, receive: Receive, send: Send
    ) -> None:
        path = unquote(raw_path.decode("ascii"))
        visitor = make_visitor(grant, name, _format_origin(path))
        query, guest = Request(scope).query_params, visitor.guest
        is_question = path in _QUESTIONS and "part" not in query  # `part`: sent at each key press.
        if guest and is_question and query.get("q"):
            await to_thread.run_sync(self._log.add_question, [name], guest, path[1:], None)
        state = {**scope["state"], "visitor": visitor}
        vault_scope = {**scope, "path": path, "raw_path": raw_path, "root_path": "", "state": state}
        BELOW.set(f"{BASE}{quote(name)}")
        served = self._find_served(name)
        app = self._find_agents(name, visitor, served) if path == MCP_PATH else served.app
        await app(vault_scope, receive, send)

    def find_workers(self, name: str) -> PoolWorkers:
        """Return the workers of a vault."""
        return self._find_served(name).workers

    def _find_served(self, name: str) -> _Served:
        return keep(self._served, name, lambda: self._make(name))

    def _find_agents(self, name: str, visitor: Visitor, served: _Served) -> McpMount:
        def make() -> McpMount:
            build = partial(
                build_later, served.workers, make_caller(visitor, self._site.environment)
            )
            return McpMount(build, self._site.hosts, self._site.origins, MCP_PATH)

        return keep(self._agents, (name, visitor), make, McpMount.close)

    def _make(self, name: str) -> _Served:
        notice = partial(self.notice, name)
        arguments = (self._log, notice, self._write_guard, self._hub)
        workers = PoolWorkers(self._find_pool, name, *arguments)
        events = Events()
        site = self._site._replace(root=Path(name))
        return _Served(create_pages(workers, site, events), workers, events)


def make_caller(visitor: Visitor, environment: Mapping[str, str]) -> Caller:
    """Return the caller in whose name MCP requests of a visitor run."""
    return Caller(
        visitor.agent, environment=environment, may_write=visitor.may_write, guest=visitor.guest
    )


def _format_origin(path: str) -> str:
    """Return the origin of a request for a path of a vault: mcp, api or page."""
    return "mcp" if path == MCP_PATH else "api" if path.startswith("/api/") else "page"


def _read_place(scope: Scope) -> tuple[str, bytes]:
    """Return the vault in an address, "" if none, and the rest of the path after its name.

    Both are read from the raw address, so a slash in a name (%2F) does not end it.
    """
    match = _PLACE.fullmatch(scope.get("raw_path") or b"")
    if match is None:
        return "", b""
    name = unquote(match[1].decode("ascii", "replace"))
    return name if is_vault_name(name) else "", match[2] or b""


def keep(
    cache: OrderedDict[Any, Value],
    key: object,
    make: Callable[[], Value],
    discard: Callable[[Value], None] = lambda _: None,
) -> Value:
    """Return the cached value of a key, or make it; keep the `MAX_CACHED_APPS` last used."""
    value = cache.pop(key, None) or make()
    cache[key] = value
    if len(cache) > MAX_CACHED_APPS:
        discard(cache.popitem(last=False)[1])
    return value
