"""The page of a spread: a drawing without a script, and a list that says the same."""

from __future__ import annotations

import re
from pathlib import Path

from clocks import Clock, ask
from test_pages import HOSTILE, Tags
from visiting import Served

from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import open_vault

PORT = "The staging gangway listens on port 6543."


def write(root: Path, session: str, text: str, title: str, clock: Clock) -> str:
    """Be shown what there is on the subject, then remember a text; return its note."""
    clock.at += 60
    vault = open_vault(root, agent="codex", session=session, now=clock)
    ask(vault, "staging gangway port")
    clock.at += 60
    path = remember(vault, Memory(text, title=title), force=True).path
    save_checkpoint(vault, "said")
    vault.close()
    return path


def test_the_page_draws_who_was_shown_a_note_and_what_they_wrote(served: Served) -> None:
    clock = Clock()
    source = write(served.root, "s-701", PORT, f"Gangway port {HOSTILE}", clock)
    second = write(served.root, "s-702", f"Tuuli asked. {PORT}", "Tuuli asked", clock)
    (served.root / source).unlink()
    vault = open_vault(served.root)
    sync_vault(vault)
    save_checkpoint(vault, "gone")
    vault.close()
    third = write(served.root, "s-703", f"Birgit asked. {PORT}", "Birgit asked", clock)
    write(served.root, "s-704", "Ferries stop in fog.", "Fog", clock)
    browser = served.enter()

    page = browser.get("/spread/s-701")
    drawing, listed = page.text.partition("<svg")[2].split("</svg>")
    rows = re.findall(r'<text x="(\d+)" y="\d+">([^<]*)<', drawing)

    assert page.status_code == 200
    tags = Tags()
    tags.feed(page.text)
    assert tags.faults == []
    assert "alert(1)</script>" not in page.text
    # Below the removed note is the session that was shown it, and below that what followed.
    assert [(int(x) - 12, label) for x, label in rows] == [
        (10, source),
        (30, "codex s-702"),
        (50, "tuuli-asked"),
        (70, "codex s-703"),
        (90, "birgit-asked"),
        (110, "codex s-704"),
    ]
    assert drawing.count('class="reached"') == 4
    for path in (second, third):
        assert f'href="/note/{path}"' in drawing
        assert re.search(rf'repeats</span>\s*<a href="/note/{path}"', listed)
    assert "1 other note written" in listed
    assert "Shown to 3 sessions" in page.text
    assert f'href="/spread/{second}"' in browser.get(f"/note/{second}").text
    assert "/spread/" not in browser.get(f"/note/{second}?at=HEAD").text


def test_a_spread_of_nothing_that_can_be_followed_is_explained(served: Served) -> None:
    browser = served.enter()
    assert "Not shown to any session yet." in browser.get("/spread/MEMORY.md").text
    assert browser.get("/spread/none.md").status_code == 404
    refused = browser.get("/spread/MEMORY.md?at=HEAD")
    assert (refused.status_code, "no earlier version" in refused.text) == (422, True)
