"""The person's git index: it follows vaultmem's commits, and staged changes stay."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import CommitSettings, TreeEntry
    from vaultmem.storage.git.runner import GitRunner

#: Removes an entry from an index.
_REMOVED_ENTRY = "0 0000000000000000000000000000000000000000"

#: Above this number or total length, paths are not passed to git one by one.
_MAX_PATHSPECS, _MAX_PATHSPEC_CHARS = 200, 60_000


class StagedEntries:
    """Entries that vaultmem put, or was about to put, into the index before HEAD has them.

    Each path has a list of values, the newest last; "" is a removal. This class keeps them in
    memory, for a repository without a vault.
    """

    def __init__(self) -> None:
        self._entries: dict[str, list[str]] = {}
        #: Commits that a branch was moved to during the current operation.
        self.made: list[str] = []

    def read_staged(self) -> dict[str, list[str]]:
        """Return these entries."""
        return self._entries

    def write_staged(self, entries: Mapping[str, list[str]]) -> None:
        """Replace these entries."""
        self._entries = dict(entries)


class PersonIndex:
    """Git's index of the work tree; `staged` lists entries of commits that no branch has yet."""

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
        """Put `after` into the index at these paths, except those that the person staged.

        A path is staged by the person if the index has neither the old commit's entry (`before`)
        nor one in `staged`. New entries are recorded until HEAD has moved, so after a crash they
        count as vaultmem's.

        Raises:
            PendingError: another git holds the index.
        """
        staged_values = self._staged.read_staged()
        current = {path: value for path, _, value in self._list(paths)}
        new_values: dict[str, str] = {}
        for path in paths:
            current_value, old = current.get(path, ""), _value(before.get(path))
            new = _value(after.get(path))
            if current_value in {old, *staged_values.get(path, ())} and new != current_value:
                new_values[path] = new
        if not new_values:
            return
        additions = {
            path: [*staged_values.get(path, []), value] for path, value in new_values.items()
        }
        self._staged.write_staged({**staged_values, **additions})
        lines = (f"{value or _REMOVED_ENTRY}\t{path}\0" for path, value in new_values.items())
        stdin = "".join(lines).encode("utf-8", "surrogateescape")
        env = settings.without_filters()
        self._git.run("update-index", "-z", "--index-info", stdin=stdin, env=env)

    def find_skipped(self, paths: Set[str]) -> set[str]:
        """Return those of the paths that a sparse checkout leaves out of the work tree."""
        return {path for path, tag, _ in self._list(paths) if tag == "S"}

    def _list(self, paths: Set[str]) -> Iterator[tuple[str, str, str]]:
        """Yield path, tag, and mode, blob and stage of those paths that are in the index."""
        is_short = len(paths) <= _MAX_PATHSPECS and sum(map(len, paths)) <= _MAX_PATHSPEC_CHARS
        # With another encoding than UTF-8, an argument has other bytes than git's name.
        lists_paths = is_short and sys.getfilesystemencoding() == "utf-8"
        pathspec = ["--", *sorted(paths)] if lists_paths else []
        out = self._git.run("ls-files", "-t", "-s", "-z", *pathspec) if paths else ""
        for line in filter(None, out.split("\0")):
            meta, _, path = line.partition("\t")
            tag, *value = meta.split()
            if path in paths:
                yield path, tag, " ".join(value)


def _value(entry: TreeEntry | None) -> str:
    """Return an entry in the form of `ls-files -s`, "" for None."""
    return "" if entry is None else f"{entry.mode} {entry.blob} 0"
