"""Debian's chromium, driven by Playwright: started, or a reason why not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")

#: Each name that ends so is this machine, whatever port: other sites, and names that were rebound.
ELSEWHERE = "example"

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP *.{ELSEWHERE} 127.0.0.1, MAP localhost 127.0.0.1, "
    "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def find_reason_against() -> str:
    """Return why there can be no browser here, "" where there can."""
    try:
        import axe_playwright_python  # noqa: F401
        import playwright.sync_api  # noqa: F401
    except ImportError as error:
        return f"{error}: `make test-web` installs it"
    if not _find_chromium():
        return "no chromium on PATH: `apt-get install chromium`"
    return ""


@contextmanager
def started() -> Iterator[Browser]:
    """Run a browser without a screen for the time of a `with`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_find_chromium(), args=_ARGUMENTS)
        yield browser
        browser.close()


def _find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)
