"""Read HEAD and unmerged paths from git's own files, without starting git."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

# The unmerged files in git's index, read without starting git.
#
# A merge, a rebase or `git stash pop` leaves them. After a stash pop nothing else shows it.

_HEAD = struct.Struct(">4sII")
#: In an entry, times, device, mode, owner, size and id are before the flags, the name after.
_FLAGS, _FLAGS_AT, _NAME_AT = struct.Struct(">H"), 60, 62
_STAGE, _EXTENDED, _LENGTH = 0x3000, 0x4000, 0xFFF


def read_unmerged(git: Path) -> frozenset[str]:
    """Return the unmerged paths in a git folder's index, relative to its work tree.

    The result is empty if the index is missing or unreadable; git itself reports that.
    """
    try:
        data = (git / "index").read_bytes()
        signature, version, count = _HEAD.unpack_from(data)
        if signature != b"DIRC" or version not in {2, 3, 4}:
            return frozenset()
        walk = _walk_compressed(data, count) if version == 4 else _walk(data, count)
        return frozenset(name.decode("utf-8", "surrogateescape") for name in walk)
    except (OSError, ValueError, IndexError, struct.error):
        return frozenset()


def _walk(data: bytes, count: int) -> Iterator[bytes]:
    """Yield the names in conflict. Source: gitformat-index(5), versions 2 and 3."""
    at = _HEAD.size
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(data, at + _FLAGS_AT)
        start = at + _NAME_AT + (2 if flags & _EXTENDED else 0)
        length = flags & _LENGTH
        end = data.index(0, start) if length == _LENGTH else start + length
        if flags & _STAGE:
            yield data[start:end]
        at += (end - at + 8) & ~7


def _walk_compressed(data: bytes, count: int) -> Iterator[bytes]:
    """Yield the names in conflict if each is stored as a difference to the previous (version 4)."""
    at, name = _HEAD.size, b""
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(data, at + _FLAGS_AT)
        at += _NAME_AT + (2 if flags & _EXTENDED else 0)
        strip_length = data[at] & 0x7F
        while data[at] & 0x80:
            at += 1
            strip_length = ((strip_length + 1) << 7) + (data[at] & 0x7F)
        end = data.index(0, at + 1)
        name = name[: len(name) - strip_length] + data[at + 1 : end]
        if flags & _STAGE:
            yield name
        at = end + 1


#: Files or folders in the git folder that show an operation in progress.
_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply/applying": "am",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}

#: Files that exist once a rebase has begun; without one, it can neither continue nor abort.
_REBASE_STATE_FILES = ("rebase-merge/orig-head", "rebase-apply/orig-head")


class GitHead(NamedTuple):
    """The checked-out branch ("" if detached) and its commit ("" before the first)."""

    branch: str
    commit: str


def find_git_folder(root: Path) -> tuple[Path, Path] | None:
    """Return the work tree that contains a folder, and its git folder; None without git.

    As in git itself, a `.git` file with an invalid target ends the search.
    """
    for folder in chain((root,), root.parents):
        git = folder / ".git"
        if git.is_dir() and (git / "HEAD").is_file():
            return folder, git
        if git.is_file():
            text = git.read_text(encoding="utf-8", errors="surrogateescape").strip()
            target = folder / text.removeprefix("gitdir:").strip()
            if text.startswith("gitdir:") and (target / "HEAD").is_file():
                return folder, target.resolve()
            return None
    return None


def find_broken_git(root: Path) -> Path | None:
    """Return the `.git` file at or above a folder that has an invalid target, or None."""
    candidates = (folder / ".git" for folder in (root, *root.parents))
    return next(
        (git for git in candidates if git.is_file() and not find_git_folder(git.parent)), None
    )


def read_head(git: Path) -> GitHead | None:
    """Return the branch and commit of HEAD; None if only git can read it."""
    text = read_line(git / "HEAD")
    if not text.startswith("ref: "):
        return GitHead("", text) if text else None
    name = text.removeprefix("ref: ")
    if name == "refs/heads/.invalid":
        return None
    common = common_folder(git)
    return GitHead(name.removeprefix("refs/heads/"), _read_ref(git, common, name))


def read_branch(git: Path, name: str) -> str:
    """Return a branch's commit, "" if only git can read it."""
    return _read_ref(git, common_folder(git), f"refs/heads/{name}")


def read_refs(git: Path, prefix: str = "refs/") -> dict[str, str] | None:
    """Return the commit of each ref below a name, sorted by name.

    Return None if there is no repository, or if only git can read its refs.
    """
    common = common_folder(git)
    if read_head(git) is None or not (common / "objects").is_dir():
        return None
    loose = _read_loose_refs(common, prefix)  # First: git packs them before it removes them.
    try:
        with open(common / "packed-refs", encoding="utf-8", errors="surrogateescape") as file:
            rows = (line.rstrip("\n").partition(" ") for line in file if line[:1] not in "#^")
            refs = {ref: commit for commit, _, ref in rows if ref.startswith(prefix)}
    except FileNotFoundError:
        refs = {}
    except OSError:
        return None
    refs |= loose
    if any(len(commit) != 40 for commit in refs.values()):
        return None
    return dict(sorted(refs.items()))


def _read_loose_refs(common: Path, prefix: str) -> dict[str, str]:
    refs = {}
    for folder, _, names in os.walk(common / prefix):
        for name in names:
            path = Path(folder, name)
            # A file that vanished was packed, or its ref was deleted.
            with contextlib.suppress(FileNotFoundError):
                if not name.endswith(".lock"):
                    text = path.read_text(encoding="utf-8", errors="surrogateescape")
                    refs[path.relative_to(common).as_posix()] = text.strip()
    return refs


def find_operation(git: Path) -> str:
    """Return the git command in progress, such as "rebase"; "" if there is none."""
    return next((command for name, command in _OPERATIONS.items() if (git / name).exists()), "")


def find_commit_blocker(git: Path, may_be_detached: bool = False, prefix: str = "") -> str:
    """Return why no commit can be made now and how to end that, "" if one can.

    `prefix` is the vault's folder in the repository.
    """
    unmerged, operation = read_unmerged(git), find_operation(git)
    is_ours = any(path.startswith(prefix) for path in unmerged)
    if operation:
        article = "an" if operation == "am" else "a"
        return f"{article} {operation} is under way; {_format_remedy(git, operation, is_ours)}"
    if unmerged:
        suffix = f" and {len(unmerged) - 1} more" if len(unmerged) > 1 else ""
        remedy = "`vaultmem resolve --all` settles it" if is_ours else "edit it, then `git add` it"
        return f"{min(unmerged)}{suffix} in conflict; {remedy}"
    head = read_head(git)
    if head is not None and not head.branch and not may_be_detached:
        return (
            "no branch is checked out (HEAD is detached); `vaultmem switch --create NAME` makes "
            "one here"
        )
    return ""


def _format_remedy(git: Path, operation: str, is_unmerged: bool) -> str:
    if operation == "merge":
        return "`vaultmem resolve --all` ends it"
    if operation == "bisect":
        return "`git bisect reset` ends it"
    if operation == "rebase" and not any((git / name).exists() for name in _REBASE_STATE_FILES):
        return "its git was killed before it began; `git rebase --quit` ends it"
    if is_unmerged:
        return "`vaultmem resolve --all` settles it"
    return f"`git {operation} --continue` goes on, `git {operation} --abort` takes it back"


def find_pull(work_tree: Path) -> str:
    """Return why no commit can be made while `git pull` runs in a work tree, "" if none runs.

    `git pull` assumes that HEAD has not moved since before the fetch. If it moved, pull fails and
    advises to discard uncommitted changes. Only the process shows that a pull is running.
    """
    from vaultmem.storage.lock import find_commands

    root = os.fspath(work_tree)
    pulls = (folder == root and "pull" in words for words, folder in find_commands("git"))
    return "`git pull` is at work here; wait for it" if any(pulls) else ""


def is_plain_clone(root: Path) -> bool:
    """Return whether a repository has a remote and lacks vaultmem's merge driver.

    Only the repository's own config file is read, not its includes.
    """
    folders = find_git_folder(root)
    try:
        text = (common_folder(folders[1]) / "config").read_bytes() if folders else b""
    except OSError:
        return False
    return b'[remote "' in text and b'[merge "vaultmem"]' not in text


def read_shallow(git: Path) -> frozenset[str]:
    """Return the commits at which a shallow clone's history ends; empty for a full clone."""
    return frozenset(read_line(common_folder(git) / "shallow").split())


def common_folder(git: Path) -> Path:
    """Return the git folder that all work trees of a repository share."""
    common = read_line(git / "commondir")
    return (git / common).resolve() if common else git


def read_line(file: Path) -> str:
    """Return the stripped text of a small git file, "" if it cannot be read."""
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""


def _read_ref(git: Path, common: Path, name: str) -> str:
    for folder in (git, common):
        try:
            return (folder / name).read_text(encoding="utf-8", errors="surrogateescape").strip()
        except OSError:
            continue
    try:
        text = (common / "packed-refs").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    for line in text.splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return ""
