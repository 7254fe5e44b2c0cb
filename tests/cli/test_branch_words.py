"""What commands say of branches: where a write landed, what parted, and how a branch goes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from branching import NOTE, change, commit_on, is_clean, list_refs, look_around
from in_process import run_here
from support import git, write_notes


def lay(root: Path) -> None:
    """Make a vault whose branch `side` and whose main have each a commit that the other has not."""
    commit_on(root, "main", {"notes/a.md": NOTE, "notes/b.md": "The buoy is red.\n"})
    git(root, "branch", "side", "main")
    commit_on(root, "main", {"notes/a.md": change(NOTE, "weekly", "daily")}, "on main")
    commit_on(root, "side", {"notes/c.md": "The crane is blue.\n"}, "on side")
    git(root, "reset", "-q", "--hard")


@pytest.mark.campaign
def test_a_write_says_on_which_branch_it_landed(root: Path) -> None:
    done = run_here("remember", "The dock is green.", "--branch", "side", cwd=root)
    asked = run_here("--ref", "side", "tag", "c", "sea", "--json", cwd=root).json
    again = run_here("--ref", "side", "tag", "c", "sea", "--json", cwd=root).json
    here = run_here("remember", "The east pier is closed.", "--branch", "main", cwd=root)
    here_json = run_here("tag", "a", "sea", "--json", cwd=root).json

    remembered, where = done.out.splitlines()
    assert remembered.startswith("remembered  notes/inbox/")
    assert where == "on  side, which is not checked out"
    assert asked["ref"] == "side"
    assert here.out.count("\n") == 1
    assert "ref" not in {**again, **here_json}


@pytest.mark.campaign
def test_the_branch_that_is_checked_out_is_said_once(root: Path) -> None:
    asked = ("--include-refs", "main,side")
    found = run_here("recall", "crane buoy rotation", *asked, "--json", cwd=root).json["hits"]
    shown = run_here("recall", "rotation", *asked, cwd=root).out
    alone = run_here("recall", "rotation", "--include-refs", "main", "--json", cwd=root).json
    pack = run_here("pack", "crane", *asked, cwd=root).out

    assert {each["path"]: each["refs"] for each in found if each["path"] != "notes/a.md"} == {
        "notes/b.md": ["main", "side"],
        "notes/c.md": ["side"],
    }
    assert sorted(each["refs"] for each in found if each["path"] == "notes/a.md") == [
        *(["main"], ["side"])
    ]
    assert "main, main" not in shown
    assert [each["refs"] for each in alone["hits"]] == [[]]
    tips = [git(root, "rev-parse", "--short=7", name) for name in ("main", "side")]
    assert pack.startswith(f"# Context  (vault main@{tips[0]}, side@{tips[1]}, ")


def test_three_dots_show_what_a_branch_has_since_the_two_parted(root: Path) -> None:
    both = run_here("diff", "main", "side", "--brief", cwd=root).out
    parted = run_here("diff", "main...side", "--brief", cwd=root)
    ours = run_here("diff", "side...", "--json", cwd=root).json

    assert "notes/a.md" in both
    assert (parted.code, parted.out.count("\n")) == (0, 1)
    assert parted.out.startswith("added    notes/c.md")
    assert [each["path"] for each in ours] == ["notes/a.md"]


def test_a_log_of_what_one_branch_has_and_the_other_has_not(root: Path) -> None:
    run_here("remember", "The dock is green.", "--branch", "side", cwd=root)

    found = run_here("log", "main..side", "--all", "--json", cwd=root).json["commits"]
    ours = run_here("log", "side..", "--all", "--json", cwd=root).json["commits"]
    none = run_here("log", "side..main", cwd=root)
    no_range = run_here("log", "side", cwd=root)
    unknown = run_here("log", "main..nowhere", cwd=root)

    assert [each["event"] for each in found] == ["write", ""]
    assert [each["subject"] for each in ours] == ["on main"]
    assert none.out == "No event matches.\n"
    assert (no_range.code, "--ref" in no_range.err) == (2, True)
    assert (unknown.code, "nowhere: no branch" in unknown.err) == (4, True)


def test_a_branch_that_is_not_checked_out_goes_back_and_can_come_again(root: Path) -> None:
    before, tip = look_around(root), git(root, "rev-parse", "side")

    done = run_here("branch", "--reset", "side", "side~1", cwd=root)
    moved = git(root, "rev-parse", "side")
    [kept] = [line.split() for line in list_refs(root).splitlines() if "/vaultmem/" in line]
    undo = done.out.splitlines()[1].split("`")[1].split()
    again = run_here(*undo[1:], "--json", cwd=root).json

    assert moved == git(root, "rev-parse", f"{tip}~1")
    assert done.out.startswith(f"reset  side  to {moved[:7]}, from {tip[:7]}\n")
    assert kept[0].startswith("refs/vaultmem/backup/side-2")
    assert kept[1] == tip
    assert undo == ["vaultmem", "branch", "--reset", "side", kept[0]]
    assert again == {
        "branch": "side",
        "commit": tip,
        "before": moved,
        "files": 0,
        "backup": again["backup"],
    }
    assert again["backup"] != kept[0]
    assert git(root, "rev-parse", "side", again["backup"]).split() == [tip, moved]
    assert look_around(root) == before


@pytest.mark.campaign
def test_the_files_follow_where_the_branch_is_checked_out(root: Path) -> None:
    tip = git(root, "rev-parse", "main")

    done = run_here("branch", "--reset", "main", "side", cwd=root)
    found = run_here("recall", "crane", "--json", cwd=root).json["hits"]
    undo = done.out.splitlines()[1].split("`")[1].split()

    assert (root / "notes/c.md").read_text() == "The crane is blue.\n"
    assert "weekly" in (root / "notes/a.md").read_text()
    assert "2 files changed" in done.out
    assert [each["path"] for each in found] == ["notes/c.md"]
    assert is_clean(root)
    assert run_here(*undo[1:], cwd=root).code == 0
    assert (git(root, "rev-parse", "main"), is_clean(root)) == (tip, True)
    assert not (root / "notes/c.md").exists()


def test_what_keeps_a_branch_where_it_is(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "other"), "side")
    before, refs = look_around(root), list_refs(root)

    elsewhere = run_here("branch", "--reset", "side", "main", cwd=root)
    nowhere = run_here("branch", "--reset", "main", cwd=root)
    unknown = run_here("branch", "--reset", "harbour", "main", cwd=root)
    both = run_here("branch", "--reset", "--delete", "side", cwd=root)
    same = run_here("branch", "--reset", "main", "HEAD", "--json", cwd=root).json
    assert (look_around(root), list_refs(root)) == (before, refs)
    write_notes(root, {"notes/b.md": "The buoy is yellow.\n"})
    changed = run_here("branch", "--reset", "main", "side", cwd=root)

    assert (elsewhere.code, str(tmp_path / "other") in elsewhere.err) == (5, True)
    assert (nowhere.code, "say which commit" in nowhere.err) == (5, True)
    assert (unknown.code, both.code) == (4, 2)
    assert (same["backup"], same["files"]) == (None, 0)
    assert (changed.code, "vaultmem checkpoint" in changed.err) == (7, True)
    assert list_refs(root) == refs
    assert (root / "notes/b.md").read_text() == "The buoy is yellow.\n"
