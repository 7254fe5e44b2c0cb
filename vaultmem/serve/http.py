"""The HTTP server of the resident process: pages, the API, and MCP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from concurrent.futures import Future
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

import h11
import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from vaultmem.errors import RefusedError
from vaultmem.mcp_server.run import McpApp
from vaultmem.serve.mcp_socket import AsyncThread
from vaultmem.web.background_jobs import Events
from vaultmem.web.rendering import Site, choose_shared
from vaultmem.web.web_app import create_app, load_all
from vaultmem.workers import Caller, Workers

ADDRESS = "127.0.0.1"

#: All addresses of this machine.
_WILDCARD_ADDRESS = "0.0.0.0"  # noqa: S104 - only if the user names it.

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?")

#: The path of the MCP server.
MCP_PATH = "/mcp"

#: Limits for connections without a request: how many, and for how many seconds.
MAX_SILENT_CONNECTIONS = 64
MAX_SILENT_SECONDS = 3.0

#: Seconds for running requests when the process ends.
_SHUTDOWN_SECONDS = 2


class ServerAccess(NamedTuple):
    """The programs and browsers that have access.

    Programs with the token act as `caller`, with its permissions. Browsers write only with
    `browser_writes`; their codes are in a private folder.
    """

    token: str
    caller: Caller
    folder: Path
    browser_writes: bool = False


class ListenAddress(NamedTuple):
    """An address and port (0: any free one) to listen on, and the accepted host names.

    Accepted are also the address itself and, on this machine, `localhost`.
    """

    port: int
    address: str = ADDRESS
    names: tuple[str, ...] = ()


class Port:
    """A listening port; requests are answered after `answer_by`."""

    def __init__(self, place: ListenAddress) -> None:
        """Bind the port.

        Raises:
            RefusedError: the port is in use, or other machines reach it and no name is given.
        """
        _check_place(place)
        try:
            self._socket = socket.create_server((place.address, place.port))
        except OSError as error:
            reason = error.strerror or error
            raise RefusedError(
                f"port {place.port}: {reason}; name another one with --port"
            ) from None
        self.port = self._socket.getsockname()[1]
        host = ADDRESS if place.address == _WILDCARD_ADDRESS else place.address
        names = (*place.names, host, *(["localhost"] if host == ADDRESS else []))
        #: Accepted Host headers; a name can have a proxy's port.
        self.hosts = tuple(
            dict.fromkeys(name if ":" in name else f"{name}:{self.port}" for name in names)
        )
        self.address = f"http://{host}:{self.port}"
        self._server: uvicorn.Server | None = None
        self._ended: Future[None] | None = None

    def answer_by(self, app: ASGIApp, async_thread: AsyncThread, **settings: int) -> None:
        """Answer requests with an app in this event loop; `settings` are more uvicorn options."""
        options: dict[str, Any] = {"timeout_graceful_shutdown": _SHUTDOWN_SECONDS, **settings}
        config = uvicorn.Config(
            _drop_gone(app),
            http=BoundedProtocol,
            log_level="warning",
            lifespan="off",
            proxy_headers=False,  # The app decides which proxy to trust.
            **options,
        )
        self._server = uvicorn.Server(config)
        self._ended = async_thread.run(self._server.serve([self._socket]))

    def close(self, seconds: float = _SHUTDOWN_SECONDS) -> None:
        """Finish running requests and accept no new ones."""
        if self._server is not None and self._ended is not None:
            self._server.should_exit = True
            with contextlib.suppress(TimeoutError):
                self._ended.result(seconds + 1)
        self._socket.close()


class HttpServer(Port):
    """A port that serves a vault; requests are answered after `start`."""

    def __init__(self, place: ListenAddress, access: ServerAccess) -> None:
        """Bind the port, as `Port` does."""
        super().__init__(place)
        self._access = access
        self._events = Events()
        self._mcp: McpApp | None = None
        self._workers: Workers | None = None

    def start(self, workers: Workers, async_thread: AsyncThread) -> None:
        """Answer requests with these workers, in this event loop."""
        token, caller, folder, browser_writes = self._access
        hosts = self.hosts
        site = Site(
            workers.root,
            frozenset(hosts),
            token,
            folder,
            browser_writes,
            caller.may_write,
            caller.ref,
            choose_shared(caller.environment),
            caller.asks_others,
        )
        self._workers = workers
        self._mcp = McpApp(workers, caller, token, hosts, MCP_PATH)
        self.answer_by(_split(self._mcp, create_app(workers, site, self._events)), async_thread)

    def close(self, seconds: float = _SHUTDOWN_SECONDS) -> None:
        """Close as `Port` does, and close the sessions that agents started over HTTP."""
        super().close(seconds)
        if self._workers is not None:
            self._workers.submit_close(self._access.caller)

    def load(self) -> None:
        """Import the modules of pages that were not requested yet."""
        load_all()

    def notice(self, path: str) -> None:
        """Notify listeners that a path might have changed; any thread can call it."""
        self._events.notice(path)
        if self._mcp is not None:
            self._mcp.notice(path)


def _check_place(place: ListenAddress) -> None:
    """Check that serving other machines is intended.

    Raises:
        RefusedError: the address is invalid, or other machines reach it and no name is given.
    """
    from ipaddress import AddressValueError, IPv4Address

    try:
        is_own = IPv4Address(place.address).is_loopback
    except AddressValueError:
        raise RefusedError(f"{place.address}: no address such as 127.0.0.1; name one") from None
    invalid_name = next((name for name in place.names if not _NAME.fullmatch(name)), "")
    if invalid_name:
        raise RefusedError(f"{invalid_name}: no name such as vault.example or vault.example:8080")
    if not is_own and not place.names:
        raise RefusedError(
            f"{place.address}: other machines reach that, and what they read and send is not "
            "encrypted; say with --name HOST by which name they ask, or leave out --host"
        )


def _split(mcp: McpApp, others: ASGIApp) -> ASGIApp:
    """Return an app that sends MCP requests to `mcp` and the rest to `others`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_mcp = scope["type"] == "http" and scope["path"] == mcp.path
        await (mcp if is_mcp else others)(scope, receive, send)

    return app


def _drop_gone(app: ASGIApp) -> ASGIApp:
    """Return an app that ignores clients who disconnect before their request is complete."""

    async def drop_gone(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)

    return drop_gone


class _StrictConnection(h11.Connection):
    """An HTTP parser that rejects requests which proxies might parse differently (smuggling).

    `problem` is the last request's error, "" if h11 itself found it.
    """

    problem = ""

    def next_event(self) -> Any:
        """Return the next event, as h11 does.

        Raises:
            h11.RemoteProtocolError: the data is not HTTP, or is ambiguous.
        """
        self.problem = ""
        if self.their_state is h11.IDLE:
            head = re.split(rb"\n\r?\n", self.trailing_data[0], maxsplit=1)[0]
            if re.search(rb"\n[ \t]", head):
                self._reject("A header is folded over two lines; send it in one.")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                self._reject("Content-Length and Transfer-Encoding are both given; send one.")
        return event

    def _reject(self, problem: str) -> NoReturn:
        self.problem = problem
        raise h11.RemoteProtocolError(problem)


class BoundedProtocol(H11Protocol):
    """A connection that must send its request soon, because local programs can open thousands.

    Above the limit of connections without a request, the oldest is closed.
    """

    _silent: ClassVar[dict[BoundedProtocol, asyncio.TimerHandle]] = {}

    def __init__(self, *args: Any, **options: Any) -> None:
        """Parse requests strictly."""
        super().__init__(*args, **options)
        self.conn = self._strict = _StrictConnection(h11.SERVER)

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request with problem details and close the connection."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            status = HTTPStatus.BAD_REQUEST
            problem = {"type": "about:blank", "title": status.phrase, "status": status}
            data = json.dumps({**problem, "detail": self._strict.problem or msg}).encode()
            headers = [
                ("Content-Type", "application/problem+json"),
                ("Content-Length", str(len(data))),
                ("Connection", "close"),
            ]
            answer = h11.Response(status_code=status, headers=headers, reason=status.phrase)
            for event in (answer, h11.Data(data=data), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for a request."""
        super().connection_made(transport)
        # asyncio sets this only on its own sockets; without it, each response waits 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process data; after a response, the timeout restarts for the next request."""
        if self.cycle and self.cycle.response_complete and self not in self._silent:
            self._await_request()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._end_wait()

    def _await_request(self) -> None:
        self._silent[self] = self.loop.call_later(MAX_SILENT_SECONDS, self._give_up)
        if len(self._silent) > MAX_SILENT_CONNECTIONS:
            next(iter(self._silent))._give_up()

    def _end_wait(self) -> None:
        if timer := self._silent.pop(self, None):
            timer.cancel()

    def _give_up(self) -> None:
        self._end_wait()
        self.transport.abort()
