"""Figures, units, dates and times in one form each."""

from __future__ import annotations

import re
from functools import cache

from vaultmem.core.languages import read_pairs

_NAMES = sorted((name.capitalize() for name in read_pairs("months")), key=len, reverse=True)

#: The names of months, as a pattern.
MONTHS = rf"(?:{'|'.join(_NAMES)})"


def read_date(raw: str) -> str:
    """Return `31.12.2027` or `2027-12-31` as the latter."""
    if "." in raw:
        day, month, year = raw.split(".")
        return f"{year}-{int(month):02}-{int(day):02}"
    return raw.removesuffix(":00")


def read_named_date(raw: str) -> str:
    """Return `14 March 2026`, `March 14` or `May 2025` as a date; no year where none is said."""
    name = re.search(MONTHS, raw)
    month = int(read_pairs("months")[name.group().lower()]) if name else 0
    numbers = [int(part) for part in re.findall(r"\d+", raw)]
    year = next((number for number in numbers if number > 31), None)
    day = next((number for number in numbers if number <= 31), None)
    return f"{year or ''}-{month:02}" + (f"-{day:02}" if day else "")


def read_time(raw: str) -> str:
    """Return `2:30 pm` or `14:30` as the latter."""
    hours, _, rest = raw.partition(":")
    hour = int(re.sub(r"\D", "", hours))
    minute = int(rest[:2]) if rest else 0
    if raw.lower().endswith("pm") and hour < 12:
        hour += 12
    return f"{hour:02}:{minute:02}"


def read_figure(text: str) -> str:
    """Return a figure without the marks between its thousands; 1.5 stays, and 3.10 is not 3.1."""
    if re.fullmatch(r"-?\d{1,3}(?:[.,_ ]\d{3})+", text):
        return re.sub(r"[.,_ ]", "", text)
    text = re.sub(r"(?<=\d)[,_ ](?=\d{3}\b)", "", text)
    return text.replace(",", ".").replace(" ", "")


@cache
def read_units() -> dict[str, tuple[str, float]]:
    """Return what each unit measures, and its factor."""
    rows = ((unit, *said.split()) for unit, said in read_pairs("units").items())
    return {unit: (dimension, float(factor)) for unit, dimension, factor in rows}
