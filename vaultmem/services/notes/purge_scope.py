"""Find every path that ever had a note: by renames, and by blobs that went from path to path.

A move may be two commits: one adds the note under its new name, a later one removes the old. So a
removal and an addition of the same or nearly the same text count as a move where few commits are
between. A copy does not, nor does a template that many notes began as: its file is still there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vaultmem.core.delta.file_changes import ChangeOp, FileChange
from vaultmem.core.delta.renames import count_lines, is_telling
from vaultmem.services.history.trace import trace_note
from vaultmem.storage.git.log import walk_refs
from vaultmem.vault import Vault

#: Commits that may be between the two halves of a move.
_NEAR = 20
#: The share of lines that a note keeps where it was changed as it was moved.
_ALIKE = 0.8
#: Additions that are compared with one removal.
_MOST = 200
_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class PurgeScope(NamedTuple):
    """All paths that notes ever had, and how many commits changed them.

    `others` are paths of other notes that have or had the very bytes of one of their versions.
    """

    paths: tuple[str, ...]
    commits: int
    others: tuple[str, ...]


class _Event(NamedTuple):
    """What the commit of a number (the newest is 0) did to a file."""

    number: int
    change: FileChange


def find_scope(vault: Vault, addresses: Iterable[str]) -> PurgeScope:
    """Return what the history of all branches and tags has of these notes, present or removed.

    Raises:
        NoteNotFoundError: no note is or was called that.
    """
    paths: dict[str, None] = {}
    commits: set[str] = set()
    for address in addresses:
        trace = trace_note(vault, address)
        paths[trace.path] = None
        for version in trace.versions:
            paths |= dict.fromkeys(filter(None, [version.operation.file.previous]))
            commits |= {version.commit.commit} if version.commit else set()
    names: list[str] = []
    events: dict[str, list[_Event]] = defaultdict(list)
    for number, (commit, changes) in enumerate(walk_refs(vault.history)):
        names.append(commit.commit)
        for change in changes:
            events[change.path].append(_Event(number, change))
    moves = _Moves(vault, events)
    waiting = list(paths)
    while waiting:
        found = [each for each in moves.find(waiting.pop()) if each not in paths]
        paths |= dict.fromkeys(found)
        waiting += found
    commits |= {names[each.number] for path in paths for each in events[path]}
    blobs = {each.change.blob for path in paths for each in events[path]} - {"", _EMPTY_BLOB}
    others = {
        path
        for path, known in events.items()
        if path not in paths and any(each.change.blob in blobs for each in known)
    }
    return PurgeScope(tuple(paths), len(commits), tuple(sorted(others)))


class _Moves:
    """From which path to which one notes went."""

    def __init__(self, vault: Vault, events: dict[str, list[_Event]]) -> None:
        self._vault, self._events = vault, events
        self._added: dict[int, list[FileChange]] = defaultdict(list)
        self._removed: dict[int, list[FileChange]] = defaultdict(list)
        for number, change in (each for known in events.values() for each in known):
            if change.is_regular and change.op is not ChangeOp.REPLACE:
                kind = self._added if change.op is ChangeOp.ADD else self._removed
                kind[number].append(change)

    def find(self, path: str) -> Iterator[str]:
        """Yield the paths to which a file went, and those from which it came."""
        for each in self._events[path]:
            if each.change.op is ChangeOp.REMOVE:
                yield from filter(None, [self._find_heir(each.number, each.change)])
            elif each.change.op is ChangeOp.ADD:
                for number in _near(each.number):
                    for removed in self._removed.get(number, ()):
                        if self._find_heir(number, removed) == path:
                            yield removed.path

    def _find_heir(self, number: int, removed: FileChange) -> str:
        """Return the path to which a note went that a commit removed, "" if to none."""
        if not removed.is_regular or removed.old_blob == _EMPTY_BLOB:
            return ""
        around = [
            [each for each in self._added.get(at, ()) if self._is_there(each.path, at, number)]
            for at in _near(number)
        ]
        later = [each for added in around[1:] for each in added]
        for added in (around[0], later):
            if same := [each for each in added if each.blob == removed.old_blob]:
                return same[0].path
            if alike := self._find_alike(removed, added):
                return alike
        return ""

    def _is_there(self, path: str, added: int, number: int) -> bool:
        """Tell whether a file that a commit added is there after another, or is added later."""
        return not any(
            each.change.op is ChangeOp.REMOVE and number <= each.number < added
            for each in self._events[path]
        )

    def _find_alike(self, removed: FileChange, added: list[FileChange]) -> str:
        if not 0 < len(added) <= _MOST:
            return ""
        blobs = [removed.old_blob, *(each.blob for each in added)]
        read = [count_lines(data) for _, data in self._vault.history.objects.read_all(blobs)]
        shares = [_share(read[0], new) for new in read[1:]]
        best = max(range(len(added)), key=shares.__getitem__)
        return added[best].path if shares[best] >= _ALIKE else ""


def _near(number: int) -> list[int]:
    """Return the numbers of the commits around one, the nearest first."""
    return sorted(range(number - _NEAR, number + _NEAR + 1), key=lambda at: abs(at - number))


def _share(old: Counter[str], new: Counter[str]) -> float:
    shared = old & new
    return shared.total() / old.total() if any(map(is_telling, shared)) else 0.0
