"""Branches: made, listed and removed, and never so that a commit is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from branching import commit_on, list_refs, look_around
from conftest import Make, Open
from support import git

from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.merging.branches import list_branches, make_branch, remove_branch
from vaultmem.storage.git.vault_history import init_repository


def test_a_branch_is_made_where_it_is_wanted_and_nothing_is_checked_out(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    first = git(root, "rev-parse", "HEAD~1")
    vault, before = opened(root), look_around(root)

    assert make_branch(vault, "here").commit == git(root, "rev-parse", "HEAD")
    assert make_branch(vault, "agents/ada-1", "HEAD~1").commit == first
    assert make_branch(vault, "größer", "here").name == "here"

    assert look_around(root) == before
    assert git(root, "rev-parse", "agents/ada-1", "größer") == f"{first}\n{before['commit']}"
    assert git(root, "reflog", "show", "here")


@pytest.mark.campaign
def test_a_name_that_git_or_vaultmem_would_misread_is_refused(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    vault = opened(root)
    make_branch(vault, "agents")
    make_branch(vault, "bots/ada")
    before, refs = look_around(root), list_refs(root)
    commit = git(root, "rev-parse", "HEAD")
    names = [
        *("-x", "--force", "", " ", "a b", "a..b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b"),
        *("/a", "a/", "a//b", "a.lock", ".a", "a.", "@", "@{-1}", "a@{b", "HEAD", "a\nb", "a\x1bb"),
        *("refs/heads/a", "2026-10-01", "10/11/2026", commit, "x" * 300),
        *("agents/sub", "bots", "main"),
    ]

    for name in names:
        with pytest.raises(RefusedError):
            make_branch(vault, name)

    assert (look_around(root), list_refs(root)) == (before, refs)


def test_what_is_not_there_is_said_with_a_remedy(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    vault, refs = opened(root), list_refs(root)

    with pytest.raises(NoteNotFoundError, match="`vaultmem branch`"):
        make_branch(vault, "new", "nowhere")
    for name in ("nowhere", "main~0", "main^", "HEAD", "main@{0}", "heads/main"):
        with pytest.raises(NoteNotFoundError, match="there is no such branch"):
            remove_branch(vault, name)
    with pytest.raises(RefusedError):
        remove_branch(vault, "-D")

    assert list_refs(root) == refs


def test_nothing_can_branch_off_before_the_first_commit(
    home: Path, tmp_path: Path, opened: Open
) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    init_repository(root)
    (root / "vaultmem.yaml").write_text("budget: 100\n")
    vault = opened(root)

    with pytest.raises(NoteNotFoundError, match="nothing is committed yet; make a checkpoint"):
        make_branch(vault, "new")
    assert list_branches(vault) == []


def test_a_branch_is_removed_only_if_its_commits_are_kept(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    vault = opened(root)
    make_branch(vault, "same")
    tip = commit_on(root, "own", {"notes/b.md": "b\n"})

    with pytest.raises(RefusedError, match=r"main: checked out in .*; switch to another branch"):
        remove_branch(vault, "main", force=True)
    with pytest.raises(RefusedError, match="own: has commits that are on no other branch"):
        remove_branch(vault, "own")
    assert git(root, "rev-parse", "own") == tip
    assert remove_branch(vault, "same") == git(root, "rev-parse", "main")
    assert remove_branch(vault, "own", force=True) == tip
    assert git(root, "branch", "--format=%(refname:short)") == "main"


def test_a_branch_that_another_folder_is_on_is_not_removed(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    git(root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    commit_on(root, "rebased", {"notes/a.md": "theirs\n"})
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "own")
    git(tmp_path / "other", "switch", "-q", "rebased")
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "own")
    vault = opened(root)

    with pytest.raises(RefusedError, match=r"rebased: checked out in .*other"):
        remove_branch(vault, "rebased", force=True)
    assert remove_branch(vault, "other", force=True)


def test_branches_are_listed_with_how_far_they_are_apart(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n"})
    vault = opened(root)
    make_branch(vault, "behind", "HEAD~1")
    commit_on(root, "apart", {"notes/b.md": "b\n"}, "one | two")
    commit_on(root, "apart", {"notes/c.md": "c\n"}, "subject\n\nbody")
    git(root, "commit", "-q", "--allow-empty", "-m", "here")

    found = {each.branch.name: each for each in list_branches(vault)}

    assert list(found) == ["apart", "behind", "main"]
    assert [(each.ahead, each.behind) for each in found.values()] == [(2, 1), (0, 2), (0, 0)]
    assert [name for name, each in found.items() if each.is_current] == ["main"]
    assert found["apart"].branch.subject == "subject"
    git(root, "checkout", "-q", "--detach")
    assert not any(each.is_current for each in list_branches(vault))


def test_a_vault_in_a_folder_of_a_repository_lists_the_repositorys_branches(
    home: Path, tmp_path: Path, opened: Open
) -> None:
    git(tmp_path, "init", "-q", "big")
    git(tmp_path / "big", "commit", "-q", "--allow-empty", "-m", "first")
    create_vault(tmp_path / "big/memory").vault.close()
    vault = opened(tmp_path / "big/memory")

    make_branch(vault, "new")

    assert [each.branch.name for each in list_branches(vault)] == ["main", "new"]
