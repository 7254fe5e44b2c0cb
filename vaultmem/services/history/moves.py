"""Follow lines that a commit took from one place to another to whoever said them first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.delta.lines import diff_lines, split_bytes
from vaultmem.core.delta.renames import is_telling
from vaultmem.core.paths import is_note_name
from vaultmem.storage.git.blame import LineOrigin, blame_file
from vaultmem.storage.git.log import read_changes
from vaultmem.storage.git.vault_history import History

#: A commit that changes more notes than this moves no single lines that anybody asks for.
_MANY = 200

#: How often one line is followed from move to move.
_MOVES = 8


class _Place(NamedTuple):
    """A line (1-based) of a file of the vault in a commit."""

    commit: str
    path: str
    number: int


def follow_moves(
    history: History, origins: Sequence[LineOrigin | None], first: int
) -> list[LineOrigin | None]:
    """Return where lines come from, through commits that removed the same line elsewhere.

    Lines before `first` (0-based), as those of properties, are left as they are.
    """
    found = list(origins)
    followed = {
        at: origin
        for at, origin in enumerate(found)
        if origin is not None and at >= first and is_telling(origin.text)
    }
    for _ in range(_MOVES):
        places = _find_places(history, followed)
        blames = {
            (place.commit, place.path): blame_file(history, place.commit, place.path)
            for place in dict.fromkeys(place._replace(number=0) for place in places.values())
        }
        followed = {
            at: blames[place.commit, place.path][place.number - 1] for at, place in places.items()
        }
        for at, origin in followed.items():
            found[at] = origin
        if not followed:
            break
    return found


def _find_places(history: History, lines: dict[int, LineOrigin]) -> dict[int, _Place]:
    """Return for those of the lines that their commit removed elsewhere where they were before."""
    changes = read_changes(history, (origin.commit for origin in lines.values()))
    places: dict[int, _Place] = {}
    for commit, (made, changed) in changes.items():
        wanted = {at: _key(each.text) for at, each in lines.items() if each.commit == commit}
        notes = [each for each in changed if is_note_name(each.path) and each.is_regular]
        if not made.parents or len(notes) > _MANY:
            continue
        removed: dict[str, _Place] = {}
        for change in notes:
            for key, number in _find_removed(history, change, set(wanted.values())):
                removed.setdefault(key, _Place(made.parents[0], change.path, number))
        places |= {at: removed[key] for at, key in wanted.items() if key in removed}
    return places


def _find_removed(
    history: History, change: FileChange, wanted: set[str]
) -> Iterator[tuple[str, int]]:
    old = _read_lines(history, change.old_blob)
    if not wanted & {_key(line) for line in old}:
        return
    new = _read_lines(history, change.blob)
    for hunk in diff_lines(old, new):
        for number in range(hunk.start, hunk.end):
            if (key := _key(old[number])) in wanted:
                yield key, number + 1


def _read_lines(history: History, blob: str) -> list[str]:
    return split_bytes(history.objects.read(blob)[1]) if blob else []


def _key(line: str) -> str:
    """Return what a line says, wherever it stands: without indent and marks of lists and quotes."""
    return line.strip().lstrip("-*+> ")
