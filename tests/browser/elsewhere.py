"""Another site on this machine, that serves what a test lays there and writes down who came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from chromium import ELSEWHERE


class Visit(NamedTuple):
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]


class Site:
    """Pages by path, and the visits so far."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.origin = f"http://elsewhere.{ELSEWHERE}:{port}"
        self.pages: dict[str, str] = {}
        self.headers: dict[str, str] = {}
        self.visits: list[Visit] = []


@contextmanager
def elsewhere() -> Iterator[Site]:
    """Run another site for the time of a `with`."""
    server = _Server(("127.0.0.1", 0), _Visited)
    server.site = site = Site(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of browsers that went away."""


class _Visited(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        site.visits.append(Visit(self.command, self.path, dict(self.headers)))
        text = site.pages.get(self.path)
        self.send_response(404 if text is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        for name, value in site.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write((text or "").encode())

    do_GET = do_POST = do_OPTIONS = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""
