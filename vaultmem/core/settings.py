"""Rules for settings: allowed values, formats, ranges, and contradictions."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INTERVALS = ("never", "day", "week")

#: The allowed values of keys with a fixed set.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "pack_labels": ("short", "full"),
    "file_names": ("title", "kebab"),
    "dream_every": _INTERVALS,
    "compact_every": _INTERVALS,
}

#: The pattern of other keys, and its description.
SHAPES: Mapping[str, tuple[str, str]] = {
    "sync_remote": (
        r"[A-Za-z0-9][A-Za-z0-9._/-]*",
        "the name of a git remote, such as origin",
    ),
    "sync_every": (r"never|[1-9][0-9]{0,3}[mh]", "never, or minutes or hours, such as 5m or 1h"),
}

#: The range of whole numbers, if not from 1 to unlimited.
_RANGES: Mapping[str, tuple[int, int]] = {
    "commit_edits_after_seconds": (0, 86_400),
    "attachments_max_mib": (1, 100),
}

#: Two keys, of which the first must not exceed the second; the effect if so.
_ORDER = (
    ("summary_after_days", "keywords_after_days", "no note would be left as a summary"),
    ("keywords_after_days", "archive_after_days", "no note would be left as keywords"),
    ("stale_after_days", "archive_after_days", "a note would be archived as soon as it is stale"),
)


def find_contradiction(values: Mapping[str, object]) -> str:
    """Return which settings contradict each other and what to do, or ""."""
    if values["sync_every"] != "never" and not values["sync_remote"]:
        return '"sync_every" is set and "sync_remote" is not, so nothing would be synced; set both'
    for first, second, so in _ORDER:
        least, most = values[first], values[second]
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            return (
                f'"{first}" is {least:g} and "{second}" {most:g}, so {so}; '
                f'set "{first}" to {most:g} or less, or "{second}" to {least:g} or more'
            )
    return ""


def find_misfit(key: str, value: object) -> str:
    """Return the allowed values of a key if `value` is not one, else ""."""
    if key in CHOICES and value not in CHOICES[key]:
        return ", ".join(CHOICES[key])
    if key in SHAPES and isinstance(value, str) and value:
        pattern, requirement = SHAPES[key]
        return "" if re.fullmatch(pattern, value) else requirement
    return ""


def read_interval(text: str) -> float:
    """Return the seconds of "5m" or "1h", 0 for "never"."""
    if text == "never":
        return 0.0
    return int(text[:-1]) * {"m": 60.0, "h": 3_600.0}[text[-1]]


def set_line(text: str, key: str, value: object) -> str:
    """Return the text of settings with this value for a key; other lines are unchanged."""
    line = f"{key}: {value}"
    changed, count = re.subn(rf"^{key}:.*$", line, text, count=1, flags=re.MULTILINE)
    if count:
        return changed
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"


def whole(key: str, number: int) -> int:
    """Return a whole number if it is allowed for a key.

    Raises:
        ValueError: the number is too small or too large.
    """
    least, most = _RANGES.get(key, (1, number))
    if not least <= number <= most:
        raise ValueError
    return number


def share(number: float) -> float:
    """Return a number if it is between 0 and 1.

    Raises:
        ValueError: the number is outside this range.
    """
    if not 0 <= number <= 1:
        raise ValueError
    return number


def describe_type(value_type: type, key: str = "") -> str:
    """Return a description of the values of a setting of this type."""
    if key in _RANGES:
        return "a whole number, {} to {:,}".format(*_RANGES[key])
    names = {bool: "true or false", int: "a whole number above 0", float: "0 to 1"}
    return names.get(value_type, "text" if value_type is str else "a list of texts")
