"""The web app: its routes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from vaultmem.operations.declaration import BASE
from vaultmem.web.access import AccessMiddleware
from vaultmem.web.background_jobs import Events, Jobs, stream_events
from vaultmem.web.page_requests import refuse, refuse_page, wants_page
from vaultmem.web.pages.home import enter, show_home
from vaultmem.web.rendering import Site, Visits
from vaultmem.workers import Workers

#: Files that pages load.
STATIC = Path(__file__).parent / "static"

#: The module and function of each page. They are imported on the first request, or when idle:
#: importing them all takes longer than the rest of a start.
PAGES = {
    "GET /search": ("search_page", "show_search"),
    "GET /notes": ("note_page", "show_notes"),
    "GET /graph/{path:path}": ("graph", "show_graph"),
    "GET /spread/{path:path}": ("spread_page", "show_spread"),
    "GET /sessions": ("session_page", "show_sessions"),
    "GET /session/{name}": ("session_page", "show_session"),
    "GET /agent/{path:path}": ("session_page", "show_agent"),
    "GET /health": ("home", "show_health"),
    "GET /health/checks": ("home", "show_checks"),
    "GET /review": ("review_page", "show_review"),
    "POST /review": ("review_page", "decide_item"),
    "GET /conflicts": ("home", "show_conflicts"),
    "POST /conflicts": ("home", "resolve"),
    "POST /undo": ("review_page", "undo"),
    "GET /pack": ("pack_page", "show_pack"),
    "GET /packs/compare": ("compare_page", "show_comparison"),
    "GET /receipts": ("pack_page", "show_receipts"),
    "GET /receipt/{name}": ("pack_page", "show_receipt"),
    "GET /time": ("history_pages", "show_time"),
    "GET /moments": ("history_pages", "show_moments"),
    "GET /bisect": ("bisect_page", "show_bisect"),
    "GET /commit/{name:path}": ("history_pages", "show_commit"),
    "GET /history/{path:path}": ("history_pages", "show_history"),
    "GET /note/{path:path}": ("note_page", "show_note"),
    "POST /note/{path:path}": ("edit_page", "act_on_note"),
    "GET /edit/{path:path}": ("edit_page", "show_edit"),
    "POST /edit/{path:path}": ("edit_page", "save_edit"),
    "GET /rail/{path:path}": ("note_page", "show_rail"),
    "GET /file/{path:path}": ("note_page", "show_file"),
}


def create_app(workers: Workers, site: Site, events: Events | None = None) -> Starlette:
    """Return the app of a vault, with the access control of its site.

    `events` receives the notes that might have changed.
    """
    app = create_pages(workers, site, events)
    app.router.routes.append(Route("/enter", enter))
    app.add_middleware(AccessMiddleware, site=site, visits=app.state.visits)
    return app


def create_pages(workers: Workers, site: Site, events: Events | None = None) -> Starlette:
    """Return the app of a vault without login: each request's state must have a visitor."""
    app = Starlette(
        routes=[
            Route("/", show_home),
            Route("/events", stream_events),
            *(_make_route(request_line, *target) for request_line, target in PAGES.items()),
            Mount(BASE, _serve_api()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1_000)],
        exception_handlers={404: answer_not_found, 405: answer_not_found},
    )
    app.state.workers, app.state.site, app.state.visits = workers, site, Visits()
    app.state.jobs = Jobs(workers)
    app.state.events = events or Events()
    return app


def load_all() -> None:
    """Import all pages and the API."""
    for module in dict.fromkeys(module for module, _ in PAGES.values()):
        import_module(f"vaultmem.web.pages.{module}")
    import_module("vaultmem.web.api.routes")


def _make_route(request_line: str, module: str, function: str) -> Route:
    method, _, path = request_line.partition(" ")
    find = _import_later(f"vaultmem.web.pages.{module}", function)

    async def show(request: Request) -> Response:
        response: Response = await (await find())(request)
        return response

    return Route(path, show, methods=[method])


def _serve_api() -> ASGIApp:
    find = _import_later("vaultmem.web.api.routes", "ROUTER")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (await find())(scope, receive, send)

    return app


def _import_later(module: str, name: str) -> Callable[[], Awaitable[Any]]:
    """Return a function that imports a name of a module once, in a thread, without blocking.

    It waits for a module that another thread is importing.
    """
    value: Any = None

    async def find() -> Any:
        nonlocal value
        value = value or getattr(sys.modules.get(module), name, None)
        if value is None:
            value = getattr(await to_thread.run_sync(import_module, module), name)
        return value

    return find


async def answer_not_found(request: Request, error: Exception) -> Response:
    """Return the response for an unknown page or operation."""
    status = getattr(error, "status_code", 404)
    if request.url.path.startswith("/api/"):
        reason = "Operation not found; /api/v1/openapi.json lists all operations."
        return refuse(request, status, reason)
    if wants_page(request):
        return await refuse_page(request, status, "Page not found.")
    return refuse(request, status, "Page not found.")
