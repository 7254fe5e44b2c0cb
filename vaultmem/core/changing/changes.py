"""A change is the difference of two sets of (path, blob)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths that one set of (path, blob) pairs has over another, each list sorted."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    @property
    def written(self) -> tuple[str, ...]:
        """Paths whose bytes are new: added or changed."""
        return tuple(sorted(self.added + self.changed))

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that differs."""
        return tuple(sorted(self.added + self.changed + self.removed))


def diff_trees(old: Mapping[str, str], new: Mapping[str, str]) -> Changes:
    """Compare two mappings of path to blob id."""
    added = sorted(path for path in new if path not in old)
    removed = sorted(path for path in old if path not in new)
    changed = sorted(path for path, blob in new.items() if old.get(path, blob) != blob)
    return Changes(tuple(added), tuple(changed), tuple(removed))
