"""Commits and trees: git's plumbing, run by GitPython, that executes nothing of a repository's.

No porcelain, no hooks, filters, fsmonitor or signing: blobs are hashed as they are, a temporary
index makes the tree, and `update-ref` moves the branch only from where it was read.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.errors import PendingError, VaultError
from vaultmem.storage.head import Head, find_git_folder, find_obstacle, read_head

if TYPE_CHECKING:
    from git import Git

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "core.fsync": "all",
    "core.quotePath": "false",
    "core.autocrlf": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_ATTEMPTS = 10

#: Removes an entry from an index.
_NOTHING = "0 0000000000000000000000000000000000000000"


@dataclass(frozen=True, slots=True)
class Identity:
    """A name and mail address, as git writes them."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a commit: git's mode and the blob id."""

    mode: str
    blob: str


class RefMovedError(Exception):
    """Somebody else committed first; start again from the new HEAD."""


class History:
    """The repository that a vault lives in; `prefix` is the vault's folder inside it."""

    def __init__(self, root: Path, scratch: Path) -> None:
        found = find_git_folder(root)
        if found is None:
            raise VaultError(f"{root}: not in a git repository; run `vaultmem init` there")
        self.work_tree, self.git_folder = found
        inside = root.relative_to(self.work_tree).as_posix()
        self.prefix = "" if inside == "." else inside + "/"
        self._scratch = scratch

    def head(self) -> Head:
        """Return the checked-out branch and commit."""
        head = read_head(self.git_folder)
        if head is not None:
            return head
        branch = self._run("symbolic-ref", "--short", "-q", "HEAD", check=False)
        return Head(branch, self._run("rev-parse", "-q", "--verify", "HEAD", check=False))

    def obstacle(self) -> str:
        """Return why no commit can be made right now, empty if one can."""
        return find_obstacle(self.git_folder)

    def exclude_file(self) -> Path:
        """Return the repository's own list of ignored files, which is in no commit."""
        return Path(self._run("rev-parse", "--git-path", "info/exclude"))

    def commit_time(self, commit: str) -> int:
        """Return a commit's time in seconds since the epoch."""
        return int(self._run("show", "-s", "--no-notes", "--format=%ct", commit, "--"))

    def person(self) -> Identity:
        """Return the person's identity as git is configured."""
        name = self._run("config", "--get", "user.name", check=False)
        email = self._run("config", "--get", "user.email", check=False)
        return Identity(name or "person", email or "person@localhost")

    def tree(self, commit: str) -> dict[str, TreeEntry]:
        """Return the vault's files in a commit by path; links and submodules are left out."""
        if not commit:
            return {}
        where = ["--", self.prefix] if self.prefix else []
        out = self._run("ls-tree", "-r", "-z", "--full-tree", commit, *where)
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
        out = self._run(*command, stdin=asked, fine=(0, 1))
        return {path.removeprefix(lead) for path in out.split("\0") if path}

    def commit_dates(self, commit: str, since: str) -> dict[tuple[str, str], int]:
        """Return when each (path, blob) of the vault first came into a commit.

        Only commits of `commit` that are not in `since` are read; seconds since the epoch.
        """
        known = since and self._run("cat-file", "-t", since, check=False) == "commit"
        span = [commit, f"^{since}"] if known else [commit]
        where = ["--", self.prefix] if self.prefix else []
        out = self._run(
            *("log", "--reverse", "--raw", "--no-abbrev", "--no-renames", "-z", "-m", "--root"),
            *("--no-ext-diff", "--no-textconv", "--format=%x01%ct", *span, *where),
        )
        return _parse_dates(out, self.prefix)

    def write_commit(
        self,
        changes: Mapping[str, tuple[str, bytes] | None],
        message: str,
        author: Identity,
        parent: str,
    ) -> str:
        """Commit these files (mode and bytes, or None to remove) and nothing else.

        The person's own index follows where it held what `parent` held; entries that the person
        staged stay as they are.

        Raises:
            RefMovedError: HEAD is not `parent` any more.
            PendingError: another git holds the index.
        """
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            entries = self._write_blobs(changes, Path(folder))
            lines = "".join(f"{e.mode} {e.blob}\t{path}\0" for path, e in entries.items())
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._run("read-tree", parent or "--empty", env=index)
            self._run("update-index", "-z", "--index-info", stdin=lines.encode(), env=index)
            tree = self._run("write-tree", env=index)
        parents = ["-p", parent] if parent else []
        who = _author_environment(author)
        commit = self._run("commit-tree", tree, *parents, stdin=message.encode(), env=who)
        self._follow_index(entries, parent)
        self._move_head(commit, parent, message.partition("\n")[0])
        self._intent.unlink(missing_ok=True)
        return commit

    def log(self, limit: int, skip_other: bool = True) -> list[dict[str, Any]]:
        """Return the newest commits of the vault, newest first, as plain values."""
        if not self.head().commit:
            return []
        keys = ("Vault-Event", "Agent-Id", "Session-Id")
        trailers = "".join(f"%x1f%(trailers:key={key},valueonly,separator=%x20)" for key in keys)
        only = ["--grep=^Vault-Event: "] if skip_other else []
        where = ["--", self.prefix] if self.prefix else []
        out = self._run(
            *("log", "-z", f"--max-count={limit}", *only, "--no-ext-diff", "--no-textconv"),
            *(f"--format=%H%x1f%cI%x1f%an%x1f%ae%x1f%s%x1f%b{trailers}", "HEAD", *where),
        )
        names = (
            "commit",
            "time",
            "author",
            "email",
            "subject",
            "body",
            "event",
            "agent",
            "session",
        )
        return [
            dict(zip(names, (part.strip() for part in row.split("\x1f")), strict=False))
            for row in out.split("\0")
            if row
        ]

    def _write_blobs(
        self, changes: Mapping[str, tuple[str, bytes] | None], folder: Path
    ) -> dict[str, TreeEntry]:
        """Store the bytes as blobs; copies with plain names, so that no name can mislead git."""
        written = [(path, change) for path, change in changes.items() if change is not None]
        for number, (_, (_, data)) in enumerate(written):
            (folder / str(number)).write_bytes(data)
        names = "".join(f"{folder / str(number)}\n" for number in range(len(written)))
        command = ("hash-object", "-t", "blob", "-w", "--no-filters", "--stdin-paths")
        blobs = self._run(*command, stdin=names.encode()).split() if written else []
        entries = {
            self.prefix + path: TreeEntry("0", "0" * 40)
            for path, change in changes.items()
            if change is None
        }
        for (path, (mode, _)), blob in zip(written, blobs, strict=True):
            entries[self.prefix + path] = TreeEntry(mode, blob)
        return entries

    def _follow_index(self, entries: Mapping[str, TreeEntry], parent: str) -> None:
        """Put the entries into the person's index, but for those that the person staged.

        What is put there is written down until HEAD has moved: after a crash in between, these
        entries are known as our own, and not taken for the person's.
        """
        left = self._read_intent()
        paths = entries.keys() | left.keys()
        before = self._tree_entries(parent, paths)
        current: dict[str, str] = {}
        for line in filter(None, self._run("ls-files", "-s", "-z").split("\0")):
            meta, _, path = line.partition("\t")
            if path in paths:
                current[path] = " ".join(meta.split())
        wanted: dict[str, str] = {}
        for path in paths:
            held, old = current.get(path, ""), before.get(path, "")
            if held not in {old, left.get(path, old)}:
                continue  # The person staged it.
            value = _index_value(entries[path]) if path in entries else old
            if value != held:
                wanted[path] = value
        if not wanted:
            return
        self._intent.write_text(json.dumps({**left, **wanted}), encoding="utf-8")
        lines = (f"{value or _NOTHING}\t{path}\0" for path, value in wanted.items())
        try:
            stdin = "".join(lines).encode()
            self._run("update-index", "-z", "--index-info", stdin=stdin, env=self._no_filters())
        except VaultError as error:
            if "index.lock" in str(error):
                raise PendingError(self.obstacle() or "another git is at work") from error
            raise

    @property
    def _intent(self) -> Path:
        return self._scratch / "index-entries.json"

    def _read_intent(self) -> dict[str, str]:
        """Return what an interrupted commit put into the person's index: "" is a removal."""
        try:
            return dict(json.loads(self._intent.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def _no_filters(self) -> dict[str, str]:
        """Return settings that switch off every filter which the repository's attributes name.

        Git compares files that changed within the index's own tick when it writes the index, and
        would run their filters. Keys go through the environment: `-c` ends a name at its first =.
        """
        pattern = r"^filter\..*\.(clean|smudge|process|required)$"
        found = self._run("config", "-z", "--name-only", "--get-regexp", pattern, check=False)
        names = sorted(set(filter(None, found.split("\0"))))
        settings = {"GIT_CONFIG_COUNT": str(len(names))}
        for number, name in enumerate(names):
            settings[f"GIT_CONFIG_KEY_{number}"] = name
            settings[f"GIT_CONFIG_VALUE_{number}"] = ""
        return settings

    def _tree_entries(self, commit: str, paths: Set[str]) -> dict[str, str]:
        """Return mode, blob and stage 0 of these paths in a commit, as `ls-files -s` says it."""
        if not commit:
            return {}
        out = self._run("ls-tree", "-r", "-z", "--full-tree", commit)
        found: dict[str, str] = {}
        for line in filter(None, out.split("\0")):
            meta, _, path = line.partition("\t")
            if path in paths:
                mode, _, blob = meta.split()
                found[path] = f"{mode} {blob} 0"
        return found

    def _move_head(self, commit: str, parent: str, subject: str) -> None:
        old = parent or "0" * 40
        try:
            self._run(
                "update-ref", "--create-reflog", "-m", f"vaultmem: {subject}", "HEAD", commit, old
            )
        except VaultError as error:
            if self.head().commit != parent:
                raise RefMovedError from error
            raise

    @cached_property
    def _git(self) -> Git:
        with _clean_environment():
            from git import Git

            return Git(str(self.work_tree))

    def _run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        fine: tuple[int, ...] = (0,),
    ) -> str:
        """Run git and return what it printed, one trailing line end less.

        Raises:
            VaultError: git ended with another status than those in `fine`, and `check` is set.
        """
        options = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        command = ["git", "--no-pager", "--literal-pathspecs", *options, *arguments]
        places = {"GIT_DIR": str(self.git_folder), "GIT_WORK_TREE": str(self.work_tree)}
        places |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
        # A repository may name a "remote" that is a command, to be run when an object is missing.
        places |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
        with _clean_environment(), _as_stream(stdin) as stream:
            status, out, err = self._git.execute(
                command,
                istream=stream,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                env={**places, **(env or {})},
            )
        if status not in fine and check:
            message = err if isinstance(err, str) else err.decode(errors="replace")
            name = next(word for word in arguments if not word.startswith("-"))
            raise VaultError(
                f"git {name} failed: {_first_complaint(message) or f'status {status}'}"
            )
        raw = out if isinstance(out, bytes) else str(out).encode()
        return raw.decode("utf-8", "surrogateescape").removesuffix("\n")


def init_repository(root: Path, scratch: Path) -> History:
    """Make an empty repository on branch main, without anybody's templates or hooks."""
    with _clean_environment():
        from git import Git

        Git(str(root)).execute(["git", "init", "-q", "-b", "main", "--template=", "."])
    (root / ".git" / "info").mkdir(exist_ok=True)
    return History(root, scratch)


def _index_value(entry: TreeEntry) -> str:
    """Return an entry as `ls-files -s` says it, empty for one that is removed."""
    return "" if entry.mode == "0" else f"{entry.mode} {entry.blob} 0"


def _first_complaint(message: str) -> str:
    """Return the line in which git says what is wrong; hints stand around it."""
    lines = message.strip().splitlines()
    told = (line for line in lines if line.startswith(("fatal: ", "error: ")))
    return next(told, lines[0] if lines else "")


def _author_environment(author: Identity) -> dict[str, str]:
    name = _clean_identity(author.name) or "agent"
    email = _clean_identity(author.email) or "agent@localhost"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def _clean_identity(text: str) -> str:
    return "".join(mark for mark in text if mark.isprintable() and mark not in "<>").strip()


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
            blob = part.split()[3]
            path = next(parts, "").removeprefix(prefix)
            dates.setdefault((path, blob), at)
    return dates


@contextlib.contextmanager
def _clean_environment() -> Iterator[None]:
    """Hide inherited `GIT_*` settings, which could point git at another repository."""
    hidden = {key: os.environ.pop(key) for key in list(os.environ) if key.startswith("GIT_")}
    try:
        yield
    finally:
        os.environ.update(hidden)


@contextlib.contextmanager
def _as_stream(data: bytes | None) -> Iterator[Any]:
    if data is None:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file
