"""What the work tree is on its way to, kept in a file of the state folder until it is there."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.commits import TreeEntry

#: A file's entry before and behind; None where there is no such file.
Move = tuple[TreeEntry | None, TreeEntry | None]

#: Moves by vault-relative path.
Moves = Mapping[str, Move]


def write_moves(file: Path, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Write them whole and durably: without them a crash leaves changes that nobody made.

    `contents` are those by blob id that git has not got yet.
    """
    rows = {path: [e and (e.mode, e.blob) for e in move] for path, move in moves.items()}
    texts = {blob: base64.b64encode(data).decode() for blob, data in contents.items()}
    write_atomically(file, json.dumps({"moves": rows, "contents": texts}).encode())


def read_moves(file: Path) -> tuple[Moves, dict[str, bytes]] | None:
    """Return moves and contents, None where there are none; a damaged file is set aside.

    Nothing else tells what was moved then, and what differs from HEAD counts as the person's.
    """
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        rows, texts = written["moves"], written["contents"]
        moves = {path: (_as_entry(old), _as_entry(new)) for path, (old, new) in rows.items()}
        return moves, {blob: base64.b64decode(text) for blob, text in texts.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        with contextlib.suppress(OSError):
            os.replace(file, file.with_suffix(".damaged"))
        return None


def _as_entry(pair: Iterable[str] | None) -> TreeEntry | None:
    return None if pair is None else TreeEntry(*map(str, pair))
