"""Git over HTTP by git's own `http-backend`, limited to the smart protocol.

Git's client can make four requests. Their addresses are matched as a whole, so no other file is
reachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, NamedTuple

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from vaultmem.errors import VaultError
from vaultmem.hub.cgi import CgiLimits, RefusedRequestError, collect_body, run_program
from vaultmem.hub.principals import read_push, warn_of_end
from vaultmem.services.hub.grants import GRANT, ORIGIN, Grant
from vaultmem.services.hub.hub_folder import (
    MAX_LOGGED_REFUSALS,
    MAX_REPORTED_REFUSALS,
    AuditEntry,
    Hub,
    RefUpdate,
    read_hub,
    record,
)
from vaultmem.services.hub.hub_folder import PushLimits as HubLimits
from vaultmem.services.hub.receiving import FETCH_FIRST
from vaultmem.storage.user_files import is_vault_name
from vaultmem.web.page_requests import read_count

#: Address prefix of the repositories.
BASE = "/git/"

_PLACE = re.compile(r"/git/([^/]+)\.git/(info/refs|git-upload-pack|git-receive-pack)")

_READ, _WRITE, _REFS = "git-upload-pack", "git-receive-pack", "info/refs"

_COMMAND = ("git", "http-backend")

#: Variables of this process's environment that git gets.
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")

#: Most bytes of the commits a fetching client wants and has, the same as git's limit.
_MAX_WANTS_BYTES = 10 * 1024 * 1024

#: Bytes stored of an answer's end, and a pattern for git's refusals of a push in it.
_END = 16 * 1024
_PUSH_REFUSAL = re.compile(
    rb"(?:unpack(?! ok\n)|ng (refs/[^ \n]{1,250})) (?!pre-receive hook declined)([^\n]{1,200})\n"
)

#: Seconds to wait for the next chunk of a body: a push can come over a slow line.
_CHUNK_SECONDS, _PUSH_CHUNK_SECONDS = 10.0, 60.0

#: Git's message for a ref it did not move, and a pattern that shows another push moved it first.
_REF_FAILURE_MESSAGE = b"failed to update ref"
_CONCURRENT_PUSH = re.compile(re.escape(FETCH_FIRST.encode()) + rb"|but expected|already exists")

_EMPTY_MAPPING: Mapping[str, str] = MappingProxyType({})


class GitRequest(NamedTuple):
    """A request by git's client: the vault, the service, and the path in its repository."""

    vault: str
    service: str
    place: str

    @property
    def writes(self) -> bool:
        """Return whether it is a part of a push."""
        return self.service == _WRITE


class Authorization(NamedTuple):
    """An authorized grant with the push check's environment, or an error status and message."""

    grant: Grant | None = None
    environment: Mapping[str, str] = _EMPTY_MAPPING
    status: int = 0
    message: str = ""


#: Returns whether a git request is authorized.
Admit = Callable[[Request, GitRequest], Awaitable[Authorization]]


class _Exchange(NamedTuple):
    """An authorized request: its environment, and the hub's limits."""

    git_request: GitRequest
    environment: Mapping[str, str]
    allowed: HubLimits

    @property
    def caller(self) -> GitCaller:
        """Return the caller for whom slots are counted."""
        return GitCaller(self.environment["REMOTE_USER"], self.git_request.writes)

    @property
    def is_push(self) -> bool:
        """Return whether refs are to be moved."""
        return self.git_request.writes and self.git_request.place != _REFS

    @property
    def limits(self) -> CgiLimits:
        """Return the limits of the program and the body."""
        cpu = self.allowed.cpu_seconds
        if self.git_request.writes:
            return CgiLimits(self.allowed.push_bytes + _MAX_WANTS_BYTES, cpu, _PUSH_CHUNK_SECONDS)
        return CgiLimits(_MAX_WANTS_BYTES, cpu, _CHUNK_SECONDS)


class GitApp:
    """ASGI app for git clients of a hub's repositories; calls `on_push` with changed vaults."""

    def __init__(self, hub: Hub, admit: Admit, on_push: Callable[[str], None]) -> None:
        self._hub = hub
        self._admit = admit
        self._pushed = on_push
        self._slots = ProgramSlots()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        git_request = _read_asked(request)
        authorization = await self._admit(request, git_request)
        if authorization.grant is None:
            await reject_git(authorization.status, authorization.message)(scope, receive, send)
            return
        send = warn_of_end(authorization.grant, send)
        environment = {
            **self._describe(request, git_request, authorization.grant),
            **authorization.environment,
        }
        exchange = _Exchange(git_request, environment, await to_thread.run_sync(self._read_limits))
        size = exchange.limits.size
        length = read_count(request.headers.get("content-length", "0"), size + 1)
        try:
            if length is None or length > size:
                raise RefusedRequestError(413, f"that is over {size:,} bytes")
            await self._answer(exchange, receive, send)
        except RefusedRequestError as refusal:
            await reject_git(refusal.status, refusal.message)(scope, receive, send)

    def _read_limits(self) -> HubLimits:
        """Return the limits in hub.yaml, or the limits at the start if the file is broken."""
        try:
            return read_hub(self._hub.folder).limits
        except VaultError:
            return self._hub.limits

    async def _answer(self, exchange: _Exchange, receive: Receive, send: Send) -> None:
        """Answer when the body has arrived: a body that never arrives holds no slot."""
        limits, end = exchange.limits, _End(send)
        with self._slots.await_body(exchange.caller):
            body = await collect_body(receive, limits, self._hub.folder)
        if body is None:  # The client has disconnected.
            return
        with body:
            async with self._slots.take(exchange.caller):
                if exchange.is_push and await self._reject(exchange, body, send):
                    return
                words, environment = _COMMAND, exchange.environment
                await run_program(words, environment, body, limits, receive, end.send)
        if exchange.is_push:
            self._pushed(exchange.git_request.vault)
            for outcome, lines in (("refused", end.read_refused()), ("late", end.read_late())):
                if lines:
                    await to_thread.run_sync(self._record, exchange, [], lines, outcome)

    async def _reject(self, exchange: _Exchange, body: IO[bytes], send: Send) -> bool:
        """Return whether a push was refused before its pack is unpacked.

        It is logged before the client gets an answer.
        """
        push = await to_thread.run_sync(read_push, body, exchange.allowed)
        if push is None:
            raise RefusedRequestError(400, "this is not a push in git's format")
        if push.refusal is None:
            return False
        refs, reasons = push.updates[:MAX_LOGGED_REFUSALS], [str(push.refusal)]
        await to_thread.run_sync(self._record, exchange, refs, reasons, "refused")
        kind = f"application/x-{_WRITE}-result".encode()
        headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": push.write_report()})
        return True

    def _record(
        self, exchange: _Exchange, refs: Sequence[RefUpdate], reasons: Sequence[str], outcome: str
    ) -> None:
        """Log refusals that were not made by the push check."""
        git_request, environment = exchange.git_request, exchange.environment
        caller_fields = (
            exchange.caller.name,
            environment.get(GRANT, ""),
            environment.get(ORIGIN, ""),
        )
        details = {"refs": [each._asdict() for each in refs], "refused": list(reasons)}
        record(
            self._hub,
            AuditEntry(time.time(), *caller_fields, "push", (git_request.vault,), outcome, details),
        )

    def _describe(self, request: Request, git_request: GitRequest, grant: Grant) -> dict[str, str]:
        """Return the environment of `http-backend`.

        Of this process's variables, it has only `_INHERITED_VARIABLES`. CONTENT_LENGTH is left out.
        If a body ends before its length, as when this process is killed, git 2.39 waits for the
        rest forever and uses a whole core.
        """
        headers = request.headers
        variables = {
            "CONTENT_TYPE": headers.get("content-type"),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding"),
            "GIT_PROTOCOL": headers.get("git-protocol"),
        }
        return {
            **{name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PROJECT_ROOT": os.fspath(self._hub.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": f"/{git_request.vault}.git/{git_request.place}",
            "QUERY_STRING": f"service={git_request.service}" if git_request.place == _REFS else "",
            "REMOTE_USER": grant.name,  # Without it, http-backend rejects pushes.
            **{name: value for name, value in variables.items() if value is not None},
        }


def reject_git(status: int, reason: str) -> PlainTextResponse:
    """Return an error response that git shows to the user."""
    headers = {"Connection": "close", "Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="vaultmem", charset="UTF-8"'
    if status == 503:
        headers["Retry-After"] = "30"
    return PlainTextResponse(f"{reason}\n", status, headers)


def _read_asked(request: Request) -> GitRequest:
    """Return the parsed request, with service "" if git's client makes no such request."""
    match = _PLACE.fullmatch(request.url.path)
    vault = match[1] if match and is_vault_name(match[1]) else ""
    if match is None or not vault:
        return GitRequest("", "", "")
    if match[2] == _REFS:
        service = request.url.query.removeprefix("service=")
        is_right = request.method == "GET" and service in (_READ, _WRITE)
    else:
        service = match[2]
        kind = f"application/x-{service}-request"
        is_right = request.method == "POST" and request.headers.get("content-type") == kind
        if service == _WRITE:  # No client compresses a push again, and it can unpack to any size.
            is_right &= "content-encoding" not in request.headers
    return GitRequest(vault, service if is_right else "", match[2])


class _End:
    """A response whose end is stored: it has git's refusals of a push."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._text = b""

    async def send(self, message: Message) -> None:
        self._text = (self._text + message.get("body", b""))[-_END:]
        await self._send(message)

    def read_refused(self) -> list[str]:
        """Return refused refs with reasons, without those the push check has logged."""
        return self._list_refused(is_late=False)

    def read_late(self) -> list[str]:
        """Return refs refused after the check because another push came first."""
        return [] if FETCH_FIRST.encode() in self._text else self._list_refused(is_late=True)

    def _list_refused(self, is_late: bool) -> list[str]:
        matches = _PUSH_REFUSAL.findall(self._text)
        refusals = (
            (ref or b"the push", reason)
            for ref, reason in matches
            if self._is_late(reason) == is_late
        )
        lines = (b": ".join(each).decode("utf-8", "replace") for each in refusals)
        return [f"{line}; git itself refuses it" for line in lines][:MAX_REPORTED_REFUSALS]

    def _is_late(self, reason: bytes) -> bool:
        return reason == _REF_FAILURE_MESSAGE and bool(_CONCURRENT_PUSH.search(self._text))


#: Running programs allowed for callers who already have one: in all, and for one caller. Then the
#: seconds a request waits for a slot. Reads and writes count separately.
_MAX_FURTHER_PROGRAMS, _MAX_CALLER_PROGRAMS = 16, 6
_WAIT = 20.0

#: Running programs up to which a caller without one gets a slot; some are reserved for pushes.
_MAX_PROGRAMS, _PUSH_RESERVED_PROGRAMS = 48, 16

#: Bodies of one caller that can arrive at once.
_MAX_ARRIVING_BODIES = 16

_OVERLOAD_TEXT = "too many ask at once; ask again in a minute"


class GitCaller(NamedTuple):
    """A caller's name, and whether they write: reads and writes count separately."""

    name: str
    writes: bool


class ProgramSlots:
    """Counters of running programs and arriving bodies, in all and for each caller."""

    def __init__(self) -> None:
        self._free = asyncio.Condition()
        self._busy: Counter[GitCaller] = Counter()
        self._arriving: Counter[GitCaller] = Counter()

    @contextlib.contextmanager
    def await_body(self, caller: GitCaller) -> Iterator[None]:
        """Count an arriving body while the context is open.

        Raises:
            RefusedRequestError: too many bodies of this caller are arriving.
        """
        if self._arriving[caller] >= _MAX_ARRIVING_BODIES:
            raise RefusedRequestError(503, _OVERLOAD_TEXT)
        self._arriving[caller] += 1
        try:
            yield
        finally:
            self._arriving[caller] -= 1
            self._arriving += Counter()  # Removes zero counts.

    @contextlib.asynccontextmanager
    async def take(self, caller: GitCaller) -> AsyncIterator[None]:
        """Hold a slot while the context is open.

        Raises:
            RefusedRequestError: no slot was free for 20 seconds.
        """
        async with self._free:
            try:
                async with asyncio.timeout(_WAIT):
                    await self._free.wait_for(lambda: self._has_room(caller))
            except TimeoutError:
                raise RefusedRequestError(503, _OVERLOAD_TEXT) from None
            self._busy[caller] += 1
        try:
            yield
        finally:
            await asyncio.shield(self._leave(caller))

    def _has_room(self, caller: GitCaller) -> bool:
        total, own = self._busy.total(), self._busy[caller]
        if own:
            return total < _MAX_FURTHER_PROGRAMS and own < _MAX_CALLER_PROGRAMS
        return total < (_MAX_PROGRAMS if caller.writes else _MAX_PROGRAMS - _PUSH_RESERVED_PROGRAMS)

    async def _leave(self, caller: GitCaller) -> None:
        async with self._free:
            self._busy[caller] -= 1
            self._busy += Counter()
            self._free.notify_all()
