"""Text of unknown origin, made safe to show."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

#: How a byte that is no UTF-8 is shown: Python keeps it as a lone surrogate.
_BYTES = {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}


def escape_bytes(text: str) -> str:
    r"""Return text that is UTF-8, with bytes that are not as escapes: `gr\xfcn.txt`."""
    if text.isascii():
        return text
    return text.translate(_BYTES).encode("utf-8", "replace").decode()


def clean_text(text: str) -> str:
    """Return text without control and bidirectional characters, tabs kept."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        mark
        for mark in escape_bytes(text)
        if mark == "\t" or unicodedata.category(mark) not in _UNSEEN
    )


def one_line(text: str) -> str:
    """Return text in one line, with what cannot be seen shown as an escape."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode()
        for mark in escape_bytes(text)
    )


def name_some(names: Sequence[str], most: int = 3) -> str:
    """Return the first of some names in one line, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(map(one_line, names[:most]))}{more}"
