"""What an owner does to a note on its page: one commit each, with undo, and no update is lost."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from support import git
from visiting import HOST, Served

from vaultmem.web.pages.edit_page import keep_line_ends

OWN = {"Origin": f"http://{HOST}"}
FERRY = "notes/ferry.md"
TEXT = "# Ferry\r\n\r\nThe ferry leaves at seven.\r\n"
NOTES = {
    FERRY: TEXT.encode(),
    "notes/summer.md": "# Ferry in summer\n\nIt leaves at eight.\n",
    "notes/new.md": "---\nkind: policy_rule\nstate: candidate\n---\n# New\n\nAsk twice.\n",
    "notes/odd.md": "---\ntitle: [cut off\n---\n# Odd\n",
    "notes/latin.md": "# Caf\xe9\n".encode("latin-1"),
    "projects.yaml": "- name: harbour\n",
}


@pytest.fixture
def owner(make_vault: Make, tmp_path: Path) -> Iterator[Served]:
    made = Served(make_vault(NOTES), tmp_path, may_write=True)
    yield made
    made.workers.close()


def send(browser: TestClient, path: str, **form: str) -> str:
    """Send a form as the page of a note has it, and return where it leads."""
    page = browser.get(f"/edit/{path}" if "text" in form else f"/note/{path}").text
    blob = re.search(r'name="blob" value="(\w+)"', page)
    assert blob
    place = "edit" if "text" in form else "note"
    done = browser.post(f"/{place}/{path}", data={"blob": blob[1], **form}, headers=OWN)
    assert done.status_code == 303, done.text
    return done.headers["location"]


ACTS = {
    "edit": (FERRY, {"text": "# Ferry\r\n\r\nIt leaves at nine.\r\n", "reason": "timetable"}),
    "pin": (FERRY, {"action": "pin"}),
    "promote": ("notes/new.md", {"action": "promote"}),
    "supersede": (FERRY, {"action": "supersede", "by": "summer", "reason": "summer"}),
    "forget": (FERRY, {"action": "forget", "reason": "wrong"}),
    "move": ("notes/summer.md", {"action": "move", "to": "harbour"}),
}


@pytest.mark.parametrize("name", ACTS)
def test_each_act_is_one_commit_of_the_owners_that_undo_takes_back(
    name: str, owner: Served
) -> None:
    path, form = ACTS[name]
    browser, before = owner.enter(), git(owner.root, "rev-parse", "HEAD")
    place = send(browser, path, **form)
    assert git(owner.root, "rev-parse", "HEAD~1") == before
    assert git(owner.root, "status", "--porcelain") == ""
    person = git(owner.root, "log", "-1", "--format=%an <%ae>", before)
    told = git(owner.root, "log", "-1", "--format=%an <%ae>%n%B")
    assert told.startswith(person)
    assert "Agent-Id" not in told
    assert form.get("reason", "") in told
    page = browser.get(place).text
    commit = re.search(r'name="commit" value="(\w+)"', page)
    here = re.search(r'name="here" value="(.*?)"', page)
    assert commit
    assert here
    form = {"commit": commit[1], "here": here[1]}
    undone = browser.post("/undo", data=form, headers=OWN)
    assert undone.headers["location"] == f"/note/{path}"
    assert git(owner.root, "diff", before, "HEAD") == ""
    assert git(owner.root, "status", "--porcelain") == ""


def test_an_edit_changes_the_lines_that_were_edited_alone(owner: Served) -> None:
    send(owner.enter(), FERRY, text="# Ferry\r\n\r\nThe ferry leaves at seven.\r\nDaily.\r\n")
    assert (owner.root / FERRY).read_bytes() == TEXT.encode() + b"Daily.\r\n"
    send(owner.enter(), "notes/summer.md", text="# Ferry in summer\r\n\r\nIt leaves at nine.\r\n")
    saved = (owner.root / "notes/summer.md").read_bytes()
    assert saved == b"# Ferry in summer\n\nIt leaves at nine.\n"


@given(st.text(st.sampled_from("ab \r\n\u2028\x0b"), max_size=40))
def test_a_text_that_nobody_edited_keeps_each_byte(text: str) -> None:
    sent = re.sub("\r\n|\r|\n", "\r\n", text)
    assert keep_line_ends(text, sent) == text


def test_no_update_is_lost_and_what_was_typed_stays(owner: Served) -> None:
    browser = owner.enter()
    page = browser.get(f"/edit/{FERRY}").text
    blob = page.partition('name="blob" value="')[2][:40]
    (owner.root / FERRY).write_bytes(TEXT.encode() + b"Not on Sundays.\r\n")
    form = {"blob": blob, "text": f"{TEXT}Daily.\r\n", "reason": "seen"}
    answer = browser.post(f"/edit/{FERRY}", data=form, headers=OWN)
    assert answer.status_code == 412
    assert "<del>Not on Sundays" in answer.text
    assert "Daily." in answer.text.partition("<textarea")[2]
    assert 'value="seen"' in answer.text
    assert "Daily" not in (owner.root / FERRY).read_text()
    form["blob"] = answer.text.partition('name="blob" value="')[2][:40]
    assert form["blob"] != blob
    assert browser.post(f"/edit/{FERRY}", data=form, headers=OWN).status_code == 303
    assert (owner.root / FERRY).read_bytes() == TEXT.encode() + b"Daily.\r\n"
    assert "Not on Sundays" in git(owner.root, "show", f"HEAD~1:{FERRY}")


@pytest.mark.parametrize("action", ["pin", "promote", "supersede", "forget", "move"])
def test_an_act_counts_for_the_version_that_was_shown(action: str, owner: Served) -> None:
    browser, before = owner.enter(), git(owner.root, "rev-parse", "HEAD")
    blob = git(owner.root, "rev-parse", "HEAD:notes/new.md")
    (owner.root / "notes/new.md").write_text(NOTES["notes/new.md"].replace("twice", "nobody"))  # type: ignore[union-attr,arg-type]
    for version in (blob, ""):
        form = {"action": action, "blob": version, "by": "summer", "to": "harbour"}
        assert browser.post("/note/notes/new.md", data=form, headers=OWN).status_code == 412
    assert git(owner.root, "rev-parse", "HEAD") == before
    assert "nobody" in (owner.root / "notes/new.md").read_text()


def test_what_cannot_be_saved_stays_in_the_field_with_the_reason(owner: Served) -> None:
    browser = owner.enter()
    page = browser.get(f"/edit/{FERRY}").text
    blob = page.partition('name="blob" value="')[2][:40]
    secret = "token: ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    form = {"blob": blob, "text": f"# Ferry\r\n{secret}\r\n"}
    answer = browser.post(f"/edit/{FERRY}", data=form, headers=OWN)
    assert answer.status_code == 422
    assert "looks like a credential" in answer.text
    assert secret in html.unescape(answer.text.partition("<textarea")[2])
    assert (owner.root / FERRY).read_bytes() == TEXT.encode()


def test_a_preview_writes_nothing(owner: Served) -> None:
    browser = owner.enter()
    form = {"action": "preview", "text": "# Ferry\r\n\r\n**At nine**, [[summer]]\r\n"}
    form["blob"] = git(owner.root, "rev-parse", f"HEAD:{FERRY}")
    page = browser.post(f"/edit/{FERRY}", data=form, headers=OWN).text
    assert "<strong>At nine</strong>" in page
    assert 'href="/note/notes/summer.md"' in page
    assert "**At nine**" in page.partition("<textarea")[2]
    assert (owner.root / FERRY).read_bytes() == TEXT.encode()


def test_an_invalid_note_is_repaired_by_its_owner(owner: Served) -> None:
    browser = owner.enter()
    assert "<strong>Invalid</strong>" in browser.get("/note/notes/odd.md").text
    place = send(browser, "notes/odd.md", text="---\r\ntitle: Mended\r\n---\r\n# Odd\r\n")
    assert "<strong>Invalid</strong>" not in browser.get(place).text
    assert (owner.root / "notes/odd.md").read_text() == "---\ntitle: Mended\n---\n# Odd\n"


def test_a_note_that_is_not_utf8_is_not_edited(owner: Served) -> None:
    browser = owner.enter()
    assert "/edit/" not in browser.get("/note/notes/latin.md").text
    assert browser.get("/edit/notes/latin.md").status_code == 422


def test_a_version_is_brought_back_from_its_own_page(owner: Served) -> None:
    browser = owner.enter()
    first = git(owner.root, "rev-parse", "HEAD")
    send(browser, FERRY, text="# Ferry\r\n")
    page = browser.get(f"/note/{FERRY}?at={first}").text
    assert "Restore this version" in page
    assert "/edit/" not in page
    send_form = {"action": "restore", "commit": first}
    assert browser.post(f"/note/{FERRY}", data=send_form, headers=OWN).status_code == 303
    assert (owner.root / FERRY).read_bytes() == TEXT.encode()


def test_where_the_browser_only_reads_nothing_is_offered_or_done(served: Served) -> None:
    browser, before = served.enter(), git(served.root, "rev-parse", "HEAD")
    page = browser.get("/note/MEMORY.md").text
    assert '<form method="post"' not in page
    assert "/edit/" not in page
    assert browser.get("/edit/MEMORY.md").status_code == 403
    blob = git(served.root, "rev-parse", "HEAD:MEMORY.md")
    for place in ("/edit/MEMORY.md", "/note/MEMORY.md"):
        for action in ("edit", "preview", "pin", "forget", "move"):
            form = {"action": action, "blob": blob, "text": "x", "to": "global"}
            assert browser.post(place, data=form, headers=OWN).status_code == 403
    assert git(served.root, "rev-parse", "HEAD") == before
    assert git(served.root, "status", "--porcelain") == ""


def test_a_note_opens_in_obsidian_and_its_path_is_copied(served: Served) -> None:
    page = served.enter().get("/note/notes/payments/refund-rules.md").text
    file = served.root / "notes/payments/refund-rules.md"
    escaped = str(file).replace("/", "%2F")
    assert f'href="obsidian://open?path={escaped}"' in page
    assert f'<span id="file" hidden>{file}</span>' in page
    then = served.enter().get("/note/MEMORY.md?at=HEAD").text
    assert "obsidian:" not in then
