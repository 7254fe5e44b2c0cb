"""Taking back what a commit did, all of its notes or none; and what a session wrote."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from conftest import Make, Open
from support import git, hash_tree, note_at

from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import edit_note, set_note_property
from vaultmem.services.history.restore_note import undo_commit
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.memory.rename import rename_note
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.undo_session import SessionUndo, undo_session
from vaultmem.services.views.update_index import sync_vault
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


# ---- a session

LIMIT = "The retry limit of billing is forty."


@pytest.fixture
def liar(make_vault: Make, opened: Open) -> Vault:
    """A vault, as the session s-1 has it, which wrote a note and a line in one of a person's."""
    root = make_vault({"notes/plan.md": PLAN, "notes/gone.md": OLD})
    vault = opened(root, agent="claude", session="s-1")
    sync_vault(vault)
    remember(vault, Memory(LIMIT, title="Retry limit"))
    text = PLAN.replace("seven", "eight")
    edit_note(vault, PurePosixPath("notes/plan.md"), lambda _: f"{text}{LIMIT}\n")
    forget_notes(vault, select_notes(vault, ["notes/gone.md"]).notes, "wrong")
    save_checkpoint(vault, "done")
    return vault


PLAN = "---\ntags: [ops]\n---\n# Plan\r\n\r\nWe start at seven.  \nJonas leads.\n"
NOTE = "notes/inbox/retry-limit.md"


def append(vault: Vault, path: str, text: str) -> None:
    file = vault.root / path
    file.write_bytes(file.read_bytes() + text.encode())


def actions(undone: SessionUndo) -> dict[str, str]:
    return {each.path: each.action.value for each in undone.notes}


def test_a_session_is_undone_as_one_commit_and_that_commit_again(liar: Vault, opened: Open) -> None:
    person = opened(liar.root)
    sync_vault(person)
    before = hash_tree(person.root, skip=(".git",))
    planned = undo_session(person, "s-1")
    assert hash_tree(person.root, skip=(".git",)) == before

    done = undo_session(person, "s-1", apply=True)

    assert actions(planned) == actions(done)
    assert actions(done) == {NOTE: "remove", "notes/plan.md": "revert", "notes/gone.md": "restore"}
    assert (person.root / "notes/plan.md").read_bytes() == PLAN.encode()
    assert (person.root / "notes/gone.md").read_text() == OLD
    assert not (person.root / NOTE).exists()
    assert git(person.root, "log", "-1", "--format=%an %s") == "Maren Person undo: session s-1"
    assert git(person.root, "status", "--porcelain") == ""
    again = undo_session(person, "s-1", apply=True)
    assert set(actions(again).values()) == {"keep"}
    undo_commit(person, done.report.commit)
    assert hash_tree(person.root, skip=(".git",)) == before


def test_words_of_others_in_the_notes_of_a_session_stay(liar: Vault, opened: Open) -> None:
    person, other = opened(liar.root), opened(liar.root, agent="codex", session="s-2")
    append(person, NOTE, "\nMaren doubts it.\n")
    append(person, "notes/plan.md", "Tuuli comes too.")
    sync_vault(other)
    edit_note(other, PurePosixPath(NOTE), lambda note: f"{note.text}\nIt was forty in May.\n")
    sync_vault(person)

    done = undo_session(person, "s-1", apply=True)

    note = note_at(person.root, NOTE)
    assert note.body.strip() == "Maren doubts it.\n\nIt was forty in May."
    assert (note.title, note.agent) == ("Maren doubts it", "")
    assert (person.root / "notes/plan.md").read_bytes() == f"{PLAN}Tuuli comes too.".encode()
    others = {each.path: each.others for each in done.notes}
    assert {"codex", "Maren Person"} <= {*others[NOTE], *others["notes/plan.md"]}


def test_a_note_that_was_moved_since_is_found_though_its_name_is_another_notes(
    liar: Vault, opened: Open
) -> None:
    person, other = opened(liar.root), opened(liar.root, agent="codex", session="s-2")
    sync_vault(person)
    append(person, NOTE, "\nMaren doubts it.\n")
    rename_note(person, NOTE, "notes/limit.md")
    save_checkpoint(person, "moved")
    sync_vault(other)
    remember(other, Memory("Refunds wait for the tide.", title="Retry limit"), force=True)
    save_checkpoint(other, "another")

    done = undo_session(person, "s-1", apply=True)

    assert actions(done)["notes/limit.md"] == "revert"
    assert note_at(person.root, "notes/limit.md").body.strip() == "Maren doubts it."
    assert "Refunds wait" in (person.root / NOTE).read_text()


def test_a_line_that_a_person_changed_since_stays_and_is_reported(
    liar: Vault, opened: Open
) -> None:
    person = opened(liar.root)
    file = person.root / "notes/plan.md"
    file.write_bytes(file.read_bytes().replace(b"at eight.", b"at nine sharp."))
    sync_vault(person)

    done = undo_session(person, "s-1", apply=True)

    assert file.read_bytes() == PLAN.replace("at seven.", "at nine sharp.").encode()
    [plan] = [each for each in done.notes if each.path == "notes/plan.md"]
    assert plan.reason == "1 line changed since, 1 line not brought back"


def test_what_another_session_confirmed_is_quarantined_and_not_removed(
    liar: Vault, opened: Open
) -> None:
    other = opened(liar.root, agent="codex", session="s-2")
    sync_vault(other)
    assert remember(other, Memory(LIMIT)).path == NOTE

    undo_session(opened(liar.root), "s-1", apply=True)

    note = note_at(liar.root, NOTE)
    assert note.state == "quarantined"
    assert "codex, session s-2" in note.text


def test_what_a_session_wrote_and_no_commit_of_its_own_has_is_undone(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/plan.md": PLAN})
    agent, person = opened(root, agent="claude", session="s-1"), opened(root)
    sync_vault(agent)
    edit_note(agent, PurePosixPath("notes/plan.md"), lambda note: f"{note.text}{LIMIT}\n")
    append(person, "notes/plan.md", "Tuuli comes too.\n")
    git(root, "commit", "-qam", "backup")
    remember(agent, Memory("Refunds wait for the tide.", title="Refunds"))
    sync_vault(person)

    done = undo_session(person, "s-1", apply=True)

    assert actions(done) == {"notes/inbox/refunds.md": "remove", "notes/plan.md": "revert"}
    assert (root / "notes/plan.md").read_bytes() == f"{PLAN}Tuuli comes too.\n".encode()
    assert not (root / "notes/inbox/refunds.md").exists()
    assert "Refunds wait" in git(root, "log", "-p", "--all")


def test_an_agent_removes_nothing_that_the_owner_pinned_since(liar: Vault, opened: Open) -> None:
    person, agent = opened(liar.root), opened(liar.root, agent="codex", session="s-2")
    sync_vault(person)
    set_note_property(person, PurePosixPath(NOTE), "pinned", True)
    sync_vault(agent)

    done = undo_session(agent, "s-1", apply=True)

    [kept] = [each for each in done.notes if each.path == NOTE]
    assert kept.action == "keep"
    assert "pinned, and only a person unpins it" in kept.reason
    assert LIMIT in (liar.root / NOTE).read_text()


def test_a_session_that_goes_on_or_wrote_nothing_is_not_undone(
    make_vault: Make, opened: Open
) -> None:
    vault = opened(make_vault(), agent="claude")
    sync_vault(vault)
    start_session(vault, NewSession("s-1"))
    with pytest.raises(RefusedError, match="still open; `vaultmem session close s-1` ends it"):
        undo_session(vault, "s-1")
    with pytest.raises(NoteNotFoundError, match="s-9: this session wrote nothing here"):
        undo_session(vault, "s-9")
