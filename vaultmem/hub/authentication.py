"""Authenticate each request to a hub, and check its permission before anything is done."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import VaultError
from vaultmem.hub.git_requests import Authorization, GitRequest
from vaultmem.hub.principals import Principals, read_token, warn_of_end
from vaultmem.services.hub.grants import Grant, build_pusher_environment, may
from vaultmem.services.hub.grants import GrantScope as Right
from vaultmem.services.hub.hub_folder import AuditEntry, Hub, record
from vaultmem.web.access import AccessMiddleware, is_asked_by, read_cookie
from vaultmem.web.page_requests import refuse, wants_page
from vaultmem.web.rendering import BrowserVisit, Site, Visitor, Visits, render_page
from vaultmem.workers import HubPrincipal

# Queries and refused requests, written into the hub's audit log.

#: Rows for refused requests of one token in a minute, so that they cannot fill the disk.
_ROWS, _MINUTE = 20, 60.0

#: Most characters of a reason.
_MAX_REASON_CHARS = 500


class RequestLog:
    """A thread-safe writer of audit log rows; each is written before the caller's answer."""

    def __init__(self, hub: Hub, clock: Callable[[], float] = time.monotonic) -> None:
        self._hub = hub
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_ROWS))
        self._dropped: Counter[str] = Counter()

    def add_question(
        self, vaults: Sequence[str], guest: HubPrincipal, operation: str, answer: object
    ) -> None:
        """Log a query and its number of hits.

        Raises:
            SystemFailureError: the row could not be written.
        """
        details = {"operation": operation, "hits": _count_hits(answer)}
        self._record(guest, "ask", vaults, "done", details)

    def add_refusal(
        self,
        vaults: Sequence[str],
        guest: HubPrincipal,
        action: str,
        operation: str,
        reason: object,
    ) -> None:
        """Log a refused request; above the rate limit, only count it.

        Raises:
            SystemFailureError: the row could not be written.
        """
        now = self._clock()
        with self._lock:
            row_times = self._written[guest.id]
            if len(row_times) == _ROWS and row_times[0] > now - _MINUTE:
                self._dropped[guest.id] += 1
                return
            row_times.append(now)
            dropped_rows = self._dropped.pop(guest.id, 0)
        reasons = [describe_reason(reason)]
        if dropped_rows:
            reasons.append(f"{pluralize(dropped_rows, 'refused request')} before it without a row")
        self._record(guest, action, vaults, "refused", {"operation": operation, "refused": reasons})

    def _record(
        self,
        guest: HubPrincipal,
        action: str,
        vaults: Sequence[str],
        outcome: str,
        details: dict[str, Any],
    ) -> None:
        caller_fields = guest.name, guest.id, guest.origin
        record(
            self._hub,
            AuditEntry(time.time(), *caller_fields, action, tuple(vaults), outcome, details),
        )


def describe_reason(reason: object) -> str:
    """Return a reason as one line without credentials."""
    return one_line(mask_secrets(str(reason)))[:_MAX_REASON_CHARS]


def _count_hits(answer: Any) -> int | None:
    """Return the number of hits in an answer, None if it is a table or has no list of hits."""
    if getattr(answer, "kind", "") == "text/csv":
        return None
    result = getattr(answer, "answer", None)
    if result is not None:
        return len(result.hits if hasattr(result, "hits") else result.pack.items)
    data = json.loads(answer.data) if hasattr(answer, "data") else answer[1] if answer else {}
    rows = data.get("hits", data.get("items")) if isinstance(data, dict) else None
    return len(rows) if isinstance(rows, list) else None


#: Address prefixes that need no token.
_PUBLIC_PREFIXES = ("/sign-in", "/static/", "/alive")

#: Browsers whose message for the next page is kept.
_MAX_BROWSERS = 1_024

#: Seconds between two checks that the token of a streamed answer is still valid.
_TOKEN_CHECK_SECONDS = 2.0

#: The grant, or None; and the status and message of a failed authentication.
_Found = tuple[Grant | None, tuple[int, str]]

_UNKNOWN_CALLER_TEXT = "That token does not count (any more); the hub's owner gives out others."
_RATE_LIMIT_TEXT = "Too many wrong tokens came from your address; wait a minute."
_SIGN_IN_TEXT = "This hub needs a token; its owner creates them with `vaultmem hub grant`."


class HubSite(NamedTuple):
    """A served hub; `trusts_proxy`: believe a proxy's header with the client's address."""

    site: Site
    trusts_proxy: bool = False

    def find_address(self, request: Request) -> str:
        """Return the client's address."""
        if self.trusts_proxy and (addresses := request.headers.getlist("x-forwarded-for")):
            return addresses[-1].rpartition(",")[2].strip()[:64]
        return request.client.host if request.client else ""


class HubAuth(AccessMiddleware):
    """Authentication by token or cookie; it adds the grant to the request's state."""

    def __init__(
        self, app: ASGIApp, hub_site: HubSite, guests: Principals, log: RequestLog
    ) -> None:
        super().__init__(app, hub_site.site, Visits())
        self._hub_site = hub_site
        self._guests = guests
        self._log = log
        self._visits_by_cookie: OrderedDict[str, BrowserVisit] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] == "http":
            request = Request(scope)
            grant_and_problem = await to_thread.run_sync(self._find_grant, request)
            request.state.grant, request.state.problem = grant_and_problem
            request.state.address = self._hub_site.find_address(request)
            if grant_and_problem[0] is not None:
                send = warn_of_end(grant_and_problem[0], send)
                await self._answer_while_it_counts(grant_and_problem[0], scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    async def _answer_while_it_counts(
        self, grant: Grant, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer, and end a streamed answer soon after its grant becomes invalid."""
        is_streaming = has_ended = False

        async def send_on(message: Message) -> None:
            nonlocal is_streaming, has_ended
            if has_ended:
                return
            is_part = message.get("more_body", False)
            is_streaming = is_part or message["type"] == "http.response.start"
            if is_part and not self._counts(grant):
                message, has_ended = {"type": "http.response.body", "body": b""}, True
            await send(message)

        answer = asyncio.ensure_future(super().__call__(scope, receive, send_on))
        try:
            while not (await asyncio.wait({answer}, timeout=_TOKEN_CHECK_SECONDS))[0]:
                if is_streaming and (
                    has_ended or not await to_thread.run_sync(self._counts, grant)
                ):
                    await send_on({"type": "http.response.body", "body": b""})
                    return
            await answer
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)

    def _counts(self, grant: Grant) -> bool:
        try:
            return self._guests.counts(grant)
        except VaultError:  # Unreadable grants authenticate no request.
            return False

    async def admit(self, request: Request, git_request: GitRequest) -> Authorization:
        """Return whether git's client is authorized for its request."""
        if not is_asked_by(self._site.hosts, request):
            return Authorization(status=421, message="this is not served under that name")
        token = read_token(request, "basic", "bearer")
        grant, problem = await to_thread.run_sync(self._try, request, token)
        if grant is None:
            return Authorization(status=problem[0], message=problem[1])
        origin = self._hub_site.find_address(request)
        status, reason = _find_problem(grant, git_request)
        if status:
            guest, action = (
                HubPrincipal(grant.name, grant.id, origin=origin),
                "push" if git_request.writes else "fetch",
            )
            vaults = [git_request.vault] if git_request.vault else []
            await to_thread.run_sync(self._log.add_refusal, vaults, guest, action, "git", reason)
            return Authorization(status=status, message=reason)
        return Authorization(grant, build_pusher_environment(self._guests.hub, grant, origin))

    def _find_grant(self, request: Request) -> _Found:
        """Return the grant of a token or cookie, or None with the reason."""
        token = read_token(request, "bearer")
        if token is not None:
            return self._try(request, token)
        try:
            return self._guests.read_cookie(self._read_cookie(request)), (401, _SIGN_IN_TEXT)
        except VaultError as error:
            return None, (500, str(error))

    def _try(self, request: Request, token: str | None) -> _Found:
        if token is None:
            return None, (401, _SIGN_IN_TEXT)
        try:
            if grant := self._guests.find(token):
                return grant, (0, "")
            is_patient = self._guests.turn_away(self._hub_site.find_address(request))
        except VaultError as error:
            return None, (500, str(error))
        return None, (401, _UNKNOWN_CALLER_TEXT) if is_patient else (429, _RATE_LIMIT_TEXT)

    def _read_cookie(self, request: Request) -> str:
        return read_cookie(request.headers, self._site.cookie)

    def _identify(self, headers: Headers, request: Request) -> Visitor | None:
        grant: Grant | None = request.state.grant
        if grant is None:
            return None
        if "authorization" not in headers:
            request.state.visit = self._find_visit(self._read_cookie(request))
        return Visitor(may_write=False, agent=grant.name)

    def _turn_away(self, request: Request) -> Response | None:
        if request.url.path.startswith(_PUBLIC_PREFIXES):
            return None
        status, reason = request.state.problem
        if status == 401 and wants_page(request):
            return render_page(request, "sign_in.html", status, title="Sign in", told="")
        return refuse(request, status, reason)

    def _find_visit(self, cookie: str) -> BrowserVisit:
        """Return the messages for a browser's next page."""
        visit = self._visits_by_cookie.pop(cookie, None) or BrowserVisit()
        self._visits_by_cookie[cookie] = visit
        if len(self._visits_by_cookie) > _MAX_BROWSERS:
            self._visits_by_cookie.popitem(last=False)
        return visit


def _find_problem(grant: Grant, git_request: GitRequest) -> tuple[int, str]:
    """Return a status and reason why git's client is not authorized, status 0 if it is."""
    if not git_request.vault or not may(grant, git_request.vault, Right.READ):
        return 404, "this hub has no such vault, or not for you"
    if not git_request.service:
        return 403, "git's smart protocol alone is spoken here; update your git"
    if git_request.writes and not may(grant, git_request.vault, Right.PROPOSE):
        return 403, f"{git_request.vault}: you may only read it; ask its owner for more"
    return 0, ""
