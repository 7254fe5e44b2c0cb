"""Who wrote bytes that no commit has, by what the journal has of each write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.core.text.blob import blob_id
from vaultmem.storage.journal import REMOVED, Author, Journal, Owner, Owners
from vaultmem.storage.state import StateDatabase

CODEX, CLAUDE = Author("codex", "s-1"), Author("claude")
PIER = b"# Pier\n\nThe pier opens at six.\nThe crane lifts four tonnes.\n"
EDITED = PIER.replace(b"four", b"five")

Write = Callable[[str, Author, bytes | None], None]


@pytest.fixture
def state(tmp_path: Path) -> StateDatabase:
    return StateDatabase(tmp_path)


@pytest.fixture
def write(state: StateDatabase) -> Write:
    """Return a function that notes down a write, as a change of the folder does."""

    def record(path: str, author: Author, data: bytes | None) -> None:
        blob = REMOVED if data is None else blob_id(data)
        Journal(state).record(path, blob, author, 0.0, data)
        state.execute("DELETE FROM files WHERE path = ?", (path,))
        if data is not None:
            state.execute("INSERT INTO files VALUES (?, ?, 0, 0, 0, 0, '')", (path, blob))

    return record


def take_away(state: StateDatabase, path: str) -> None:
    """Remove a file by hand: the index learns of it, the journal does not."""
    state.execute("DELETE FROM files WHERE path = ?", (path,))


def find(owners: Owners, path: str, data: bytes) -> Owner:
    return owners.find(path, blob_id(data), lambda: data)


def test_the_last_who_wrote_the_very_bytes_is_their_author(
    state: StateDatabase, write: Write
) -> None:
    write("pier.md", CODEX, PIER)
    write("pier.md", Author(""), PIER)

    assert find(Owners(Journal(state)), "pier.md", PIER) == Owner(Author(""))


def test_of_two_drafts_the_more_alike_is_the_one_that_a_person_edited(
    state: StateDatabase, write: Write
) -> None:
    write("pier.md", CODEX, PIER)
    write("pier.md", CLAUDE, b"# Quay\n\nGone.\n")  # It was killed before its file came about.

    author, draft = find(Owners(Journal(state)), "pier.md", EDITED)

    assert author is None
    assert draft is not None
    assert (draft.author, draft.data) == (CODEX, PIER)


def test_bytes_that_a_person_moved_are_the_agents_unless_head_has_their_old_path(
    state: StateDatabase, write: Write
) -> None:
    write("pier.md", CODEX, PIER)
    take_away(state, "pier.md")
    journal = Journal(state)
    committed = Owners(journal, lambda path: "another blob" if path == "pier.md" else "")

    assert find(Owners(journal), "quay.md", PIER) == Owner(CODEX)
    author, draft = find(committed, "quay.md", PIER)
    assert author is None
    assert draft is not None
    assert draft.path == "pier.md"


def test_a_draft_that_a_person_moved_and_edited_counts_for_one_path(
    state: StateDatabase, write: Write
) -> None:
    write("pier.md", CODEX, PIER)
    take_away(state, "pier.md")
    owners = Owners(Journal(state))

    first, second = (find(owners, path, EDITED) for path in ("dock.md", "quay.md"))

    assert first.draft is not None
    assert (first.draft.path, first.draft.author) == ("pier.md", CODEX)
    assert second == Owner(None)


def test_what_head_has_or_may_not_be_brought_back_is_no_draft(
    state: StateDatabase, write: Write
) -> None:
    write("pier.md", CODEX, PIER)
    journal = Journal(state)

    assert find(Owners(journal, lambda _: blob_id(PIER)), "pier.md", EDITED) == Owner(None)
    assert find(Owners(journal, is_allowed=lambda _: False), "pier.md", EDITED) == Owner(None)


def test_what_an_agent_removed_itself_is_no_draft_elsewhere(
    state: StateDatabase, write: Write
) -> None:
    write("pier.md", CODEX, PIER)
    write("pier.md", CLAUDE, None)
    owners = Owners(Journal(state))

    assert find(owners, "quay.md", EDITED) == Owner(None)
    assert owners.find("pier.md", REMOVED, lambda: b"") == Owner(CLAUDE)


def test_candidates_are_remembered_while_no_commit_has_them(state: StateDatabase) -> None:
    journal = Journal(state)
    journal.put_candidates({"a.md": True, "b.md": True, "c.md": False}, ["a.md", "b.md", "c.md"])
    journal.put_candidates({"a.md": False, "d.md": True}, ["a.md", "b.md"])

    assert journal.candidates() == {"b.md"}
