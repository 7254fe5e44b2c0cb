"""How many there are of something, in words."""

from __future__ import annotations


def count_things(number: int, what: str) -> str:
    """Return a number and what there is of it: `1 commit`, `1,200 files`."""
    return f"{number:,} {what}{'s' * (number != 1)}"
