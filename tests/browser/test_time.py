"""Looking back: by the slider, by a search that goes on by itself; and a pack that is copied."""

from __future__ import annotations

import pytest
from reading import EnterStory, expect
from support import git

pytestmark = pytest.mark.browser

NOTE = "notes/payments/refund-rules.md"


def test_the_slider_shows_a_note_as_it_was_and_is_held_meanwhile(enter_story: EnterStory) -> None:
    reader = enter_story()
    page = reader.page
    reader.go(f"/note/{NOTE}")
    versions = git(reader.root, "log", "--format=%H", "--", NOTE).split()
    expect(page.locator("#slider")).to_have_count(0)
    page.keyboard.press("s")
    expect(page.locator("#slider input")).to_be_focused()
    for _ in versions:
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#moment")).to_contain_text("As of ")
    page.wait_for_url(f"**?at={versions[-1]}")
    expect(page.locator("#moment a").first).to_have_attribute("href", f"/commit/{versions[-1]}")
    expect(page.locator("main")).to_contain_text("Above €200")
    assert page.evaluate("document.activeElement.type") == "range"
    assert f"at={versions[-1]}" in str(page.locator("nav a").first.get_attribute("href"))
    page.keyboard.press("End")
    expect(page.locator("#moment")).to_be_hidden()
    expect(page.locator("main")).to_contain_text("Above €150")
    assert "at=" not in page.url


def test_a_search_through_commits_goes_on_until_it_has_ended(enter_story: EnterStory) -> None:
    reader = enter_story()
    count = int(git(reader.root, "rev-list", "--first-parent", "--count", "HEAD"))
    reader.go(f"/bisect?q=refunds&says=nobody+says+that&negated=1&good=HEAD~{count - 1}")
    expect(reader.page.locator("main [role=status]"), 60).to_contain_text("not bad")


def test_the_text_of_a_pack_is_copied_as_it_is(enter_story: EnterStory) -> None:
    reader = enter_story(permissions=["clipboard-read", "clipboard-write"])
    page = reader.page
    reader.go("/pack?q=how+are+refunds+handled%3F&budget=1200")
    page.keyboard.press("t")
    page.keyboard.press("c")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    exact = page.evaluate("fetch(location.href + '&part=text').then((answer) => answer.text())")
    assert copied == exact
    assert copied.startswith("# Context")
