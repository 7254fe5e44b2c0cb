"""What a branch, tag, commit or date stands for: one commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vaultmem.core.moments import is_moment, parse_day_or_moment
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.git import GitRunner

_FULL_ID = re.compile(r"[0-9a-f]{40}")
_MAX_NAME = 250


@dataclass(frozen=True, slots=True)
class Target:
    """A commit and what it was asked for by.

    `name` is the branch, else the name that was given, or the short id where a date was;
    `branch` is empty unless it is a local branch; `at` is the commit's time in seconds.
    """

    name: str
    branch: str
    commit: str
    at: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A local branch, its newest commit, and the folder in which it is checked out, if any."""

    name: str
    commit: str
    at: int
    subject: str
    folder: str


class Refs:
    """The names of a repository's commits."""

    def __init__(self, git: GitRunner) -> None:
        self._git = git

    def resolve(self, text: str, within: str = "HEAD") -> Target:
        """Return the commit that a branch, tag, commit id, expression or date stands for.

        A date stands for the last commit of `within`, along its first parents, that was made by
        then; a day ends at midnight, local time.

        Raises:
            NoteNotFoundError: no commit is called that, or none is that old.
            RefusedError: it is not a name, or could be read as two.
        """
        name = self._check_name(text)
        branch = self._find(f"refs/heads/{name}")
        if is_moment(name):
            if branch or self._find(f"refs/tags/{name}"):
                raise RefusedError(
                    f'"{name}" is a date and the name of a branch or tag; '
                    f"write refs/heads/{name}, refs/tags/{name}, or {name}T23:59:59"
                )
            return self._resolve_moment(name, within)
        if branch:
            return self._target(name, name, branch)
        commit = self._find(name)
        if not commit:
            raise NoteNotFoundError(
                f"{name}: no branch, tag or commit is called that{self._hint()}"
            )
        local = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""
        shown = commit[:7] if commit.startswith(name.lower()) else name
        return self._target(local or shown, local, commit)

    def branch_tip(self, name: str) -> str:
        """Return the newest commit of a local branch.

        Raises:
            NoteNotFoundError: there is no such branch.
        """
        commit = self._find(f"refs/heads/{self._check_name(name)}")
        if not commit:
            raise NoteNotFoundError(
                f"{name}: there is no such branch; `vaultmem branch {name}` makes it"
            )
        return commit

    def branches(self) -> list[Branch]:
        """Return all local branches, by name."""
        fields = "%00".join(
            f"%({field})"
            for field in (
                *("refname:lstrip=2", "objectname", "committerdate:unix"),
                *("contents:subject", "worktreepath"),
            )
        )
        out = self._git.run("for-each-ref", f"--format={fields}", "refs/heads/")
        rows = (line.split("\0") for line in out.split("\n") if line)
        return [Branch(row[0], row[1], int(row[2] or 0), row[3], row[4]) for row in rows]

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Tell whether one commit is in the history of another (or is it)."""
        command = ("merge-base", "--is-ancestor", commit, of)
        try:
            self._git.run(*command)
        except VaultError:
            return False
        return True

    def is_shallow(self) -> bool:
        """Tell whether this clone has only the newer part of its history."""
        path = self._git.run("rev-parse", "--git-path", "shallow")
        return (self._git.work_tree / Path(path)).exists()

    def _resolve_moment(self, text: str, within: str) -> Target:
        moment = int(parse_day_or_moment(text, end_of_day=True))
        start = within if _FULL_ID.fullmatch(within) else self._find(within)
        if not start:
            raise NoteNotFoundError(
                f"{text}: nothing is committed yet, so nothing is known of then"
            )
        out = self._git.run("rev-list", "-1", "--first-parent", f"--before={moment}", start, "--")
        if not out:
            raise NoteNotFoundError(f"{text}: no commit is that old{self._hint()}")
        return self._target(out[:7], "", out)

    def _find(self, name: str) -> str:
        """Return the id of the commit that git knows by a name, empty if there is none."""
        found = self._git.run(
            "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}", check=False
        )
        return found if _FULL_ID.fullmatch(found) else ""

    def _target(self, name: str, branch: str, commit: str) -> Target:
        at = self._git.run("log", "-1", "--no-show-signature", "--format=%ct", commit, "--")
        return Target(name, branch, commit, int(at))

    def _hint(self) -> str:
        if self.is_shallow():
            return " in this clone, which is shallow; `git fetch --unshallow` gets the rest"
        return "; see `vaultmem branches` and `vaultmem log`"

    @staticmethod
    def _check_name(text: str) -> str:
        name = text.strip()
        if not name or len(name) > _MAX_NAME or not name.isprintable() or name.startswith("-"):
            raise RefusedError(f'"{text[:60]}" names no branch, tag, commit or date')
        return name
