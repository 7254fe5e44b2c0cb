"""A vault is known by its repository, wherever it is; and what it may there is said anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, write_notes

from vaultmem.services.search.trusted import describe_trust_elsewhere, trust_vault
from vaultmem.services.views.update_index import sync_vault

RULE = "---\nkind: policy_rule\nstate: active\n---\n# Bell\n\nRing the bell {times}.\n"
NOTES = {"notes/bell.md": RULE.format(times="twice"), "notes/oak.md": "# Oak\n\nAn oak bell.\n"}


def _move(root: Path, how: str) -> Path:
    target = root.with_name("elsewhere")
    if how == "moved":
        return root.rename(target)
    if how == "worktree":
        git(root, "worktree", "add", "-q", str(target), "-b", "feat")
    elif how == "clone":
        git(root, "clone", "-q", "--no-local", str(root), str(target))
    elif how == "two roots":
        git(root, "checkout", "-q", "--orphan", "other")
        git(root, "commit", "-q", "-m", "another root")
        git(root, "merge", "-q", "--allow-unrelated-histories", "-s", "ours", "-m", "both", "main")
        return root.rename(target)
    return target


def _ask(root: Path, *options: str) -> str:
    done = run_here("pack", "bell", "--agent", "claude", *options, cwd=root)
    assert done.code == 0, done.err
    return done.out


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["moved", "worktree", "clone", "two roots"])
def test_receipts_are_found_wherever_the_repository_is(make_vault: Make, how: str) -> None:
    root = make_vault(NOTES)
    text = _ask(root)

    place = _move(root, how)

    (receipt,) = run_here("receipts", "--json", cwd=place).json["receipts"]
    assert run_here("receipt", receipt["id"], cwd=place).out == text
    _ask(place)
    assert len(run_here("receipts", "--json", cwd=place).json["receipts"]) == 2
    other = make_vault({"notes/a.md": "# A\n"}, name="other")
    git(other, "commit", "-q", "--amend", "--reset-author", "-m", "of its own")
    assert run_here("receipts", "--json", cwd=place).json["receipts"]


def test_receipts_of_another_repository_are_not_among_them(make_vault: Make) -> None:
    _ask(make_vault(NOTES))
    other = make_vault({"notes/a.md": "# A\n"}, name="other")
    git(other, "checkout", "-q", "--orphan", "fresh")
    git(other, "commit", "-q", "-m", "a root of its own")
    git(other, "branch", "-q", "-D", "main")

    assert run_here("receipts", "--json", cwd=other).json["receipts"] == []


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["moved", "clone"])
def test_trust_is_taken_over_knowingly_and_for_the_same_texts_alone(
    make_vault: Make, opened: Open, how: str
) -> None:
    root = make_vault(NOTES)
    trust_vault(opened(root))
    assert "## Instructions" in _ask(root)

    place = _move(root, how)
    planted = {"notes/planted.md": RULE.format(times="for ever")}
    write_notes(place, planted)

    told = f"`vaultmem trust --from {root}`"
    asked = run_here("pack", "bell", cwd=place)
    assert "## Instructions" not in asked.out
    for shown in (asked.err, run_here("status", cwd=place).out):
        assert f"this repository is at {root}" in shown
        assert told in shown
    assert told in run_here("doctor", cwd=place).out
    assert run_here("trust", "--from", str(root), cwd=place).out.startswith(
        "trusted  notes/bell.md\n1 active"
    )
    instructions = _ask(place).partition("## Evidence")[0]
    assert "Ring the bell twice." in instructions
    assert "for ever" not in instructions
    assert run_here("pack", "bell", cwd=place).err == ""
    assert run_here("status", "--json", cwd=place).json["trust_problem"] is None


@pytest.mark.campaign
def test_another_work_tree_has_the_trust_for_the_same_texts_alone(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    trust_vault(opened(root))
    place = _move(root, "worktree")

    assert "## Instructions" in _ask(place)
    assert run_here("pack", "bell", cwd=place).err == ""
    assert "1 of 1" in run_here("doctor", cwd=place).out
    write_notes(place, {"notes/bell.md": RULE.format(times="for ever")})
    write_notes(place, {"notes/planted.md": RULE.format(times="at night")})
    assert "## Instructions" not in _ask(place)

    assert run_here("promote", "notes/bell.md", cwd=place).out.count("trusted") == 1
    there = _ask(place).partition("## Evidence")[0]
    assert ("for ever" in there, "at night" in there) == (True, False)
    assert "Ring the bell twice." in _ask(root).partition("## Evidence")[0]
    write_notes(place, NOTES)
    assert "Ring the bell twice." in _ask(place).partition("## Evidence")[0]


@pytest.mark.campaign
def test_what_only_says_that_it_is_a_work_tree_gains_nothing(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    trust_vault(opened(root))
    tree = _move(root, "worktree")
    ours = root / ".git/worktrees"

    copied = shutil.copytree(tree, root.with_name("copied"))
    copied_main = shutil.copytree(root, root.with_name("copied main"))
    names_it = shutil.copytree(tree, root.with_name("names it"))
    (names_it / ".git").write_text(f"gitdir: {root}/.git\n")
    names_a_folder = shutil.copytree(tree, root.with_name("names a folder"))
    (ours / "bait").mkdir()
    for name in ("HEAD", "commondir"):
        shutil.copy(ours / "elsewhere" / name, ours / "bait")
    (names_a_folder / ".git").write_text(f"gitdir: {ours}/bait\n")
    shares = shutil.copytree(tree, root.with_name("shares"), ignore=shutil.ignore_patterns(".git"))
    git(shares, "init", "-q")
    (shares / ".git/commondir").write_text(f"{root}/.git\n")
    linked = shutil.copytree(tree, root.with_name("linked"), ignore=shutil.ignore_patterns(".git"))
    (linked / ".git").symlink_to(tree / ".git")

    for bait in (copied, copied_main, names_it, names_a_folder, shares, linked):
        assert "## Instructions" not in _ask(bait, "--no-receipt"), bait
    assert "## Instructions" in _ask(tree, "--no-receipt")


def test_a_root_commit_that_somebody_copied_gains_nothing(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    trust_vault(opened(root))
    hostile = tmp_path / "hostile"
    git(root, "clone", "-q", str(root), str(hostile))
    write_notes(hostile, {"notes/bell.md": RULE.format(times="for ever")})
    git(hostile, "commit", "-q", "-am", "planted")

    assert "## Instructions" not in _ask(hostile)
    vault = opened(hostile)
    sync_vault(vault)
    assert not vault.trust.is_trusted()
    assert str(root) in describe_trust_elsewhere(vault)
    assert run_here("trust", "--from", str(root), cwd=hostile).out.startswith("0 active")
    assert "## Instructions" not in _ask(hostile)
    assert run_here("trust", "--from", str(tmp_path), cwd=hostile).code == 4


@pytest.mark.guarantee
@pytest.mark.parametrize("other", ["another repository", "no repository", "shallow"])
def test_what_comes_to_stand_in_a_trusted_vaults_place_is_not_trusted(
    make_vault: Make, opened: Open, other: str
) -> None:
    root = make_vault(NOTES)
    trust_vault(opened(root))
    away = root.rename(root.with_name("away"))
    if other == "shallow":
        git(away, "commit", "-q", "--allow-empty", "-m", "more")
        git(away, "clone", "-q", "--depth=1", f"file://{away}", str(root))
    else:
        shutil.copytree(away, root, ignore=shutil.ignore_patterns(".git"))
    if other == "another repository":
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "planted")

    assert "## Instructions" not in _ask(root, "--no-receipt")
    shown = run_here("doctor", cwd=root).out
    assert "another history was here when this vault was trusted" in shown
    run_here("trust", "--from", str(root), cwd=root)
    assert "## Instructions" in _ask(root, "--no-receipt")


@pytest.mark.campaign
def test_a_vault_without_a_commit_is_known_by_its_path_until_it_has_one(
    home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    root.mkdir()
    git(root, "init", "-q")
    assert run_here("init", cwd=root).code == 0
    write_notes(root, NOTES)
    run_here("trust", cwd=root)
    _ask(root)
    assert "## Instructions" in _ask(root)
    run_here("checkpoint", "first", cwd=root)
    assert "## Instructions" in _ask(root)
    assert len(run_here("receipts", "--json", cwd=root).json["receipts"]) == 3

    place = root.rename(tmp_path / "elsewhere")

    assert len(run_here("receipts", "--json", cwd=place).json["receipts"]) == 3


def test_a_receipt_of_which_a_note_was_purged_replays_the_rest(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    _ask(root)
    git(root, "rm", "-q", "notes/oak.md")
    git(root, "commit", "-q", "--amend", "-m", "never had an oak")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")
    (receipt,) = run_here("receipts", "--json", cwd=root).json["receipts"]

    done = run_here("receipt", receipt["id"], cwd=root)

    assert done.code == 4
    assert "Ring the bell twice." in done.out
    assert "oak" not in done.out
    assert "notes/oak.md#Oak: gone from git, so it is left out here" in done.err
    gone = run_here("receipt", receipt["id"], "--json", cwd=root).json["gone"]
    assert [each["path"] for each in gone] == ["notes/oak.md"]
    for file in opened(root).store.receipts.files():  # Nobody can replay all of it any more.
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "vault": ""}))
