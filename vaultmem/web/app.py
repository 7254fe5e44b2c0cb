"""The app: which address leads to what."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from vaultmem.web.access import Gate
from vaultmem.web.api.routes import list_routes
from vaultmem.web.events import Events, stream_events
from vaultmem.web.jobs import Jobs
from vaultmem.web.pages.bisect import Searches, show_bisect
from vaultmem.web.pages.commit import show_commit
from vaultmem.web.pages.compare import show_comparison
from vaultmem.web.pages.entering import enter
from vaultmem.web.pages.graph import show_graph
from vaultmem.web.pages.health import show_checks, show_health
from vaultmem.web.pages.history import restore, show_history
from vaultmem.web.pages.home import show_home
from vaultmem.web.pages.moments import show_moments
from vaultmem.web.pages.note import show_file, show_note, show_rail
from vaultmem.web.pages.notes import show_notes
from vaultmem.web.pages.pack import show_pack
from vaultmem.web.pages.receipts import show_receipt, show_receipts
from vaultmem.web.pages.review import decide_item, show_review, undo
from vaultmem.web.pages.search import show_search
from vaultmem.web.pages.sessions import show_session, show_sessions
from vaultmem.web.pages.time import show_time
from vaultmem.web.refusing import refuse
from vaultmem.web.site import Site
from vaultmem.web.visits import Visits
from vaultmem.workers.workers import Workers

_STATIC = Path(__file__).parent / "static"


def create_app(workers: Workers, site: Site, events: Events | None = None) -> Starlette:
    """Return the app of a vault; `events` hears which notes may have changed."""
    visits = Visits()
    app = Starlette(
        routes=[
            Route("/", show_home),
            Route("/enter", enter),
            Route("/events", stream_events),
            Route("/search", show_search),
            Route("/notes", show_notes),
            Route("/graph/{path:path}", show_graph),
            Route("/sessions", show_sessions),
            Route("/session/{name}", show_session),
            Route("/health", show_health),
            Route("/health/checks", show_checks),
            Route("/review", show_review),
            Route("/review", decide_item, methods=["POST"]),
            Route("/undo", undo, methods=["POST"]),
            Route("/pack", show_pack),
            Route("/packs/compare", show_comparison),
            Route("/receipts", show_receipts),
            Route("/receipt/{name}", show_receipt),
            Route("/time", show_time),
            Route("/moments", show_moments),
            Route("/bisect", show_bisect),
            Route("/commit/{name:path}", show_commit),
            Route("/history/{path:path}", show_history),
            Route("/restore", restore, methods=["POST"]),
            Route("/note/{path:path}", show_note),
            Route("/rail/{path:path}", show_rail),
            Route("/file/{path:path}", show_file),
            *list_routes(),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[
            Middleware(Gate, site=site, visits=visits),
            Middleware(GZipMiddleware, minimum_size=1_000),
        ],
        exception_handlers={404: _tell_nothing_here, 405: _tell_nothing_here},
    )
    app.state.workers, app.state.site, app.state.visits = workers, site, visits
    app.state.jobs, app.state.searches = Jobs(workers), Searches()
    app.state.events = events or Events()
    return app


async def _tell_nothing_here(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    if request.url.path.startswith("/api/"):
        told = "There is no such operation; /api/v1/openapi.json describes those that there are."
        return refuse(request, status, told)
    return refuse(request, status, "There is no such page.")
