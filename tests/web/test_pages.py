"""What the pages show of a vault, and that nothing in it becomes markup of theirs."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from conftest import Make
from support import git
from visiting import Served

from vaultmem.web.web_app import PAGES, load_all

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}"

PLACES = (
    "/",
    "/notes",
    "/search?q=refunds",
    "/search?q=refunds&part=results",
    "/note/notes/payments/refund-rules.md",
    "/rail/notes/payments/refund-rules.md",
    "/graph/notes/payments/refund-rules.md",
    "/spread/notes/payments/refund-rules.md",
    "/sessions",
    "/session/s-0431",
    "/health",
    "/health/checks",
    "/review",
    "/conflicts",
)


class Tags(HTMLParser):
    """Collects what of a page a browser might run or ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given.get("src") or "inline")
        if tag in {"iframe", "object", "embed", "base", "style"}:
            self.faults.append(tag)
        self.faults += [name for name in given if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action", "data-load"):
            place = given.get(name)
            if place is not None and not place.startswith(("/", "#", "obsidian://open?path=%2F")):
                self.faults.append(place)


@pytest.fixture
def hostile(make_vault: Make, tmp_path: Path) -> Iterator[Served]:
    """A vault in which everything that somebody can name is named badly."""
    title = HOSTILE.replace("'", "''")
    note = f"---\ntitle: '{title}'\ntags: ['<b>x']\n---\n# {HOSTILE}\nrefunds {HOSTILE}\n"
    session = "---\nkind: episodic_trace\nsession_id: s-1\nstatus: ok\nagent: '<i>a'\n---\n"
    root = make_vault(
        {
            "notes/<img src=x onerror=alert(3)>.md": f"{note} [[s-1]]\n",
            "notes/plain.md": f"refunds [[{HOSTILE}|x]] [[<img src=x onerror=alert(3)>]]\n",
            "notes/out.md": f"---\nstate: quarantined\n---\nrefunds {HOSTILE}\n",
            "sessions/s-1.md": f"{session}# {HOSTILE}\n",
        }
    )
    made = Served(root, tmp_path, may_write=True)
    yield made
    made.workers.close()


@pytest.mark.parametrize("place", PLACES)
def test_each_page_asks_for_nothing_that_is_not_here(served: Served, place: str) -> None:
    answer = served.enter().get(place)
    assert answer.status_code == 200
    assert _find_faults(answer.text) == []


def test_no_name_or_text_becomes_markup(hostile: Served) -> None:
    browser = hostile.enter()
    named = "notes/%3Cimg%20src%3Dx%20onerror%3Dalert%283%29%3E.md"
    places = [
        "/",
        "/notes",
        "/notes?tag=%3Cb%3Ex",
        "/search?q=refunds",
        "/sessions",
        "/session/s-1",
    ]
    places += [f"/{page}/{named}" for page in ("note", "rail", "graph", "spread", "edit")]
    places += ["/note/notes/plain.md", "/note/notes/out.md", "/review", "/health", "/session/s-1"]
    places += [f"/search?q={HOSTILE}", f"/notes?name={HOSTILE}&state={HOSTILE}", f"/note/{HOSTILE}"]
    for place in places:
        answer = browser.get(place)
        assert answer.status_code in {200, 404, 422}, place
        assert _find_faults(answer.text) == [], place
        assert "49" not in answer.text.partition("{{7*7}}")[0][-5:], place


def test_what_is_quarantined_is_shown_as_its_characters(hostile: Served) -> None:
    page = hostile.enter().get("/note/notes/out.md").text
    assert "Quarantined: not to be trusted" in page
    assert "data-text" not in page
    assert "&lt;script&gt;" in page


def test_a_note_is_shown_with_who_wrote_it_and_what_links_to_it(served: Served) -> None:
    browser = served.enter()
    page = browser.get("/note/notes/payments/refund-rules.md").text
    assert "Refund amounts and deadlines" in page
    rail = browser.get("/rail/notes/payments/refund-rules.md").text
    assert "Maren Person" in rail
    assert "Half refunds round up to the next cent" in rail
    assert '<table tabindex="0"><thead><tr data-line=' in page.replace("\n", "")
    assert 'href="/note/notes/times-utc-sailings-local.md"' not in page
    assert 'href="/note/notes/conventions/times-utc-sailings-local.md"' in page


def test_links_of_an_earlier_time_stay_in_it(served: Served) -> None:
    first = git(served.root, "rev-parse", "HEAD")
    page = served.enter().get(f"/note/notes/payments/refund-rules.md?at={first}").text
    assert f"times-utc-sailings-local.md?at={first}" in page
    assert "As of <strong>" in page
    assert f'<a href="/commit/{first}">' in page


def test_notes_are_listed_by_what_is_chosen(served: Served) -> None:
    browser = served.enter()
    page = browser.get("/notes?state=candidate").text
    assert "Expired sessions stay in the table" in page
    assert "Refund amounts and deadlines" not in page
    assert "Refund amounts and deadlines" in browser.get("/notes?tag=payments").text
    assert "No note matches." in browser.get("/notes?name=nowhere").text


def test_search_says_why_and_counts_nobody(served: Served) -> None:
    browser = served.enter()
    page = browser.get("/search?q=how+are+refunds+handled").text
    assert "<mark>refund</mark>" in page
    assert "No recalls or packs yet" in browser.get("/health").text


def test_search_counts_and_is_limited_by_several_facets(served: Served) -> None:
    browser = served.enter()
    page = browser.get("/search?q=refunds").text
    assert "1 to 20, best first" in page or " notes · <span" in page
    assert "a person" in page
    assert 'href="/search?state=candidate&amp;q=refunds"' in page
    limited = browser.get("/search?q=tokens+refunds&kind=decision&context=auth").text
    assert "kind <b>decision</b>" in limited
    assert (
        'href="/search?context=auth&amp;q=tokens+refunds" title="Remove the filter by kind"'
        in limited
    )
    rows = browser.get("/api/v1/recall?query=tokens+refunds&kind=decision&context=auth&limit=20")
    titles = re.findall(r'<li data-item>\s*<a href="/note/([^"#]*)', limited)
    assert titles == [each["path"] for each in rows.json()["hits"]]
    assert titles
    table = re.search(r'<a href="(/api/v1/recall[^"]*format=csv[^"]*)">CSV', limited)
    assert table
    listed = browser.get(html.unescape(table[1])).text.splitlines()
    assert len(listed) > len(titles)
    assert browser.get("/search?q=x&state=none").status_code == 422


def test_a_note_leads_to_pictures_alone_whatever_their_names(
    make_vault: Make, tmp_path: Path
) -> None:
    texts = {"notes/a.md": "![[p 1.png]] [[b.pdf]]\n", "media/p 1.png": b"", "media/b.pdf": b""}
    served = Served(make_vault(texts), tmp_path)
    browser = served.enter()
    page = browser.get("/note/notes/a.md").text
    assert 'src="/file/media/p%201.png"' in page
    assert browser.get("/file/media/p%201.png").status_code == 200
    assert "/file/media/b.pdf" not in page
    served.workers.close()


def test_a_page_that_is_not_there_says_so(served: Served) -> None:
    browser = served.enter()
    for place, near in [
        ("/note/notes/refund-rulez.md", "/note/refund-rules"),
        ("/note/refund-rulez?at=HEAD", "/note/refund-rules?at=HEAD"),
        ("/note/refund-rulez?at=no-such-commit", "/note/refund-rules"),
        ("/refund-rulez", "/note/refund-rules"),
        ("/session/s-0432", "/session/s-0431"),
        ("/commit/nothing", ""),
    ]:
        answer = browser.get(place)
        assert answer.status_code == 404, place
        assert 'role="search"' in answer.text, place
        assert "<h2>Similar names" in answer.text or not near, place
        assert f'<a href="{near}"><bdi>' in answer.text or not near, place
        assert "`vaultmem" not in answer.text, place
        assert browser.get(near).status_code == 200 or not near, place


def _find_faults(page: str) -> list[str]:
    found = Tags()
    found.feed(page)
    return found.faults + [src for src in found.scripts if src != "/static/vaultmem.js"]


@pytest.mark.campaign
def test_the_first_page_waits_for_nothing_that_only_others_need() -> None:
    code = "import sys, vaultmem.serve.http; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "vaultmem.web.pages.home" in loaded
    assert not loaded & {
        "numpy",
        "mcp",
        "vaultmem.web.pages.review_page",
        "vaultmem.web.api.routes",
    }


def test_each_page_that_is_imported_later_is_there() -> None:
    load_all()
    for module, function in PAGES.values():
        assert callable(getattr(import_module(f"vaultmem.web.pages.{module}"), function))
