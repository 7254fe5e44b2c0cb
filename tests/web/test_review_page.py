"""Deciding in a browser: each decision is a commit of the owner's, which can be undone."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient
from support import git
from visiting import HOST, Served

CANDIDATE = "notes/auth/expired-sessions-linger.md"


@pytest.mark.campaign
def test_one_key_promotes_and_one_takes_it_back(owned: Served) -> None:
    browser = owned.enter()
    page = browser.get("/review").text
    assert "Expired sessions stay in the table" in page
    assert 'data-key="y"' in page
    done = _decide(browser, _find_id(page, CANDIDATE), "accept")
    assert done.status_code == 303
    told = browser.get(done.headers["location"]).text
    assert f"{CANDIDATE}: it is promoted." in told
    assert "state: active" in (owned.root / CANDIDATE).read_text()
    assert git(owned.root, "log", "-1", "--format=%s %an").startswith("promote")
    commit = git(owned.root, "rev-parse", "HEAD")
    assert f'value="{commit}"' in told
    _post(browser, "/undo", commit=commit)
    assert "state: candidate" in (owned.root / CANDIDATE).read_text()
    assert git(owned.root, "log", "-1", "--format=%s").startswith("undo: promote")
    assert "Expired sessions stay in the table" in browser.get("/review").text


def test_what_two_sides_said_is_decided_with_one_key(owned: Served) -> None:
    browser = owned.enter()
    assert "No merge conflicts" in browser.get("/conflicts").text
    file = owned.root / "notes/conflicting.md"
    said = (
        "> [!conflict] Also said by <b>Ann</b> on 2026-11-22 (laptop)\n> The quay is <i>high</i>.\n"
    )
    file.write_text(f"The quay is low.\n\n{said}")
    git(owned.root, "add", "--all")
    git(owned.root, "commit", "-qm", "a merge")
    page = browser.get("/conflicts").text
    assert ("The quay is low." in page, "The quay is &lt;i&gt;high" in page) == (True, True)
    assert ("<b>Ann" in page, "<i>high" in page) == (False, False)
    form = {"path": "notes/conflicting.md", "number": "1"}
    assert _post(browser, "/conflicts", **form, choice="neither").status_code == 422
    done = _post(browser, "/conflicts", **form, choice="theirs")
    assert done.status_code == 303
    assert file.read_text() == "The quay is <i>high</i>.\n"
    assert git(owned.root, "log", "-1", "--format=%s") == "resolve: conflicting"
    _post(browser, "/undo", commit=git(owned.root, "rev-parse", "HEAD"))
    assert "[!conflict]" in file.read_text()


def test_nothing_is_decided_where_the_browser_may_only_read(served: Served) -> None:
    browser = served.enter()
    page = browser.get("/review").text
    assert '<button class="main"' not in page
    assert "vaultmem serve --write" in page
    before = git(served.root, "rev-parse", "HEAD")
    found = re.search(r'id="q-([0-9a-f]+)"', page)
    assert found
    assert _decide(browser, found[1], "accept").status_code == 422
    assert _post(browser, "/undo", commit="HEAD").status_code == 422
    assert git(served.root, "rev-parse", "HEAD") == before


def test_what_changed_meanwhile_is_not_decided(owned: Served) -> None:
    browser = owned.enter()
    name = _find_id(browser.get("/review").text, CANDIDATE)
    file = owned.root / CANDIDATE
    file.write_text(file.read_text() + "\nMore.\n")
    answer = _decide(browser, name, "accept")
    assert answer.status_code in {404, 409}
    assert "changed" in answer.text
    assert "state: candidate" in file.read_text()


def test_a_form_that_is_none_is_refused(owned: Served) -> None:
    browser = owned.enter()
    headers = {"Origin": f"http://{HOST}"}
    assert browser.post("/review", json={"id": "x"}, headers=headers).status_code == 422
    assert _decide(browser, "x", "perhaps").status_code == 422
    twice = browser.post(
        "/review",
        content="id=a&id=b",
        headers={
            **headers,
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    assert twice.status_code == 422


def _find_id(page: str, path: str) -> str:
    for part in page.split('class="decision')[1:]:
        if f'/note/{path}"' in part:
            found = re.search(r'id="q-([0-9a-f]+)"', part)
            assert found
            return found[1]
    raise AssertionError(f"{path} is not on the page")


def _decide(browser: TestClient, name: str, choice: str):  # type: ignore[no-untyped-def]
    return _post(browser, "/review", id=name, choice=choice)


def _post(browser: TestClient, place: str, **fields: str):  # type: ignore[no-untyped-def]
    return browser.post(place, data=fields, headers={"Origin": f"http://{HOST}"})


@pytest.mark.campaign
def test_what_was_done_is_told_to_the_person_and_not_to_a_script(owned: Served) -> None:
    browser = owned.enter()
    _decide(browser, _find_id(browser.get("/review").text, CANDIDATE), "accept")
    by_script = browser.get("/review", headers={"Sec-Fetch-Mode": "cors"})
    assert f"{CANDIDATE}: it is promoted" not in by_script.text
    assert f"{CANDIDATE}: it is promoted" in browser.get("/review").text
    assert f"{CANDIDATE}: it is promoted" not in browser.get("/review").text


def test_several_values_are_one_card_with_all_notes(owned: Served) -> None:
    notes, text = owned.root / "notes", "The cellar key of the flat in Elm Street costs {} euros.\n"
    for value in (90, 92, 94):
        (notes / f"key-{value}.md").write_text(text.format(value))
    browser = owned.enter()
    page = browser.get("/review?only=value_group").text
    assert page.count("<section") == 1
    assert page.count("The cellar key of the flat in Elm Street costs ") >= 3
    assert "Yes: the newest one replaces the others" in page
    assert 'value="other"' not in page
    done = _decide(browser, _find_id(page, "notes/key-90.md"), "accept")
    assert done.status_code == 303
    states = ["deprecated" in (notes / f"key-{value}.md").read_text() for value in (90, 92, 94)]
    assert sorted(states) == [False, True, True]


def test_several_are_decided_together_and_taken_back_together(owned: Served) -> None:
    for name in ("rope", "buoy"):
        text = f"---\nstate: candidate\nagent: codex\n---\n# A {name}\n\nThe *{name}* is `new`.\n"
        (owned.root / f"notes/{name}.md").write_text(text)
    git(owned.root, "add", "--all")
    git(owned.root, "commit", "-qm", "two candidates")
    browser = owned.enter()
    page = browser.get("/review?agent=codex").text
    assert "The <em>rope</em> is <code>new</code>." in page
    chosen = {f"item-{_find_id(page, f'notes/{name}.md')}": "1" for name in ("rope", "buoy")}
    assert " checked>" not in page
    checked = browser.get("/review?agent=codex&chosen=1").text
    assert checked.count(" checked>") == page.count('data-key="x"') == page.count('class="decision')
    assert _post(browser, "/review", **chosen, choice="other").status_code == 422
    done = _post(browser, "/review", **chosen, agent="codex", choice="accept")
    assert done.headers["location"] == "/review?agent=codex"
    told = browser.get("/review").text
    assert "2 decisions." in told
    assert "state: active" in (owned.root / "notes/rope.md").read_text()
    commits = re.search(r'name="commit" value="([0-9a-f ]+)"', told)
    assert commits
    assert _post(browser, "/undo", commit=commits[1]).status_code == 303
    for name in ("rope", "buoy"):
        assert "state: candidate" in (owned.root / f"notes/{name}.md").read_text()
    gone = _post(browser, "/review", **{"item-ffffffffffff": "1"}, choice="accept")
    assert gone.status_code == 303
    assert "0 decisions. ffffffffffff: nothing of that id" in browser.get("/review").text


def test_what_is_passed_over_comes_last(served: Served) -> None:
    browser = served.enter()
    ids = re.findall(r'id="card-([0-9a-f]+)"', browser.get("/review").text)
    assert len(ids) > 2
    later = re.findall(r'id="card-([0-9a-f]+)"', browser.get(f"/review?later={ids[0]}").text)
    assert later == [*ids[1:], ids[0]]


def test_where_two_notes_differ_is_shown_beside_their_texts(owned: Served) -> None:
    for name, value in (("old", 15), ("new", 16)):
        text = f"The staging database of the counter runs PostgreSQL {value}.\n"
        (owned.root / f"notes/{name}-staging.md").write_text(text)
    page = owned.enter().get("/review").text
    differing = page.partition(">Differences<")[2].partition("</details>")[0]
    assert re.search(r"PostgreSQL <del>1[56]</del><ins>1[56]</ins>\.</div>", differing)
    assert page.count("The staging database of the counter runs PostgreSQL 1") == 2


def test_a_proposed_branch_shows_the_words_that_it_changes(owned: Served) -> None:
    file = owned.root / "notes/lamp.md"
    for colour in ("green", "<b>red"):
        file.write_text(f"# Lamp\n\nThe lamp is {colour} at night.\n")
        git(owned.root, "add", "notes/lamp.md")
        git(owned.root, "commit", "-qm", colour)
    git(owned.root, "update-ref", "refs/remotes/origin/proposals/scout/red", "HEAD")
    git(owned.root, "reset", "-q", "--hard", "HEAD~1")
    page = owned.enter().get("/review?only=proposal").text
    assert "The lamp is <del>green</del><ins>&lt;b&gt;red</ins> at night." in page
