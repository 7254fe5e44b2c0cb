"""`read_status`: what it counts, and that no state of git or of the settings makes it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from conftest import Make, Open
from support import git, hash_tree, held_by_thread, lock_git, write_notes

import vaultmem
from vaultmem import Memory, Vault, remember, save_checkpoint, sync_vault
from vaultmem.errors import PendingError
from vaultmem.services.health.doctor import examine_vault
from vaultmem.services.health.status import GitStatus, Uncommitted, read_status
from vaultmem.services.watching.lease import hold_watch

NOTES = {
    "notes/tide.md": "# Tide\n\nThe ferry waits for the tide.\n",
    "notes/bell.md": "---\nkind: decision\nstate: archived\n---\n# Bell\n\nRing it twice.\n",
    "notes/fog.md": "---\nkind: decision\n---\n# Fog\n\nSlow.\n",
}


def read_git(vault: Vault) -> GitStatus:
    found = read_status(vault).git
    assert found is not None
    assert found.problem == ""
    return found


def test_notes_are_counted_by_kind_and_state(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    before = hash_tree(root)
    found = read_status(opened(root))

    assert found.notes == 5
    assert found.kinds == {"semantic_fact": 3, "decision": 2}
    assert found.states == {"active": 4, "archived": 1}
    assert found.tokens > 0
    assert (found.sync.added, found.is_in_sync) == (3, True)
    assert found.problems == ()
    assert hash_tree(root) == before


def test_what_is_not_committed_is_told_by_author(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    write_notes(root, {"notes/tide.md": "# Tide\n\nHigh.\n", "chart.txt": "x\n"})
    (root / "notes/fog.md").unlink()
    claude = opened(root, agent="claude", session="s1")
    sync_vault(claude)
    remember(claude, Memory("The pump is loud."))
    write_notes(root, {"big.txt": "a" * 1_100_000})

    found = read_status(opened(root))
    assert found.git is not None
    assert found.git.uncommitted == (
        Uncommitted("", "", ("notes/fog.md", "notes/tide.md"), ("chart.txt",)),
        Uncommitted("claude", "s1", ("notes/inbox/the-pump-is-loud.md",), ()),
    )
    assert found.git.skipped == {"big.txt": "larger than 1 MiB"}
    assert (found.sync.removed, found.is_in_sync) == (0, True)

    save_checkpoint(claude, "all of it")
    git_status = read_git(opened(root))
    assert git_status.uncommitted == ()
    assert git_status.events[0].subject == "checkpoint: all of it"
    assert git_status.head.commit == git(root, "rev-parse", "HEAD")


def test_problems_and_files_that_are_no_notes_are_counted(make_vault: Make, opened: Open) -> None:
    root = make_vault(
        {
            **NOTES,
            "notes/latin.md": b"\xe9",
            "notes/binary.md": b"\0",
            "notes/Tide.md": "# Twin\n",
            "notes/odd.md": "---\npinned: perhaps\n---\nx\n",
            "notes/.hidden.md": "x\n",
            "drafts/a.md": "x\n",
            "drafts/b.md": "x\n",
        }
    )
    (root / "vaultmem.yaml").write_text("ignore: drafts\n")
    (root / "link.md").symlink_to("notes/tide.md")
    git(root, "init", "-q", "other")
    found = read_status(opened(root))

    assert {path for path, _ in found.problems} == {
        *("notes/latin.md", "notes/binary.md", "notes/odd.md", "notes/tide.md"),
    }
    assert found.skipped_files == {
        "symbolic links": 1,
        "repositories of their own": 1,
        "hidden": 1,
        "ignored by vaultmem.yaml": 1,
        "folders of templates or media": 1,
    }
    passed_over = next(x for x in examine_vault(opened(root)) if x.name == "not looked into")
    assert "link.md  (symbolic links)" in passed_over.paths


@pytest.mark.parametrize("state", ["detached", "unborn", "no git", "merging"])
def test_every_state_of_git_is_told(make_vault: Make, opened: Open, state: str) -> None:
    root = make_vault(NOTES)
    head = git(root, "rev-parse", "HEAD")
    if state == "detached":
        git(root, "checkout", "-q", "--detach")
    elif state == "unborn":
        git(root, "checkout", "-q", "--orphan", "fresh")
    elif state == "merging":
        (root / ".git/MERGE_HEAD").write_text(head + "\n")
    else:
        shutil.rmtree(root / ".git")
    vault = opened(root)

    if state == "no git":
        assert read_status(vault).git is None
        return
    found = read_git(vault)
    told = {
        "detached": (
            "",
            head,
            "no branch is checked out (HEAD is detached); "
            "`vaultmem switch --create NAME` makes one here",
        ),
        "unborn": ("fresh", "", ""),
        "merging": ("main", head, "a merge is under way; `vaultmem resolve --all` ends it"),
    }
    assert (found.head.branch, found.head.commit, found.obstacle) == told[state]
    assert [event.event for event in found.events] == ([] if state == "unborn" else ["init"])
    assert bool(found.uncommitted) is (state == "unborn")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_repository_of_somebody_else_is_told(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    os.chown(root / ".git", 65534, 65534)
    found = read_status(opened(root))

    assert found.git is not None
    assert "safe.directory" in found.git.problem
    assert "safe.directory" in found.sync_problem
    assert not found.is_in_sync


def test_with_settings_that_cannot_be_read_nothing_is_looked_at(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({**NOTES, "drafts/a.md": "secret\n"})
    (root / "vaultmem.yaml").write_text("ignore: drafts\n")
    vault = opened(root)
    read_status(vault)
    write_notes(root, {"notes/new.md": "new\n"})
    vault = replace(vault, config=type(vault.config)())

    found = read_status(vault, settings_problem="vaultmem.yaml: broken; correct it")
    assert found.settings_problem == "vaultmem.yaml: broken; correct it"
    assert (found.notes, found.is_in_sync, found.skipped_files) == (5, False, {})
    assert found.git is not None
    assert found.git.head.branch == "main"
    assert found.git.uncommitted == ()
    assert "drafts/a.md" not in vault.manifest.stats()


def test_who_watches_is_told(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    assert read_status(vault).watcher is None
    with held_by_thread(lambda: hold_watch(vault)):
        watcher = read_status(vault).watcher
    assert watcher is not None
    assert (watcher.pid, watcher.version) == (os.getpid(), vaultmem.__version__)


def test_events_that_wait_are_named(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    write_notes(root, {"notes/tide.md": "# Tide\n\nLow.\n"})
    vault = opened(root)
    lock_git(root)
    with pytest.raises(PendingError):
        save_checkpoint(vault, "low tide")

    found = read_status(vault)
    assert found.waiting == ("checkpoint: low tide",)
    assert found.git is not None
    assert "another git is at work" in found.git.obstacle


def test_another_branch_has_its_own_events(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "bot")
    write_notes(root, {"notes/tide.md": "# Tide\n\nLow.\n"})
    save_checkpoint(opened(root), "low tide")
    subprocess.run(["git", "-C", root, "gc", "-q"], check=True)  # Packed refs and objects.

    found = read_status(opened(root, ref="bot"))
    assert found.ref == "bot"
    assert found.git is not None
    assert found.git.head.branch == "main"
    assert [event.event for event in found.git.events] == ["init"]
