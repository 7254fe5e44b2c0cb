"""What is left of a note that was shortened, and where its full text is: `full_text: BLOB@COMMIT`.

The blob is what is read: it stays the same when a note is renamed, or its history rebased. The
commit is one that had it, for people.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FULL_TEXT = re.compile(r"([0-9a-f]{12})@([0-9a-f]{7,40})")


#: What stands before keywords, and between them.
_KEYWORDS, _BETWEEN = "Keywords: ", ", "


def format_keywords(words: Sequence[str]) -> str:
    """Return the text of a note of which keywords are left, "" where there are none."""
    return f"{_KEYWORDS}{_BETWEEN.join(words)}" if words else ""


def read_keywords(sentence: str) -> list[str]:
    """Return the keywords of a sentence that has nothing else, none of another."""
    words = sentence.removeprefix(_KEYWORDS)
    return [] if words == sentence else words.split(_BETWEEN)


def format_full_text(blob: str, commit: str) -> str:
    """Return the value of the property."""
    return f"{blob[:12]}@{commit[:7]}"


def check_full_text(value: str) -> str:
    """Return the property's value, "" if it is none."""
    return value if _FULL_TEXT.fullmatch(value) else ""


def tell_shortened(value: str) -> str:
    """Return what is to be said of a note with this value, "" for nothing."""
    return f"shortened; full text at {value.partition('@')[2]}" if value else ""
