"""One line of a text that shows why it was found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vaultmem.core.finding.terms import count_terms

_PARTS = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def choose_excerpt(text: str, terms: Sequence[str], width: int = 100) -> str:
    """Return the line or sentence with most of the terms, the first of equals, cut to `width`."""
    parts = [" ".join(part.split()) for part in _PARTS.split(text)[:400]]
    parts = [part for part in parts if part] or [""]
    best = max(parts, key=lambda part: len(count_terms(part).keys() & set(terms)))
    if len(best) <= width:
        return best
    return best[:width].rsplit(" ", 1)[0] + " ..."
