"""The first page: what waits, what changed and by whom, what was not found, first steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make
from support import git
from visiting import Served

CANDIDATE = "---\nstate: candidate\nagent: claude\n---\nThe lamp is green.\n"
QUARANTINED = "---\nstate: quarantined\n---\nThe horn is loud.\n"
COUNT = re.compile(r'>Review <span class="count">(\d+)</span>')


@pytest.fixture
def waiting(make_vault: Make, tmp_path: Path) -> Iterator[Served]:
    """A vault with two notes that wait for a decision, which its owner may write to."""
    root = make_vault(
        {
            "notes/lamp.md": CANDIDATE,
            "notes/horn.md": QUARANTINED,
            "notes/pier.md": "The pier is made of oak.\n",
        }
    )
    made = Served(root, tmp_path, may_write=True)
    yield made
    made.workers.close()


def test_home_begins_with_what_waits_and_each_page_counts_it(waiting: Served) -> None:
    browser = waiting.enter()
    page = browser.get("/").text
    assert "2 items to review" in page
    assert '<a href="/review?only=candidate">1 candidate</a>' in page
    assert '<a href="/review?only=review_quarantined">1 quarantined</a>' in page
    assert page.index("2 items to review") < page.index("Latest changes")
    for place in ("/", "/notes", "/note/notes/pier.md", "/search?q=pier", "/health"):
        assert COUNT.findall(browser.get(place).text) == ["2"], place
    assert "to review" not in browser.get("/?at=HEAD").text


def test_the_count_follows_decisions_and_new_notes(waiting: Served) -> None:
    browser = waiting.enter()
    names = re.findall(r'name="id" value="([0-9a-f]+)"', browser.get("/review").text)
    assert len(names) == 2
    given = {"id": names[0], "choice": "reject"}
    origin = {"Origin": "http://127.0.0.1:8421"}
    assert browser.post("/review", data=given, headers=origin).status_code == 303
    assert COUNT.findall(browser.get("/notes").text) == ["1"]
    (waiting.root / "notes/fog.md").write_text("---\nstate: [\n---\nFog.\n")
    assert COUNT.findall(browser.get("/notes").text) == ["2"]
    assert "1 unreadable" in browser.get("/").text


def test_a_conflict_in_a_note_is_counted(make_vault: Make, tmp_path: Path) -> None:
    root = make_vault({"a.md": "The lamp is green.\n"})
    git(root, "checkout", "-q", "-b", "other")
    (root / "a.md").write_text("The lamp is red.\n")
    git(root, "commit", "-qam", "red")
    git(root, "checkout", "-q", "-")
    (root / "a.md").write_text("The lamp is blue.\n")
    git(root, "commit", "-qam", "blue")
    served = Served(root, tmp_path, may_write=True)
    try:
        merged = served.connect().post("/api/v1/merge", json={"branch": "other"})
        assert merged.status_code == 200, merged.text
        browser = served.enter()
        assert '<a href="/conflicts">1 note with conflicts</a>' in browser.get("/").text
        assert COUNT.findall(browser.get("/time").text) == ["1"]
        assert "Merge conflicts</a> (1 note)" in browser.get("/review").text
    finally:
        served.workers.close()


def test_changes_are_grouped_by_who_and_session(served: Served) -> None:
    program = served.connect("scribe")
    for text in ("The tide table is on page nine.", "The ferry leaves at six."):
        assert program.post("/api/v1/notes", json={"text": text}).status_code in {200, 201}
        assert program.post("/api/v1/checkpoint", json={"note": text}).status_code == 200
    page = served.enter().get("/").text
    group = page.partition('class="group-changes"')[2].partition('class="group-changes"')[0]
    assert '<span class="who agent">scribe</span>' in group
    assert group.count('href="/commit/') == 2


def test_home_shows_what_agents_did_not_find(served: Served) -> None:
    program = served.connect()
    assert program.get("/api/v1/recall?query=zeppelin").status_code == 200
    page = served.enter().get("/").text
    assert "Queries without results" in page
    assert 'href="/search?q=zeppelin"' in page


def test_a_new_vault_shows_three_first_steps(make_vault: Make, tmp_path: Path) -> None:
    made = Served(make_vault({"MEMORY.md": "# Memory\n", "USER.md": "# User\n"}), tmp_path)
    try:
        page = made.enter().get("/").text
        assert "vaultmem connect" in page
        assert "vaultmem remember" in page
        assert "vaultmem recall" in page
        assert "to review" not in page
        assert not COUNT.findall(page)
    finally:
        made.workers.close()
    assert "vaultmem connect" not in _home_of_three(make_vault, tmp_path)


def _home_of_three(make_vault: Make, tmp_path: Path) -> str:
    made = Served(make_vault({f"{name}.md": f"{name}\n" for name in "abc"}), tmp_path)
    try:
        return made.enter().get("/").text
    finally:
        made.workers.close()
