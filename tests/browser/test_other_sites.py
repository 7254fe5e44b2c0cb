"""Other sites in the owner's browser: none can read, change, frame or pose as the vault's page."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from elsewhere import Site
from reading import EnterOwn, Reader
from support import git

pytestmark = pytest.mark.browser

CANDIDATE = "notes/auth/expired-sessions-linger.md"


@pytest.fixture
def owner(enter_own: EnterOwn) -> Reader:
    """The owner, who may write, and has the page open."""
    return enter_own("--write")


def test_a_form_of_another_site_decides_nothing(owner: Reader, other_site: Site) -> None:
    head = git(owner.root, "rev-parse", "HEAD")
    blob = git(owner.root, "rev-parse", "HEAD:MEMORY.md")
    for action, field, value in [
        ("/undo", "commit", head),
        ("/review", "id", head),
        ("/review", "item-ff", head),
        ("/note/MEMORY.md", "blob", blob),
        ("/edit/MEMORY.md", "blob", blob),
    ]:
        other_site.pages["/"] = (
            f"<form method=post action='{owner.origin}{action}'>"
            f"<input name='{field}' value='{value}'>"
            "<input name=action value=unpin><input name=text value=x>"
            "<input name=choice value=accept></form><script>document.forms[0].submit()</script>"
        )
        page = _visit(owner, other_site)
        page.wait_for_url(f"{owner.origin}{action}")
        assert "Request from another site rejected" in page.locator("main").inner_text()
        page.close()
    assert git(owner.root, "rev-parse", "HEAD") == head
    assert git(owner.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["elsewhere.example", "127.0.0.1", "localhost"])
def test_a_script_of_another_site_reads_and_writes_nothing(
    name: str, owner: Reader, other_site: Site
) -> None:
    """The same machine under another port is another site, though it is sent the cookies."""
    other_site.origin = f"http://{name}:{other_site.port}"
    head = git(owner.root, "rev-parse", "HEAD")
    other_site.pages["/"] = "<p>Another site"
    page = _visit(owner, other_site)
    asked = """async ([address, options]) => {
        try {
            const answer = await fetch(address, {credentials: "include", ...options});
            return `${answer.status} ${await answer.text()}`;
        } catch (error) { return "refused"; } }"""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    post = {"method": "POST", "headers": form, "body": f"commit={head}"}
    for address, options in [
        ("/", {}),
        ("/", {"mode": "no-cors"}),
        ("/api/v1/notes", {}),
        ("/events", {"mode": "no-cors"}),
        ("/undo", post),
        ("/undo", {**post, "mode": "no-cors"}),
        ("/note/MEMORY.md", {**post, "mode": "no-cors", "body": "action=forget"}),
        ("/api/v1/notes/MEMORY.md", {"method": "PUT", "body": "{}"}),
    ]:
        told = page.evaluate(asked, [owner.origin + address, options])
        assert told in ("refused", "0 "), (address, options)
    assert git(owner.root, "rev-parse", "HEAD") == head
    assert git(owner.root, "status", "--porcelain") == ""


def test_no_other_site_frames_or_loads_the_page(owner: Reader, other_site: Site) -> None:
    other_site.pages["/"] = (
        f"<iframe src='{owner.origin}/review'></iframe><object data='{owner.origin}/'></object>"
        f"<img src='{owner.origin}/static/icon.svg' id=icon>"
        f"<script src='{owner.origin}/static/vaultmem.js'></script>"
    )
    page = _visit(owner, other_site)
    assert page.evaluate("document.getElementById('icon').naturalWidth") == 0
    assert page.evaluate("typeof pressKey") == "undefined"
    for frame in page.frames[1:]:
        assert frame.locator("main").count() == 0


def test_a_name_that_was_rebound_to_this_machine_gets_nothing(
    owner: Reader, other_site: Site
) -> None:
    port = urlsplit(owner.origin).port
    page = owner.page.context.new_page()
    for place in ("/", "/static/vaultmem.js", "/api/v1/notes", "/enter?code=x"):
        answer = page.goto(f"http://rebound.example:{port}{place}")
        assert answer is not None
        assert answer.status == 421, place
    owner.witness.ignores = True


def test_a_link_lets_one_in_and_its_cookie_is_the_browsers_alone(owner: Reader) -> None:
    (cookie,) = owner.page.context.cookies()
    assert cookie.get("httpOnly")
    assert cookie.get("sameSite") == "Strict"
    assert cookie.get("domain") == "127.0.0.1"
    assert cookie.get("expires") == -1
    assert owner.page.evaluate("document.cookie") == ""
    owner.page.context.clear_cookies()
    answer = owner.page.goto(owner.link)
    assert answer is not None
    assert answer.status == 403
    owner.page.goto(owner.origin + "/")
    assert "vaultmem serve --print-link" in owner.page.locator("main").inner_text()
    owner.witness.ignores = True


def _visit(owner: Reader, site: Site):  # type: ignore[no-untyped-def]
    """Open another site in the owner's browser; what its page does is its own."""
    page = owner.page.context.new_page()
    page.goto(site.origin)
    owner.witness.ignores = True
    return page
