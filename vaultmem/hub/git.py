"""Git over HTTP by git's own `http-backend`: the smart protocol, and nothing else of a repository.

What git's client can ask of a vault is four requests; their addresses are matched as a whole, so
that no other file of a repository, and none beside it, has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from vaultmem.hub.cgi import Limits, run_program
from vaultmem.services.hub.audit import Entry, record
from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.grants import GRANT, ORIGIN
from vaultmem.services.hub.refusal import TOLD
from vaultmem.storage.vault_list import is_vault_name
from vaultmem.web.asking import read_count

#: Below what address the repositories are.
BASE = "/git/"

_PLACE = re.compile(r"/git/([^/]+)\.git/(info/refs|git-upload-pack|git-receive-pack)")

_READ, _WRITE, _REFS = "git-upload-pack", "git-receive-pack", "info/refs"

_COMMAND = ("git", "http-backend")

#: What of this process's environment a program is told.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")

#: Bytes of what a client says that reads: which commits it wants and has. Git itself takes as much.
_MOST_ASKED = 10 * 1024 * 1024

#: Bytes of the end of an answer that are kept; and what of a push git says there that it refuses.
_END = 16 * 1024
_REFUSED = re.compile(
    rb"(?:unpack(?! ok\n)|ng (refs/[^ \n]{1,250})) (?!pre-receive hook declined)([^\n]{1,200})\n"
)

#: Programs at once, in all and for one who asks; and the seconds for which others wait for one.
_MANY, _MANY_OF_ONE = 16, 6
_WAIT = 20.0

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Asked(NamedTuple):
    """A request of git's client: of which vault, by which service, and where in its repository."""

    vault: str
    service: str
    place: str

    @property
    def writes(self) -> bool:
        """Tell whether it is a part of a push."""
        return self.service == _WRITE


class Admitted(NamedTuple):
    """Who may ask what they asked, and what the repository's check is told; else why they may not.

    A refusal is a status and its words.
    """

    name: str = ""
    environment: Mapping[str, str] = _NOTHING
    status: int = 0
    told: str = ""


#: Says who asks, and whether they may.
Admit = Callable[[Request, Asked], Awaitable[Admitted]]


class GitApp:
    """Answers git's clients for the repositories of a hub; `pushed` hears which vault changed."""

    def __init__(self, hub: Hub, admit: Admit, pushed: Callable[[str], None]) -> None:
        self._hub = hub
        self._admit = admit
        self._pushed = pushed
        self._room = _Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        asked = _read_asked(request)
        admitted = await self._admit(request, asked)
        size = self._hub.limits.push_bytes + _MOST_ASKED if asked.writes else _MOST_ASKED
        said = read_count(request.headers.get("content-length", "0"), size + 1)
        if admitted.status:
            await refuse_git(admitted.status, admitted.told)(scope, receive, send)
        elif said is None or said > size:
            await refuse_git(413, f"that is over {size:,} bytes")(scope, receive, send)
        else:
            environment = self._describe(request, asked, admitted)
            end = _End(send)
            try:
                async with self._room.take(admitted.name):
                    await run_program(_COMMAND, environment, Limits(size), receive, end.send)
                if asked.writes and asked.place != _REFS:
                    self._pushed(asked.vault)
                    await to_thread.run_sync(self._keep_refusal, asked.vault, environment, end)
            except _FullError:
                told = "too many ask at once; ask again in a minute"
                await refuse_git(503, told)(scope, receive, send)

    def _keep_refusal(self, vault: str, environment: Mapping[str, str], end: _End) -> None:
        """Put on record what git itself did not take: of that the door knows nothing."""
        if refused := end.read_refused():
            who = (
                environment["REMOTE_USER"],
                environment.get(GRANT, ""),
                environment.get(ORIGIN, ""),
            )
            details = {"refs": [], "refused": refused}
            record(self._hub, Entry(time.time(), *who, "push", (vault,), "refused", details))

    def _describe(self, request: Request, asked: Asked, admitted: Admitted) -> dict[str, str]:
        """Return the environment of `http-backend`: nothing of this process's but where git is.

        It is not told how long a body is: one that it knows the length of, and that ends before,
        as where this process is killed, it awaits for good, and with a whole core (git 2.39).
        """
        headers = request.headers
        said = {
            "CONTENT_TYPE": headers.get("content-type"),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding"),
            "GIT_PROTOCOL": headers.get("git-protocol"),
        }
        return {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PROJECT_ROOT": os.fspath(self._hub.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": f"/{asked.vault}.git/{asked.place}",
            "QUERY_STRING": f"service={asked.service}" if asked.place == _REFS else "",
            "REMOTE_USER": admitted.name,  # Without one, http-backend takes no push.
            **{name: value for name, value in said.items() if value is not None},
            **admitted.environment,
        }


def refuse_git(status: int, told: str) -> PlainTextResponse:
    """Return an answer whose words git shows to whoever gave the command."""
    headers = {"Connection": "close", "Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="vaultmem", charset="UTF-8"'
    if status == 503:
        headers["Retry-After"] = "30"
    return PlainTextResponse(f"{told}\n", status, headers)


def _read_asked(request: Request) -> Asked:
    """Return what is asked for, with a service that is "" if git's client asks nothing like it."""
    place = _PLACE.fullmatch(request.url.path)
    vault = place[1] if place and is_vault_name(place[1]) else ""
    if place is None or not vault:
        return Asked("", "", "")
    if place[2] == _REFS:
        service = request.url.query.removeprefix("service=")
        is_right = request.method == "GET" and service in (_READ, _WRITE)
    else:
        service = place[2]
        kind = f"application/x-{service}-request"
        is_right = request.method == "POST" and request.headers.get("content-type") == kind
        if service == _WRITE:  # No client packs a push again, and it may unpack to anything.
            is_right &= "content-encoding" not in request.headers
    return Asked(vault, service if is_right else "", place[2])


class _End:
    """Sends an answer, and keeps its end, where git says what of a push it did not take."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._text = b""

    async def send(self, message: Message) -> None:
        self._text = (self._text + message.get("body", b""))[-_END:]
        await self._send(message)

    def read_refused(self) -> list[str]:
        """Return what was refused, with why, but for what the door has put on record."""
        said = ((ref or b"the push", why) for ref, why in _REFUSED.findall(self._text))
        lines = (b": ".join(each).decode("utf-8", "replace") for each in said)
        return [f"{line}; git itself refuses it" for line in lines][:TOLD]


class _FullError(Exception):
    """Too many programs run."""


class _Room:
    """How many programs run at once, in all and for each who asks."""

    def __init__(self) -> None:
        self._free = asyncio.Condition()
        self._busy: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[None]:
        """Have a place for the time of a `with`.

        Raises:
            _FullError: none was free for 20 seconds.
        """
        async with self._free:
            try:
                async with asyncio.timeout(_WAIT):
                    await self._free.wait_for(lambda: self._has_room(name))
            except TimeoutError:
                raise _FullError from None
            self._busy[name] += 1
        try:
            yield
        finally:
            await asyncio.shield(self._leave(name))

    def _has_room(self, name: str) -> bool:
        return self._busy.total() < _MANY and self._busy[name] < _MANY_OF_ONE

    async def _leave(self, name: str) -> None:
        async with self._free:
            self._busy[name] -= 1
            self._busy += Counter()  # Who has none is not counted any more.
            self._free.notify_all()
