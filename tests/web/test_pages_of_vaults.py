"""The user's other vaults on the page and by the API: where the one that is served is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make, RunCli
from visiting import Served


@pytest.fixture
def asked(make_vault: Make, run_cli: RunCli, tmp_path: Path) -> Iterator[Served]:
    """A vault that is served, with another one on its owner's list."""
    one = make_vault({"notes/tide.md": "# Tide\n\nThe tide turns at noon.\n"}, "one")
    home = make_vault({"notes/ebb.md": "# Ebb\n\nAfter the tide comes the ebb.\n"}, "home")
    run_cli("vault", "add", home)
    made = Served(one, tmp_path, may_write=True)
    made.app.state.site = made.site._replace(asks_others=True)
    yield made
    made.workers.close()


@pytest.mark.campaign
def test_pages_of_another_vault_are_reached_and_only_read(asked: Served) -> None:
    browser = asked.enter()
    page = browser.get("/search?q=tide")
    assert "/notes?vault=home" not in page.text
    assert "vault=home" in page.text
    assert "/note/notes/ebb.md" not in page.text
    both = browser.get("/search?q=tide&vault=all").text
    assert "/note/notes/tide.md" in both
    assert "/note/notes/ebb.md?vault=home" in both
    note = browser.get("/note/notes/ebb.md?vault=home")
    assert "comes the ebb" in note.text
    assert browser.get("/note/notes/ebb.md").status_code == 404
    listed = browser.get("/notes?vault=home").text
    assert "/note/notes/ebb.md?vault=home" in listed
    assert "Tide" not in listed
    assert "comes the ebb" in browser.get("/pack?q=tide&vault=all").text
    assert '<form method="post"' not in browser.get("/review?vault=home").text
    assert browser.get("/search?q=tide&vault=nobody").status_code == 404


@pytest.mark.campaign
def test_the_api_asks_others_by_name(asked: Served) -> None:
    program = asked.connect()
    found = program.get("/api/v1/recall?query=tide&vaults=home").json()["hits"]
    assert {(hit["vault"], hit["path"]) for hit in found} == {
        (None, "notes/tide.md"),
        ("home", "notes/ebb.md"),
    }
    assert "the ebb" in program.get("/api/v1/pack?query=tide&vaults=all").json()["text"]
    assert "the ebb" in program.get("/api/v1/notes/notes/ebb.md?vault=home").json()["text"]
    notes = program.get("/api/v1/notes?vault=home").json()["notes"]
    assert "notes/ebb.md" in {note["path"] for note in notes}
    assert program.get("/api/v1/recall?query=tide&vaults=nobody").status_code == 404


@pytest.mark.campaign
def test_where_others_come_in_no_other_vault_is_asked(asked: Served) -> None:
    asked.app.state.site = asked.site
    browser, program = asked.enter(), asked.connect()
    assert "vault=home" not in browser.get("/search?q=tide").text
    for place in ("/search?q=tide&vault=home", "/search?q=tide&vault=all"):
        refused = browser.get(place)
        assert refused.status_code == 422
        assert "ebb" not in refused.text
    assert program.get("/api/v1/recall?query=tide&vaults=all").status_code == 422
    assert program.get("/api/v1/notes?vault=home").status_code == 422
