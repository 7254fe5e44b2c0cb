"""Find the commit that a branch, a tag, an id or a date names."""

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

#: Git's date words that cannot be meant as a name; git itself reads any text as a date.
_DATE_WORDS = compile_later(
    rf"(?i)yesterday|noon|midnight|last[ .](?:{_UNITS}|{_DAYS})"
    rf"|[0-9]{{1,4}}[ .](?:{_UNITS})s?[ .]ago"
)
_MAX_NAME = 250

#: What git does not accept as a branch's name: an expression, or HEAD.
_NO_BRANCH = compile_later(r"HEAD|.*(?:[~^:\\?*\[ ]|\.\.|@\{).*")

#: Two commits, as in `main..side`; two dots in braces, as in `HEAD^{/a..b}`, are text.
_RANGE = compile_later(r"(?:\{[^}]*\}|[^{])*?\.\..*")


def is_date_words(text: str) -> bool:
    """Return whether a text is one of the date words that git reads, as `yesterday`."""
    return bool(_DATE_WORDS.fullmatch(text))


class RefTarget(NamedTuple):
    """A commit and the name it was found by.

    `name` is the branch, or the given name, or the short id for a date. `branch` is "" unless it is
    a local branch. `at` is the commit's time in seconds since the epoch.
    """

    name: str
    branch: str
    commit: str
    at: int


class Branch(NamedTuple):
    """A local branch, its newest commit, and the folder where it is checked out, if any."""

    name: str
    commit: str
    at: int
    subject: str
    folder: str


class Refs:
    """Branches, tags and other names of a repository's commits."""

    def __init__(self, git: GitRunner) -> None:
        self._git = git

    def resolve(self, text: str, within: str = "HEAD") -> RefTarget:
        """Return the commit that a branch, tag, commit id, expression or date names.

        A date names the last commit of `within`, along its first parents, made by then. A day ends
        at midnight, local time. `yesterday`, `last week` and `3 days ago` are dates, as git reads
        them, if no branch or tag has that name.

        Raises:
            NoteNotFoundError: no commit has that name, or none is that old.
            RefusedError: the text is not a valid name, or is ambiguous.
        """
        name = self._check_name(text)
        local = name.removeprefix("refs/heads/")
        branch = self._find_branch(local)
        if is_timestamp(name):
            if branch or self._find(f"refs/tags/{name}")[0]:
                raise RefusedError(
                    f'"{name}" is a date and the name of a branch or tag; '
                    f"write refs/heads/{name}, refs/tags/{name}, or {name}T23:59:59"
                )
            return self._resolve_timestamp(name, within)
        if branch:
            return self._target(local, local, branch)
        commit, at = self._find(name)
        if not commit and is_date_words(name):
            return self._find_before(name, self._read_date(name), within)
        if not commit:
            suggestion = suggest_similar(name, self._names("refs/heads", "refs/tags"), "")
            if not suggestion and not self._find("HEAD")[0]:
                raise NoteNotFoundError(
                    f"{name}: nothing is committed here yet; "
                    "`vaultmem checkpoint NOTE` makes a commit"
                )
            raise NoteNotFoundError(
                f"{name}: no branch, tag or commit is called that{suggestion or self._hint(name)}"
            )
        label = (
            commit[:7] if commit.startswith(name.lower()) else name.removeprefix("refs/remotes/")
        )
        return RefTarget(label, "", commit, at)

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
            Branch(name, commit, read_time(at or "0"), read_escapes(subject), work_tree)
            for name, commit, at, subject, work_tree in rows
        ]

    def create_branch(self, name: str, commit: str) -> None:
        """Create a local branch at a commit (full id).

        Raises:
            RefusedError: the name is not allowed, can be read as something else, or is taken.
        """
        if not is_text(self._check_name(name)):
            raise RefusedError(f'"{escape_bytes(name)}" is not UTF-8; choose another name')
        valid_name = self._git.run("check-ref-format", "--branch", name, check=False)
        if valid_name != name or name == "@" or name.startswith("refs/"):
            raise RefusedError(f'"{name}" cannot be a branch\'s name; use letters, digits, - and /')
        if is_timestamp(name) or _FULL_ID.fullmatch(name):
            raise RefusedError(f'"{name}" would be read as a date or a commit; choose another name')
        if self._find_branch(name):
            raise RefusedError(f"{name}: there is a branch of that name; choose another")
        command = ("update-ref", "--create-reflog", "-m", "vaultmem: branch")
        try:
            self._git.run(*command, f"refs/heads/{name}", commit, "0" * 40)
        except VaultError as error:  # A name cannot be a folder of another's.
            if " exists; cannot create " not in str(error):
                raise
            raise RefusedError(
                f"{name}: git keeps branches like files in folders, and another branch's name is "
                "in the way; choose another"
            ) from None

    def delete_branch(self, name: str, commit: str) -> None:
        """Delete a local branch if it is still at a commit (full id)."""
        self._git.run("update-ref", "-d", f"refs/heads/{name}", commit)

    def move_branch(self, name: str, commit: str, old: str, backup: str) -> None:
        """Move a local branch from `old` to a commit (full ids), and keep `old` as ref `backup`.

        Raises:
            PendingError: the branch has just got another commit; nothing was changed.
        """
        branch = f"refs/heads/{name}"
        moves = f"create {backup} {old}\nupdate {branch} {commit} {old}\n"
        try:
            command = ("update-ref", "--create-reflog", "-m", "vaultmem: reset", "--stdin")
            self._git.run(*command, stdin=moves.encode("utf-8", "surrogateescape"))
        except VaultError:
            now = self._find_branch(name)
            if now == commit:  # Only the reflog entry is missing.
                return
            if now == old:
                raise
            reason = f"not reset: {name} has just got another commit; try again"
            raise PendingError(reason) from None

    def checkout(self, name: str) -> None:
        """Point HEAD at a branch; change nothing else."""
        command = ("symbolic-ref", "-m", f"vaultmem: switch to {name}")
        self._git.run(*command, "HEAD", f"refs/heads/{name}")

    def count_ahead(self, commit: str, other: str) -> tuple[int, int]:
        """Return how many commits only the first has, and how many only the second."""
        out = self._git.run("rev-list", "--left-right", "--count", f"{commit}...{other}", "--")
        ahead, behind = out.split()
        return int(ahead), int(behind)

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Return whether one commit is in the history of another (or is the same)."""
        command = ("merge-base", "--is-ancestor", commit, of)
        try:
            self._git.run(*command)
        except VaultError:
            return False
        return True

    def is_kept(self, commit: str) -> bool:
        """Return whether a local or remote branch or a tag contains a commit."""
        command = ("for-each-ref", "--count=1", f"--contains={commit}")
        return bool(self._git.run(*command, "refs/heads/", "refs/tags/", "refs/remotes/"))

    def list_branches_with(self, commit: str) -> list[str]:
        """Return the names of the local branches that contain a commit."""
        command = ("for-each-ref", "--format=%(refname:lstrip=2)", f"--contains={commit}")
        return self._git.run(*command, "refs/heads/").splitlines()

    def merge_base(self, commit: str, other: str) -> str:
        """Return the newest commit that two histories share, "" if they share none."""
        return self._git.run("merge-base", commit, other, check=False)

    def nearest(self, commit: str, candidates: Set[str]) -> str:
        """Return the known commit that is nearest in a commit's history, "" if none."""
        history = self._git.run("rev-list", "--topo-order", commit, "--").splitlines()
        return next((each for each in history if each in candidates), "")

    def between(self, bad: str, good: Set[str]) -> list[str]:
        """Return the commits that `bad` contains and no good one does.

        As in git bisect, commits that divide the rest best are first.
        """
        span = [bad, *(f"^{commit}" for commit in sorted(good))]
        out = self._git.run("rev-list", "--bisect-all", *span, "--")
        return [line.partition(" ")[0] for line in out.splitlines()]

    def find_merged_in(self, bad: str, good: str) -> tuple[set[str], int]:
        """Return the tips that merges added to `bad` since `good`, and the number of their commits.

        These commits neither descend from `good` nor lead to it.
        """
        span = (bad, f"^{good}", "--")
        out = self._git.run("rev-list", "--ancestry-path", "--parents", *span)
        path = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
        tips = {parent for parents in path.values() for parent in parents} - path.keys() - {good}
        return tips, int(self._git.run("rev-list", "--count", *span)) - len(path)

    def is_shallow(self) -> bool:
        """Return whether this clone lacks the older part of its history."""
        return bool(read_shallow(self._git.git_folder))

    def _resolve_timestamp(self, text: str, within: str) -> RefTarget:
        return self._find_before(text, int(parse_timestamp(text, end_of_day=True)), within)

    def _read_date(self, words: str) -> int:
        """Return git's reading of words such as `yesterday`, in seconds since the epoch."""
        return int(self._git.run("rev-parse", f"--until={words}").partition("=")[2])

    def _find_before(self, text: str, latest: int, within: str) -> RefTarget:
        """Return the last commit made by a time (seconds since the epoch)."""
        start = within if _FULL_ID.fullmatch(within) else self._find(within)[0]
        if not start:
            raise NoteNotFoundError(
                f"{text}: nothing is committed yet, so nothing is known of then"
            )
        # Not `--before`: it reads a number below 100,000,000 (3 March 1973) as now.
        latest = max(latest, 0)
        out = self._git.run("rev-list", "-1", "--first-parent", f"--min-age={latest}", start, "--")
        if not out:
            raise NoteNotFoundError(f"{text}: no commit is that old{self._find_first_time(start)}")
        return self._target(out[:7], "", out)

    def _find_branch(self, name: str) -> str:
        """Return the newest commit of the branch with exactly this name, "" if there is none.

        `rev-parse` would accept `main~1` as a branch name.
        """
        if _NO_BRANCH.fullmatch(name):
            return ""
        command = ("show-ref", "--verify", "--hash", "--", f"refs/heads/{name}")
        return self._git.run(*command, check=False)

    def _find(self, name: str) -> tuple[str, int]:
        """Return the id and time of the commit that git finds by a name, or "" and 0.

        Of a range, `git log` would return the last commit.
        """
        if _RANGE.fullmatch(name):
            return "", 0
        command = ("log", "-1", "--no-show-signature", "--format=%H %ct", "--end-of-options")
        out = self._git.run(*command, f"{name}^{{commit}}", "--", check=False)
        commit, _, at = out.partition(" ")
        return (commit, read_time(at)) if _FULL_ID.fullmatch(commit) else ("", 0)

    def _target(self, name: str, branch: str, commit: str) -> RefTarget:
        at = self._git.run("log", "-1", "--no-show-signature", "--format=%ct", commit, "--")
        return RefTarget(name, branch, commit, read_time(at))

    def _find_first_time(self, commit: str) -> str:
        """Return a note on the date of the first commit in a commit's history."""
        if self.is_shallow():
            return self._hint()
        roots = self._git.run("rev-list", "--first-parent", "--format=%cs", commit, "--")
        return f"; the first is from {roots.rpartition(chr(10))[2]}"

    def _hint(self, name: str = "HEAD") -> str:
        if self.is_shallow():
            return " in this clone, which is shallow; `git fetch --unshallow` gets the rest"
        hint = "; see `vaultmem branch` and `vaultmem log`"
        can_be_branch = not _NO_BRANCH.fullmatch(name)
        return f"{hint}, or make it with `vaultmem branch NAME`" if can_be_branch else hint

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
