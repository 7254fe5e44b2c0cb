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

#: One half of the pages for each of two tests that take long, so that two cores share them.
HALVES = [[*PLACES][::2], [*PLACES][1::2]]


@pytest.mark.parametrize("names", HALVES, ids=["even", "odd"])
def test_nothing_of_a_page_keeps_people_out(names: list[str], enter_story: EnterStory) -> None:
    reader = enter_story()
    faults = []
    for name in names:
        reader.page.emulate_media(color_scheme="light")
        reader.go(PLACES[name])
        faults += [f"{name}, light: {each}" for each in find_faults(reader.page)]
        reader.page.emulate_media(color_scheme="dark")
        faults += [f"{name}, dark: {each}" for each in find_faults(reader.page)]
    assert not faults, "\n".join(faults)


def test_a_page_fits_a_phone(enter_story: EnterStory) -> None:
    reader = enter_story(viewport=PHONE, has_touch=True, is_mobile=True)
    wide = {}
    for name, place in PLACES.items():
        reader.go(place)
        if reader.page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide[name] = reader.find_wide(PHONE["width"])
    assert wide == {}


def test_a_page_prints_its_text_alone_in_black_on_white(enter_story: EnterStory) -> None:
    reader = enter_story(viewport={"width": PAPER, "height": 900}, color_scheme="dark")
    for name, place in PLACES.items():
        reader.page.emulate_media(media="screen", color_scheme="dark")
        reader.go(place)
        reader.page.emulate_media(media="print", color_scheme="dark")
        _check_print(reader, name)


def _check_print(reader: Reader, name: str) -> None:
    page = reader.page
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PAPER, (name, reader.find_wide(PAPER))
    controls = page.locator("nav, aside, button, input, select, textarea, dialog")
    visible = controls.evaluate_all(
        "all => all.filter(each => each.checkVisibility({visibilityProperty: true}))"
        ".map(each => each.outerHTML)"
    )
    assert visible == [], name
    colours = page.evaluate(
        "[document.body, document.documentElement].map(each => getComputedStyle(each))"
        ".map(each => [each.color, each.backgroundColor])"
    )
    assert colours == [["rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"]] * 2, name


def test_a_page_can_be_read_without_scripts(enter_story: EnterStory) -> None:
    reader = enter_story(java_script_enabled=False)
    for name, place in PLACES.items():
        reader.go(place)
        assert reader.page.locator("h1").first.inner_text(), name
        for part in reader.page.locator("[data-load]").all():
            href = part.locator("a").first.get_attribute("href")
            assert href == part.get_attribute("data-load"), name
        assert reader.page.locator("form.ask").count() == 1, name
