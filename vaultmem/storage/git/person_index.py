"""The person's index: it follows our commits, and what the person staged stays theirs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import CommitSettings, TreeEntry
    from vaultmem.storage.git.runner import GitRunner

#: Removes an entry from an index.
_NOTHING = "0 0000000000000000000000000000000000000000"

#: More paths, or longer ones together, are not named to git one by one.
_FEW, _SHORT = 200, 60_000


class StagedEntries:
    """Entries that vaultmem put, or was about to put, into the index before HEAD has them.

    They are values by path, the last one at the end; a removal is "". Here they are in memory, for
    a repository without a vault.
    """

    def __init__(self) -> None:
        self._entries: dict[str, list[str]] = {}
        #: The commits that a branch was moved to since the operation under way began.
        self.made: list[str] = []

    def read_staged(self) -> dict[str, list[str]]:
        """Return these entries."""
        return self._entries

    def write_staged(self, entries: Mapping[str, list[str]]) -> None:
        """Replace these entries."""
        self._entries = dict(entries)


class PersonIndex:
    """Git's index of the work tree.

    `staged` has what a commit put into the index that no branch has yet.
    """

    def __init__(self, git: GitRunner, staged: StagedEntries) -> None:
        self._git = git
        self._staged = staged

    def follow(
        self,
        paths: Set[str],
        before: Mapping[str, TreeEntry],
        after: Mapping[str, TreeEntry],
        settings: CommitSettings,
    ) -> None:
        """Put `after` into the index at these paths, but for those that the person staged.

        Where the index has neither what the old commit has (`before`) nor what `staged` says, the
        person staged it. What is put there is written down until HEAD has moved: after
        a crash in between, these entries are known as our own, and not taken for the person's.

        Raises:
            PendingError: another git holds the index.
        """
        left = self._staged.read_staged()
        current = {path: value for path, _, value in self._list(paths)}
        wanted: dict[str, str] = {}
        for path in paths:
            held, old = current.get(path, ""), _value(before.get(path))
            new = _value(after.get(path))
            if held in {old, *left.get(path, ())} and new != held:
                wanted[path] = new
        if not wanted:
            return
        added = {path: [*left.get(path, []), value] for path, value in wanted.items()}
        self._staged.write_staged({**left, **added})
        lines = (f"{value or _NOTHING}\t{path}\0" for path, value in wanted.items())
        stdin = "".join(lines).encode("utf-8", "surrogateescape")
        env = settings.without_filters()
        self._git.run("update-index", "-z", "--index-info", stdin=stdin, env=env)

    def find_skipped(self, paths: Set[str]) -> set[str]:
        """Return those of the paths that the work tree need not have (a sparse checkout)."""
        return {path for path, tag, _ in self._list(paths) if tag == "S"}

    def _list(self, paths: Set[str]) -> Iterator[tuple[str, str, str]]:
        """Yield path, tag, and mode, blob and stage of the paths that the index has."""
        few = len(paths) <= _FEW and sum(map(len, paths)) <= _SHORT
        # Elsewhere than in UTF-8 an argument would be other bytes than the name in git.
        named = few and sys.getfilesystemencoding() == "utf-8"
        where = ["--", *sorted(paths)] if named else []
        out = self._git.run("ls-files", "-t", "-s", "-z", *where) if paths else ""
        for line in filter(None, out.split("\0")):
            meta, _, path = line.partition("\t")
            tag, *value = meta.split()
            if path in paths:
                yield path, tag, " ".join(value)


def _value(entry: TreeEntry | None) -> str:
    """Return an entry as `ls-files -s` says it, empty for none."""
    return "" if entry is None else f"{entry.mode} {entry.blob} 0"
