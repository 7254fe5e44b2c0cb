"""Text of unknown origin, made safe to show."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def clean_text(text: str) -> str:
    """Return text without control and bidirectional characters, tabs kept."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        mark for mark in text if mark == "\t" or unicodedata.category(mark) not in _UNSEEN
    )


def one_line(text: str) -> str:
    """Return text in one line, with what cannot be seen shown as an escape."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )
