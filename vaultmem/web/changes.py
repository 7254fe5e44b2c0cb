"""What changed in a file, as pages show it: properties as values, text by its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vaultmem.core.delta.note_changes import PropertyChange
from vaultmem.core.delta.words import Passage, Piece, diff_words, mark_diff
from vaultmem.services.history.diff import Operation, summarise_operation

#: Lines of a file's diff, and of all diffs of a page, that are shown unasked.
_LINES, _ALL_LINES = 120, 600

#: Characters of a property's value.
_VALUE = 1_000


class ShownChange(NamedTuple):
    """What was done to a file; `left` counts the lines that are not shown."""

    operation: Operation
    told: str
    properties: list[tuple[PropertyChange, list[Piece]]]
    passages: list[Passage]
    left: int


def show_changes(operations: Iterable[Operation], whole: bool = False) -> Iterator[ShownChange]:
    """Yield what a page shows of changes; `whole`: however long they are."""
    room = _ALL_LINES
    for each in operations:
        lines = _list_lines(each)
        most = len(lines) if whole else min(_LINES, room)
        room -= min(len(lines), most)
        yield ShownChange(
            each,
            _summarise(each),
            list(_show_properties(each)),
            mark_diff(lines[:most]),
            max(len(lines) - most, 0),
        )


def _list_lines(operation: Operation) -> Sequence[str]:
    """Return the lines of a diff: of the properties as they are written, if no value changed."""
    note = operation.note
    if note is None:
        return ()
    return note.body if note.properties else (*note.frontmatter_diff, *note.body)


def _summarise(operation: Operation) -> str:
    """Return in words what was done, but for the properties, which stand below."""
    note = operation.note
    if note is None or not note.properties:
        return summarise_operation(operation)
    rest = note._replace(properties=(), frontmatter_diff=())
    return summarise_operation(operation._replace(note=rest)) if rest else "properties"


def _show_properties(operation: Operation) -> Iterator[tuple[PropertyChange, list[Piece]]]:
    note = operation.note
    for each in note.properties if note else ():
        old, new = (v if isinstance(v, str) else ", ".join(v) for v in (each.old, each.new))
        yield each, diff_words(old[:_VALUE], new[:_VALUE])
