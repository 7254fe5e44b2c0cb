"""Somebody in front of a vault's pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from places import Place
from witness import Witness

if TYPE_CHECKING:
    from playwright.sync_api import Locator, LocatorAssertions, Page, Response


class Reader:
    """A window that was let in, and its witness."""

    def __init__(self, page: Page, witness: Witness, root: Path, has_scripts: bool = True) -> None:
        self.has_scripts = has_scripts
        self.root = root
        self.link = ""
        self.page = page
        self.witness = witness
        self.origin = witness.origin

    def go(self, place: Place | str) -> Response:
        """Open a page, with what it loads late."""
        place = Place(place) if isinstance(place, str) else place
        if place.status == 200:
            return self._load(place)
        with self.witness.expects(rf"console: .* {place.status} "):
            return self._load(place)

    def _load(self, place: Place) -> Response:
        answer = self.page.goto(self.origin + place.address)
        assert answer is not None
        assert answer.status == place.status, place
        if self.has_scripts:
            expect(self.page.locator("[data-load]")).to_have_count(0)
        return answer

    def find_wide(self, width: int) -> list[str]:
        """Return what reaches out of a window of this width, from the inside out."""
        found: list[str] = self.page.evaluate(
            """width => [...document.querySelectorAll("body *")]
                .filter(each => each.getBoundingClientRect().right > width + 1)
                .map(each => `${each.tagName}.${each.className}: ${each.textContent.slice(0, 60)}`)
                .reverse()""",
            width,
        )
        return found


def expect(locator: Locator, seconds: float = 10) -> LocatorAssertions:
    """Return what waits until something is true of a part of a page, and fails in the end."""
    from playwright.sync_api import expect as expect_there

    expect_there.set_options(timeout=seconds * 1_000)
    return expect_there(locator)


#: Let a new reader in, with these settings of a browser.
EnterStory = Callable[..., Reader]

#: Serve a vault of the test's own with these options, and let its owner in with these settings.
EnterOwn = Callable[..., Reader]
