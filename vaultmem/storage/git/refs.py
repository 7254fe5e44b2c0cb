"""Which commit a branch, a tag, an id or a date names."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.encoding import read_escapes
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.paths import is_text
from vaultmem.core.text.patterns import compile_later
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.core.text.timestamps import is_timestamp, parse_timestamp
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError, VaultError
from vaultmem.storage.git.head import read_shallow
from vaultmem.storage.git.runner import read_time

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner

_FULL_ID = compile_later(r"[0-9a-f]{40}")
_UNITS = "second|minute|hour|day|week|month|year"
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"

#: Those of git's words for a date that cannot be meant for a name; git reads any text as one.
_DATE_WORDS = compile_later(
    rf"(?i)yesterday|noon|midnight|last[ .](?:{_UNITS}|{_DAYS})"
    rf"|[0-9]{{1,4}}[ .](?:{_UNITS})s?[ .]ago"
)
_MAX_NAME = 250


class RefTarget(NamedTuple):
    """A commit and what it was asked for by.

    `name` is the branch, else the name that was given, or the short id where a date was;
    `branch` is empty unless it is a local branch; `at` is the commit's time in seconds.
    """

    name: str
    branch: str
    commit: str
    at: int


class Branch(NamedTuple):
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

    def resolve(self, text: str, within: str = "HEAD") -> RefTarget:
        """Return the commit that a branch, tag, commit id, expression or date names.

        A date stands for the last commit of `within`, along its first parents, that was made by
        then; a day ends at midnight, local time. `yesterday`, `last week` and `3 days ago` are
        dates, as git reads them, where no branch or tag is called that.

        Raises:
            NoteNotFoundError: no commit is called that, or none is that old.
            RefusedError: it is not a name, or could be read as two.
        """
        name = self._check_name(text)
        local = name.removeprefix("refs/heads/")
        branch = self._find_branch(local)
        if is_timestamp(name):
            if branch or self._find(f"refs/tags/{name}"):
                raise RefusedError(
                    f'"{name}" is a date and the name of a branch or tag; '
                    f"write refs/heads/{name}, refs/tags/{name}, or {name}T23:59:59"
                )
            return self._resolve_timestamp(name, within)
        if branch:
            return self._target(local, local, branch)
        commit = self._find(name)
        if not commit and _DATE_WORDS.fullmatch(name):
            return self._find_before(name, self._read_date(name), within)
        if not commit:
            raise NoteNotFoundError(
                f"{name}: no branch, tag or commit is called that"
                f"{suggest_similar(name, self._names('refs/heads', 'refs/tags'), self._hint())}"
            )
        shown = (
            commit[:7] if commit.startswith(name.lower()) else name.removeprefix("refs/remotes/")
        )
        return self._target(shown, "", commit)

    def branch_tip(self, name: str) -> str:
        """Return the newest commit of a local branch.

        Raises:
            NoteNotFoundError: there is no such branch.
        """
        commit = self._find_branch(self._check_name(name))
        if not commit:
            raise NoteNotFoundError(
                f"{name}: there is no such branch"
                + suggest_similar(
                    name,
                    self._names("refs/heads"),
                    "; `vaultmem branch` lists them, `vaultmem branch NAME --from REF` makes one",
                )
            )
        return commit

    def _names(self, *kinds: str) -> list[str]:
        """Return the names of all branches or tags."""
        return self._git.run("for-each-ref", "--format=%(refname:lstrip=2)", *kinds).split()

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
        return [
            Branch(name, commit, read_time(at or "0"), read_escapes(subject), where)
            for name, commit, at, subject, where in rows
        ]

    def create_branch(self, name: str, commit: str) -> None:
        """Make a local branch at a commit (full id).

        Raises:
            RefusedError: git does not allow the name, or it would be read as something else, or
                the branch exists.
        """
        if not is_text(self._check_name(name)):
            raise RefusedError(f'"{escape_bytes(name)}" is not UTF-8; choose another name')
        checked = self._git.run("check-ref-format", "--branch", name, check=False)
        if checked != name or name == "@" or name.startswith("refs/"):
            raise RefusedError(f'"{name}" cannot be a branch\'s name; use letters, digits, - and /')
        if is_timestamp(name) or _FULL_ID.fullmatch(name):
            raise RefusedError(f'"{name}" would be read as a date or a commit; choose another name')
        if self._find_branch(name):
            raise RefusedError(f"{name}: there is a branch of that name; choose another")
        command = ("update-ref", "--create-reflog", "-m", "vaultmem: branch")
        try:
            self._git.run(*command, f"refs/heads/{name}", commit, "0" * 40)
        except VaultError as error:  # One name may not be a folder of another's.
            if " exists; cannot create " not in str(error):
                raise
            raise RefusedError(
                f"{name}: git keeps branches like files in folders, and another branch's name is "
                "in the way; choose another"
            ) from None

    def delete_branch(self, name: str, commit: str) -> None:
        """Remove a local branch that still is at a commit (full id)."""
        self._git.run("update-ref", "-d", f"refs/heads/{name}", commit)

    def move_branch(self, name: str, commit: str, old: str, backup: str) -> None:
        """Move a local branch that is at `old` to a commit (full ids), and keep `old` as a ref.

        Raises:
            PendingError: it has just got another commit; nothing was changed.
        """
        branch = f"refs/heads/{name}"
        moves = f"create {backup} {old}\nupdate {branch} {commit} {old}\n"
        try:
            command = ("update-ref", "--create-reflog", "-m", "vaultmem: reset", "--stdin")
            self._git.run(*command, stdin=moves.encode("utf-8", "surrogateescape"))
        except VaultError:
            now = self._find_branch(name)
            if now == commit:  # Git could not write its log of it, which is all that it lacks.
                return
            if now == old:
                raise
            told = f"not reset: {name} has just got another commit; try again"
            raise PendingError(told) from None

    def checkout(self, name: str) -> None:
        """Make HEAD a branch; nothing but HEAD changes."""
        command = ("symbolic-ref", "-m", f"vaultmem: switch to {name}")
        self._git.run(*command, "HEAD", f"refs/heads/{name}")

    def count_ahead(self, commit: str, other: str) -> tuple[int, int]:
        """Return how many commits only the first has, and how many only the second."""
        out = self._git.run("rev-list", "--left-right", "--count", f"{commit}...{other}", "--")
        ahead, behind = out.split()
        return int(ahead), int(behind)

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Tell whether one commit is in the history of another (or is it)."""
        command = ("merge-base", "--is-ancestor", commit, of)
        try:
            self._git.run(*command)
        except VaultError:
            return False
        return True

    def is_kept(self, commit: str) -> bool:
        """Tell whether a branch or tag, of a remote too, has a commit in its history."""
        command = ("for-each-ref", "--count=1", f"--contains={commit}")
        return bool(self._git.run(*command, "refs/heads/", "refs/tags/", "refs/remotes/"))

    def list_branches_with(self, commit: str) -> list[str]:
        """Return the names of the local branches that have a commit in their history."""
        command = ("for-each-ref", "--format=%(refname:lstrip=2)", f"--contains={commit}")
        return self._git.run(*command, "refs/heads/").splitlines()

    def merge_base(self, commit: str, other: str) -> str:
        """Return the newest commit that two histories share, "" if they share none."""
        return self._git.run("merge-base", commit, other, check=False)

    def nearest(self, commit: str, known: Set[str]) -> str:
        """Return that of the known commits which is nearest in a commit's history, or ""."""
        history = self._git.run("rev-list", "--topo-order", commit, "--").splitlines()
        return next((each for each in history if each in known), "")

    def between(self, bad: str, good: Set[str]) -> list[str]:
        """Return the commits of `bad`'s history that no good one has in its own.

        Those that divide the rest best come first, as git bisect would take them.
        """
        span = [bad, *(f"^{commit}" for commit in sorted(good))]
        out = self._git.run("rev-list", "--bisect-all", *span, "--")
        return [line.partition(" ")[0] for line in out.splitlines()]

    def find_merged_in(self, bad: str, good: str) -> tuple[set[str], int]:
        """Return the tips of what merges brought into `bad`'s history since `good`, and its size.

        These commits neither descend from `good` nor lead to it.
        """
        span = (bad, f"^{good}", "--")
        out = self._git.run("rev-list", "--ancestry-path", "--parents", *span)
        path = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
        tips = {parent for parents in path.values() for parent in parents} - path.keys() - {good}
        return tips, int(self._git.run("rev-list", "--count", *span)) - len(path)

    def is_shallow(self) -> bool:
        """Tell whether this clone has only the newer part of its history."""
        return bool(read_shallow(self._git.git_folder))

    def _resolve_timestamp(self, text: str, within: str) -> RefTarget:
        return self._find_before(text, int(parse_timestamp(text, end_of_day=True)), within)

    def _read_date(self, words: str) -> int:
        """Return the time that git reads in words such as `yesterday`, seconds since the epoch."""
        return int(self._git.run("rev-parse", f"--until={words}").partition("=")[2])

    def _find_before(self, text: str, latest: int, within: str) -> RefTarget:
        """Return the last commit that was made by a time (seconds since the epoch)."""
        start = within if _FULL_ID.fullmatch(within) else self._find(within)
        if not start:
            raise NoteNotFoundError(
                f"{text}: nothing is committed yet, so nothing is known of then"
            )
        out = self._git.run("rev-list", "-1", "--first-parent", f"--before={latest}", start, "--")
        if not out:
            raise NoteNotFoundError(f"{text}: no commit is that old{self._find_first_time(start)}")
        return self._target(out[:7], "", out)

    def _find_branch(self, name: str) -> str:
        """Return the newest commit of the branch of this very name, empty if there is none.

        `rev-parse` would take `main~1` for the name of a branch.
        """
        command = ("show-ref", "--verify", "--hash", "--", f"refs/heads/{name}")
        return self._git.run(*command, check=False)

    def _find(self, name: str) -> str:
        """Return the id of the commit that git knows by a name, empty if there is none."""
        found = self._git.run(
            "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}", check=False
        )
        return found if _FULL_ID.fullmatch(found) else ""

    def _target(self, name: str, branch: str, commit: str) -> RefTarget:
        at = self._git.run("log", "-1", "--no-show-signature", "--format=%ct", commit, "--")
        return RefTarget(name, branch, commit, read_time(at))

    def _find_first_time(self, commit: str) -> str:
        """Return from when the first commit is that leads to one."""
        if self.is_shallow():
            return self._hint()
        roots = self._git.run("rev-list", "--first-parent", "--format=%cs", commit, "--")
        return f"; the first is from {roots.rpartition(chr(10))[2]}"

    def _hint(self) -> str:
        if self.is_shallow():
            return " in this clone, which is shallow; `git fetch --unshallow` gets the rest"
        return "; see `vaultmem branch` and `vaultmem log`, or make it with `vaultmem branch NAME`"

    @staticmethod
    def _check_name(text: str) -> str:
        name = text.strip()
        is_shown = escape_bytes(name).isprintable()
        if not name or len(name) > _MAX_NAME or not is_shown or name.startswith("-"):
            raise RefusedError(
                f'"{text[:60]}" names no branch, tag, commit or date; '
                "see `vaultmem branch` and `vaultmem log`"
            )
        return name
