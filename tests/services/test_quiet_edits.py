"""A person who only saves files finds their edits in git, if vaultmem.yaml wants it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make, Open
from support import git, wait_until, write_notes
from watchers import stopped, watched

from vaultmem.errors import LockTimeoutError, PendingError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.idle import QuietEdits
from vaultmem.vault import Vault

NEVER, SOON, LATE = (f"commit_edits_after_seconds: {n}\n" for n in (0, 1, 600))
KEY = "key AKIAZ7Q2XW4BN6MV3KLP\n"


def subjects(root: Path) -> list[str]:
    """Return author and subject of each commit of an event but `init`, oldest first."""
    log = git(root, "log", "--reverse", "--format=%an: %s", "--grep=^Vault-Event: [^i]")
    return [line for line in log.splitlines() if "init: " not in line]


def wait_for(root: Path, subject: str) -> None:
    wait_until(lambda: any(line.endswith(subject) for line in subjects(root)))


def uncommitted(root: Path) -> list[str]:
    rows = git(root, "status", "--porcelain", "-uall", "--", "notes").splitlines()
    return [row[3:] for row in rows]


@pytest.mark.campaign
def test_edits_become_one_commit_of_the_person_after_some_quiet(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"vaultmem.yaml": SOON, "notes/a.md": "one\n", "notes/b.md": "b\n"})
    theirs = remember(opened(root, agent="claude"), Memory("Gulls nest in May.")).path
    mine = remember(opened(root), Memory("The quay is wet.")).path
    with watched(root) as (_, told):
        write_notes(root, {"notes/a.md": "two\n", "notes/new/c.md": "c\n"})
        (root / "notes/b.md").unlink()
        wait_for(root, "edit: a, the-quay-is-wet and c")
        changed = git(root, "show", "--name-only", "--format=", "HEAD").splitlines()
        assert changed == sorted(["notes/a.md", "notes/b.md", mine, "notes/new/c.md"])
        assert git(root, "show", "-s", "--format=%an|%(trailers:only,unfold)").split() == [
            *("Maren", "Person|Intent:", "observe", "Vault-Event:", "edit"),
        ]
        assert uncommitted(root) == [theirs]
    assert len(subjects(root)) == 1
    assert [each.kind for each in told].count("problem") == 0
    save_checkpoint(opened(root, agent="claude"), "gulls")
    assert subjects(root)[1:] == ["claude: checkpoint: gulls"]


@pytest.mark.parametrize(("setting", "made"), [(LATE, ["Maren Person: edit: a"]), (NEVER, [])])
def test_edits_are_committed_when_the_watcher_ends_if_the_owner_wants_it(
    make_vault: Make, setting: str, made: list[str]
) -> None:
    root = make_vault({"vaultmem.yaml": setting, "notes/a.md": "one\n"})
    with watched(root) as (loop, _):
        (root / "notes/a.md").write_text("two\n")
        assert loop.settle(20)
        assert subjects(root) == []
    assert subjects(root) == made


@pytest.mark.campaign
def test_a_setting_that_changes_counts_at_once(make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    with watched(root) as (loop, _):
        (root / "notes/a.md").write_text("two\n")
        assert loop.settle(20)
        (root / "vaultmem.yaml").write_text(SOON)
        wait_for(root, "edit: a and vaultmem.yaml")


def test_an_agents_note_that_a_person_edited_is_two_commits(make_vault: Make, opened: Open) -> None:
    root = make_vault({"vaultmem.yaml": LATE})
    path = remember(opened(root, agent="claude"), Memory("Gulls nest.", title="gulls")).path
    with watched(root), (root / path).open("a") as file:
        file.write("\nIn May.\n")
    assert subjects(root) == ["claude: write: gulls", "Maren Person: edit: gulls"]
    assert git(root, "show", "--format=", "HEAD").count("\n+In May.") == 1


@pytest.mark.campaign
def test_edits_during_a_merge_wait_for_its_end(make_vault: Make) -> None:
    root = make_vault({"vaultmem.yaml": SOON, "notes/a.md": "one\n"})
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))
    with watched(root) as (loop, told):
        for text in ("two\n", "three\n"):
            (root / "notes/a.md").write_text(text)
            assert loop.settle(20)
            wait_until(lambda: any("not committed yet" in each.text for each in told))
        assert subjects(root) == []
        (root / ".git/MERGE_HEAD").unlink()
        wait_for(root, "edit: a")
    assert [each.kind for each in told].count("problem") == 1
    assert git(root, "show", "HEAD:notes/a.md") == "three"


def test_what_cannot_be_committed_at_the_end_is_left_as_it_is(make_vault: Make) -> None:
    root = make_vault({"vaultmem.yaml": LATE, "notes/a.md": "one\n"})
    with watched(root) as (_, told):
        (root / "notes/a.md").write_text("two\n")
        (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))
    assert told[-1].text.startswith("edits are not committed yet: ")
    (root / ".git/MERGE_HEAD").unlink()
    with watched(root):
        pass
    assert subjects(root) == ["Maren Person: edit: a"]


def look(vault: Vault, edits: QuietEdits) -> None:
    sync_vault(vault)
    edits.look()


def test_what_is_saved_while_it_would_be_committed_waits_anew(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"vaultmem.yaml": LATE, "notes/a.md": "one\n", "notes/b.md": "b\n"})
    vault = opened(root)
    edits = QuietEdits(vault)
    (root / "notes/a.md").write_text("two\n")
    look(vault, edits)
    (root / "notes/b.md").unlink()  # An editor that deletes a file and makes it again.

    assert edits.commit().commits == ()

    (root / "notes/b.md").write_text("b again\n")
    look(vault, edits)
    assert edits.is_due(is_end=True)
    assert not edits.is_due()
    assert [subject for _, subject in edits.commit().commits] == ["edit: a and b"]
    assert not edits.is_due(is_end=True)


def test_an_agents_writes_and_files_that_git_ignores_delay_nothing(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"vaultmem.yaml": LATE, ".gitignore": "*.log\n", "notes/a.md": "one\n"})
    vault = opened(root)
    edits = QuietEdits(vault)
    (root / "notes/a.md").write_text("two\n")
    look(vault, edits)
    remember(opened(root, agent="claude"), Memory("Gulls nest in May."))
    write_notes(root, {"build.log": "1\n"})
    look(vault, edits)

    assert [subject for _, subject in edits.commit().commits] == ["edit: a"]


def test_edits_wait_for_another_process_that_holds_a_lock(make_vault: Make, opened: Open) -> None:
    root = make_vault({"vaultmem.yaml": LATE, "notes/a.md": "one\n"})
    vault = opened(root)
    edits = QuietEdits(vault)
    (root / "notes/a.md").write_text("two\n")
    look(vault, edits)
    with stopped(root), pytest.raises(LockTimeoutError):
        edits.commit()
    (root / ".git/index.lock").touch()
    with pytest.raises(PendingError):
        edits.commit()
    (root / ".git/index.lock").unlink()

    assert edits.is_due(is_end=True)
    assert [subject for _, subject in edits.commit().commits] == ["edit: a"]


@pytest.mark.campaign
def test_a_note_with_a_credential_waits_and_is_named_once(make_vault: Make, opened: Open) -> None:
    root = make_vault({"vaultmem.yaml": LATE, "notes/a.md": "a\n", "notes/b.md": "b\n"})
    vault = opened(root)
    edits = QuietEdits(vault)
    named: list[str] = []
    for number, key in enumerate([KEY, f"more\n{KEY}", f"more\n{KEY}"]):
        write_notes(root, {"notes/a.md": key, "notes/b.md": f"{number}\n"})
        look(vault, edits)
        report = edits.commit()
        assert [subject for _, subject in report.commits] == ["edit: b"]
        named += edits.format_skipped(report)
    assert uncommitted(root) == ["notes/a.md"]
    assert "AKIA" not in git(root, "log", "-p")
    (line,) = named
    assert line.startswith("notes/a.md: looks like a credential (notes/a.md:1: ")
    assert "gitleaks:allow" in line

    write_notes(root, {"notes/a.md": "no key\n"})
    look(vault, edits)
    assert [subject for _, subject in edits.commit().commits] == ["edit: a"]
