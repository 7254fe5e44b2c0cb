"""What goes on in a browser that nobody sees on the page: each of it has to be expected."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request

#: Opens a context of a browser, and returns it with its witness.
OpenContext = Callable[..., "tuple[BrowserContext, Witness]"]

#: How long what is expected may take (seconds).
PATIENCE = 15


class Witness:
    """Writes down what pages of a context do that a page of ours never does.

    That is a request to elsewhere, an error on the console (a violation of the content security
    policy is one), an exception, a dialog, a window, a download, a web socket, a frame.
    """

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.origin = origin
        self.ignores = False  # Other sites may do what they like.
        self.requests: list[Request] = []
        self.seen: list[str] = []
        self._context = context
        context.on("request", self._see_request)
        context.on("console", self._see_console)
        context.on("weberror", lambda error: self._see("exception", str(error.error)))
        context.on("dialog", self._see_dialog)
        context.on("page", self._see_page)

    def check(self) -> None:
        """Fail on everything seen that was not expected, and forget it."""
        seen, self.seen = [] if self.ignores else self.seen, []
        assert not seen, "\n".join(seen)

    @contextmanager
    def expects(self, pattern: str, at_least: int = 1) -> Iterator[None]:
        """Take what fits a pattern and happens within the `with` for expected; it has to happen."""
        self.check()
        yield
        end = time.monotonic() + PATIENCE
        while len(fitting := [line for line in self.seen if re.search(pattern, line)]) < at_least:
            assert time.monotonic() < end, f"{pattern}: seen {len(fitting)} times\n{self.seen}"
            self._context.pages[0].wait_for_timeout(20)
        self.seen = [line for line in self.seen if line not in fitting]

    def _see(self, kind: str, told: str) -> None:
        self.seen.append(f"{kind}: {told}")

    def _see_request(self, request: Request) -> None:
        self.requests.append(request)
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.origin:
            self._see("request", f"{request.method} {request.url[:300]}")

    def _see_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            where = message.location.get("url", "")
            self._see("console", f"{message.text} ({where})")

    def _see_dialog(self, dialog: Dialog) -> None:
        self._see("dialog", f"{dialog.type}: {dialog.message}")
        dialog.dismiss()

    def _see_page(self, page: Page) -> None:
        if page.opener():
            self._see("window", page.url)
        page.on("download", lambda download: self._see("download", download.url))
        page.on("websocket", lambda socket: self._see("web socket", socket.url))
        page.on("frameattached", lambda frame: self._see("frame", frame.url))
        page.on("crash", lambda page: self._see("crash", page.url))
