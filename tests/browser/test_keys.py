"""Keys: each that a page names does what it says, and none does anything while somebody types."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

import pytest
from places import PLACES
from reading import EnterStory, Reader, expect

pytestmark = pytest.mark.browser

#: What all pages have, beside their own keys.
FOR_ALL = {"j", "k", "Enter", "Esc"}

READABLE = [name for name, place in PLACES.items() if place.status == 200]


@pytest.mark.parametrize("names", [READABLE[::2], READABLE[1::2]], ids=["even", "odd"])
def test_a_page_names_its_keys_and_each_does_what_it_says(
    names: list[str], enter_story: EnterStory
) -> None:
    reader = enter_story()
    for name in names:
        reader.go(PLACES[name])
        _check_overlay(reader)
        for key in _find_keys(reader.page, "main [data-key], .moment [data-key]"):
            reader.go(PLACES[name])
            _press_and_look(reader, key, "main [data-key], .moment [data-key]")


def _check_overlay(reader: Reader) -> None:
    reader.page.keyboard.press("?")
    overlay = reader.page.locator("#keys")
    expect(overlay).to_be_visible()
    rows = overlay.locator("tbody tr").all()
    told = {row.locator("th").inner_text().strip(): row.locator("td").inner_text() for row in rows}
    assert set(told) == FOR_ALL | set(_find_keys(reader.page, "[data-key]"))
    assert all(told.values()), told
    reader.page.keyboard.press("Escape")
    expect(overlay).to_be_hidden()


@pytest.mark.parametrize("key", ["g h", "g n", "g p", "g t", "g r", "g s", "g e", "/"])
def test_a_key_leads_from_everywhere_to(key: str, enter_story: EnterStory) -> None:
    reader = enter_story()
    reader.go("/note/MEMORY.md")
    _press_and_look(reader, key, "[data-key]")


def test_items_are_walked_and_opened_by_keys(enter_story: EnterStory) -> None:
    reader = enter_story()
    reader.go("/search?q=refunds")
    page = reader.page
    here = page.locator(".here")
    titles = [item.locator("a").first.inner_text() for item in page.locator("[data-item]").all()]
    assert len(titles) > 3
    for key, place in [("j", 0), ("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0)]:
        page.keyboard.press(key)
        expect(here.locator("a").first).to_have_text(titles[place])
        expect(here.locator("a").first).to_be_focused()
    href = here.locator("a").first.get_attribute("href") or ""
    page.keyboard.press("Enter")
    page.wait_for_url(urljoin(page.url, href))


def test_what_is_typed_into_a_field_is_no_key(enter_story: EnterStory) -> None:
    reader = enter_story()
    reader.go("/")
    page = reader.page
    field = page.locator("form.ask input[type=search]")
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.keyboard.type("jk?gn")
    expect(field).to_have_value("jk?gn")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(field).not_to_be_focused()


def test_search_answers_while_one_types(enter_story: EnterStory) -> None:
    reader = enter_story()
    reader.go("/")
    page = reader.page
    page.keyboard.press("/")
    page.keyboard.type("how do I roll back", delay=20)
    expect(page.locator("#results [data-item]").first).to_contain_text("Roll back a release")
    page.wait_for_url("**/search?q=how+do+I+roll+back")
    expect(page.locator(".here")).to_contain_text("Roll back a release")
    page.keyboard.press("Enter")
    page.wait_for_url("**/note/**")
    expect(page.locator("h1")).to_contain_text("Roll back a release")


def test_a_page_that_refreshes_itself_does_not_end_a_search(enter_story: EnterStory) -> None:
    reader = enter_story()
    reader.go("/")
    page = reader.page

    def answer_late(route: Route) -> None:
        time.sleep(0.4)
        route.continue_()

    page.route("**/search?*", answer_late)
    page.evaluate("setInterval(() => { main().dataset.again = 20; loadParts(); }, 100)")
    page.keyboard.press("/")
    page.keyboard.type("refunds")
    page.wait_for_url("**/search?q=refunds")


def test_arrows_lead_from_the_field_into_the_list(enter_story: EnterStory) -> None:
    reader = enter_story()
    reader.go("/search?q=refunds")
    page = reader.page
    page.keyboard.press("/")
    links = page.locator("#results [data-item] > a")
    for key, place in [("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)]:
        page.keyboard.press(key)
        expect(links.nth(place)).to_be_focused()
    href = links.nth(1).get_attribute("href") or ""
    page.keyboard.press("Enter")
    page.wait_for_url(urljoin(page.url, href))


def _find_keys(page: Page, which: str) -> list[str]:
    found = [each.get_attribute("data-key") or "" for each in page.locator(which).all()]
    return list(dict.fromkeys(found))


def _press_and_look(reader: Reader, key: str, which: str) -> None:
    """Press a key, and see that it did what a click on its element would."""
    page = reader.page
    element = page.locator(which).and_(page.locator(f'[data-key="{key}"]')).first
    tag = element.evaluate("element => element.tagName")
    href = element.get_attribute("href") if tag == "A" else None
    if href is not None and href.startswith("obsidian:"):
        return  # A browser does not follow it where no Obsidian is.
    before = page.url
    for each in key.split():
        page.keyboard.press(each)
    if href is not None:
        page.wait_for_url(urljoin(before, href))
    elif tag in {"INPUT", "SELECT", "TEXTAREA"}:
        expect(element).to_be_focused()
    elif tag == "SUMMARY":
        expect(element.locator("..")).to_have_attribute("open", "")
    else:
        assert tag == "BUTTON", tag
