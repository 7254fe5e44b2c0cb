"""Find which new notes are others under a new name, so that no commit has one half of a move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.delta.renames import count_lines, find_renamed
from vaultmem.errors import NoteNotFoundError
from vaultmem.vault import Vault

#: More pairs of notes than this are not compared by their lines; git has such a limit, too.
_MOST = 40_000


class AddedNote(NamedTuple):
    """The first bytes that a commit gets of a new note, and which agent ("": a person) wrote it."""

    data: bytes
    agent: str


class RemovedNote(NamedTuple):
    """The blob that HEAD has of a note that is gone, and which agent ("": a person) removed it."""

    blob: str
    agent: str


def find_moves(
    vault: Vault, added: Mapping[str, AddedNote], removed: Mapping[str, RemovedNote]
) -> dict[str, str]:
    """Return which notes were moved: the path before, by the path now.

    An agent's new note never counts as one that a person removed, nor a person's as an agent's.
    """
    moves: dict[str, str] = {}
    same: dict[RemovedNote, list[str]] = {}
    for old, gone in sorted(removed.items(), reverse=True):
        same.setdefault(gone, []).append(old)
    for path, note in sorted(added.items()):
        found = same.get(RemovedNote(blob_id(note.data), note.agent))
        if found and note.data.strip():
            moves[path] = found.pop()
    moved = set(moves.values())
    left = {old: gone for old, gone in removed.items() if old not in moved}
    if not left or len(left) * (len(added) - len(moves)) > _MOST:
        return moves
    try:
        read = list(vault.history.objects.read_all(gone.blob for gone in left.values()))
    except NoteNotFoundError:  # A clone may lack them.
        return moves
    lines = {path: count_lines(data) for path, (_, data) in zip(left, read, strict=True)}
    for path, note in sorted(added.items()):
        if path in moves:
            continue
        possible = {o: lines[o] for o, g in left.items() if bool(g.agent) == bool(note.agent)}
        own = {old for old in possible if left[old].agent == note.agent}
        if old := find_renamed(possible, count_lines(note.data), own):
            moves[path] = old
            del left[old]
    return moves
