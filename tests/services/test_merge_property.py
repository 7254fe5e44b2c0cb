"""Random edits on two branches of a real repository: no merge loses a line that a side added."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from branching import commit_on, copy_vault, is_clean
from conftest import Open
from core.test_merge_note import Fork, assert_all_said, forks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import git

from vaultmem.core.merging.merge_note import merge_texts
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.merging.merge import merge_branch

#: A few examples of many notes each: what costs time is git, not the notes.
_FEW = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [
        *(HealthCheck.too_slow, HealthCheck.data_too_large),
        *(HealthCheck.function_scoped_fixture, HealthCheck.large_base_example),
    ],
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "vault"
    create_vault(root).vault.close()
    return root


def make_branches(template: Path, root: Path, notes: Sequence[Fork]) -> dict[str, Fork]:
    """Make a vault whose branches `main` and `side` have both sides of these notes."""
    copy_vault(template, root)
    by_path = {f"notes/{number}.md": note for number, note in enumerate(notes)}
    commit_on(root, "main", {path: note.base for path, note in by_path.items()})
    git(root, "branch", "-f", "side", "main")
    commit_on(root, "main", {path: note.ours for path, note in by_path.items()})
    commit_on(root, "side", {path: note.theirs for path, note in by_path.items()})
    git(root, "reset", "-q", "--hard")
    return by_path


def conflicting(by_path: dict[str, Fork]) -> set[str]:
    return {
        path
        for path, note in by_path.items()
        if merge_texts(path, note.base, note.ours, note.theirs).conflicts
    }


def read_note(root: Path, path: str) -> str:
    return (root / path).read_bytes().decode()


def check_nothing_lost(root: Path, by_path: dict[str, Fork]) -> None:
    """What was merged is what the same three texts make, whoever is later."""
    for path, note in by_path.items():
        merged = merge_texts(path, note.base, note.ours, note.theirs)
        found = read_note(root, path)
        if merged.conflicts or merged.losses:
            texts = (path, note.base, note.ours, note.theirs)
            either = [merge_texts(*texts, later) for later in ("ours", "theirs")]
            losses = [loss for side in either for loss in side.losses]
            merged = merged._replace(text=found, losses=tuple(losses))
            assert_all_said(note.base, note.ours, merged)
            assert_all_said(note.base, note.theirs, merged)
        else:
            assert found == merged.text


def _next_folder(folder: Path) -> Path:
    return folder / str(len(list(folder.iterdir())))


@pytest.mark.guarantee
@settings(max_examples=3, **_FEW)
@given(notes=st.lists(forks(), min_size=12, max_size=30))
@pytest.mark.campaign
def test_vaultmem_merge_loses_no_line_of_either_branch(
    home: Path, template: Path, tmp_path: Path, opened: Open, notes: list[Fork]
) -> None:
    root = _next_folder(tmp_path)
    by_path = make_branches(template, root, notes)
    torn = conflicting(by_path)

    done = merge_branch(opened(root), "side")

    assert {conflict.path for conflict in done.conflicts} == torn
    assert all(loss.path in by_path for loss in done.losses)
    check_nothing_lost(root, by_path)
    assert is_clean(root)


@pytest.mark.campaign
@settings(max_examples=2, **_FEW)
@given(notes=st.lists(forks(), min_size=4, max_size=6))
def test_git_merge_with_the_driver_loses_no_line_of_either_branch(
    home: Path, template: Path, tmp_path: Path, notes: list[Fork]
) -> None:
    root = _next_folder(tmp_path)
    by_path = make_branches(template, root, notes)
    command = ["git", "merge", "-q", "--no-edit", "side"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    check_nothing_lost(root, by_path)
