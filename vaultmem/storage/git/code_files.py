"""Read versions of files in a code repository, each kind of question with one git process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

#: Commits that are searched for a renamed file.
_MAX_COMMITS = 5_000


class CodeRepository(NamedTuple):
    """A repository on this machine: the top of its work tree, and its git folder."""

    top: Path
    git_folder: Path

    def read_head(self) -> str:
        """Return the commit that is checked out, "" before the first."""
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


def find_repository(folder: Path) -> CodeRepository | None:
    """Return the repository around a folder, None if there is none."""
    try:
        found = find_git_folder(folder.resolve())
    except OSError:
        return None
    return CodeRepository(*found) if found else None


def read_versions(git: GitRunner, names: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of blobs by id or `COMMIT:PATH`; those that git lacks are left out."""
    wanted = [name for name in dict.fromkeys(names) if "\n" not in name]
    objects = ObjectReader(git)
    try:
        found = objects.find_all(wanted)
    finally:
        objects.close()
    return {
        name: data
        for name, each in zip(wanted, found, strict=True)
        if each is not None and each[0] == "blob"
        for data in [each[1]]
    }


def find_new_paths(git: GitRunner, since: str, paths: Sequence[str]) -> dict[str, str]:
    """Return where files are that were renamed after a commit, by their paths then.

    Without a commit that the repository has, the whole history is searched.
    """
    known = since and git.run("rev-parse", "-q", "--verify", f"{since}^{{commit}}", check=False)
    plain = ("-z", "--no-ext-diff", "--no-textconv", "-M", "--diff-filter=R", "--name-status")
    out = git.run(
        *("log", "--reverse", "--topo-order", *plain, "--format="),
        *(f"--max-count={_MAX_COMMITS}", f"{known}..HEAD" if known else "HEAD", "--"),
        check=False,
    )
    staged = git.run("diff", "--cached", *plain, "HEAD", "--", check=False)
    fields = iter(field.lstrip("\n") for field in f"{out}\0{staged}".split("\0"))
    now = {path: path for path in paths}
    for status in fields:
        if not status.startswith("R"):
            continue
        old, new = next(fields, ""), next(fields, "")
        for path, place in now.items():
            if place == old:
                now[path] = new
    return {path: place for path, place in now.items() if place != path}


def find_text(git: GitRunner, lines: Iterable[str]) -> list[str]:
    """Return the files of HEAD that contain one of these lines as part of their own lines."""
    patterns = [word for line in lines for word in ("-e", line)]
    if not patterns:
        return []
    out = git.run("grep", "-z", "-l", "-I", "-F", *patterns, "HEAD", check=False)
    return [name.removeprefix("HEAD:") for name in out.split("\0") if name]


def find_bases(git: GitRunner, dated: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return git's names for the version that each file had at a time, by path, best first.

    Times are in seconds since the epoch; the commit of the same second counts as before. Of a file
    that came later, the first version counts.
    """
    since = min((int(at) for at in dated.values()), default=0)
    commits = list_file_commits(git, list(dated), since)
    bases = {}
    for path, at in dated.items():
        later = [each for each in commits[path] if each.at > at + 1]
        first = later[-1].commit if later else ""
        names = (f"{first}^", first) if first else ("HEAD",)
        bases[path] = tuple(f"{name}:{path}" for name in names)
    return bases
