"""The search for the first bad commit: a page runs it in slices, and reloads until it has ended."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make
from support import git, write_notes
from visiting import Served

from vaultmem.web.pages import bisect_page

HOSTILE = "<script>alert(1)</script>"
PLACE = "/bisect?q=gangway+colour&says=the+gangway+is+blue"


@pytest.fixture
def painted(make_vault: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A vault of nine commits, from the sixth of which on the gangway is green.

    A slice ends with its search, however slow the machine is.
    """
    monkeypatch.setattr(bisect_page, "_SLICE", 600.0)
    root = make_vault({"notes/other.md": "# Other\n\nA bollard.\n"})
    for number in range(1, 10):
        colour = "blue" if number < 6 else "green"
        text = f"# Gangway\n\nThe gangway is {colour}, as of change {number}.\n"
        write_notes(root, {"notes/gangway.md": text})
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"change {number} {HOSTILE}")
    served = Served(root, tmp_path)
    yield served
    served.workers.close()


@pytest.mark.campaign
def test_the_first_bad_commit_is_found_and_what_it_changed(painted: Served) -> None:
    page = painted.enter().get(f"{PLACE}&good=HEAD~8").text
    assert "Found after" in page
    first = git(painted.root, "rev-parse", "HEAD~3")
    assert f'The first bad commit: <a href="/commit/{first}"' in page
    assert "<del>blue</del><ins>green</ins>" in page
    assert page.count('<span class="verdict verdict-') == page.count('text-anchor="middle"') >= 4
    assert html.escape('no section of the pack contains "the gangway is blue"', quote=False) in (
        page.replace("&#34;", '"')
    )
    assert HOSTILE not in page
    assert "data-again" not in page


@pytest.mark.campaign
def test_a_search_goes_on_where_it_was(painted: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bisect_page, "_SLICE", 0.0)
    browser = painted.enter()
    counts = []
    while "data-again" in (page := browser.get(f"{PLACE}&good=HEAD~8").text):
        counts.append(page.count('<span class="verdict verdict-'))
        assert '<noscript><meta http-equiv="refresh"' in page
        assert browser.get("/search?q=gangway").status_code == 200
    assert counts == list(range(1, len(counts) + 1))
    assert "Found after" in page


def test_what_cannot_be_searched_says_why(painted: Served) -> None:
    browser = painted.enter()
    assert "Nothing is checked out." in browser.get("/bisect?q=gangway").text
    assert "is not before HEAD~5" in browser.get(f"{PLACE}&good=HEAD&bad=HEAD~5").text
    assert "name an earlier commit" in browser.get(f"{PLACE}&good=HEAD~1").text
    assert "no branch, tag or commit" in browser.get(f"{PLACE}&good=nowhere").text
    assert HOSTILE not in browser.get(f"{PLACE}&good={HOSTILE}&finds={HOSTILE}").text


@pytest.mark.campaign
def test_what_must_not_be_shown_is_searched_too(painted: Served) -> None:
    place = "/bisect?q=gangway+colour&says=is+green&negated=1&good=HEAD~8&budget=500"
    page = painted.enter().get(place).text
    assert f'"/commit/{git(painted.root, "rev-parse", "HEAD~3")}" data-key="o"' in page


def test_a_search_is_filled_in_from_what_differs_since_it_was_right(painted: Served) -> None:
    browser = painted.enter()
    pack = browser.get("/pack?q=gangway+colour").text
    assert '<input type="date" name="good" required' in pack
    page = browser.get("/bisect?q=gangway+colour&good=HEAD~8").text
    found = re.search(r'href="(/bisect[^"]*)"><bdi>Gangway', page)
    assert found
    assert "Removed text: The gangway is blue, as of change 1." in page
    assert "says=The+gangway+is+blue" in found[1]
    assert "The first bad commit" in browser.get(html.unescape(found[1])).text
    assert "are the same" in browser.get("/bisect?q=gangway+colour&good=HEAD").text
    assert browser.get("/bisect?q=gangway+colour&good=no-such").status_code == 422
    shown = browser.get("/bisect?q=gangway+colour").text
    assert "Enter a note or a text" in shown
