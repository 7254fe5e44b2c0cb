"""Which folders of the user's belong to one vault, though it was moved or has other work trees.

A folder is named by the vault's path, and holds by which names the vault's repository is known
wherever it is: its root commits. A name proves nothing, as anybody can copy a commit. So nothing
that is found by name alone lets a note instruct.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.atomic import make_private_folder, write_atomically

_MARK = ".vault"


class Names(NamedTuple):
    """How a vault's repository is known: `one` name, quickly told, or `every` one, asked of git.

    Both are empty where there is no commit, or a shallow clone does not have the first.
    """

    one: Callable[[], str] = str
    every: Callable[[], Sequence[str]] = tuple


#: Those of a vault that is known by its path alone.
NAMELESS = Names()


def make_place(folder: Path, names: Names) -> None:
    """Make a vault's folder, and write into it by which name the vault is known.

    Raises:
        OSError: the disk did not take it.
    """
    make_private_folder(folder)
    known = _read_names(folder)
    name = names.one()
    if name and name not in known:
        content = json.dumps(sorted({*known, *names.every(), name}))
        write_atomically(folder / _MARK, content.encode(), mode=0o600)


def find_files(folder: Path, names: Names, pattern: str) -> list[Path]:
    """Return files of a vault's folder, then of those of the same repository elsewhere."""
    marked = sorted(each.parent for each in folder.parent.glob(f"*/{_MARK}"))
    others = [each for each in marked if each != folder]
    wanted = set(names.every()) if others else set()
    places = [folder, *(each for each in others if wanted & set(_read_names(each)))]
    return [file for place in places for file in place.glob(pattern)]


def _read_names(folder: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads((folder / _MARK).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
