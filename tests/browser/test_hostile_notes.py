"""200 hostile notes, opened in a real browser wherever they show: nothing of them runs or asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hostile_vault import PAYLOADS, lay_hostile_vault
from reading import Reader
from served_vault import Served, serve
from support import git
from witness import OpenContext

pytestmark = pytest.mark.browser

#: What `make test-campaigns` runs, so that the gate stays short.
_LATER = pytest.mark.campaign

#: Tells on the console what notes would do if they could: all of them set this.
_CANARY = """Object.defineProperty(window, "hacked", {
    set() { console.error("a note ran"); }, get() { return 0; } })"""

#: Returns what no page of ours has, whatever a note says.
_LOOK = """() => {
    const faults = [];
    const scripts = [...document.scripts].map(each => each.getAttribute("src"));
    if (scripts.join() !== "/static/vaultmem.js") faults.push(`scripts ${scripts}`);
    const strange = "iframe, frame, object, embed, base, style, applet, portal, meta[http-equiv], "
        + "foreignObject, animate, set, math, video, audio, link:not([href^='/static/'])";
    for (const each of document.querySelectorAll(strange)) faults.push(each.outerHTML);
    const obsidian = ".facts > a[href^='obsidian://open?path=%2F']";
    const leads = ["href", "xlink:href"];
    const asks = ["src", "action", "formaction", "data", "poster", "background", "data-load",
        "data-live", "data-slide"];
    for (const each of document.querySelectorAll("*")) {
        for (const {name, value} of each.attributes) {
            const address = URL.parse(value, location) ?? new URL("unreadable:");
            const runs = name.startsWith("on") || name === "srcdoc"
                || name === "style" && !each.closest("[data-rail]")
                || leads.includes(name) && !/^(https?|mailto):$/.test(address.protocol)
                    && !each.matches(obsidian)
                || asks.includes(name) && address.origin !== location.origin;
            if (runs) faults.push(`${name}=${value}`);
        }
    }
    return faults; }"""

#: What a page may ask for by itself, beside what it is.
_OWN = ("/static/", "/rail/", "/moments", "/events", "/file/", "/health/checks")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, list[str]]]:
    root = tmp_path_factory.mktemp("hostile") / "vault"
    paths = lay_hostile_vault(root)
    with serve(root, "--write") as served:
        yield served, paths


@pytest.fixture(scope="module")
def let_in_hostile(hostile: tuple[Served, list[str]], browser: Any) -> Any:
    context = browser.new_context()
    context.new_page().goto(hostile[0].link)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def victim(
    hostile: tuple[Served, list[str]], let_in_hostile: Any, open_context: OpenContext
) -> Iterator[Reader]:
    """The owner of the vault, who may write; it stays as it is."""
    served, _ = hostile
    before = git(served.root, "rev-parse", "HEAD")
    context, witness = open_context(served.origin, storage_state=let_in_hostile)
    context.add_init_script(_CANARY)
    reader = Reader(context.new_page(), witness, served.root)
    yield reader
    posts = [urlsplit(each.url).path for each in witness.requests if each.method != "GET"]
    assert not [path for path in posts if not path.startswith("/edit/")]
    assert git(served.root, "rev-parse", "HEAD") == before
    assert git(served.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(n, marks=_LATER) for n in range(2, 8))])
def test_no_note_does_anything_where_it_is_read(
    part: int, hostile: tuple[Served, list[str]], victim: Reader
) -> None:
    _, paths = hostile
    assert len(paths) == 200
    for path in paths[part::8]:
        _open(victim, f"/note/{quote(os.fsencode(path))}")


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=_LATER)])
def test_no_note_does_anything_where_it_is_edited(
    part: int, hostile: tuple[Served, list[str]], victim: Reader
) -> None:
    """Its text is in a field, and shown again where it is previewed."""
    _, paths = hostile
    for path in paths[part::6]:
        _open(victim, f"/edit/{quote(os.fsencode(path))}")
        if (preview := victim.page.get_by_role("button", name="Preview")).count():
            preview.click()
            victim.page.get_by_label("Preview", exact=True).wait_for()
            assert victim.page.evaluate(_LOOK) == [], path
            assert victim.witness.seen == [], path


@pytest.mark.parametrize("page", ["history", "graph"])
def test_no_note_does_anything_beside_others(
    page: str, hostile: tuple[Served, list[str]], victim: Reader
) -> None:
    _, paths = hostile
    for path in paths[80::5]:
        _open(victim, f"/{page}/{quote(os.fsencode(path))}")


@pytest.mark.parametrize(
    "place",
    [
        *("/search?q=", "/search?q=text&tag=", "/notes?tag=", "/time?who="),
        *(pytest.param(place, marks=_LATER) for place in ("/pack?q=", "/review?only=")),
        *(pytest.param(place, marks=_LATER) for place in ("/review?agent=", "/review?later=")),
    ],
)
def test_no_question_does_anything(place: str, victim: Reader) -> None:
    for payload in PAYLOADS:
        _open(victim, place + quote(payload))


@pytest.mark.parametrize(
    "place",
    [
        *("/packs/compare?q=", "/bisect?q=", "/bisect?good=HEAD~3&q=", "/receipts?agent="),
        *("/?at=", "/note/", "/agent/", "/session/", "/"),
    ],
)
def test_no_address_does_anything(place: str, victim: Reader) -> None:
    for payload in PAYLOADS[:8]:
        _open(victim, place + quote(payload, safe=""))


def test_no_list_does_anything(victim: Reader) -> None:
    lists = ("/", "/review", "/sessions", "/time", "/receipts", "/health", "/graph/MEMORY.md")
    for place in (*lists, "/agent/a0", "/review?chosen=1&page=1"):
        _open(victim, place)
    for number in range(5):
        _open(victim, f"/notes?page={number}")
    for number in range(len(PAYLOADS)):
        _open(victim, f"/session/h-{number}")


@pytest.mark.parametrize("start", ["/time", "/receipts"])
def test_nothing_that_a_list_leads_to_does_anything(start: str, victim: Reader) -> None:
    _open(victim, start)
    links = victim.page.locator("main [data-item] > a, main [data-item] > p > a").all()
    places = list(dict.fromkeys(each.get_attribute("href") or "" for each in links))
    assert len(places) >= len(PAYLOADS) - 1
    for place in places[:14]:
        _open(victim, place)


def _open(victim: Reader, place: str) -> None:
    """Open a page, touch what is on it, and fail on everything that a page of ours does not do."""
    page, witness = victim.page, victim.witness
    asked_before = len(witness.requests)
    answer = page.goto(witness.origin + place)
    assert answer is not None
    assert answer.status < 500, place
    for part in page.locator("[data-load]").all():
        part.wait_for(state="detached")
    for summary in page.locator("main summary").all()[:10]:
        summary.click()
    assert page.evaluate(_LOOK) == [], place
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    refused = f"Failed to load resource: the server responded with a status of {answer.status}"
    witness.seen = [line for line in witness.seen if refused not in line or answer.status < 400]
    assert witness.seen == [], place
    asked = [urlsplit(each.url).path for each in witness.requests[asked_before:]]
    # A late request of the page before may come first.
    asked.remove(own if (own := urlsplit(place).path) in asked else asked[0])
    assert [path for path in asked if not path.startswith(_OWN)] == [], place
