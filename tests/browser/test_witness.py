"""What the browser tests rely on: that their witness sees what a page must not do."""

from __future__ import annotations

import pytest
from axe import find_faults
from elsewhere import Site
from witness import OpenContext

pytestmark = pytest.mark.browser

OURS = "default-src 'self'"

#: What a page does, the policy that it has, and what is seen of it.
DEEDS = {
    "script": ("<script>alert(1)</script>", "", "dialog: alert: 1"),
    "refused script": ("<script>alert(1)</script>", OURS, "console: Executing inline script"),
    "refused style": ("<p style='color: red'>", OURS, "console: Applying inline style"),
    "refused event": ("<p onclick='alert(1)'>", OURS, "console: Executing inline event"),
    "image": ("<img src='http://other.example:{port}/a.png'>", "", "request: GET http://other"),
    "refused image": ("<img src='//other.example/a.png'>", OURS, "request: GET http://other"),
    "frame": ("<iframe src='/frame'></iframe>", "", "frame: "),
    "exception": ("<script>nothing()</script>", "", "exception: nothing is not defined"),
    "window": ("<script>open('/window')</script>", "", "window: "),
    "socket": ("<script>new WebSocket('/socket')</script>", "", "web socket: "),
    "missing": ("<img src='/none.png'>", "", "console: .* 404"),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_the_witness_sees(deed: str, open_context: OpenContext, other_site: Site) -> None:
    text, policy, seen = DEEDS[deed]
    pages = dict.fromkeys(["/favicon.ico", "/frame", "/window"], "")
    other_site.pages = {**pages, "/": text.format(port=other_site.port)}
    other_site.headers = {"Content-Security-Policy": policy} if policy else {}
    context, witness = open_context(other_site.origin)

    with witness.expects(seen):
        context.new_page().goto(other_site.origin)
    context.close()
    witness.seen.clear()


def test_axe_finds_what_keeps_people_out(open_context: OpenContext, other_site: Site) -> None:
    other_site.pages["/favicon.ico"] = ""
    other_site.pages["/"] = "<html><title>x</title><img src='/a.png'><p>text"
    context, witness = open_context(other_site.origin)
    page = context.new_page()
    page.goto(other_site.origin)

    assert {line.split()[0] for line in find_faults(page)} == {"html-has-lang", "image-alt"}
    context.close()
    witness.seen.clear()
