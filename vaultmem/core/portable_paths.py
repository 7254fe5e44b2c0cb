"""Paths as a commit from anywhere has them: which harm a clone, and which some system cannot hold.

Git takes nearly any bytes for a name, and whoever makes objects by hand may use those that its
commands refuse.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import accumulate, chain

from vaultmem.core.paths import (
    MAX_NAME_BYTES,
    fold,
    fold_as_disks_do,
    is_forbidden,
    is_reserved,
    is_text,
)

#: The longest path in bytes; Windows' own limit is 260 characters, with the folder around it.
MAX_PATH_BYTES = 400

#: The longest path that Linux can hold, in bytes; macOS' limit is a fourth of it.
_LONGEST_PATH = 4_000

#: A short name by which NTFS may know one of git's own files.
_SHORT = re.compile(r"(?i)git.*~\d+")

_DRIVE = re.compile(r"[A-Za-z]:")


def find_danger(path: str) -> str:
    """Return why a path must be in no commit at all, "" if it may: it leaves the clone's folder.

    Or some disk takes a part of it for git's own folder.
    """
    if "\\" in path:
        return "has a backslash, which divides folders on Windows"
    if _DRIVE.match(path):
        return "names a drive"
    if len(path) > _LONGEST_PATH:
        return "is longer than any system can hold"
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            return "leaves the vault, or is absolute"
        seen = fold_as_disks_do(part)
        if seen == ".git" or _SHORT.fullmatch(seen):
            return "is inside git's own folder, on some disk"
    return ""


def find_hindrance(path: str) -> str:
    """Return why not every system can hold a file of this path, "" if all can."""
    if not is_text(path):
        return "is not UTF-8"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    for part in path.split("/"):
        if odd := next(filter(is_forbidden, part), ""):
            return f"has {odd!a}, which not every system can hold"
        if is_reserved(part):
            return "has a name that Windows keeps for itself"
        if part != part.rstrip(". ") or part != part.lstrip():
            return "has a name that begins with a space, or ends with a space or a dot"
        if len(part.encode()) > MAX_NAME_BYTES:
            return f"has a name longer than {MAX_NAME_BYTES} bytes"
    return ""


def is_owners(path: str) -> bool:
    """Tell whether a file says how a vault works: its settings, and all that is hidden.

    Settings in a folder make a vault of it, for who works there.
    """
    parts = path.split("/")
    return fold_as_disks_do(parts[-1]) == "vaultmem.yaml" or any(map(_is_hidden, parts))


def _is_hidden(name: str) -> bool:
    return next((mark for mark in name if unicodedata.category(mark) != "Cf"), "") == "."


def find_new_twins(added: Iterable[str], siblings: Iterable[str]) -> list[tuple[str, str]]:
    """Return those of the added paths of which some disk has only one, each with its twin.

    `siblings` are all the paths in the folders on the way to them, those of folders too.
    """
    known: dict[str, set[str]] = {}
    ways = {path: list(accumulate(path.split("/"), "{}/{}".format)) for path in added}
    for path in (*siblings, *chain.from_iterable(ways.values())):
        known.setdefault(fold(path), set()).add(path)
    found = []
    for path, way in sorted(ways.items()):
        twins = (other for whole in way for other in known[fold(whole)] - {whole})
        if twin := next(twins, ""):
            found.append((path, twin))
    return found
