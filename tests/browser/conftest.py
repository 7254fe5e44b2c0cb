"""Fixtures of the browser tests: one browser, and for each test a context that is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from chromium import find_reason_against, started
from elsewhere import Site, elsewhere
from served_vault import Served, serve
from witness import OpenContext, Witness

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

#: How long a page may take to do what a test waits for (milliseconds).
PATIENCE = 15_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if reason := find_reason_against():
        pytest.skip(reason)
    with started() as browser:
        yield browser


@pytest.fixture
def other_site() -> Iterator[Site]:
    with elsewhere() as site:
        yield site


@pytest.fixture
def start_serving() -> Iterator[Callable[..., Served]]:
    """Return a function that serves a vault until the end of the test."""
    with ExitStack() as stack:
        yield lambda root, *options: stack.enter_context(serve(root, *options))


@pytest.fixture
def open_context(
    browser: Browser, other_site: Site, start_serving: Callable[..., Served]
) -> Iterator[OpenContext]:
    """Return a function that opens a profile for a site; all have to be innocent in the end.

    They are closed before the servers that they may wait for, whose end they would complain of.
    """
    opened: list[tuple[BrowserContext, Witness]] = []

    def open_one(origin: str, **settings: Any) -> tuple[BrowserContext, Witness]:
        context = browser.new_context(**settings)
        context.set_default_timeout(PATIENCE)
        opened.append((context, Witness(context, origin)))
        return opened[-1]

    yield open_one
    for context, witness in opened:
        context.close()
        witness.check()
