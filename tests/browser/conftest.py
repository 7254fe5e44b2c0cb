"""Fixtures of the browser tests: one browser, and for each test a context that is watched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chromium import find_reason_against, started
from elsewhere import Site, elsewhere
from reading import EnterOwn, EnterStory, Reader
from served_vault import Served, serve
from story import lay_story
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


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The story's vault, served to read."""
    root = lay_story(tmp_path_factory.mktemp("story") / "ferrylane")
    with serve(root) as served:
        yield served


@pytest.fixture(scope="session")
def let_in(story: Served, browser: Browser) -> Any:
    """What a browser has that was let in to the story's vault by its link."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(story.link)
    page.wait_for_url(f"{story.origin}/")
    cookies = context.storage_state()
    context.close()
    return cookies


@pytest.fixture
def enter_story(story: Served, let_in: Any, open_context: OpenContext) -> EnterStory:
    """Return a function that lets a new reader in to the story's vault."""

    def enter(**settings: Any) -> Reader:
        context, witness = open_context(story.origin, storage_state=let_in, **settings)
        has_scripts = settings.get("java_script_enabled", True)
        return Reader(context.new_page(), witness, story.root, has_scripts)

    return enter


@pytest.fixture
def enter_own(
    story: Served,
    tmp_path: Path,
    start_serving: Callable[..., Served],
    open_context: OpenContext,
) -> EnterOwn:
    """Return a function that serves a copy of the story's vault, and lets its owner in."""

    def enter(*options: str, **settings: Any) -> Reader:
        root = tmp_path / "ferrylane"
        shutil.copytree(story.root, root, symlinks=True)
        served = start_serving(root, *options)
        context, witness = open_context(served.origin, **settings)
        page = context.new_page()
        page.goto(served.link)
        page.wait_for_url(f"{served.origin}/")
        reader = Reader(page, witness, root, settings.get("java_script_enabled", True))
        reader.link = served.link
        return reader

    return enter
