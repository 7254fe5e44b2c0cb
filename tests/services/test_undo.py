"""Taking back what a commit did: all of its notes, or none."""

from __future__ import annotations

import pytest
from conftest import Make, Open
from support import git

from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.history.restore_note import undo_commit
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.vault import Vault

OLD = "---\nstate: active\n---\nMaria lives in Boston.\n"
NEW = "---\nstate: active\n---\nMaria moved to Denver.\n"


@pytest.fixture
def replaced(make_vault: Make, opened: Open) -> tuple[Vault, str]:
    """A vault in which one note replaced another, and the commit of that."""
    root = make_vault({"notes/old.md": OLD, "notes/new.md": NEW})
    vault = opened(root)
    done = supersede_note(vault, "notes/old.md", "notes/new.md", "she moved")
    return vault, done.report.commit


def test_both_notes_are_byte_for_byte_as_before(replaced: tuple[Vault, str]) -> None:
    vault, commit = replaced
    done = undo_commit(vault, commit)
    assert (vault.root / "notes/old.md").read_text() == OLD
    assert (vault.root / "notes/new.md").read_text() == NEW
    assert git(vault.root, "log", "-1", "--format=%s").startswith("undo: ")
    assert commit in git(vault.root, "log", "-1", "--format=%b")
    assert sorted(done.paths) == ["notes/new.md", "notes/old.md"]
    assert git(vault.root, "status", "--porcelain") == ""


def test_nothing_is_taken_back_where_one_note_changed_since(replaced: tuple[Vault, str]) -> None:
    vault, commit = replaced
    file = vault.root / "notes/new.md"
    file.write_text(file.read_text() + "She likes it.\n")
    old = (vault.root / "notes/old.md").read_bytes()
    with pytest.raises(ConflictError, match=r"notes/new\.md: changed since .*vaultmem restore"):
        undo_commit(vault, commit)
    assert (vault.root / "notes/old.md").read_bytes() == old
    assert git(vault.root, "rev-parse", "HEAD") == commit


def test_what_was_forgotten_comes_back_and_goes_again(replaced: tuple[Vault, str]) -> None:
    vault, _ = replaced
    text = (vault.root / "notes/new.md").read_bytes()
    forget_notes(vault, select_notes(vault, ["notes/new.md"]).notes, "wrong")
    first = undo_commit(vault, "HEAD")
    assert (vault.root / "notes/new.md").read_bytes() == text
    undo_commit(vault, first.report.commit)
    assert not (vault.root / "notes/new.md").exists()


def test_a_commit_of_something_else_is_left_to_git(replaced: tuple[Vault, str]) -> None:
    vault, _ = replaced
    (vault.root / "picture.txt").write_text("x")
    git(vault.root, "add", "picture.txt")
    git(vault.root, "commit", "-qm", "a picture")
    with pytest.raises(RefusedError, match=r"not? (a )?note"):
        undo_commit(vault, "HEAD")
