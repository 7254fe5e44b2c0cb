"""Anchors in a real repository: edited, committed, renamed, removed, rewritten, or not there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Make
from projects_world import run_git

from vaultmem.core.anchors import Anchor, parse_anchor
from vaultmem.errors import VaultError
from vaultmem.services.anchors.check import CitedAnchor, check_anchors
from vaultmem.services.projects.project_table import ensure_project
from vaultmem.services.watching.idle import IdleTasks
from vaultmem.storage.git.code_files import SearchLimit
from vaultmem.storage.git.runner import GitRunner
from vaultmem.vault import Vault

CODE = """\
LIMIT = 3


def refund_limit(amount):
    return min(amount, LIMIT)


def pay(amount):
    return amount - refund_limit(amount)
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code/shop"
    (folder / "src").mkdir(parents=True)
    run_git(folder, "init", "-q")
    (folder / "src/limit.py").write_text(CODE)
    commit(folder, "Begin")
    return folder


@pytest.fixture
def vault(make_vault: Make, opened: Callable[..., Vault], code: Path) -> Vault:
    vault = opened(make_vault())
    ensure_project(vault, code)
    return vault


def commit(folder: Path, subject: str) -> str:
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", subject)
    return run_git(folder, "rev-parse", "HEAD")


def pin(code: Path, place: str) -> Anchor:
    """Return an anchor to a place as HEAD has it."""
    anchor = parse_anchor(place)
    assert anchor is not None
    head = run_git(code, "rev-parse", "HEAD")
    blob = run_git(code, "rev-parse", f"HEAD:{anchor.path}")
    return anchor._replace(commit=head[:10], blob=blob[:10])


def check(
    vault: Vault, *anchors: Anchor, project: str = "shop", limit: SearchLimit | None = None
) -> list[str]:
    found = check_anchors(vault, [CitedAnchor(each, project) for each in anchors], limit)
    return ["" if each is None else each.verdict for each in found]


def test_anchors_hold_until_their_own_lines_change(vault: Vault, code: Path) -> None:
    anchors = [pin(code, f"src/limit.py{part}") for part in ("", "#L4-5", ":refund_limit", ":pay")]
    assert check(vault, *anchors) == ["holds"] * 4
    file = code / "src/limit.py"
    file.write_text("import os\n\n" + CODE.replace("return amount -", "return 2 * amount -"))
    since = anchors[0].commit[:4]
    changed = [f"changed since {since} (3 lines)", "holds", "holds"]
    assert check(vault, *anchors) == [*changed, f"changed since {since} (1 line)"]
    commit(code, "Pay twice")
    assert check(vault, *anchors) == [*changed, f"changed since {since} (1 line)"]
    file.write_text(CODE)
    assert check(vault, *anchors) == ["holds"] * 4


def test_what_was_checked_is_not_checked_again(
    vault: Vault, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchors = [pin(code, f"src/limit.py#L{line}") for line in range(1, 10)]
    (code / "src/limit.py").write_text(CODE.replace("LIMIT = 3", "LIMIT = 4"))
    started: list[tuple[str, ...]] = []
    start = GitRunner.start

    def count(self: GitRunner, *words: str, **given: object) -> object:
        started.append(words)
        return start(self, *words, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(GitRunner, "start", count)
    first = check(vault, *anchors)
    assert len(started) == 1
    assert check(vault, *anchors) == first
    assert len(started) == 1


def test_a_renamed_file_is_followed(vault: Vault, code: Path) -> None:
    holds, changes = pin(code, "src/limit.py:pay"), pin(code, "src/limit.py#L5")
    run_git(code, "mv", "src/limit.py", "src/bounds.py")
    assert check(vault, holds) == ["moved to src/bounds.py"]
    (code / "src/bounds.py").write_text(CODE.replace("min(amount", "max(amount"))
    commit(code, "Rename limit")
    run_git(code, "mv", "src/bounds.py", "top.py")
    commit(code, "Move bounds to the top")
    assert check(vault, holds, changes) == ["moved to top.py", "moved to top.py, changed (1 line)"]


def test_a_name_that_came_back_is_not_followed(vault: Vault, code: Path) -> None:
    anchor = pin(code, "src/limit.py:pay")
    run_git(code, "mv", "src/limit.py", "src/bounds.py")
    commit(code, "Rename limit")
    run_git(code, "mv", "src/bounds.py", "src/limit.py")
    commit(code, "Rename it back")
    run_git(code, "rm", "-q", "src/limit.py")
    commit(code, "Remove limit")
    assert check(vault, anchor) == ["gone"]


def test_a_renamed_file_is_followed_without_the_cited_commit(vault: Vault, code: Path) -> None:
    anchor = pin(code, "src/limit.py#L5")._replace(commit="0123456789")
    run_git(code, "mv", "src/limit.py", "src/bounds.py")
    (code / "src/bounds.py").write_text(CODE.replace("min(amount", "max(amount"))
    commit(code, "Rename limit")
    assert check(vault, anchor) == ["moved to src/bounds.py, changed (1 line)"]


def test_the_watcher_completes_what_a_query_does_not_wait_for(vault: Vault, code: Path) -> None:
    (code / "src/other.py").write_text(CODE)
    commit(code, "Add other")
    anchors = [pin(code, "src/other.py:pay"), pin(code, "src/limit.py:pay")]
    run_git(code, "mv", "src/other.py", "src/same.py")
    (code / "src/limit.py").write_text(CODE.replace("return amount -", "return 2 * amount -"))
    commit(code, "Rename other")
    changed = f"changed since {anchors[0].commit[:4]} (1 line)"

    def query() -> list[str]:
        return check(vault, *anchors, limit=SearchLimit(0))

    assert query() == ["cannot tell here", changed]
    IdleTasks(vault).check_anchors()
    assert query() == ["moved to src/same.py", changed]
    (code / "README").write_text("Another commit\n")
    commit(code, "Add a readme")
    assert query() == ["moved to src/same.py", changed]


def test_git_is_ended_at_the_deadline(code: Path) -> None:
    git = GitRunner(code, code / ".git")
    git.deadline = time.monotonic() + 0.2
    process = git.start("cat-file", "--batch")
    assert process.stdout.read() == b""  # It would wait for a name.
    with pytest.raises(VaultError, match="not done in time"):
        git.run("rev-parse", "HEAD")


def test_lines_are_found_in_another_file(vault: Vault, code: Path) -> None:
    anchors = [pin(code, "src/limit.py:pay"), pin(code, "src/limit.py#L4-5")]
    rest, pay = CODE[: CODE.index("def pay")], CODE[CODE.index("def pay") :]
    (code / "src/limit.py").write_text(rest.rstrip() + "\n")
    (code / "src/pay.py").write_text(f"from limit import refund_limit\n\n\n{pay}")
    commit(code, "Split pay from limit")
    assert check(vault, *anchors) == ["moved to src/pay.py", "holds"]


def test_a_removed_file_is_gone(vault: Vault, code: Path) -> None:
    anchor = pin(code, "src/limit.py#L4-5")
    (code / "src/limit.py").unlink()
    assert check(vault, anchor) == ["gone"]
    (code / "README").write_text("Nothing is left.\n")
    commit(code, "Remove limit")
    assert check(vault, anchor) == ["gone"]


def test_a_rewritten_history_is_known_by_the_blob(vault: Vault, code: Path) -> None:
    anchor = pin(code, "src/limit.py:pay")._replace(commit="0123456789")
    (code / "src/limit.py").write_text(CODE.replace("- refund", "+ refund"))
    assert check(vault, anchor) == ["changed since 0123 (1 line)"]
    assert check(vault, anchor._replace(blob="0123456789")) == ["cannot tell here"]


def test_a_repository_that_is_not_here_cannot_tell(vault: Vault, code: Path) -> None:
    anchor = pin(code, "src/limit.py:pay")
    assert check(vault, anchor, project="harbour") == ["cannot tell here"]
    assert check(vault, anchor._replace(project="shop"), project="harbour") == ["holds"]
    shutil.rmtree(code)
    assert check(vault, anchor) == ["cannot tell here"]


@pytest.mark.parametrize("path", ["../shop/src/limit.py", ".git/config", "src"])
def test_only_files_of_the_work_tree_are_read(vault: Vault, code: Path, path: str) -> None:
    outside = Anchor(path, commit=run_git(code, "rev-parse", "HEAD")[:10])
    assert check(vault, outside) == ["cannot tell here"]
    assert check(vault, Anchor(path)) == [""]


def test_a_link_is_not_followed(vault: Vault, code: Path, tmp_path: Path) -> None:
    anchor = pin(code, "src/limit.py#L1")
    (code / "src/limit.py").rename(tmp_path / "limit.py")
    (code / "src/limit.py").symlink_to(tmp_path / "limit.py")
    assert check(vault, anchor) == ["cannot tell here"]
