"""What agents were shown, in a browser: replayed, compared with now, and two packs side by side."""

from __future__ import annotations

import html
import re
from pathlib import Path

from support import git
from visiting import Served

from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.vault import open_vault

QUESTION = "how long does a session token live"
NOTE = "notes/auth/session-tokens-opaque.md"
HOSTILE = "<script>alert(1)</script>"


def ask(root: Path, question: str = QUESTION, agent: str = "claude") -> tuple[str, str]:
    """Ask for a pack as an agent does, and return its receipt and its text."""
    vault = open_vault(root, agent=agent, session="s-7")
    made = ask_pack(vault, AskPack(question, 1_200))
    vault.close()
    return made.receipt, made.pack.text


def change(root: Path, path: str, old: str, new: str) -> None:
    file = root / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_receipts_are_listed_with_who_asked_what(served: Served) -> None:
    first, _ = ask(served.root)
    second, _ = ask(served.root, f"refunds {HOSTILE}", "codex")
    browser = served.enter()
    page = browser.get("/receipts").text
    assert first in page
    assert second in page
    assert "s-7" in page
    assert " of 1,200 tokens" in page
    assert HOSTILE not in page
    only = browser.get("/receipts?agent=codex").text
    assert second in only
    assert first not in only
    assert "No receipts yet" in browser.get("/receipts?session=s-8").text


def test_receipt_shows_the_very_same_pack_and_what_changed_since(served: Served) -> None:
    name, text = ask(served.root)
    browser = served.enter()
    page = browser.get(f"/receipt/{name}").text
    exact = re.search(r'<pre id="pack-text" tabindex="0">(.*?)</pre>', page, re.DOTALL)
    assert exact
    assert html.unescape(exact[1]) == text
    assert browser.get(f"/receipt/{name}?part=text").text == text
    assert "No section changed." in page
    change(served.root, NOTE, "14 hours", "16 hours")
    change(served.root, NOTE, "kind: ", "state: stale\nkind: ")
    (served.root / "USER.md").unlink()
    page = browser.get(f"/receipt/{name}").text
    assert "<del>14</del><ins>16</ins> hours" in page
    assert "Changed since then; the note is now stale." in page
    assert "Removed since then." in page
    assert browser.get("/receipt/none").status_code == 404


def test_receipt_is_set_beside_the_pack_of_now(served: Served) -> None:
    name, _ = ask(served.root)
    change(served.root, NOTE, "14 hours", "16 hours")
    place = f"/packs/compare?receipt={name}&q={QUESTION}&right_budget=1200"
    page = served.enter().get(place).text
    assert "shown to claude on " in page
    assert "1 with changed text" in page
    assert "<del>14</del><ins>16</ins> hours" in page


def test_two_packs_stand_side_by_side(served: Served) -> None:
    change(served.root, NOTE, "14 hours", "16 hours")
    (served.root / "USER.md").unlink()
    git(served.root, "commit", "-qam", "changed")
    place = f"/packs/compare?q={QUESTION}&left_at=HEAD~1&left_budget=1200&right_budget=1200"
    page = served.enter().get(place).text
    assert "as of HEAD~1" in page
    assert 'class="row row-left"' in page
    assert "<del>14</del><ins>16</ins> hours" in page
    assert re.search(r"\d+ only in the left pack", page)


def test_a_side_that_cannot_be_made_says_why(served: Served) -> None:
    browser = served.enter()
    page = browser.get(f"/packs/compare?q={HOSTILE}&left_at=nowhere&right_budget=10").text
    assert "no branch, tag or commit is called that" in page
    assert "100 tokens or more" in page
    assert "Both packs are empty." in page
    assert HOSTILE not in page
