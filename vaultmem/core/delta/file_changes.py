"""Files that differ between two states of a vault."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

#: Git's modes of regular files; others are links and repositories inside this one.
_REGULAR = ("100644", "100755")
_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class ChangeOp(StrEnum):
    """What was done to a file, a note or a property."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class FileChange(NamedTuple):
    """A path whose file differs: blob ids and git's modes, "" on the side that has no file.

    `previous` is the path that it had, if that was another one.
    """

    path: str
    old_blob: str
    blob: str
    old_mode: str
    mode: str
    previous: str = ""

    @property
    def op(self) -> ChangeOp:
        """What happened to the path."""
        if not self.old_blob:
            return ChangeOp.ADD
        return ChangeOp.REPLACE if self.blob else ChangeOp.REMOVE

    @property
    def is_regular(self) -> bool:
        """Tell whether only regular files are involved, no links and no repositories."""
        return all(mode in _REGULAR for mode in (self.old_mode, self.mode) if mode)


def pair_renames(changes: Iterable[FileChange]) -> list[FileChange]:
    """Join each removal with an addition of the same bytes, and return all by path.

    Only equal bytes count, so nothing has to be read; of several the one of the same file name
    comes first.
    """
    listed = sorted(changes, key=lambda change: change.path)
    removed: dict[str, list[FileChange]] = {}
    for change in listed:
        if change.op is ChangeOp.REMOVE and change.old_blob != _EMPTY_BLOB:
            removed.setdefault(change.old_blob, []).append(change)
    if not removed:
        return listed
    gone: set[str] = set()
    joined: dict[str, FileChange] = {}
    for same_name in (True, False):
        for change in listed:
            if change.op is not ChangeOp.ADD or change.path in joined:
                continue
            for old in removed.get(change.blob, ()):
                if old.path in gone or (same_name and _name(old.path) != _name(change.path)):
                    continue
                gone.add(old.path)
                joined[change.path] = change._replace(
                    old_blob=old.old_blob, old_mode=old.old_mode, previous=old.path
                )
                break
    return [joined.get(change.path, change) for change in listed if change.path not in gone]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
