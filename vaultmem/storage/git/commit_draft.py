"""The parts of a commit, its bytes as git writes them, and the settings for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner

#: The empty tree, which git knows without storing it.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

#: Git's mode and the bytes of a file; None for a removed file.
File = tuple[str, bytes] | None

#: Characters that git strips from both ends of a name, besides control characters and spaces.
_CUT_OFF = ",:;<>\"\\'"

_CONFIG_KEY_PATTERN = r"^((author|user)\.(name|email)|filter\..*\.(clean|smudge|process|required))$"


class Identity(NamedTuple):
    """A name and mail address, as git writes them."""

    name: str
    email: str


#: Git's modes of regular files: plain and executable.
REGULAR = frozenset({"100644", "100755"})


class TreeEntry(NamedTuple):
    """A file in a commit: git's mode and the blob id."""

    mode: str
    blob: str


def parse_tree(out: str) -> Iterator[tuple[str, TreeEntry]]:
    """Yield path and entry of each line that `git ls-tree -z` prints."""
    for line in filter(None, out.split("\0")):
        meta, _, path = line.partition("\t")
        mode, _, name = meta.split()
        yield path, TreeEntry(mode, name)


#: A file's entry before and after; None if there is no such file.
Move = tuple[TreeEntry | None, TreeEntry | None]

#: Moves by vault-relative path.
Moves = Mapping[str, Move]


class CommitSettings(NamedTuple):
    """Git's settings of the person's name, and the names of filter settings."""

    names: dict[str, str]
    filters: tuple[str, ...]

    def without_filters(self) -> dict[str, str]:
        """Return environment variables that turn off all filters.

        Git would run filters on files changed within the index's timestamp when it writes the
        index. Keys are passed in the environment because `-c` ends a name at its first =.
        """
        variables = {"GIT_CONFIG_COUNT": str(len(self.filters))}
        for number, name in enumerate(self.filters):
            variables[f"GIT_CONFIG_KEY_{number}"] = name
            variables[f"GIT_CONFIG_VALUE_{number}"] = ""
        return variables


class CommitDraft(NamedTuple):
    """A commit to be made: changed files by vault-relative path.

    `at` is its time in seconds since the epoch. `extra_parents` make it a merge. `base` is a commit
    or tree (full id) whose tree is changed instead of the parent's, such as a merge's.
    """

    files: Mapping[str, File]
    message: str
    author: Identity
    at: int
    extra_parents: tuple[str, ...] = ()
    base: str = ""


class RefMovedError(Exception):
    """Another process committed first; start again from the new commit."""


def read_settings(git: GitRunner) -> CommitSettings:
    """Return git's settings of the system, the user and the repository."""
    out = git.run("config", "-z", "--get-regexp", _CONFIG_KEY_PATTERN, check=False)
    settings = dict(pair.partition("\n")[::2] for pair in out.split("\0") if pair)
    filters = sorted(key for key in settings if key.startswith("filter."))
    return CommitSettings(
        {key: settings[key] for key in settings.keys() - set(filters)}, tuple(filters)
    )


def format_commit(
    tree: str, parents: Sequence[str], author: Identity, at: int, message: str
) -> bytes:
    """Return the bytes of a commit object whose author is also the committer.

    Source: git-commit-tree(1); the identity is cleaned as in git's ident.c.
    """
    name = clean_name(author.name) or "agent"
    email = clean_name(author.email) or "agent@localhost"
    identity = f"{name} <{email}> {at} {time.strftime('%z', time.localtime(at))}"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    head = "\n".join([*lines, f"author {identity}", f"committer {identity}"])
    return f"{head}\n\n{message}".replace("\0", "").encode("utf-8", "replace")


def clean_name(text: str) -> str:
    """Return a name or address without the characters that git strips."""
    visible_text = "".join(mark for mark in text if mark.isprintable())
    start, end = 0, len(visible_text)
    while start < end and _is_cut_off(visible_text[start]):
        start += 1
    while end > start and _is_cut_off(visible_text[end - 1]):
        end -= 1
    return "".join(mark for mark in visible_text[start:end] if mark not in "<>")


def _is_cut_off(mark: str) -> bool:
    return mark <= " " or mark in _CUT_OFF
