"""All refs of a repository with their history, as one file: git's bundle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.errors import FaultError, RefusedError, VaultError
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.runner import find_complaint

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import History

_BLOCK = 1024 * 1024

#: Refs of one work tree, which mean nothing elsewhere.
_LOCAL = ("refs/bisect/", "refs/rewritten/", "refs/worktree/")


def write_bundle(history: History) -> Iterator[bytes]:
    """Yield a bundle of all refs and HEAD.

    Raises:
        RefusedError: it is a shallow clone, which lacks a part of its history.
        VaultError: git could not read all of it.
    """
    if (common_folder(history.git_folder) / "shallow").exists():
        raise RefusedError(
            "a shallow clone: its older history is not here; run `git fetch --unshallow` first"
        )
    local = (f"--exclude={each}*" for each in _LOCAL)
    process = history.git.start("bundle", "create", "-q", "-", *local, "--all", stdin=None)
    try:
        while block := process.stdout.read(_BLOCK):
            yield block
    finally:
        process.stdout.close()
        told = process.stderr.read().decode(errors="replace")
        status = process.proc.wait()
    if status:
        raise FaultError(f"git bundle failed: {find_complaint(told, status)}")


def take_bundle(history: History, file: Path | None, branch: str, commit: str) -> None:
    """Put what a bundle has into an empty repository, and check out a branch, or a commit alone.

    Without a bundle there is no commit yet. The work tree gets what is outside of the vault's
    folder; the vault's own files are not touched.

    Raises:
        RefusedError: the bundle is damaged, or lacks a part of its history.
    """
    try:
        if file is not None:
            _take_refs(history, file)
        if branch:
            history.git.run("check-ref-format", f"refs/heads/{branch}")
            history.git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        else:
            history.git.run("update-ref", "--no-deref", "HEAD", commit)
        if history.git.run("rev-parse", "-q", "--verify", "HEAD", check=False) != commit:
            raise RefusedError("its history does not have what was checked out")
    except VaultError as error:
        raise RefusedError(f"its history cannot be taken over ({error})") from None
    if commit:
        history.git.run("read-tree", "HEAD")
        _check_out_rest(history)


def _take_refs(history: History, file: Path) -> None:
    """Make each ref, once all that it leads to has proved to be there."""
    listed = history.git.run("bundle", "unbundle", os.fspath(file)).splitlines()
    refs = [line.partition(" ") for line in listed]
    named = [(name, commit) for commit, _, name in refs if name.startswith("refs/")]
    oids = "".join(f"{commit}\n" for commit, _, _ in refs).encode()
    history.git.run("rev-list", "--objects", "--quiet", "--stdin", stdin=oids)
    made = (f"create {name} {commit}\n" for name, commit in named if not name.startswith(_LOCAL))
    history.git.run("update-ref", "--stdin", stdin="".join(made).encode("utf-8", "surrogateescape"))


def _check_out_rest(history: History) -> None:
    """Write the files of the repository that are not the vault's, as a clone has them."""
    listed = history.git.run("ls-files", "-z").split("\0")
    rest = [path for path in listed if path and not path.startswith(history.prefix)]
    if history.prefix and rest:
        stdin = os.fsencode("".join(f"{path}\0" for path in rest))
        history.git.run("checkout-index", "-q", "-z", "--stdin", stdin=stdin)
    history.git.run("update-index", "-q", "--refresh", check=False)
