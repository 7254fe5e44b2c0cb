"""One property of a note, and where it stands."""

from __future__ import annotations

from typing import NamedTuple


class Property(NamedTuple):
    """One property as written: `value` is text or a list of texts, `kind` YAML's word for it.

    `kind` is one of str, int, float, bool, null, timestamp, seq, map; `first` and `last` are the
    0-based lines of the block that it occupies, `last` exclusive; `span` is where the value itself
    stands (character offsets in the block; 0, 0 for a hyphen list that was read the fast way);
    `items` are the lines of a hyphen list's items, empty where one has more lines than one and
    for anything else; `indent` is the column of the name.
    """

    name: str
    value: str | tuple[str, ...]
    kind: str
    first: int
    last: int
    span: tuple[int, int]
    items: tuple[int, ...]
    indent: int
