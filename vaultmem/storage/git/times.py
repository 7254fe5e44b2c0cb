"""Times of commits, which may be any: git takes years of five digits, and zones of four days."""

from __future__ import annotations

import re
from datetime import UTC, datetime

#: A day before the end of the year 9999, in seconds since the epoch: it has a date in each zone.
_LAST = 253_402_214_400

_SOUND = re.compile(r"\d{4}-.*(Z|[+-](0\d|1[0-4]):?[0-5]\d)")


def read_time(text: str) -> int:
    """Return seconds since the epoch, the last that have a date for what is later."""
    return min(int(text), _LAST)


def read_moment(text: str, at: int) -> str:
    """Return a time in ISO 8601, that of `at` in UTC for one that no calendar has."""
    if _SOUND.fullmatch(text):
        return text
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
