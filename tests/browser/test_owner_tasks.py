"""Twelve tasks of an owner at the keyboard: the page takes no more keys than its docs state."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

import pytest
from reading import EnterOwn, expect
from support import git

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

DOCS = Path(__file__).parents[2] / "docs/how-to/everyday.md"

#: Of each row: the task, how it is done, its keys and pages.
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (\d+), (\d+) \|$", re.M)

REFUNDS = "notes/payments/refund-rules.md"


class Owner:
    """An owner at home: `keys` counts keys, a typed text as one, and `pages` what was loaded."""

    def __init__(self, page: Page, root: Path) -> None:
        self.page, self.root = page, root
        self.keys = self.pages = 0
        page.on("domcontentloaded", self._count)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
        self.keys += len(keys)

    def type(self, text: str) -> None:
        """Type a text into the field that has the focus."""
        expect(self.page.locator(":is(input, textarea):focus")).to_have_count(1)
        self.page.keyboard.type(text)
        self.keys += 1

    def read(self, text: str, part: str = "main", at: str = "**") -> None:
        """Wait until the page at an address shows a text, and its keys count."""
        self.page.wait_for_url(at)
        expect(self.page.locator(part).first, 60).to_contain_text(text)
        self.page.wait_for_load_state()

    def open_by_search(self, query: str, title: str) -> None:
        """Open the best note for a query."""
        self.press("/")
        self.type(query)
        self.read(title, ".here", f"**/search?q={quote_plus(query)}")
        self.press("Enter")
        self.read(title, "h1", "**/note/**")

    def _count(self, _: Page) -> None:
        self.pages += 1


def see_what_waits(owner: Owner) -> None:
    owner.read("2 candidates", ".waiting")


def see_what_was_not_found(owner: Owner) -> None:
    owner.read("Where is the anchor winch?", "section[aria-labelledby=failed]")


def see_who_wrote_each_hit(owner: Owner) -> None:
    owner.press("/")
    owner.type("staging PostgreSQL")
    owner.read("codex · ", "#results .why")


def see_who_wrote_a_line(owner: Owner) -> None:
    owner.open_by_search("staging PostgreSQL 15", "PostgreSQL 15")
    owner.read("codex", ".blame")


def correct_a_wrong_fact(owner: Owner) -> None:
    owner.open_by_search("staging PostgreSQL 15", "PostgreSQL 15")
    owner.press("e")
    owner.read("Edit", "h1", "**/edit/**")
    field = owner.page.locator("textarea:focus")
    field.fill(field.input_value().replace("PostgreSQL 15", "PostgreSQL 17"))
    owner.keys += 1
    owner.press("Control+Enter")
    owner.read("PostgreSQL 17", "article", "**/note/**")


def decide_which_note_holds(owner: Owner) -> None:
    owner.press("g", "r")
    owner.read("PostgreSQL 16", ".here", "**/review")
    owner.press("y")
    owner.read("the newer one replaces the older.", ".told")


def accept_three_of_five(owner: Owner) -> None:
    owner.press("g", "r")
    owner.read("5 items to review", "h1", "**/review")
    owner.press(*"xjjjxjxY")
    owner.read("3 decisions.", ".told")


def undo_what_an_agent_did(owner: Owner) -> None:
    owner.press("g", "s")
    owner.read("Prepare the winter timetable", at="**/sessions")
    owner.press("j", "Enter")
    owner.read("staging was upgraded", at="**/session/*")
    owner.press("Z")
    owner.read("Undone: checkpoint: staging was upgraded, checkpoint: the winter", ".told")


def restore_an_older_version(owner: Owner) -> None:
    owner.open_by_search("refund amounts and deadlines", "Refund amounts")
    owner.press("h")
    owner.read("Restore this version", at="**/history/**")
    owner.press("r")
    owner.read("Above €200", "article", "**/note/**")


def read_a_note_as_it_was(owner: Owner) -> None:
    owner.open_by_search("refund amounts and deadlines", "Refund amounts")
    owner.press("s")
    expect(owner.page.locator("#slider input")).to_be_focused()
    owner.press("ArrowLeft", "ArrowLeft")
    owner.read("Above €200", "article", "**?at=*")


def find_the_commit_that_changed_a_pack(owner: Owner) -> None:
    owner.press("g", "p")
    owner.read("Context pack", "h1", "**/pack")
    owner.press("i")
    owner.type("staging database")
    owner.page.wait_for_url("**/pack?q=staging+database*")
    owner.press("Escape", "w")
    owner.type("11172026")
    owner.press("Enter")
    owner.read("Choose the wrong section", at="**/bisect?*")
    owner.read("PostgreSQL 16", "[data-item]:nth-child(2)")
    owner.press("j", "j", "Enter")
    owner.read("The first bad commit", at="**/bisect?*")


def forget_a_note(owner: Owner) -> None:
    owner.open_by_search("staging PostgreSQL 15", "PostgreSQL 15")
    owner.press("f")
    owner.type("It is wrong.")
    owner.press("Enter")
    owner.read("forgotten.", ".told")


TASKS = {
    "see what waits for you": see_what_waits,
    "see what agents asked and did not find": see_what_was_not_found,
    "see who wrote the hits of a search, and when": see_who_wrote_each_hit,
    "see who wrote a line": see_who_wrote_a_line,
    "correct a wrong fact": correct_a_wrong_fact,
    "decide which of two notes holds": decide_which_note_holds,
    "accept three of five proposals": accept_three_of_five,
    "undo what an agent did in a session": undo_what_an_agent_did,
    "restore an older version of a note": restore_an_older_version,
    "read a note as it was": read_a_note_as_it_was,
    "find the commit that changed a pack": find_the_commit_that_changed_a_pack,
    "forget a note": forget_a_note,
}

#: Keys and pages of a task before the pages were rebuilt; without a row, it was not possible.
BEFORE = {
    "see what waits for you": (2, 1),
    "see what agents asked and did not find": (2, 1),
    "see who wrote the hits of a search, and when": (11, 2),
    "see who wrote a line": (5, 1),
    "decide which of two notes holds": (3, 2),
    "accept three of five proposals": (11, 4),
    "undo what an agent did in a session": (14, 6),
    "restore an older version of a note": (7, 3),
    "read a note as it was": (8, 1),
    "find the commit that changed a pack": (13, 3),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_the_keys_and_pages_of_the_docs(task: str, enter_own: EnterOwn) -> None:
    rows = {name: (int(keys), int(pages)) for name, _, keys, pages in _list_rows()}
    keys, pages = rows[task]
    keys_before, pages_before = BEFORE.get(task, (keys, pages))
    assert keys <= keys_before
    assert pages <= pages_before
    reader = enter_own("--write")
    if TASKS[task] is see_what_was_not_found:
        ask = [sys.executable, "-m", "vaultmem", "recall", "Where is the anchor winch?"]
        subprocess.run(ask, cwd=reader.root, check=False, capture_output=True)
        reader.go("/")
    before = git(reader.root, "rev-parse", "HEAD")
    owner = Owner(reader.page, reader.root)
    TASKS[task](owner)
    # The page of a session whose note is taken back with it asks for that once more.
    reader.witness.seen = [line for line in reader.witness.seen if " 404 " not in line]
    assert (owner.keys, owner.pages) == (keys, pages)
    assert git(reader.root, "status", "--porcelain") == ""
    changes = task.split()[0] in {"correct", "decide", "accept", "undo", "restore", "forget"}
    assert (git(reader.root, "rev-parse", "HEAD") != before) is changes


def test_the_docs_have_each_task() -> None:
    assert [row[0] for row in _list_rows()] == list(TASKS)


def _list_rows() -> list[tuple[str, ...]]:
    return _ROW.findall(DOCS.read_text(encoding="utf-8"))
