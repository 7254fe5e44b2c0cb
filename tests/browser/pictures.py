"""A program: take the pictures in docs/pictures, of eight pages in light and dark."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from chromium import find_reason_against, started
from obsidian_vault import CANVAS, lay_obsidian
from places import PLACES
from reading import expect
from served_vault import Served, serve
from story import lay_story

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[2] / "docs/pictures"
SIZE = {"width": 1200, "height": 720}

#: The name of a picture, and the page that it shows.
PICTURES = {
    "home": "/",
    "note": PLACES["note with a table"].address,
    "pack": PLACES["pack"].address,
    "time": "/time",
    "review": "/review",
    "search": "/search?q=how+do+I+roll+back+a+deploy%3F",
    "bisect": "/bisect?q=staging+database&says=PostgreSQL+16&negated=1&good=HEAD~3",
}


def main() -> None:
    """Serve the story's vault from a home of its own, and take each picture twice."""
    if reason := find_reason_against():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        _settle(Path(folder))
        root = lay_story(Path(folder) / "ferrylane")
        with serve(root, "--write") as served, started() as browser:
            _take_all(served, browser, PICTURES)
        root = lay_obsidian(Path(folder) / "harbour")
        with serve(root) as served, started() as browser:
            _take_all(served, browser, {"canvas": f"/note/{quote(CANVAS)}"})


def _take_all(served: Served, browser: Browser, pictures: Mapping[str, str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    page = browser.new_page(viewport=SIZE)
    page.goto(served.link)
    page.wait_for_url(f"{served.origin}/")
    for name, address in pictures.items():
        page.goto(served.origin + address)
        expect(page.locator("[data-load], [data-again]"), 60).to_have_count(0)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=FOLDER / f"{name}-{scheme}.png", animations="disabled")


def _settle(home: Path) -> None:
    """Have git and vaultmem keep what they keep in a folder of this program's own."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "VAULTMEM_", "XDG_"))]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "VAULTMEM_RECEIPTS": "1", "TZ": "UTC"}
    for name in ("state", "data", "config"):
        os.environ[f"XDG_{name.upper()}_HOME"] = str(home / name)
    (home / ".gitconfig").write_text("[user]\n\tname = Maren\n\temail = maren@example.com\n")


if __name__ == "__main__":
    main()
