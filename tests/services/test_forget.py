"""`forget`: what is chosen, what is kept, and that git still has it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import git

from vaultmem.core.finding.query import parse_query
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.committing.checkpoint import save_checkpoint
from vaultmem.services.finding.recall import recall
from vaultmem.services.notes.forget import forget_notes, select_notes
from vaultmem.services.sync import sync_vault
from vaultmem.vault import Vault

Open = Callable[..., Vault]
Make = Callable[..., Path]

DAY = 86_400


def _synced(vault: Vault) -> Vault:
    sync_vault(vault)
    return vault


def test_a_tag_chooses_whole_tags_and_keeps_what_is_pinned(make_vault: Make, opened: Open) -> None:
    notes = {
        "notes/a.md": "---\ntags: [old]\n---\n",
        "notes/b.md": "---\ntags: [old/er]\n---\n",
        "notes/c.md": "---\ntags: [older]\n---\n",
        "notes/d.md": "---\ntags: [old]\npinned: true\n---\n",
    }
    vault = _synced(opened(make_vault(notes)))

    chosen = select_notes(vault, [], tag="old")

    assert [record.path for record in chosen.notes] == ["notes/a.md", "notes/b.md"]
    assert chosen.kept == ("notes/d.md",)


def test_an_age_counts_from_the_notes_own_date_else_from_the_file(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    for name, days in [("old", 100), ("new", 1)]:
        file = root / f"notes/{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
        os.utime(file, (time.time() - days * DAY,) * 2)
    (root / "notes/said.md").write_text("---\ncreated: 2020-01-01\n---\nx\n")
    (root / "notes/updated.md").write_text(
        f"---\ncreated: 2020-01-01\nupdated: {time.strftime('%Y-%m-%d')}\n---\nx\n"
    )
    vault = _synced(opened(root))

    chosen = select_notes(vault, [], older_than=90 * DAY)

    assert [record.path for record in chosen.notes] == ["notes/old.md", "notes/said.md"]


def test_a_pinned_note_goes_only_by_its_name(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/p.md": "---\npinned: true\ntags: [x]\n---\n"})
    vault = _synced(opened(root))
    assert select_notes(vault, [], tag="x").notes == ()

    forget_notes(vault, select_notes(vault, ["notes/p.md"]).notes)

    assert not (root / "notes/p.md").exists()


def test_a_forgotten_note_is_not_recalled_and_its_removal_is_committed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/gone.md": "the gangway squeaks\n", "notes/kept.md": "gangway\n"})
    vault = _synced(opened(root, agent="claude"))

    forget_notes(vault, select_notes(vault, ["gone"]).notes)

    assert [hit.record.path for hit in recall(vault, parse_query("gangway"))] == ["notes/kept.md"]
    report = save_checkpoint(vault, "cleanup")
    assert git(root, "show", "--format=%an", "--name-status", report.commit).split() == [
        "claude",
        "D",
        "notes/gone.md",
    ]
    assert git(root, "show", "HEAD~1:notes/gone.md") == "the gangway squeaks"


def test_what_a_person_edited_is_committed_before_the_note_goes(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "one\n"})
    (root / "notes/n.md").write_text("two, never committed by hand\n")
    vault = _synced(opened(root))

    forget_notes(vault, select_notes(vault, ["notes/n.md"]).notes)

    assert git(root, "log", "-1", "--format=%an %s") == "Maren Person edit: 1 note"
    assert git(root, "show", "HEAD:notes/n.md") == "two, never committed by hand"


def test_a_note_that_changed_after_it_was_chosen_stays(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/n.md": "one\n"})
    vault = _synced(opened(root))
    chosen = select_notes(vault, ["notes/n.md"])
    (root / "notes/n.md").write_text("two\n")

    with pytest.raises(ConflictError):
        forget_notes(vault, chosen.notes)

    assert (root / "notes/n.md").read_text() == "two\n"


def test_forgetting_names_a_note_and_not_one_of_its_sections(
    make_vault: Make, opened: Open
) -> None:
    vault = _synced(opened(make_vault({"notes/n.md": "# A\n\none\n\n# B\n\ntwo\n"})))

    with pytest.raises(RefusedError, match="section"):
        select_notes(vault, ["notes/n.md#B"])


def test_forgetting_needs_to_be_told_what(make_vault: Make, opened: Open) -> None:
    vault = _synced(opened(make_vault()))

    with pytest.raises(RefusedError, match="say which"):
        select_notes(vault, [])
    with pytest.raises(NoteNotFoundError):
        select_notes(vault, ["nothing"])
    with pytest.raises(RefusedError):
        select_notes(vault, ["../outside.md"])


def test_row_24_forgetting_never_commits_a_credential_that_lies_elsewhere(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "x\n"})
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    (root / "notes/leak.md").write_text(f"the key is {key}\n")
    vault = _synced(opened(root))

    forget_notes(vault, select_notes(vault, ["notes/n.md"]).notes)

    assert git(root, "log", "--all", "-S", key, "--format=%h") == ""
