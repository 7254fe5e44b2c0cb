"""A walk through the vault for what a scan does not even look at, and why."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from vaultmem.core.paths import GENERATED, NOT_NOTES, is_hidden

#: Hidden files at the root that are committed all the same.
_COMMITTED = frozenset({".gitignore", ".gitattributes"})


@dataclass(slots=True)
class PassedOver:
    """Paths that are no notes, by reason; a folder stands for all that is in it and ends in `/`.

    `hidden` are those hidden by their names but for git's own, `ignored` those that vaultmem.yaml
    names, `set_aside` the folders at the root that hold no notes.
    """

    hidden: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)


def find_passed_over(root: Path, ignored: Callable[[str], bool] | None = None) -> PassedOver:
    """Walk the vault without following any link; `ignored` tells paths to pass over."""
    found = PassedOver()
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name
                    plain = ignored is None and name[0] not in ".~#" and name.endswith(".md")
                    if plain and not entry.is_dir(follow_symlinks=False):
                        continue  # By far the most are notes, and need no closer look.
                    if _look_at_entry(entry, prefix + name, ignored, found):
                        pending.append((entry.path, f"{prefix}{name}/"))
        except OSError:
            continue  # The scan tells of it.
    for paths in (found.hidden, found.ignored, found.set_aside):
        paths.sort()
    return found


def count_folders(root: Path, most: int) -> int:
    """Return how many folders there are, links not followed, hidden ones included; `most` at most.

    These are the ones that a watcher asks the system to watch.
    """
    count = 0
    for _ in os.walk(root):
        count += 1
        if count >= most:
            break
    return count


def list_folders(root: Path) -> list[str]:
    """Return the folders in which notes may be written, relative to the vault, "." for itself."""
    found = ["."]
    for folder in found:
        try:
            with os.scandir(root / folder) as entries:
                inside = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        prefix = "" if folder == "." else f"{folder}/"
        found += [prefix + each.name for each in inside if not is_hidden(each.name)]
    return found


def _look_at_entry(
    entry: os.DirEntry[str], path: str, ignored: Callable[[str], bool] | None, found: PassedOver
) -> bool:
    """Sort one entry; tell whether it is a folder to look into."""
    name = entry.name
    shown = path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")
    is_folder = entry.is_dir(follow_symlinks=False)
    mark = "/" if is_folder else ""
    if is_hidden(name):
        if name != ".git" and path not in _COMMITTED:
            found.hidden.append(shown + mark)
    elif ignored is not None and ignored(path):
        found.ignored.append(shown + mark)
    elif path in GENERATED:
        return False
    elif is_folder and path in NOT_NOTES:
        found.set_aside.append(shown + mark)
    else:
        return is_folder and not os.path.lexists(os.path.join(entry.path, ".git"))
    return False
