"""The work trees of one repository, by git's own files, found without starting git."""

from __future__ import annotations

import os
from pathlib import Path

from vaultmem.storage.git.head import common_folder, find_git_folder


def list_beside(folder: Path) -> list[Path]:
    """Return where a folder is in the other work trees of its repository.

    They are those that git's files tie to its own, both ways: what names this repository as its
    own, and is not named by it, is a copy or somebody's bait. All of it belongs to the user, and
    no link leads there.
    """
    found = find_git_folder(folder)
    if found is None:
        return []
    work_tree, common = found[0], common_folder(found[1])
    heads = sorted(common.glob("worktrees/*/gitdir"))
    if not heads or not _is_tied(work_tree, common):
        return []
    named = [common.parent, *(Path(read_line(head)).parent for head in heads)]
    others = {place: None for place in map(_resolve, named) if place and place != work_tree}
    inside = folder.relative_to(work_tree)
    return [place / inside for place in others if _is_tied(place, common)]


def _is_tied(work_tree: Path, common: Path) -> bool:
    """Tell whether a work tree names a repository, and the repository names it."""
    git = work_tree / ".git"
    found = find_git_folder(work_tree)
    if found is None or found[0] != work_tree or git.is_symlink():
        return False
    folder = found[1]
    if common_folder(folder) != common or not _is_own(git, folder, common):
        return False
    if folder == git:  # The main work tree: its git folder is what all share.
        return folder.resolve() == common.resolve()
    is_listed = folder.parent.name == "worktrees" and folder.parent.parent == common.resolve()
    return is_listed and _resolve(Path(read_line(folder / "gitdir"))) == git


def _resolve(path: Path) -> Path | None:
    """Return a path without links on the way, None if it leads nowhere."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def _is_own(*paths: Path) -> bool:
    """Tell whether all of these belong to the user."""
    try:
        return os.name != "posix" or all(p.lstat().st_uid == os.geteuid() for p in paths)
    except OSError:
        return False


def read_line(file: Path) -> str:
    """Return what a small file of git's says, "" where there is none."""
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""
