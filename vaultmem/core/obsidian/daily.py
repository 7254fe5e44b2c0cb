"""The day that a note is about by its name: a daily note's, or one that begins with a date.

Source: moment.js's documentation of its format tokens, for the names of daily notes.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache

from vaultmem.core.obsidian.settings import DailyNotes
from vaultmem.core.paths import fold

_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)")

_TOKEN = re.compile(
    r"\[(?P<quoted>[^\[\]]*+)\]|(?P<token>YYYY|YY|Q|Do|D{1,4}|M{1,4}|d{1,4}|E|ww?|WW?|gggg|GGGG"
    r"|HH?|hh?|mm?|ss?|A|a|X|x)|(?P<other>.)",
    re.DOTALL,
)

#: What each token looks like, and which part of a date it is, if any.
_WORD = r"[^\W\d_]+\.?"
_SHAPES = {
    "YYYY": (r"\d{4}", "year"),
    "YY": (r"\d{2}", "short"),
    "GGGG": (r"\d{4}", "iso_year"),
    "MMMM": (_WORD, "name"),
    "MMM": (_WORD, "name"),
    "MM": (r"\d{2}", "month"),
    "M": (r"\d{1,2}", "month"),
    "Do": (r"\d{1,2}(?=\D)[^\W\d_]{0,3}\.?", "day"),
    "DDDD": (r"\d{3}", "of_year"),
    "DDD": (r"\d{1,3}", "of_year"),
    "DD": (r"\d{2}", "day"),
    "D": (r"\d{1,2}", "day"),
    "WW": (r"\d{2}", "week"),
    "W": (r"\d{1,2}", "week"),
    "E": (r"\d", "weekday"),
    **dict.fromkeys(("dddd", "ddd", "dd"), (_WORD, "")),
    **dict.fromkeys(("A", "a"), ("[AaPp][Mm]", "")),
    **dict.fromkeys(("X", "x"), (r"\d+", "")),
    "gggg": (r"\d{4}", ""),
}
_NUMBER = (r"\d{1,2}", "")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def read_day(path: str, daily: DailyNotes) -> str:
    """Return the day that a note's path says, as ISO 8601 text; "" where it says none.

    It is said by the format of daily notes in their folder, else by a name that begins with a date
    such as 2026-11-21. Names of months are English ones.
    """
    if daily.format != DailyNotes().format:
        folder = f"{daily.folder}/" if daily.folder else ""
        if fold(path).startswith(fold(folder)):
            match = _compile(daily.format).fullmatch(path[len(folder) :].rpartition(".")[0])
            if match and (day := _find_day(match)):
                return day.isoformat()
    found = _DATE.match(path.rpartition("/")[2])
    try:
        return date.fromisoformat(found[1]).isoformat() if found else ""
    except ValueError:
        return ""


@lru_cache(maxsize=4)
def _compile(written: str) -> re.Pattern[str]:
    """Return what a path below the folder of daily notes looks like; parts are numbered."""
    parts: list[str] = []
    for number, match in enumerate(_TOKEN.finditer(written)):
        if match["token"] is None:
            parts.append(re.escape(match["quoted"] or match["other"] or ""))
            continue
        shape, part = _SHAPES.get(match["token"], _NUMBER)
        parts.append(f"(?P<{part}_{number}>{shape})" if part else shape)
    return re.compile("".join(parts))


def _find_day(match: re.Match[str]) -> date | None:
    """Return the day that all parts together mean, None if they contradict or are not enough."""
    said: dict[str, set[int]] = {}
    for name, text in match.groupdict().items():
        part = name.rpartition("_")[0]
        if part == "name":
            part = "month"
            value = _MONTHS.index(text[:3].lower()) + 1 if text[:3].lower() in _MONTHS else 0
        else:
            value = int(re.match(r"\d+", text)[0])  # type: ignore[index]
        if part == "short":
            part, value = "year", 2000 + value
        said.setdefault(part, set()).add(value)
    if any(len(values) > 1 for values in said.values()):
        return None
    one = {part: values.pop() for part, values in said.items()}
    try:
        if {"year", "month", "day"} <= one.keys():
            return date(one["year"], one["month"], one["day"])
        if {"year", "of_year"} <= one.keys():
            return date(one["year"], 1, 1) + timedelta(one["of_year"] - 1)
        if {"iso_year", "week", "weekday"} <= one.keys():
            return date.fromisocalendar(one["iso_year"], one["week"], one["weekday"])
    except (ValueError, OverflowError):
        return None
    return None
