"""The hub's process: its port, its pool of vaults, and a clean shutdown."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from vaultmem.errors import LockTimeoutError, RefusedError
from vaultmem.hub.authentication import HubAuth, HubSite, RequestLog
from vaultmem.hub.cross_vault_queries import (
    ROUTES,
    CrossVaultQueries,
    build_overall,
    show_vaults,
    sign_in,
    sign_out,
)
from vaultmem.hub.git_requests import BASE as GIT
from vaultmem.hub.git_requests import GitApp
from vaultmem.hub.pool_workers import HubPool, WriteGuard
from vaultmem.hub.principals import Principals, make_visitor
from vaultmem.hub.vault_apps import BASE, MCP_PATH, VaultApps, keep, make_caller
from vaultmem.mcp_server.run import McpMount
from vaultmem.serve.http import ListenAddress, Port
from vaultmem.serve.mcp_socket import AsyncThread
from vaultmem.services.fleet.clone import write_metrics
from vaultmem.services.fleet.pool import Pool
from vaultmem.services.hub.grants import Grant
from vaultmem.services.hub.hub_folder import Hub
from vaultmem.services.hub.repositories import list_repositories
from vaultmem.storage.atomic import drop_file
from vaultmem.storage.git.git_locks import MAX_LOCK_AGE_SECONDS, find_locks, is_git_at_work
from vaultmem.storage.git.git_locks import GitLocation as GitPlace
from vaultmem.storage.lock import hold_lock
from vaultmem.web.page_requests import refuse
from vaultmem.web.rendering import Site, choose_shared
from vaultmem.web.web_app import STATIC, answer_not_found
from vaultmem.workers import Caller

# The app of a hub or a fleet: it passes requests on to git, to a vault, or to all vaults.


class HubFront:
    """ASGI app for the vaults of a pool, with the grants of a hub.

    `with_git` is whether the hub has the repositories: git's push check runs there. Without it, a
    `WriteGuard` checks writes here.
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
        self._overall = CrossVaultQueries(hub, find_pool, log, site.environment)
        write_guard = None if with_git else WriteGuard(hub)
        self._vaults = VaultApps(hub, site, find_pool, log, write_guard)
        self._agents: OrderedDict[str, McpMount] = OrderedDict()
        self._find_pool = find_pool
        guests = Principals(hub)
        self._own = self._make_own(guests)
        self._gate = HubAuth(self._split, hub_site, guests, log)
        self._git = GitApp(hub, self._gate.admit, self._vaults.notice) if with_git else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_git = scope["type"] == "http" and scope["path"].startswith(GIT)
        app = self._git if is_git and self._git is not None else self._gate
        await app(scope, receive, send)

    async def close(self) -> None:
        """End long-running responses, so that shutdown does not wait for them."""
        self._vaults.close()
        for each in self._agents.values():
            each.close()

    async def _split(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an authenticated request on to a vault, the MCP endpoint, or the hub's own pages."""
        path = scope["path"]
        if scope["type"] == "http" and path.startswith(BASE):
            await self._vaults(scope, receive, send)
        elif scope["type"] == "http" and path == MCP_PATH:
            await self._find_agents(Request(scope).state.grant)(scope, receive, send)
        else:
            await self._own(scope, receive, send)

    def _make_own(self, guests: Principals) -> Starlette:
        app = Starlette(
            routes=[
                Route("/", show_vaults),
                Route("/sign-in", sign_in, methods=["GET", "POST"]),
                Route("/sign-out", sign_out, methods=["POST"]),
                Route("/alive", _report_alive),
                Route("/metrics", self._show_metrics),
                *ROUTES,
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            middleware=[Middleware(GZipMiddleware, minimum_size=1_000)],
            exception_handlers={404: answer_not_found, 405: answer_not_found},
        )
        app.state.guests, app.state.site, app.state.overall = guests, self._site, self._overall
        return app

    def _find_agents(self, grant: Grant) -> McpMount:
        """Return a caller's MCP endpoint over all vaults, a new one if the grant changed."""

        def make() -> McpMount:
            build = partial(build_overall, self._overall, grant, self._find_vault)
            return McpMount(build, self._site.hosts, self._site.origins, MCP_PATH)

        key = json.dumps([grant.id, grant.scopes])
        return keep(self._agents, key, make, McpMount.close)

    def _find_vault(self, name: str, grant: Grant) -> tuple[Any, Caller]:
        visitor = make_visitor(grant, name, "mcp")
        return self._vaults.find_workers(name), make_caller(visitor, self._site.environment)

    async def _show_metrics(self, request: Request) -> Response:
        grant: Grant = request.state.grant
        if not any("*" in each for each in grant.scopes.values()):
            return refuse(request, 404, "Nothing is measured here, or not for you.")
        metrics = await to_thread.run_sync(lambda: write_metrics(self._find_pool().status()))
        return PlainTextResponse(metrics, media_type="text/plain; version=0.0.4")


async def _report_alive(_: Request) -> Response:
    return PlainTextResponse("alive\n")


#: Seconds that running pushes and answers have when the process ends.
_SHUTDOWN_SECONDS = 20

#: Seconds between two checks for a signal.
_SIGNAL_CHECK_SECONDS = 1.0

#: Seconds a connection stays open between two requests: git pauses between them.
_KEEP_ALIVE = 75


class ServeOptions(NamedTuple):
    """Options for serving a hub or a fleet.

    `by_proxy`: a proxy adds HTTPS, and its header with the client's address is trusted.
    """

    place: ListenAddress
    by_proxy: bool = False
    environment: Mapping[str, str] = {}


class HubServer:
    """A port at which a hub is served; requests are answered from `start` on."""

    def __init__(self, hub: Hub, served: ServeOptions) -> None:
        """Open the port.

        Raises:
            RefusedError: as `Port` does.
        """
        self._hub = hub
        self._ends = contextlib.ExitStack()
        self._stop_requested = threading.Event()
        self._port = Port(served.place)
        names = frozenset({*self._port.hosts, *served.place.names})
        scheme = "https" if served.by_proxy else "http"
        shared_environment = choose_shared(served.environment)
        site = Site(
            hub.folder, names, "", hub.folder, environment=shared_environment, scheme=scheme
        )
        self._site = HubSite(site, served.by_proxy)
        self.port = self._port.port
        public_names = served.place.names[:1]
        self.address = (
            f"{scheme}://{public_names[0]}"
            if public_names and served.by_proxy
            else self._port.address
        )

    def start(
        self,
        find_pool: Callable[[], Pool] | None = None,
    ) -> None:
        """Begin to answer.

        Without `find_pool`, serve the hub's own repositories, with git.

        Raises:
            RefusedError: another process serves this hub.
        """
        try:
            self._ends.enter_context(hold_lock(self._hub.folder / "serve.lock", 0.0))
        except LockTimeoutError:
            reason = "another process serves this hub; end that one first"
            raise RefusedError(f"{self._hub.folder}: {reason}") from None
        with_git = find_pool is None
        if find_pool is None:
            self._ends.callback(LockCleaner(self._hub).stop)
            own = HubPool(self._hub)
            self._ends.callback(own.close)
            find_pool = own.find
        front = HubFront(self._hub, self._site, find_pool, with_git)
        async_thread = AsyncThread()
        self._ends.callback(async_thread.close)
        settings = {
            "timeout_graceful_shutdown": _SHUTDOWN_SECONDS,
            "timeout_keep_alive": _KEEP_ALIVE,
        }
        self._port.answer_by(front, async_thread, **settings)
        self._ends.callback(self._port.close, _SHUTDOWN_SECONDS)
        self._ends.callback(lambda: async_thread.run(front.close()).result(_SHUTDOWN_SECONDS))

    def close(self) -> None:
        """Let running requests finish, and stop answering."""
        self._ends.close()

    def heed_signals(self) -> None:
        """Make SIGINT and SIGTERM end `wait`; call it in the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stop_requested.set())

    def wait(self) -> None:
        """Serve until a signal, and close."""
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]  # A thread must not use another's git settings.
        self.heed_signals()
        try:
            while not self._stop_requested.wait(
                _SIGNAL_CHECK_SECONDS
            ):  # Other threads' signals do not wake it.
                pass
        finally:
            self.close()


#: Seconds between two sweeps, or `_PAUSE_FACTOR` times the length of one if that is longer.
_PAUSE, _PAUSE_FACTOR = 10.0, 100

#: Objects of a push while it is checked.
_INCOMING = "objects/*incoming-*"


class LockCleaner:
    """A thread that removes stale locks of all repositories at intervals, until stopped."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for its end."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            begun = time.monotonic()
            for repository in list_repositories(self._hub).values():
                sweep(repository, time.time())
            if self._ended.wait(max(_PAUSE, _PAUSE_FACTOR * (time.monotonic() - begun))):
                return


def sweep(repository: Path, now: float) -> None:
    """Remove locks and partial pushes of dead git processes, unless git runs in the repository."""
    locks = [
        file for file, age in find_locks(repository, now).items() if age > MAX_LOCK_AGE_SECONDS
    ]
    incoming = [
        each for each in repository.glob(_INCOMING) if _age_of(each, now) > MAX_LOCK_AGE_SECONDS
    ]
    if not (locks or incoming) or is_git_at_work(GitPlace(repository, repository)):
        return
    for file in locks:
        drop_file(file)
    for folder in incoming:
        shutil.rmtree(folder, ignore_errors=True)


def _age_of(folder: Path, now: float) -> float:
    try:
        return now - folder.lstat().st_mtime
    except OSError:
        return 0.0
