"""A pack in a browser: its pieces, what they cost, why they came, and what was left out."""

from __future__ import annotations

import html
import re
from pathlib import Path

from conftest import Make
from visiting import Served

from vaultmem.services.packs.receipts import list_receipts
from vaultmem.vault import open_vault

QUESTION = "/pack?q=how+are+refunds+paid+out&budget=1500"

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def read_exact(page: str) -> str:
    """Return the text that the page says an agent gets, as a browser copies it."""
    found = re.search(r'<pre id="pack-text" tabindex="0">(.*?)</pre>', page, re.DOTALL)
    assert found
    return html.unescape(found[1])


def test_pack_shows_what_an_agent_gets_and_why(served: Served) -> None:
    page = served.enter().get(QUESTION).text
    assert 'id="group-pinned"' in page
    assert 'id="group-evidence"' in page
    assert "Refund at the counter" in page
    assert ">refunds</mark>" in page
    assert "recency" in page
    assert "of 1,500 tokens" in page
    assert "Over the budget" in page
    assert '<a href="/note/notes/payments/refunds-through-the-queue.md"' in page


def test_pack_is_copied_byte_for_byte(served: Served) -> None:
    browser = served.enter()
    text = browser.get(f"{QUESTION}&part=text")
    assert text.headers["content-type"].startswith("text/plain")
    assert read_exact(browser.get(QUESTION).text) == text.text
    made = served.workers.submit_read(_make_pack, _caller()).result()
    assert made == text.text


def _make_pack(vault: object) -> str:
    from vaultmem.services.packs.build import make_unseen

    return make_unseen(vault, "how are refunds paid out", 1500).text  # type: ignore[arg-type]


def _caller() -> object:
    from vaultmem.workers import Caller

    return Caller()


def test_nobody_is_counted_as_shown_a_pack_that_its_owner_looks_at(served: Served) -> None:
    served.enter().get(QUESTION)
    vault = open_vault(served.root, keeps_receipts=True)
    assert list(list_receipts(vault)) == []
    assert not (vault.state_folder / "calls.log").exists()


def test_pack_is_made_as_it_is_asked_for(served: Served) -> None:
    browser = served.enter()
    assert "Memory (vault main@" in read_exact(browser.get(f"{QUESTION}&style=text").text)
    assert " | active | " in read_exact(browser.get(f"{QUESTION}&labels=full").text)
    assert "of 700 tokens" in browser.get(QUESTION.replace("1500", "700")).text
    refused = browser.get(QUESTION.replace("1500", "12"))
    assert refused.status_code == 422
    assert "100 tokens or more" in refused.text
    assert browser.get(f"{QUESTION}&budget=x&labels=<b>&style=<b>&at=nowhere").status_code == 404


def test_pack_of_another_time_is_of_then(served: Served) -> None:
    page = served.enter().get(f"{QUESTION}&at=HEAD").text
    assert "As of <strong>" in page
    assert "at=HEAD" in page


def test_what_is_asked_while_typing_is_a_part_of_the_page(served: Served) -> None:
    part = served.enter().get(f"{QUESTION}&part=results").text
    assert "group-evidence" in part
    assert "<html" not in part
    assert "part=results" not in part


def test_no_note_and_no_question_writes_into_the_page(make_vault: Make, tmp_path: Path) -> None:
    text = f"# {HOSTILE}\n\nRefunds. {HOSTILE}\u202e </pre>\n"
    root = make_vault({"notes/a.md": text, f"notes/{'b&amp;'}.md": text + "More.\n"})
    served = Served(root, tmp_path)
    place = f"/pack?q=refunds+{HOSTILE}&at="
    page = served.enter().get(place).text
    served.workers.close()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "<img" not in page
    assert "\u202e" not in page
