"""Every page of the sample vault: all can read it, on any screen, and nothing in it is amiss."""

from __future__ import annotations

import pytest
from axe import find_faults
from places import PLACES
from reading import EnterStory, Reader

pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}

#: Pixels of the width of A4 between the margins of a printed page.
PAPER = 657


@pytest.mark.parametrize("name", PLACES)
def test_all_people_can_use_a_page_and_print_it(name: str, enter_story: EnterStory) -> None:
    reader = enter_story(color_scheme="light")
    reader.go(PLACES[name])
    light = find_faults(reader.page)
    reader.page.emulate_media(color_scheme="dark")
    dark = find_faults(reader.page)
    assert not light + dark, "\n".join(["in the light:", *light, "in the dark:", *dark])
    _check_print(reader)


def _check_print(reader: Reader) -> None:
    """Check that a page prints its text alone, in black on white."""
    page = reader.page
    page.set_viewport_size({"width": PAPER, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER, reader.find_wide(PAPER)
    for control in page.locator("nav, aside, button, input, select, textarea, dialog").all():
        assert not control.is_visible(), control.evaluate("each => each.outerHTML")
    colours = page.evaluate(
        "[document.body, document.documentElement].map(each => getComputedStyle(each))"
        ".map(each => [each.color, each.backgroundColor])"
    )
    assert colours == [["rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"]] * 2


@pytest.mark.parametrize("name", PLACES)
def test_a_page_fits_a_phone(name: str, enter_story: EnterStory) -> None:
    reader = enter_story(viewport=PHONE, has_touch=True, is_mobile=True)
    reader.go(PLACES[name])
    width = reader.page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"], reader.find_wide(PHONE["width"])


@pytest.mark.parametrize("name", PLACES)
def test_a_page_can_be_read_without_scripts(name: str, enter_story: EnterStory) -> None:
    reader = enter_story(java_script_enabled=False)
    reader.go(PLACES[name])
    assert reader.page.locator("h1").first.inner_text()
    late = reader.page.locator("[data-load]")
    for part in late.all():
        assert part.locator("a").first.get_attribute("href") == part.get_attribute("data-load")
    assert reader.page.locator("form.ask").count() == 1
