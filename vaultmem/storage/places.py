"""Which folders of the user's belong to one vault, though it was moved or has other work trees.

A folder is named by the vault's path, and holds by which names the vault's repository is known
wherever it is: its root commits. A name proves nothing, as anybody can copy a commit. So nothing
that is found by name alone lets a note instruct.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.atomic import write_atomically

_MARK = ".vault"


class Names(NamedTuple):
    """How a vault's repository is known: `one` name, quickly told, or `every` one, asked of git.

    Both are empty where there is no commit, or a shallow clone does not have the first.
    """

    one: Callable[[], str] = str
    every: Callable[[], Sequence[str]] = tuple


def mark_place(folder: Path, names: Names) -> None:
    """Write into a folder, which is there, by which name its vault is known."""
    known = _read_names(folder)
    name = names.one()
    if name and name not in known:
        content = json.dumps(sorted({*known, *names.every(), name}))
        write_atomically(folder / _MARK, content.encode(), mode=0o600)


def find_places(folder: Path, names: Names) -> list[Path]:
    """Return a vault's folder, and those of the same repository elsewhere."""
    others = [each for each in _list_folders(folder.parent) if each != folder]
    wanted = set(names.every()) if others else set()
    return [folder, *(each for each in others if wanted & set(_read_names(each)))]


def _list_folders(parent: Path) -> Iterable[Path]:
    return sorted(each.parent for each in parent.glob(f"*/{_MARK}"))


def _read_names(folder: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads((folder / _MARK).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
