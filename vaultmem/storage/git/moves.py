"""What the work tree is on its way to, kept in a file of the state folder until it is there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from vaultmem.storage.files import sync_folder
from vaultmem.storage.git.commits import TreeEntry

#: A file's entry before and behind; None where there is no such file.
Move = tuple[TreeEntry | None, TreeEntry | None]

#: Moves by vault-relative path.
Moves = Mapping[str, Move]


def write_moves(file: Path, moves: Moves) -> None:
    """Write them whole and durably: without them a crash leaves changes that nobody made."""
    rows = {path: [e and (e.mode, e.blob) for e in move] for path, move in moves.items()}
    spare = file.with_suffix(".tmp")
    with open(spare, "w", encoding="utf-8") as out:
        json.dump(rows, out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(spare, file)
    sync_folder(file.parent)


def read_moves(file: Path) -> Moves | None:
    """Return them, None where there are none; a file that is damaged is set aside.

    Nothing else tells what was moved then, and what differs from HEAD counts as the person's.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {path: (_as_entry(old), _as_entry(new)) for path, (old, new) in content.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        with contextlib.suppress(OSError):
            os.replace(file, file.with_suffix(".damaged"))
        return None


def _as_entry(pair: Iterable[str] | None) -> TreeEntry | None:
    return None if pair is None else TreeEntry(*map(str, pair))
