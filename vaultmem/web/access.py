"""Rules for opening the page: by which user, from where, and the headers that limit a browser.

A browser shows the cookie that it got for a one-time code; a program shows the token. Names under
which nobody serves (DNS rebinding) and requests that another site's page sends are refused before
anything else is looked at.
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

#: What a browser is told of every answer: nothing of it may come from, or go, anywhere else.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # With "no-referrer", browsers say of our own forms that they come from nowhere.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

#: Where one comes without being let in: the door, and what each page looks like.
_OPEN = ("/enter", "/static/")

#: Seconds in which a request's body has to be there.
_PATIENCE = 30.0

#: Methods that change nothing.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Gate:
    """Lets in who may come, and writes into the request's state who they are."""

    def __init__(self, app: ASGIApp, site: Site, visits: Visits) -> None:
        self._app = app
        self._site = site
        self._visits = visits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
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
        except ClientDisconnect:  # No fault; the port drops it.
            raise
        except VaultError as error:  # Of a body that is too large or too slow, say.
            if has_begun:
                raise
            await reject_failure(request, error)(scope, receive, send_guarded)
        except Exception:  # A server outlives whatever one request runs into.
            _LOG.exception("%s %s failed", request.method, request.url.path)
            if has_begun:
                raise
            told = "An error inside vaultmem; `vaultmem doctor` may say why."
            await refuse(request, 500, told)(scope, receive, send_guarded)

    def _find_refusal(self, request: Request) -> Response | None:
        """Return a refusal, None where the request may pass."""
        headers = request.headers
        if not is_asked_by(self._site.hosts, request):
            return refuse(request, 421, "This is not served under that name.")
        if not self._is_from_here(request):
            return refuse(request, 403, "Another site's page sent this; nothing was done.")
        size = read_count(headers.get("content-length", "0"), MAX_BODY + 1)
        if size is None or size > MAX_BODY:
            return refuse(request, 413, f"That is over {MAX_BODY:,} bytes.")
        visitor = self._identify(headers, request)
        request.state.visitor = visitor
        return self._turn_away(request) if visitor is None else None

    def _turn_away(self, request: Request) -> Response | None:
        """Return what somebody is told whom nobody let in, None where anybody may come."""
        if request.url.path.startswith(_OPEN):
            return None
        told = "This page needs a link; `vaultmem serve --print-link` prints one."
        return refuse(request, 401, told)

    def _is_from_here(self, request: Request) -> bool:
        """Tell whether no other site's page can have sent this with a person's cookie."""
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
            agent = headers.get("vaultmem-agent", "").strip() or "api"  # Nobody is a person.
            return Visitor(self._site.programs_write, agent)
        visit = self._visits.find(read_cookie(headers, self._site.cookie))
        if visit is None:
            return None
        request.state.visit = visit
        return Visitor(self._site.may_write)


def is_asked_by(hosts: Collection[str], request: Request) -> bool:
    """Tell whether a request names one of these as the host that it is for, once and alone."""
    return request.headers.getlist("host") in [[host] for host in hosts]


def read_cookie(headers: Headers, name: str) -> str:
    """Return a cookie's value, "" if there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _limit(receive: Receive) -> Receive:
    """Return what receives no more of a body than is taken, nor for longer, whatever was said.

    Behind the body's end it waits as long as it takes: so the end of a connection is heard.
    """
    left = MAX_BODY
    end = time.monotonic() + _PATIENCE
    is_whole = False

    async def receive_limited() -> Message:
        nonlocal left, is_whole
        try:
            async with asyncio.timeout(None if is_whole else max(end - time.monotonic(), 0)):
                message = await receive()
        except TimeoutError:
            raise RefusedError(f"the body took over {_PATIENCE:.0f} seconds to come") from None
        is_whole = is_whole or not message.get("more_body", False)
        left -= len(message.get("body", b""))
        if left < 0:
            raise RefusedError(f"a body of over {MAX_BODY:,} bytes is not taken")
        return message

    return receive_limited


# One-time codes: whoever can write into the vault's private folder may come in by a browser.
#
# A code is made by a command, and taken by the server: all that both know is a file, which has
# the codes' digests and until when they count.

#: Seconds for which a code may be used.
LIFETIME = 600.0

_NAME = "web-codes.json"


def make_code(folder: Path) -> str:
    """Return a code that lets one browser in, within ten minutes."""
    code = secrets.token_urlsafe(24)
    with hold_lock(folder / f"{_NAME}.lock"):
        _keep(folder, {**_read(folder), _digest(code): time.time() + LIFETIME})
    return code


def accept_code(folder: Path, code: str) -> bool:
    """Tell whether a code counts; it does not count again."""
    with hold_lock(folder / f"{_NAME}.lock"):
        codes = _read(folder)
        if codes.pop(_digest(code), None) is None:
            return False
        _keep(folder, codes)
    return True


def _read(folder: Path) -> dict[str, float]:
    """Return the codes that count, by their digests, with the time at which they end."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        found = json.loads((folder / _NAME).read_text(encoding="ascii"))
        return {name: float(end) for name, end in found.items() if time.time() < float(end)}
    return {}


def _keep(folder: Path, codes: dict[str, float]) -> None:
    write_atomically(folder / _NAME, json.dumps(codes).encode(), mode=0o600, durable=False)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
