"""Find renamed texts by the lines that both versions share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from vaultmem.core.text.line_diff import split_bytes

#: Fewest letters and digits (in bytes) of a distinctive line; headings are shorter.
_MIN_DISTINCTIVE_BYTES = 16

#: Smallest share of a text's lines that a renamed version keeps; git uses the same share of bytes.
_MIN_RENAME_SHARE = 0.5


def count_property_lines(lines: Iterable[str]) -> int:
    """Return the number of lines of a note's frontmatter, with both `---` lines."""
    numbered_lines = enumerate(lines)
    if next(numbered_lines, (0, ""))[1].rstrip() != "---":
        return 0
    return next((number + 1 for number, line in numbered_lines if line.rstrip() == "---"), 0)


def is_telling(line: str) -> bool:
    """Return whether a line is long enough to recognize it in another text."""
    return (
        len("".join(filter(str.isalnum, line)).encode("utf-8", "replace")) >= _MIN_DISTINCTIVE_BYTES
    )


def count_lines(data: bytes) -> Counter[str]:
    """Return how often each line of a note's body occurs, without blank lines and properties."""
    lines = split_bytes(data)
    return Counter(filter(None, map(str.strip, lines[count_property_lines(lines) :])))


def find_renamed(
    old: Mapping[str, Counter[str]], new: Counter[str], same_author: Set[str] = frozenset()
) -> str:
    """Return the name of the old text that was renamed to the new one, or "".

    The new text contains at least half of its lines. For texts in `same_author`, one distinctive
    line is enough.
    """
    best, most = "", 0.0
    for name, lines in old.items():
        shared = lines & new
        share = shared.total() / (lines.total() or 1)
        is_enough = share >= _MIN_RENAME_SHARE or (
            name in same_author and any(map(is_telling, shared))
        )
        if is_enough and share > most:
            best, most = name, share
    return best
