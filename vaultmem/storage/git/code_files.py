"""Read versions of files in a code repository, with one git process per kind of query."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.files import read_file
from vaultmem.storage.git.head import find_git_folder, read_head
from vaultmem.storage.git.objects import ObjectReader
from vaultmem.storage.git.repository import list_file_commits, open_repository
from vaultmem.storage.git.runner import GitRunner

#: Larger files are not read.
MAX_BYTES = 4 * 1024 * 1024

#: Commits searched for the removal of a file, and renames followed for one file.
_MAX_COMMITS = 5_000
_MAX_RENAMES = 20

#: Maximum number of paths for rename detection; above it, git searches whole commits.
_MAX_NAMES = 1_000

#: Git's options to list renames, and the number of paths after each status letter.
_RENAMES = ("-z", "--no-ext-diff", "--no-textconv", "-M", "--diff-filter=R", "--name-status")
_CHANGES = {"A": 1, "D": 1, "R": 2}


class CodeRepository(NamedTuple):
    """A repository on this machine: the top of its work tree, and its git folder."""

    top: Path
    git_folder: Path

    def read_head(self) -> str:
        """Return the checked-out commit, "" before the first one."""
        head = read_head(self.git_folder)
        if head is not None:
            return head.commit
        git = self.open()
        return git.run("rev-parse", "-q", "--verify", "HEAD", check=False) if git else ""

    def read_present(self, path: str) -> bytes | None:
        """Return the bytes of a file in the work tree; None if there is no such regular file.

        Raises:
            UnsafeFileError: the path leads through a link, or the file is too large.
        """
        try:
            return read_file(self.top, PurePosixPath(path), MAX_BYTES)
        except (NoteNotFoundError, NotADirectoryError):
            return None

    def open(self) -> GitRunner | None:
        """Return a runner of git for the repository, None if git refuses to work in it."""
        try:
            return open_repository(self.top)
        except VaultError:
            return None


class SearchLimit:
    """Time limit in seconds for git's searches; reading a version is not limited.

    `is_over` is set when a search was stopped. After an `is_final` limit, no search is repeated.
    """

    def __init__(self, seconds: float = math.inf, is_final: bool = False) -> None:
        self._remaining_seconds = seconds
        self.is_over = False
        self.is_final = is_final

    @contextlib.contextmanager
    def apply(self, git: GitRunner) -> Iterator[None]:
        """Limit the searches in a block; if time is up, the block ends without an error."""
        start = time.monotonic()
        git.deadline = start + self._remaining_seconds
        try:
            yield
        except VaultError:
            self.is_over = time.monotonic() >= git.deadline
            if not self.is_over:
                raise
        finally:
            git.deadline = math.inf
            self._remaining_seconds -= time.monotonic() - start


def find_repository(folder: Path) -> CodeRepository | None:
    """Return the repository around a folder, None if there is none."""
    try:
        folders = find_git_folder(folder.resolve())
    except OSError:
        return None
    return CodeRepository(*folders) if folders else None


def read_versions(git: GitRunner, names: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of blobs by id or `COMMIT:PATH`; skip those that git lacks."""
    object_names = [name for name in dict.fromkeys(names) if "\n" not in name]
    objects = ObjectReader(git)
    try:
        results = objects.find_all(object_names)
    finally:
        objects.close()
    return {
        name: data
        for name, each in zip(object_names, results, strict=True)
        if each is not None and each[0] == "blob"
        for data in [each[1]]
    }


def find_new_paths(git: GitRunner, since: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the current paths of files renamed since a commit, by their old paths.

    A file that HEAD lacks is followed from the commit that last removed its name. If the repository
    lacks the commit, the whole history is searched.
    """
    now = {path: path for path in paths}
    for _ in range(_MAX_RENAMES):
        missing_files = {
            path: name for path, name in now.items() if not (git.work_tree / name).is_file()
        }
        renames = _find_renames(git, since, set(missing_files.values())) if missing_files else {}
        if not renames:
            break
        now |= {path: renames[name] for path, name in missing_files.items() if name in renames}
    if missing_files:
        out = git.run("diff", "--cached", *_RENAMES, "HEAD", "--", check=False)
        staged = {old: new for _, _, (old, new) in _parse_statuses(out)}
        now |= {path: staged.get(name, name) for path, name in missing_files.items()}
    return {path: name for path, name in now.items() if name != path}


def _find_renames(git: GitRunner, since: str, paths: Collection[str]) -> dict[str, str]:
    """Return the new paths of files that HEAD lacks, by their old paths.

    Each file is compared only with files added by the commit that last removed it. Full rename
    detection for a commit that moved hundreds of files takes ten times as long.
    """
    out = git.run(
        *("log", "-z", "--topo-order", "--no-show-signature", "--no-renames", "--name-status"),
        *("--full-diff", "--diff-filter=AD", "--format=%H", f"--max-count={_MAX_COMMITS}"),
        *("--ignore-missing", "HEAD", *([f"^{since}"] if since else []), "--", *paths),
        check=False,
    )
    last: dict[str, tuple[str, str]] = {}
    added_paths: dict[str, list[str]] = {}
    for commit, status, (path,) in _parse_statuses(out):
        if path in paths:
            last.setdefault(path, (status, commit))
        if status == "A":
            added_paths.setdefault(commit, []).append(path)
    removals = {
        path: each for path, (status, each) in last.items() if status == "D" and each in added_paths
    }
    if not removals:
        return {}
    commits = set(removals.values())
    names = {*removals, *(path for each in commits for path in added_paths[each])}
    limits = ("--", *names) if len(names) <= _MAX_NAMES else ()
    ids = "".join(f"{each}\n" for each in commits).encode()
    out = git.run("diff-tree", "--stdin", "-r", *_RENAMES, *limits, stdin=ids, check=False)
    renames = ((commit, old, new) for commit, _, (old, new) in _parse_statuses(out))
    return {old: new for commit, old, new in renames if removals.get(old) == commit}


def _parse_statuses(out: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield commit, status letter and paths from `--name-status -z`; a rename has two paths."""
    fields = iter(out.split("\0"))
    commit = ""
    for field in fields:
        if (status := field.lstrip("\n")[:1]) in _CHANGES:
            yield commit, status, [next(fields, "") for _ in range(_CHANGES[status])]
        else:
            commit = field or commit


def find_text(git: GitRunner, lines: Iterable[str]) -> list[str]:
    """Return the tracked files of the work tree in which a line contains one of these lines."""
    patterns = [word for line in lines for word in ("-e", line)]
    if not patterns:
        return []
    out = git.run("grep", "-z", "-l", "-I", "-F", *patterns, check=False)
    return [name for name in out.split("\0") if name]


def find_bases(git: GitRunner, times: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return git's names for each file's version at a time, by path, best first.

    Times are in seconds since the epoch; a commit in the same second counts as earlier. For a file
    that was added later, the first version is used.
    """
    since = min((int(at) for at in times.values()), default=0)
    commits = list_file_commits(git, list(times), since)
    bases = {}
    for path, at in times.items():
        later = [each for each in commits[path] if each.at > at + 1]
        first = later[-1].commit if later else ""
        names = (f"{first}^", first) if first else ("HEAD",)
        bases[path] = tuple(f"{name}:{path}" for name in names)
    return bases
