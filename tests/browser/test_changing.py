"""What a page changes, and what changes a page: decisions are commits, saves are shown at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from axe import find_faults
from reading import EnterOwn, Reader, expect
from story import FEATURES
from support import git

pytestmark = pytest.mark.browser

CANDIDATE = "notes/auth/expired-sessions-linger.md"


def test_one_key_decides_and_one_takes_it_back(enter_own: EnterOwn) -> None:
    reader = enter_own("--write")
    reader.go("/review")
    page = reader.page
    before = git(reader.root, "rev-parse", "HEAD")
    _walk_to(reader, "Expired sessions")
    page.keyboard.press("y")

    expect(page.get_by_role("status")).to_contain_text(f"{CANDIDATE}: it is promoted.")
    assert "state: active" in (reader.root / CANDIDATE).read_text()
    assert git(reader.root, "rev-parse", "HEAD~1") == before
    told = git(reader.root, "show", "--name-only", "--format=%s %an %ae", "HEAD")
    assert told == f"promote: expired-sessions-linger Maren Person maren@example.org\n\n{CANDIDATE}"

    page.wait_for_load_state()  # Keys count once the script is there.
    page.keyboard.press("u")
    expect(page.get_by_role("status")).to_contain_text("Undone: promote")
    assert "state: candidate" in (reader.root / CANDIDATE).read_text()
    assert git(reader.root, "log", "-1", "--format=%s").startswith("undo: promote")
    assert git(reader.root, "diff", before, "HEAD") == ""
    expect(page.locator("main")).to_contain_text("Expired sessions")


def test_a_card_is_decided_and_taken_back_without_scripts(enter_own: EnterOwn) -> None:
    reader = enter_own("--write", java_script_enabled=False)
    reader.go("/review?only=candidate")
    card = reader.page.locator("section.decision", has_text="Expired sessions")
    card.get_by_role("button", name="Yes").click()
    expect(reader.page.get_by_role("status")).to_contain_text(f"{CANDIDATE}: it is promoted.")
    assert "state: active" in (reader.root / CANDIDATE).read_text()

    reader.page.get_by_role("button", name="Undo").click()
    expect(reader.page.get_by_role("status")).to_contain_text("Undone: promote")
    assert "state: candidate" in (reader.root / CANDIDATE).read_text()


@pytest.mark.parametrize(
    ("key", "subject"), [("y", "supersede"), ("o", "supersede"), ("n", "review")]
)
def test_of_two_notes_a_key_says_which_holds(key: str, subject: str, enter_own: EnterOwn) -> None:
    reader = enter_own("--write")
    reader.go("/review?only=contradiction")
    before = git(reader.root, "rev-parse", "HEAD")
    _walk_to(reader, "PostgreSQL")
    reader.page.keyboard.press(key)
    expect(reader.page.locator(".told")).to_be_visible()
    assert git(reader.root, "log", "--format=%s", f"{before}..").startswith(subject)
    assert git(reader.root, "rev-list", "--count", f"{before}..") == "1"
    expect(reader.page.locator("main")).not_to_contain_text("PostgreSQL")


def test_the_card_that_a_key_decides_is_marked_and_others_are_chosen(enter_own: EnterOwn) -> None:
    reader = enter_own("--write")
    reader.go("/review?only=candidate")
    page = reader.page
    before = git(reader.root, "rev-parse", "HEAD")
    cards = page.locator(".decision")
    expect(cards.first).to_have_class("decision here")
    first = cards.first.get_attribute("id")
    page.keyboard.press("s")
    expect(page.locator(".here")).not_to_have_id(first or "")
    expect(cards.last).to_have_id(first or "")
    page.wait_for_load_state()
    for key in "xjx":
        page.keyboard.press(key)
    expect(page.locator("input:checked")).to_have_count(2)
    page.get_by_role("button", name="Reject selected items").click()
    expect(page.locator(".told")).to_contain_text("2 decisions.")
    page.wait_for_load_state()
    page.keyboard.press("u")
    expect(page.locator(".told")).to_contain_text("Undone")
    assert git(reader.root, "diff", before, "HEAD") == ""


def test_keys_decide_nothing_where_the_owner_did_not_let_pages_write(enter_own: EnterOwn) -> None:
    reader = enter_own()
    reader.go("/review")
    before = git(reader.root, "rev-parse", "HEAD")
    _walk_to(reader, "Expired sessions")
    for key in "yonu":
        reader.page.keyboard.press(key)
    reader.go("/history/notes/payments/refund-rules.md")
    reader.page.keyboard.press("j")
    reader.page.keyboard.press("r")
    reader.page.wait_for_timeout(300)
    assert git(reader.root, "rev-parse", "HEAD") == before
    assert git(reader.root, "status", "--porcelain") == ""
    assert not [asked.url for asked in reader.witness.requests if asked.method != "GET"]


def test_a_wrong_fact_is_corrected_by_three_actions_from_home(enter_own: EnterOwn) -> None:
    """A query that opens the note, `e`, and Ctrl+Enter."""
    reader = enter_own("--write")
    reader.go("/")
    page = reader.page
    page.keyboard.press("/")
    page.keyboard.type("staging PostgreSQL 15")
    page.locator("#results [data-item] a").first.click()
    page.wait_for_load_state()
    page.keyboard.press("e")
    field = page.locator("textarea")
    expect(field).to_be_focused()
    field.fill(field.input_value().replace("PostgreSQL 15", "PostgreSQL 17"))
    before = git(reader.root, "rev-parse", "HEAD")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".told")).to_contain_text("saved.")
    expect(page.locator("article")).to_contain_text("PostgreSQL 17")
    told = git(reader.root, "log", "--format=%an %ae", f"{before}..")
    assert told == "Maren Person maren@example.org"
    page.wait_for_load_state()
    page.keyboard.press("u")
    expect(page.locator("article")).to_contain_text("PostgreSQL 15")
    assert git(reader.root, "diff", before, "HEAD") == ""


def test_a_note_is_changed_by_keys_and_each_change_taken_back(enter_own: EnterOwn) -> None:
    reader = enter_own("--write")
    page, before = reader.page, git(reader.root, "rev-parse", "HEAD")
    for keys, told in [
        (["p"], "pinned."),
        (["y"], "active."),
        (["r", "*session-tokens-opaque", "Enter"], "replaced by"),
        (["f", "*It was a test.", "Enter"], "forgotten."),
    ]:
        reader.go(f"/note/{CANDIDATE}")
        for key in keys:
            if key.startswith("*"):
                expect(page.locator(".acts details[open] input:focus")).to_have_count(1)
                page.keyboard.type(key[1:])
            else:
                page.keyboard.press(key)
        expect(page.locator(".told")).to_contain_text(told)
        page.wait_for_load_state()
        page.keyboard.press("u")
        expect(page.locator(".told")).to_contain_text("Undone")
        expect(page.locator("h1")).to_contain_text("Expired sessions")
        assert git(reader.root, "diff", before, "HEAD") == "", keys


def test_all_can_edit_and_act_on_any_screen(enter_own: EnterOwn) -> None:
    reader = enter_own("--write")
    page = reader.page
    for place in (f"/note/{CANDIDATE}", f"/note/{CANDIDATE}?at=HEAD~1", f"/edit/{CANDIDATE}"):
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                reader.go(place)
                for summary in page.locator(".acts summary").all():
                    summary.click()
                assert find_faults(page) == [], (place, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place


def test_a_save_in_an_editor_is_shown_without_loading_again(enter_own: EnterOwn) -> None:
    reader = enter_own()
    reader.go(f"/note/{FEATURES}")
    page, note = reader.page, reader.root / FEATURES
    page.evaluate("window.kept = true")
    expect(page.locator("article")).not_to_contain_text("The tide turns at six")
    _save(note, note.read_text() + "\nThe tide turns at six.\n")
    expect(page.locator("article"), 15).to_contain_text("The tide turns at six.")
    assert page.evaluate("window.kept")


def test_a_new_note_comes_up_in_lists(enter_own: EnterOwn) -> None:
    reader = enter_own()
    for place in ("/", "/search?q=tide"):
        reader.go(place)
        name = f"tide-{len(place)}"
        _save(reader.root / f"notes/inbox/{name}.md", f"# The tide {name} turns at six\n")
        expect(reader.page.locator("main"), 15).to_contain_text(f"The tide {name} turns at six")


def test_what_is_being_typed_outlives_a_save_elsewhere(enter_own: EnterOwn) -> None:
    reader = enter_own()
    reader.go("/")
    page = reader.page
    field = page.locator("form.ask input[type=search]")
    page.keyboard.press("/")
    page.keyboard.type("tide")
    expect(page.locator("#results")).to_be_visible()
    _save(reader.root / "notes/inbox/tide.md", "# The tide turns at six\n")
    expect(page.locator("main"), 15).to_contain_text("The tide turns at six")
    expect(field).to_be_focused()
    expect(field).to_have_value("tide")


def _walk_to(reader: Reader, told: str) -> None:
    """Press `j` until one stands on the item that says something."""
    here = reader.page.locator(".here")
    for _ in range(reader.page.locator("[data-item]").count()):
        if told in here.inner_text():
            return
        reader.page.keyboard.press("j")
    raise AssertionError(f"no item says {told}")


def _save(file: Path, text: str) -> None:
    """Write a file as editors do, by another that takes its place."""
    other = file.with_name(f".{file.name}.swp")
    other.write_text(text)
    os.replace(other, file)
