"""Access control of the web page: users, hosts, origins, and security headers.

A browser sends the cookie that it got for a one-time code; a program sends the token. Unknown host
names (DNS rebinding) and requests from another site's page are rejected first.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import secrets
import time
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vaultmem.errors import RefusedError, VaultError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.lock import hold_lock
from vaultmem.web.page_requests import read_count, refuse, reject_failure
from vaultmem.web.rendering import MAX_BODY, Site, Visitor, Visits, follows_link
from vaultmem.workers import shows_token

_LOG = logging.getLogger("vaultmem.web")

#: Headers of every response: a browser may load nothing from, and send nothing to, other sites.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # With "no-referrer", browsers send the origin "null" for our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

#: Paths that need no login: the login itself, and the static files.
_PUBLIC_PREFIXES = ("/enter", "/static/")

#: Timeout in seconds for a request's body.
_BODY_TIMEOUT_SECONDS = 30.0

#: Methods that change nothing.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessMiddleware:
    """Middleware that rejects requests or stores their visitor in the request's state."""

    def __init__(self, app: ASGIApp, site: Site, visits: Visits) -> None:
        self._app = app
        self._site = site
        self._visits = visits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        has_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope)
        if refusal := self._find_refusal(request):
            await refusal(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, _limit(receive), send_guarded)
        except ClientDisconnect:  # Not an error; the connection is dropped.
            raise
        except VaultError as error:  # For example, a body that is too large or too slow.
            if has_begun:
                raise
            await reject_failure(request, error)(scope, receive, send_guarded)
        except Exception:  # One request must not end the server.
            _LOG.exception("%s %s failed", request.method, request.url.path)
            if has_begun:
                raise
            reason = "Internal error; run `vaultmem doctor` to find the cause."
            await refuse(request, 500, reason)(scope, receive, send_guarded)

    def _find_refusal(self, request: Request) -> Response | None:
        """Return the response that rejects a request, None if it is allowed."""
        headers = request.headers
        if not is_asked_by(self._site.hosts, request):
            return refuse(request, 421, "Host name not allowed; see `vaultmem serve --help`.")
        if not self._is_from_here(request):
            return refuse(request, 403, "Request from another site rejected; nothing was changed.")
        size = read_count(headers.get("content-length", "0"), MAX_BODY + 1)
        if size is None or size > MAX_BODY:
            return refuse(request, 413, f"The request body is over {MAX_BODY:,} bytes.")
        visitor = self._identify(headers, request)
        request.state.visitor = visitor
        return self._turn_away(request) if visitor is None else None

    def _turn_away(self, request: Request) -> Response | None:
        """Return the response for an unknown visitor, None for public paths."""
        if request.url.path.startswith(_PUBLIC_PREFIXES):
            return None
        reason = "Not signed in; `vaultmem serve --print-link` prints a sign-in link."
        return refuse(request, 401, reason)

    def _is_from_here(self, request: Request) -> bool:
        """Return whether no other site's page can have sent this with the user's cookie."""
        origins = request.headers.getlist("origin")
        if origins:
            return len(origins) == 1 and origins[0] in self._site.origins
        if request.method in _READING:
            return request.headers.get("sec-fetch-site") != "cross-site" or follows_link(request)
        return "authorization" in request.headers

    def _identify(self, headers: Headers, request: Request) -> Visitor | None:
        if "authorization" in headers:
            if not shows_token(headers.raw, self._site.token):
                return None
            agent = headers.get("vaultmem-agent", "").strip() or "api"  # Never the owner.
            return Visitor(self._site.programs_write, agent)
        visit = self._visits.find(read_cookie(headers, self._site.cookie))
        if visit is None:
            return None
        request.state.visit = visit
        return Visitor(self._site.may_write)


def is_asked_by(hosts: Collection[str], request: Request) -> bool:
    """Return whether a request has exactly one Host header, and it is one of `hosts`."""
    return request.headers.getlist("host") in [[host] for host in hosts]


def read_cookie(headers: Headers, name: str) -> str:
    """Return a cookie's value, "" if it is missing."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _limit(receive: Receive) -> Receive:
    """Return a `receive` that limits a body's size and time, whatever its headers state.

    After the end of the body it waits without limit, to detect the end of the connection.
    """
    remaining_bytes = MAX_BODY
    end = time.monotonic() + _BODY_TIMEOUT_SECONDS
    is_whole = False

    async def receive_limited() -> Message:
        nonlocal remaining_bytes, is_whole
        try:
            async with asyncio.timeout(None if is_whole else max(end - time.monotonic(), 0)):
                message = await receive()
        except TimeoutError:
            raise RefusedError(
                f"the body took over {_BODY_TIMEOUT_SECONDS:.0f} seconds to arrive"
            ) from None
        is_whole = is_whole or not message.get("more_body", False)
        remaining_bytes -= len(message.get("body", b""))
        if remaining_bytes < 0:
            raise RefusedError(f"a body of over {MAX_BODY:,} bytes is rejected")
        return message

    return receive_limited


# One-time codes: a user who can write to the vault's private folder can log in by a browser.
#
# A command makes a code, and the server accepts it. Both use one file with the digests of the codes
# and their expiry times.

#: Lifetime of a code in seconds.
LIFETIME = 600.0

_NAME = "web-codes.json"


def make_code(folder: Path) -> str:
    """Return a code that logs one browser in, within ten minutes."""
    code = secrets.token_urlsafe(24)
    with hold_lock(folder / f"{_NAME}.lock"):
        _keep(folder, {**_read(folder), _digest(code): time.time() + LIFETIME})
    return code


def accept_code(folder: Path, code: str) -> bool:
    """Return whether a code is valid, and invalidate it."""
    with hold_lock(folder / f"{_NAME}.lock"):
        codes = _read(folder)
        if codes.pop(_digest(code), None) is None:
            return False
        _keep(folder, codes)
    return True


def _read(folder: Path) -> dict[str, float]:
    """Return the expiry time of each valid code, by its digest."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        codes = json.loads((folder / _NAME).read_text(encoding="ascii"))
        return {name: float(end) for name, end in codes.items() if time.time() < float(end)}
    return {}


def _keep(folder: Path, codes: dict[str, float]) -> None:
    write_atomically(folder / _NAME, json.dumps(codes).encode(), mode=0o600, durable=False)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
