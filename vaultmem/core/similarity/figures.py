"""Figures, dates and times in one form each."""

from __future__ import annotations

import re

from vaultmem.core.similarity import quantities
from vaultmem.core.similarity.patterns import MONTHS


def read_date(raw: str) -> str:
    """Return `31.12.2027` or `2027-12-31` as the latter."""
    if "." in raw:
        day, month, year = raw.split(".")
        return f"{year}-{int(month):02}-{int(day):02}"
    return raw.removesuffix(":00")


def read_named_date(raw: str) -> str:
    """Return `14 March 2026`, `March 14` or `May 2025` as a date; no year where none is said."""
    name = re.search(MONTHS, raw)
    month = int(pairs(quantities.MONTHS)[name.group().lower()]) if name else 0
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


def pairs(text: str) -> dict[str, str]:
    """Return a table that is written as words in pairs."""
    parts = text.split()
    return dict(zip(parts[::2], parts[1::2], strict=True))


def units() -> dict[str, tuple[str, float]]:
    """Return dimension and factor of each unit."""
    parts = quantities.UNITS.split()
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {unit: (dimension, float(factor)) for unit, dimension, factor in triples}
