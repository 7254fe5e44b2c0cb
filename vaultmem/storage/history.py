"""What a repository holds: commits, trees, dates and events of the vault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vaultmem.errors import VaultError
from vaultmem.storage.commits import CommitWriter, File, Identity, TreeEntry
from vaultmem.storage.git import GitRunner, make_repository
from vaultmem.storage.head import Head, find_git_folder, find_obstacle, read_head
from vaultmem.storage.objects import ObjectReader
from vaultmem.storage.refs import Refs

_LOG_FIELDS = ("commit", "time", "author", "email", "subject", "body", "event", "agent", "session")


class History:
    """The repository that a vault lives in; `prefix` is the vault's folder inside it."""

    def __init__(self, root: Path, scratch: Path) -> None:
        found = find_git_folder(root)
        if found is None:
            raise VaultError(f"{root}: not in a git repository; run `vaultmem init` there")
        work_tree, self.git_folder = found
        inside = root.relative_to(work_tree).as_posix()
        self.prefix = "" if inside == "." else inside + "/"
        self.git = GitRunner(work_tree, self.git_folder)
        self.refs = Refs(self.git)
        self.objects = ObjectReader(self.git)
        self._scratch = scratch

    def head(self) -> Head:
        """Return the checked-out branch and commit."""
        head = read_head(self.git_folder)
        if head is not None:
            return head
        branch = self.git.run("symbolic-ref", "--short", "-q", "HEAD", check=False)
        return Head(branch, self.git.run("rev-parse", "-q", "--verify", "HEAD", check=False))

    def close(self) -> None:
        """End git's process, if one is running."""
        self.objects.close()

    def obstacle(self) -> str:
        """Return why no commit can be made right now, empty if one can."""
        return find_obstacle(self.git_folder)

    def exclude_file(self) -> Path:
        """Return the repository's own list of ignored files, which is in no commit."""
        return Path(self.git.run("rev-parse", "--git-path", "info/exclude"))

    def commit_time(self, commit: str) -> int:
        """Return a commit's time in seconds since the epoch."""
        return int(self.git.run("show", "-s", "--no-notes", "--format=%ct", commit, "--"))

    def person(self) -> Identity:
        """Return the person's identity as git is configured."""
        pattern = r"^user\.(name|email)$"
        out = self.git.run("config", "-z", "--get-regexp", pattern, check=False)
        found = dict(pair.partition("\n")[::2] for pair in out.split("\0") if pair)
        email = found.get("user.email") or "person@localhost"
        return Identity(found.get("user.name") or "person", email)

    def tree(self, commit: str) -> dict[str, TreeEntry]:
        """Return the vault's files in a commit by path; links and submodules are left out."""
        if not commit:
            return {}
        where = ["--", self.prefix] if self.prefix else []
        out = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit, *where)
        entries: dict[str, TreeEntry] = {}
        for line in filter(None, out.split("\0")):
            meta, _, path = line.partition("\t")
            mode, kind, blob = meta.split()
            if kind == "blob" and mode in {"100644", "100755"}:
                entries[path.removeprefix(self.prefix)] = TreeEntry(mode, blob)
        return entries

    def ignored(self, paths: list[str]) -> set[str]:
        """Return those of the paths that git is told to ignore."""
        if not paths:
            return set()
        # check-ignore refuses --literal-pathspecs; `./` keeps `:(top)x` from being read as magic.
        lead = f"./{self.prefix}"
        asked = "".join(f"{lead}{path}\0" for path in paths).encode()
        command = ("--no-literal-pathspecs", "check-ignore", "-z", "--stdin", "--no-index")
        out = self.git.run(*command, stdin=asked, fine=(0, 1))
        return {path.removeprefix(lead) for path in out.split("\0") if path}

    def commit_dates(self, commit: str, since: str) -> dict[tuple[str, str], int]:
        """Return when a commit last wrote each (path, blob) of the vault.

        Only commits of `commit` that are not in `since` are read; seconds since the epoch.
        """
        known = since and self.git.run("cat-file", "-t", since, check=False) == "commit"
        span = [commit, f"^{since}"] if known else [commit]
        where = ["--", self.prefix] if self.prefix else []
        out = self.git.run(
            *("log", "--raw", "--no-abbrev", "--no-renames", "-z", "-c", "--root"),
            *("--no-ext-diff", "--no-textconv", "--format=%x01%ct", *span, *where),
        )
        return _parse_dates(out, self.prefix)

    def write_commit(
        self, files: Mapping[str, File], message: str, author: Identity, parent: str, at: int
    ) -> str:
        """Commit these files (mode and bytes, or None to remove) and nothing else.

        `at` is the commit's time in seconds since the epoch; the new commit's id is returned.

        Raises:
            RefMovedError: HEAD is not `parent` any more.
            PendingError: another git holds the index.
        """
        writer = CommitWriter(self.git, self.prefix, self._scratch)
        commit = writer.write(files, message, author, parent, at)
        writer.follow_index(parent)
        writer.move_head(commit, parent, message.partition("\n")[0])
        return commit

    def log(self, limit: int, skip_other: bool = True) -> list[dict[str, Any]]:
        """Return the newest commits of the vault, newest first, as plain values."""
        if not self.head().commit:
            return []
        keys = ("Vault-Event", "Agent-Id", "Session-Id")
        trailers = "".join(f"%x1f%(trailers:key={key},valueonly,separator=%x20)" for key in keys)
        only = ["--grep=^Vault-Event: "] if skip_other else []
        where = ["--", self.prefix] if self.prefix else []
        out = self.git.run(
            *("log", "-z", f"--max-count={limit}", *only, "--no-ext-diff", "--no-textconv"),
            *(f"--format=%H%x1f%cI%x1f%an%x1f%ae%x1f%s%x1f%b{trailers}", "HEAD", *where),
        )
        return [
            dict(zip(_LOG_FIELDS, (part.strip() for part in row.split("\x1f")), strict=False))
            for row in out.split("\0")
            if row
        ]


def init_repository(root: Path, scratch: Path) -> History:
    """Make an empty repository in a folder and return its history."""
    make_repository(root)
    return History(root, scratch)


def _parse_dates(out: str, prefix: str) -> dict[tuple[str, str], int]:
    dates: dict[tuple[str, str], int] = {}
    at = 0
    parts = iter(out.split("\0"))
    for part in parts:
        part = part.strip("\n")
        if part.startswith("\x01"):
            at = int(part[1:].split("\n")[0])
            part = part.partition("\n")[2].strip("\n")
        if part.startswith(":"):
            parents = len(part) - len(part.lstrip(":"))  # A merge tells what it wrote itself.
            pair = (next(parts, "").removeprefix(prefix), part.split()[2 * parents + 1])
            dates[pair] = max(at, dates.get(pair, at))
    return dates
