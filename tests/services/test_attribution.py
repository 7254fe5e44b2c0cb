"""Whose words are whose: a change by one author never takes over another's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support import git, write_notes

from vaultmem import Memory, Vault, promote_notes, remember, save_checkpoint, sync_vault
from vaultmem.core.lifecycle import State
from vaultmem.services.edit import change_tags
from vaultmem.services.forget import forget_notes, select_notes
from vaultmem.services.read import resolve_address

Open = Callable[..., Vault]
Make = Callable[..., Path]


def test_an_agents_tag_leaves_a_persons_uncommitted_words_to_the_person(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "old\n"})
    save_checkpoint(opened(root), "start")
    write_notes(root, {"notes/n.md": "the person's new line\n"})
    vault = opened(root, agent="bot")
    sync_vault(vault)

    change_tags(vault, resolve_address(vault, "n")[0], ("tide",), ())
    save_checkpoint(vault, "tagged")

    blame = git(root, "blame", "--line-porcelain", "notes/n.md")
    authors = [line for line in blame.splitlines() if line.startswith("author ")]
    assert authors[-1] == "author Maren Person"
    assert "author bot" in authors


def test_a_promote_leaves_a_candidate_to_the_agent_that_wrote_it(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    note = remember(opened(root, agent="scribe"), Memory("noon tide", state=State.CANDIDATE))

    promote_notes(opened(root, agent="editor"), [note.path])

    assert git(root, "log", "--format=%an", "--", note.path).split() == ["editor", "scribe"]


def test_the_session_that_wrote_a_note_is_named_by_a_checkpoint_that_names_none(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    remember(opened(root, agent="bot", session="s-9"), Memory("the tide turns at noon"))

    save_checkpoint(opened(root, agent="bot"), "noon")

    assert "Session-Id: s-9" in git(root, "log", "-1", "--format=%B")


def test_a_forgotten_note_that_no_commit_had_can_be_had_back_from_git(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    vault = opened(root, agent="bot")
    note = remember(vault, Memory("the tide turns at noon"))

    forget_notes(vault, select_notes(vault, [note.path]).notes)

    assert "the tide turns at noon" in git(root, "show", f"HEAD:{note.path}")


def test_rewritten_history_stops_no_command(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/n.md": "tide\n"})
    save_checkpoint(opened(root), "one")
    sync_vault(opened(root))
    git(root, "commit", "-q", "--amend", "-m", "another")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")

    vault = opened(root)
    sync_vault(vault)

    assert [record.path for record in vault.view.records("d.path = 'notes/n.md'")]
