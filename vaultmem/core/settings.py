"""What settings say together: the words that some take, and which of them contradict each other."""

from __future__ import annotations

from collections.abc import Mapping

_EVERY = ("never", "day", "week")

#: The words that a key takes, where only some do.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "labels": ("short", "full"),
    "dream_every": _EVERY,
    "compact_every": _EVERY,
}

#: Keys of which the first may not be past the second, and what would never happen then.
_ORDER = (
    ("summary_after", "keywords_after", "no note would be left as a summary"),
    ("keywords_after", "archive_after", "no note would be left as keywords"),
    ("stale_after", "archive_after", "a note would be archived as soon as it is stale"),
)


def find_contradiction(values: Mapping[str, object]) -> str:
    """Return which settings contradict each other and what to do, "" if none do."""
    for first, second, so in _ORDER:
        least, most = values[first], values[second]
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            return (
                f'"{first}" is {least:g} and "{second}" {most:g}, so {so}; '
                f'set "{first}" to {most:g} or less, or "{second}" to {least:g} or more'
            )
    return ""
