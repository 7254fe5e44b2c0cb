"""Whether a repository is one that vaultmem can write to, found without starting git."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from vaultmem.errors import VaultError
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.runner import find_refusal
from vaultmem.storage.git.work_trees import read_line

_SECTION = re.compile(r'\s*\[\s*([\w.-]+)\s*("(?:[^"\\]|\\.)*")?\s*\]')
_SETTING = re.compile(r"\s*([a-zA-Z][\w-]*)\s*(?:=\s*\"?([^\s\"#;]*))?")


def check_repository(work_tree: Path, git_folder: Path) -> None:
    """Make sure that commits can be made here.

    Raises:
        VaultError: it names objects by SHA-256, keeps refs as git here does not know, has no work
            tree, or is somebody else's.
    """
    if _is_foreign(work_tree, git_folder) and (told := find_refusal(work_tree)):
        if "dubious ownership" in told or "unsafe repository" in told:
            raise VaultError(
                f"{work_tree}: the repository belongs to somebody else, so git does not work in "
                "it; if you trust them, run "
                f"`git config --global --add safe.directory {shlex.quote(str(work_tree))}`"
            )
        raise VaultError(f"{work_tree}: git does not work in it ({told}); mend that first")
    settings = _read_config(common_folder(git_folder) / "config")
    if settings.get("extensions.objectformat", "sha1").lower() != "sha1":
        raise VaultError(
            f"{work_tree}: the repository uses SHA-256 names, which vaultmem does not write; "
            "move the notes into a repository made by `git init --object-format=sha1`"
        )
    refs = settings.get("extensions.refstorage", "files").lower()
    if refs != "files" and find_refusal(work_tree):
        raise VaultError(
            f"{work_tree}: the repository keeps its refs as {refs}, which the git here does not "
            "know; install git 2.45 or newer"
        )
    if _is_bare(git_folder):  # A linked work tree of a bare repository is none.
        raise VaultError(_bare(work_tree))


def refuse_bare(root: Path) -> None:
    """Make sure that a folder is not itself a repository without a work tree.

    Raises:
        VaultError: it is one.
    """
    names = ("objects", "refs")
    if (root / "HEAD").is_file() and all((root / name).is_dir() for name in names):
        raise VaultError(_bare(root))


def find_checkout(git_folder: Path, ref: str) -> str:
    """Return the folder in which a branch is checked out or rebased; "" if in none.

    Git's own files say it, for the main work tree and for linked ones.
    """
    common = common_folder(git_folder)
    if _holds(common, ref) and not _is_bare(common):
        return str(common.parent)
    for head in sorted(common.glob("worktrees/*/HEAD")):
        if _holds(head.parent, ref):
            return str(Path(read_line(head.parent / "gitdir")).parent)
    return ""


def _holds(git_folder: Path, ref: str) -> bool:
    names = ("rebase-merge/head-name", "rebase-apply/head-name")
    held = [read_line(git_folder / name) for name in names]
    return ref in held or read_line(git_folder / "HEAD") == f"ref: {ref}"


def _is_bare(git_folder: Path) -> bool:
    settings = _read_config(git_folder / "config")
    return settings.get("core.bare", "false").lower() not in {"false", "no", "off", "0"}


def _bare(folder: Path) -> str:
    return (
        f"{folder}: a bare repository, which has no files; "
        f"`git clone {shlex.quote(str(folder))}` it and make the vault there"
    )


def _is_foreign(work_tree: Path, git_folder: Path) -> bool:
    """Tell whether git would ask whose these are: not all belong to the user."""
    if os.name != "posix":
        return False
    paths = (work_tree, work_tree / ".git", git_folder)
    try:
        return any(path.lstat().st_uid != os.geteuid() for path in paths)
    except OSError:
        return True


def _read_config(file: Path) -> dict[str, str]:
    """Return the settings of sections without a name of their own; what is included is not read."""
    found: dict[str, str] = {}
    section = ""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for line in text.splitlines():
        if head := _SECTION.match(line):
            section = "" if head[2] else head[1].lower()
            line = line[head.end() :]
        if section and (setting := _SETTING.match(line)):
            value = "true" if setting[2] is None else setting[2]
            found[f"{section}.{setting[1].lower()}"] = value
    return found
