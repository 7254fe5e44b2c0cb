"""What goes wrong, said as a page to browsers and as problem details (RFC 9457) to programs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vaultmem.core.json_values import as_plain
from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import (
    BusyError,
    ChangedError,
    ConflictError,
    ForbiddenError,
    MergeConflictError,
    NoteNotFoundError,
    NoVaultError,
    PendingError,
    RefusedError,
    VaultError,
)
from vaultmem.storage.files import UnsafeFileError

#: The HTTP status of each expected failure; of one that is not here, that of its nearest parent.
STATUSES: dict[type[VaultError], int] = {
    NoVaultError: 404,
    NoteNotFoundError: 404,
    RefusedError: 422,
    ForbiddenError: 403,
    ConflictError: 409,
    ChangedError: 412,
    PendingError: 409,
    MergeConflictError: 409,
    UnsafeFileError: 422,
    BusyError: 503,
    VaultError: 500,
}


#: Headers of some statuses: how to be let in, and in how many seconds to ask again.
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}


def find_status(error: VaultError) -> int:
    """Return the HTTP status that an expected failure has."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def refuse_failure(request: Request, error: VaultError, **facts: Any) -> Response:
    """Return the answer to what failed as may be expected, with what a program goes by."""
    facts = {"code": type(error).__name__, "exit_code": error.exit_code, **facts}
    if isinstance(error, MergeConflictError):
        facts["conflicts"] = as_plain(error.conflicts)
    return refuse(request, find_status(error), escape_bytes(str(error)), **facts)


def refuse(request: Request, status: int, told: str, **facts: Any) -> Response:
    """Return the answer to what cannot be done: why, and what helps.

    `facts` are for programs alone.
    """
    if wants_page(request):
        from vaultmem.web.rendering import render_page

        return render_page(request, "message.html", status, title=name_status(status), told=told)
    problem = {"type": "about:blank", "title": name_status(status), "status": status}
    return JSONResponse(
        {**problem, "detail": told, **facts},
        status,
        _HEADERS.get(status),
        media_type="application/problem+json",
    )


def name_status(status: int) -> str:
    """Return the words that HTTP has for a status."""
    return HTTPStatus(status).phrase


def wants_page(request: Request) -> bool:
    """Tell whether a browser asks for a page, and no program for an answer."""
    path = request.url.path
    return not path.startswith(("/api/", "/mcp")) and "text/html" in request.headers.get(
        "accept", ""
    )
