"""A vault that is moved keeps its counts and receipts; a copy is detected, and the user chooses."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import git

Run = Callable[..., Any]
Make = Callable[..., Path]

NOTES = {"notes/tide.md": "# Tide\n\nThe tide turns at noon.\n"}


@pytest.fixture
def used(make_vault: Make, run_cli: Run) -> Path:
    """Return a vault with an id, two counted queries and a receipt."""
    root = make_vault(NOTES)
    assert run_cli("remember", "The ferry leaves at nine.", cwd=root).code == 0
    run_cli("recall", "tide", cwd=root)
    run_cli("pack", "tide", cwd=root)
    assert _count(run_cli, root) == 2
    return root


def _count(run_cli: Run, root: Path) -> int:
    found = run_cli("stats", "--json", "--vault", root).json
    return int(found["packs"]["calls"] + found["recalls"]["calls"])


def _receipts(run_cli: Run, root: Path) -> int:
    return len(run_cli("receipt", "--json", "--vault", root).json["receipts"])


def _report(run_cli: Run, root: Path) -> dict[str, Any]:
    checks = run_cli("doctor", "--json", "--vault", root).json["checks"]
    return next(each for each in checks if each["name"] == "copied vault")


def test_a_moved_vault_keeps_counts_and_receipts(used: Path, run_cli: Run) -> None:
    moved = used.with_name("elsewhere")
    subprocess.run(["mv", used, moved], check=True)
    assert (_count(run_cli, moved), _receipts(run_cli, moved)) == (2, 1)
    assert run_cli("checkpoint", cwd=moved).code == 0
    subprocess.run(["mv", moved, used], check=True)
    run_cli("recall", "tide", cwd=used)
    assert (_count(run_cli, used), _receipts(run_cli, used)) == (3, 1)
    assert _report(run_cli, used)["verdict"] == "ok"


def test_a_moved_vault_keeps_what_agents_wrote_uncommitted(used: Path, run_cli: Run) -> None:
    run_cli("remember", "The pilot is called Ines.", "--agent", "claude-code", cwd=used)
    moved = used.with_name("elsewhere")
    subprocess.run(["mv", used, moved], check=True)
    run_cli("checkpoint", cwd=moved)
    authors = git(moved, "log", "-3", "--format=%an", "--name-only", "--", "notes/inbox")
    assert "claude-code" in authors


def test_two_vaults_that_change_places_keep_their_own_data(
    used: Path, make_vault: Make, run_cli: Run
) -> None:
    other = make_vault({"notes/ebb.md": "# Ebb\n\nEbb.\n"}, "other")
    run_cli("remember", "The harbour is closed.", cwd=other)
    aside = used.with_name("aside")
    for _ in range(2):
        for source, target in ((used, aside), (other, used), (aside, other)):
            subprocess.run(["mv", source, target], check=True)
        counts = [_count(run_cli, root) for root in (other, used)]
        assert sorted(counts) == [0, 2]
    assert _count(run_cli, used) == 2


@pytest.mark.parametrize("choice", ["here", "there"])
def test_a_copied_vault_is_reported_until_the_user_chooses(
    used: Path, run_cli: Run, choice: str
) -> None:
    copy = used.with_name("copy")
    subprocess.run(["cp", "-r", used, copy], check=True)
    said = run_cli("recall", "tide", cwd=copy)
    assert f"a copy of {used}, which keeps counts and receipts" in said.err
    assert "a copy of" not in run_cli("recall", "tide", cwd=copy).err
    report = _report(run_cli, copy)
    assert (report["verdict"], report["paths"]) == ("warning", [str(used)])
    assert "--keep-data here" in report["remedy"]
    assert _report(run_cli, used)["verdict"] == "ok"
    own = _count(run_cli, copy)

    done = run_cli("doctor", "--keep-data", choice, cwd=copy)
    keeper, loser = (copy, used) if choice == "here" else (used, copy)
    assert f"{keeper} keeps the counts and receipts" in done.err
    assert _count(run_cli, keeper) == (2 + own if choice == "here" else 2)
    assert _count(run_cli, loser) == (0 if choice == "here" else own)
    assert [_report(run_cli, each)["verdict"] for each in (used, copy)] == ["ok", "ok"]
    assert len(list(_files(keeper, run_cli))) >= 1
    assert run_cli("doctor", "--keep-data", "here", cwd=copy).code == 5


def _files(root: Path, run_cli: Run) -> list[Any]:
    return list(run_cli("receipt", "--json", "--vault", root).json["receipts"])


def test_a_copy_whose_original_is_removed_keeps_the_data(used: Path, run_cli: Run) -> None:
    copy = used.with_name("copy")
    subprocess.run(["cp", "-r", used, copy], check=True)
    shutil.rmtree(used)
    assert (_count(run_cli, copy), _receipts(run_cli, copy)) == (2, 1)


def test_clones_and_work_trees_are_no_copies(used: Path, run_cli: Run) -> None:
    clone, tree = used.with_name("clone"), used.with_name("tree")
    git(used, "clone", "-q", str(used), str(clone))
    git(used, "worktree", "add", "-q", str(tree))
    for each in (clone, tree):
        run_cli("remember", f"Written in {each.name}.", cwd=each)
        assert _report(run_cli, each)["verdict"] == "ok"
        assert _count(run_cli, each) == 0
    assert (_count(run_cli, used), _report(run_cli, used)["verdict"]) == (2, "ok")
    ids = {(root / ".git/vaultmem-id").read_text() for root in (used, clone)}
    ids.add((used / ".git/worktrees/tree/vaultmem-id").read_text())
    assert len(ids) == 3


def test_a_vault_gets_its_id_with_the_next_write(make_vault: Make, run_cli: Run) -> None:
    root = make_vault(NOTES)
    (root / ".git/vaultmem-id").unlink()
    run_cli("recall", "tide", cwd=root)
    assert not (root / ".git/vaultmem-id").exists()
    run_cli("remember", "The ferry leaves at nine.", cwd=root)
    assert (root / ".git/vaultmem-id").is_file()
    assert git(root, "status", "--short", "--ignored") == "?? notes/inbox/"
    moved = root.with_name("elsewhere")
    subprocess.run(["mv", root, moved], check=True)
    assert _count(run_cli, moved) == 1


def test_a_vault_inside_a_repository_has_an_id_of_its_own(
    home: Path, tmp_path: Path, run_cli: Run
) -> None:
    project = tmp_path / "project"
    git(tmp_path, "init", "-q", str(project))
    for name in (".memory", "docs"):
        run_cli("init", project / name)
    assert len(list((project / ".git").glob("vaultmem-id-*"))) == 2
    run_cli("recall", "anything", cwd=project / ".memory")
    moved = tmp_path / "renamed"
    subprocess.run(["mv", project, moved], check=True)
    assert _count(run_cli, moved / ".memory") == 1


def test_an_id_that_cannot_be_read_is_ignored(used: Path, run_cli: Run) -> None:
    (used / ".git/vaultmem-id").write_text("../../elsewhere\n")
    assert _count(run_cli, used) == 2
