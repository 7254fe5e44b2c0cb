"""An export on a stick: no server, and each page and the search work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Make
from witness import OpenContext

from vaultmem.environment import open_named_vault
from vaultmem.services.views.update_index import sync_vault

pytestmark = pytest.mark.browser

DRAWN = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@pytest.fixture
def address(make_vault: Make, tmp_path: Path) -> str:
    """Where the first page of an export is."""
    from vaultmem.web.export.export_site import export_html

    texts = {
        "notes/fees.md": "# Harbour fees\nPolicies on refunds [[tide table]] ![[p.png]] #money\n",
        "notes/tide table.md": "# Tide table\nWhen the water is high.\n",
        "notes/bad.md": "# <script>alert(1)</script>\n<img src=x onerror=alert(2)>\n\nRefunds\n",
        "media/p.png": DRAWN,
    }
    root, folder = make_vault(texts), tmp_path / "a stick #1" / "pages"
    vault = open_named_vault(root)
    sync_vault(vault)
    export_html(vault, folder, lambda *_: None)
    vault.close()
    return (folder / "index.html").as_uri()


def test_pages_and_search_work_without_a_server(open_context: OpenContext, address: str) -> None:
    context, witness = open_context("file://")
    page = context.new_page()
    page.goto(address)
    page.get_by_role("searchbox").fill("policy")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"search\.html\?q=policy"))
    page.get_by_role("link", name="Harbour fees").wait_for()
    assert page.locator("#results li").count() == 1
    page.get_by_role("searchbox").fill("refund")
    page.locator("#results li").nth(1).wait_for()
    page.get_by_role("link", name="Harbour fees").click()
    page.get_by_role("heading", name="Harbour fees").first.wait_for()
    assert page.locator("article img").evaluate("each => each.naturalWidth") == 1
    assert page.evaluate("getComputedStyle(document.querySelector('.bar')).display") != "block"
    page.get_by_role("link", name="tide table").click()
    page.get_by_role("heading", name="Tide table").first.wait_for()
    page.locator(".about").get_by_role("link", name="Harbour fees").click()
    page.get_by_role("link", name="#money").click()
    page.locator("#results").get_by_role("link", name="Harbour fees").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Latest commits").wait_for()
    page.get_by_role("link", name="<script>").first.click()
    page.get_by_role("heading", name="<script>alert(1)</script>").first.wait_for()
    witness.check()
