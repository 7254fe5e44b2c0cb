"""What a transaction is about to do to files, kept in the state folder until it is done."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.commit_draft import TreeEntry

_NAME = "transaction.json"

#: A file's entry before and after; None where there is no such file.
Move = tuple[TreeEntry | None, TreeEntry | None]

#: Moves by vault-relative path.
Moves = Mapping[str, Move]


class Intent(NamedTuple):
    """The files that a transaction changes, and how to undo that.

    `head` is the commit that was checked out when it began; with `is_committed` it is over only
    when a later one has what it wrote. `contents` are bytes by blob id that git may not have.
    `earlier` are blobs that one file after the other had on the way to its last one.
    """

    head: str
    is_committed: bool
    moves: Moves
    contents: Mapping[str, bytes]
    earlier: Mapping[str, tuple[str, ...]] = {}


def write_intent(folder: Path, intent: Intent) -> None:
    """Write it whole and durably: without it a crash leaves changes that nobody made."""
    rows = {path: [e and (e.mode, e.blob) for e in move] for path, move in intent.moves.items()}
    texts = {blob: base64.b64encode(data).decode() for blob, data in intent.contents.items()}
    written = {
        "head": intent.head,
        "is_committed": intent.is_committed,
        "moves": rows,
        "contents": texts,
        "earlier": dict(intent.earlier),
    }
    write_atomically(folder / _NAME, json.dumps(written).encode())


def read_intent(folder: Path) -> Intent | None:
    """Return what is under way, None if nothing is; a damaged file is set aside.

    Nothing else tells what was written then, and what differs from HEAD counts as the person's.
    """
    file = folder / _NAME
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
        moves = {p: (_as_entry(old), _as_entry(new)) for p, (old, new) in read["moves"].items()}
        contents = {blob: base64.b64decode(text) for blob, text in read["contents"].items()}
        earlier = {path: tuple(map(str, blobs)) for path, blobs in read["earlier"].items()}
        return Intent(str(read["head"]), bool(read["is_committed"]), moves, contents, earlier)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        with contextlib.suppress(OSError):
            os.replace(file, file.with_suffix(".damaged"))
        return None


def has_intent(folder: Path) -> bool:
    """Tell whether a transaction is under way or was interrupted: a look at one file."""
    return (folder / _NAME).exists()


def drop_intent(folder: Path) -> None:
    """Say that nothing is under way."""
    (folder / _NAME).unlink(missing_ok=True)


def _as_entry(pair: Iterable[str] | None) -> TreeEntry | None:
    return None if pair is None else TreeEntry(*map(str, pair))
