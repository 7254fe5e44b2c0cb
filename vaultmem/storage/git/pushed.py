"""The contents of a push: its commits, their changes and objects, read within limits.

A client can craft objects by hand, so nothing is trusted: a few trees can name more files than any
disk holds, and a few bytes can unpack to gigabytes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from vaultmem.errors import SystemFailureError
from vaultmem.storage.git.bare import BareGit
from vaultmem.storage.git.commit_writer import CommitObject, MalformedCommitError, parse_commit

#: The longest commit or path that is read, in bytes.
_MAX_WORD = 256 * 1024
_TOO_LONG = f"has a message, or a path, of more than {_MAX_WORD:,} bytes"

#: Raw diff lines allowed per changed file: the folders around it have one each.
_LINES_A_FILE = 10

_COMMIT = re.compile(r"[0-9a-f]{40}")
_RAW = ("-z", "--raw", "-r", "-t", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv")
_LOG = (
    *("log", *_RAW, "-c", "--root", "--no-show-signature", "--no-notes", "--no-decorate"),
    *("--no-color", "--format=%H"),
)
_FOLDER = "040000"

#: Object names sent at once: the pipe must hold them and their results.
_MAX_BATCH_IDS = 200
_TREE = re.compile(rb"[0-7]+ ([^\0]+)\0.{20}", re.DOTALL)


class TooMuchError(Exception):
    """A push exceeds a limit; the text names it."""


class PushedChange(NamedTuple):
    """A file that a commit changes; for a merge, one that differs from all parents.

    `blob` is "" if the file is removed. `old_blobs` and `old_modes` are the parents' blobs and
    modes.
    """

    path: str
    mode: str
    blob: str
    old_modes: tuple[str, ...]
    old_blobs: tuple[str, ...]

    @property
    def is_new(self) -> bool:
        """Return whether no parent has a file at this path."""
        return not self.old_blobs


class NewCommit(NamedTuple):
    """A pushed commit; without an `object`, `problem` is the reason and the fix."""

    commit: str
    object: CommitObject | None
    problem: tuple[str, str]
    changes: tuple[PushedChange, ...]

    @property
    def parents(self) -> tuple[str, ...]:
        """The parent commits."""
        return self.object.parents if self.object else ()

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that its message names."""
        return self.object.agents if self.object else ()


class Bounds(NamedTuple):
    """The most commits of a push, and the most files that they change together."""

    commits: int
    files: int


def read_commits(
    git: BareGit, objects: ObjectReader, revisions: Sequence[str], bounds: Bounds
) -> Iterator[NewCommit]:
    """Yield the commits that revisions (as in `git log`) name, newest first.

    Raises:
        TooMuchError: there are more than `bounds` allows.
        LockTimeoutError: git's time is over.
        SystemFailureError: git cannot read them.
    """
    for commit, changes in _list_commits(git, revisions, bounds):
        yield _read_commit(objects, commit, changes)


def _list_commits(
    git: BareGit, revisions: Sequence[str], bounds: Bounds
) -> Iterator[tuple[str, tuple[PushedChange, ...]]]:
    """Yield the id and the changes of each commit."""
    counter = _Counter(bounds)
    with git.reading(*_LOG, *revisions, "--") as process:
        words = _Words(git, process.stdout)
        while (word := words.next()) is not None:
            commit = word.strip("\n")
            if not commit:  # Before a merge's changes, and at the end.
                continue
            if not _COMMIT.fullmatch(commit):
                raise SystemFailureError("git log shows what cannot be read")
            counter.add_commit()
            yield commit, tuple(_parse_changes(words, counter))
        _check_end(process.wait(), "log")


def _read_commit(
    objects: ObjectReader, commit: str, changes: tuple[PushedChange, ...]
) -> NewCommit:
    """Parse a commit if its size is within the limit."""
    if objects.find([commit])[commit][1] > _MAX_WORD:
        raise TooMuchError(_TOO_LONG)
    (_, data), *_ = objects.read([commit])
    try:
        return NewCommit(commit, parse_commit(data), ("", ""), changes)
    except MalformedCommitError as error:
        return NewCommit(commit, None, (str(error), error.remedy), changes)


def is_child(objects: ObjectReader, commit: str, of: str) -> bool:
    """Return whether a commit has `of` as a parent, if its bytes can be read."""
    if objects.find([commit]).get(commit, ("", _MAX_WORD))[1] >= _MAX_WORD:
        return False
    return of in _read_commit(objects, commit, ()).parents


def read_difference(git: BareGit, old: str, new: str, bounds: Bounds) -> list[PushedChange]:
    """Return the differences between two trees or commits.

    Raises:
        TooMuchError, LockTimeoutError, SystemFailureError: as for `read_commits`.
    """
    with git.reading("diff-tree", *_RAW, old, new, "--") as process:
        changes = list(_parse_changes(_Words(git, process.stdout), _Counter(bounds)))
        _check_end(process.wait(), "diff-tree")
    return changes


class ObjectReader:
    """Reads objects and their sizes by name, with one git process until it is closed."""

    def __init__(self, git: BareGit) -> None:
        self._git = git
        self._open = contextlib.ExitStack()
        self._pipes: tuple[IO[bytes], IO[bytes]] | None = None

    def close(self) -> None:
        """End the git process."""
        self._open.close()
        self._pipes = None

    def find(self, names: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Return kind and size in bytes of each existing object, by the requested name."""
        object_names = [name for name in dict.fromkeys(names) if "\n" not in name]
        heads = {}
        for start in range(0, len(object_names), _MAX_BATCH_IDS):
            chunk = object_names[start : start + _MAX_BATCH_IDS]
            pipe = self._ask("info", chunk)
            for name in chunk:
                if head := _read_head(pipe):
                    heads[name] = head
        return heads

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield each existing object by its requested name; only one at a time is in memory."""
        for name in dict.fromkeys(names):
            if "\n" in name:
                continue
            pipe = self._ask("contents", [name])
            if head := _read_head(pipe):
                yield name, pipe.read(head[1] + 1)[:-1]

    def _ask(self, command: str, names: Sequence[str]) -> IO[bytes]:
        """Request "info" or "contents" of objects; return the pipe with the results."""
        self._git.check_time()
        if self._pipes is None:
            process = self._open.enter_context(self._git.reading("cat-file", "--batch-command"))
            assert process.stdin is not None  # noqa: S101
            assert process.stdout is not None  # noqa: S101
            self._pipes = process.stdin, process.stdout
        to, output = self._pipes
        to.write(
            "".join(f"{command} {name}\n" for name in names).encode("utf-8", "surrogateescape")
        )
        to.flush()
        return output

    def list_folders(self, commit: str, folders: Iterable[str]) -> Iterator[str]:
        """Yield the path of each entry in these folders of a commit ("" for the root)."""
        folders_by_name = {f"{commit}:{folder}": folder for folder in folders}
        for name, data in self.read(folders_by_name):
            prefix = f"{folders_by_name[name]}/" if folders_by_name[name] else ""
            for entry in _TREE.findall(data):
                yield prefix + entry.decode("utf-8", "surrogateescape")


def _read_head(pipe: IO[bytes]) -> tuple[str, int] | None:
    """Read the kind and size of an object; None if it does not exist."""
    line = pipe.readline()
    if not line:
        raise SystemFailureError("git cat-file ended early")
    fields = line.decode("utf-8", "replace").split()
    is_valid = len(fields) == 3 and re.fullmatch("[0-9a-f]{40}", fields[0]) and fields[2].isdigit()
    return (fields[1], int(fields[2])) if is_valid else None


class _Counter:
    """Counts what was read, and raises an error above the limits."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._commits = self._files = self._lines = 0

    def add_commit(self) -> None:
        self._commits += 1
        if self._commits > self._bounds.commits:
            raise TooMuchError(f"brings more than {self._bounds.commits:,} commits")

    def add_line(self, is_file: bool) -> None:
        self._lines += 1
        self._files += is_file
        max_files = self._bounds.files
        if self._files > max_files or self._lines > max_files * _LINES_A_FILE:
            raise TooMuchError(f"changes more than {max_files:,} files")


class _Words:
    """NUL-separated output, read as it arrives."""

    def __init__(self, git: BareGit, pipe: IO[bytes] | None) -> None:
        assert pipe is not None  # noqa: S101
        self._git, self._pipe = git, pipe
        self._words: list[bytes] = []
        self._rest = b""
        self._peeked: str | None = None

    def next(self) -> str | None:
        """Return the next word and advance, None at the end."""
        if self._peeked is not None:
            word, self._peeked = self._peeked, None
            return word
        while not self._words:
            self._git.check_time()
            block = self._pipe.read1(64 * 1024)  # type: ignore[attr-defined]
            if not block:
                rest, self._rest = self._rest, b""
                return rest.decode("utf-8", "surrogateescape") if rest else None
            *words, self._rest = (self._rest + block).split(b"\0")
            if len(self._rest) > _MAX_WORD or any(len(word) > _MAX_WORD for word in words):
                raise TooMuchError(_TOO_LONG)
            self._words = words[::-1]
        return self._words.pop().decode("utf-8", "surrogateescape")

    def take(self) -> str:
        """Return the next word and advance.

        Raises:
            SystemFailureError: the output has ended.
        """
        word = self.next()
        if word is None:
            raise SystemFailureError("git ended early")
        return word

    def peek(self) -> str | None:
        """Return the next word without advancing."""
        self._peeked = self.next()
        return self._peeked


def _parse_changes(words: _Words, counter: _Counter) -> Iterator[PushedChange]:
    """Parse the next raw lines. Source: `git diff-tree --help`, "RAW OUTPUT FORMAT"."""
    while (word := words.peek()) is not None and (word == "" or word.lstrip("\n").startswith(":")):
        words.take()
        line = word.lstrip("\n")
        if not line:
            continue
        parents = len(line) - len(line.lstrip(":"))
        fields = line.lstrip(":").split(" ")
        modes, blobs = fields[: parents + 1], fields[parents + 1 : 2 * parents + 2]
        path = words.take()
        is_file = _FOLDER not in {mode for mode in modes if mode.strip("0")}
        counter.add_line(is_file)
        if modes[-1] == _FOLDER or (not is_file and not modes[-1].strip("0")):
            continue
        old = [
            (mode, blob)
            for mode, blob in zip(modes[:-1], blobs[:-1], strict=True)
            if mode.strip("0") and mode != _FOLDER
        ]
        mode, blob = (each if each.strip("0") else "" for each in (modes[-1], blobs[-1]))
        yield PushedChange(path, mode, blob, tuple(m for m, _ in old), tuple(b for _, b in old))


def _check_end(status: int, name: str) -> None:
    if status:
        reason = f"cannot be read (git {name}: status {status}), as where it changes too much"
        raise TooMuchError(reason)
