"""Which text is another one under a new name, by the lines that both have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from vaultmem.core.text.line_diff import split_bytes

#: Letters and digits (bytes of them) that a line has at least: headings and the like say nothing.
_LEAST = 16

#: The share of a text's lines that is still there under its new name; git asks for as many bytes.
_HALF = 0.5


def count_property_lines(lines: Iterable[str]) -> int:
    """Return how many lines a note's block of properties has, the marks around it included."""
    shown = enumerate(lines)
    if next(shown, (0, ""))[1].rstrip() != "---":
        return 0
    return next((number + 1 for number, line in shown if line.rstrip() == "---"), 0)


def is_telling(line: str) -> bool:
    """Tell whether a line is long enough to be known again elsewhere."""
    return len("".join(filter(str.isalnum, line)).encode("utf-8", "replace")) >= _LEAST


def count_lines(data: bytes) -> Counter[str]:
    """Return how often a note has each line of its body, but for blank lines and properties."""
    lines = split_bytes(data)
    return Counter(filter(None, map(str.strip, lines[count_property_lines(lines) :])))


def find_renamed(
    old: Mapping[str, Counter[str]], new: Counter[str], same_author: Set[str] = frozenset()
) -> str:
    """Return the name of the text that has become this one, "" if none has.

    It has half of that one's lines or more; of one by the `same_author` a single line will do that
    is long enough to be known again.
    """
    best, most = "", 0.0
    for name, lines in old.items():
        shared = lines & new
        share = shared.total() / (lines.total() or 1)
        is_enough = share >= _HALF or (name in same_author and any(map(is_telling, shared)))
        if is_enough and share > most:
            best, most = name, share
    return best
