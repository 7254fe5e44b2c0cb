"""Parse dates and timestamps as users write them; the result of a vault check."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import RefusedError

_DAY = compile_later(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = compile_later(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?"
)

#: Dates whose order of day and month is ambiguous.
_AMBIGUOUS = compile_later(
    r"\d{1,4}([/.])\d{1,2}\1\d{1,4}|\d{1,2}-\d{1,2}-\d{2,4}|\d{4}-\d{1,2}-\d{1,2}"
)

_FORM = "write a day as 2026-10-01 or a time as 2026-10-01T12:00"


def is_timestamp(text: str) -> bool:
    """Return whether a text has the form of a date or timestamp, valid or not."""
    return any(form.fullmatch(text.strip()) for form in (_DAY, _TIMESTAMP, _AMBIGUOUS))


def parse_timestamp(text: str, end_of_day: bool = False) -> float:
    """Return a date or timestamp as seconds since the epoch; without an offset, local time.

    A date is its first second, or its last with `end_of_day`.

    Raises:
        RefusedError: the text is neither, does not exist as a date, or is ambiguous.
    """
    plain = text.strip()
    try:
        if _DAY.fullmatch(plain):
            clock = time(23, 59, 59) if end_of_day else time()
            return datetime.combine(date.fromisoformat(plain), clock).timestamp()
        if _TIMESTAMP.fullmatch(plain):
            return datetime.fromisoformat(plain).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise RefusedError(f'"{text}": there is no such time ({error}); {_FORM}') from None
    if _AMBIGUOUS.fullmatch(plain):
        raise RefusedError(f'"{text}": an ambiguous day; {_FORM}')
    raise RefusedError(f'"{text}" is neither a day nor a time; {_FORM}')


_AGE = compile_later(r"([0-9]{1,6})([hdwmy])")
_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}


def parse_age(text: str) -> float:
    """Return the seconds of an age such as 12h, 90d, 12w, 6m (of 30 days) or 1y (of 365).

    Raises:
        RefusedError: the text is not an age.
    """
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise RefusedError(f'"{text}" is not an age; write it like 12h, 90d, 12w or 1y')
    return int(match[1]) * _DAYS[match[2]] * 86_400


# Results of one check of a vault.


class Verdict(StrEnum):
    """The outcome of a check; a warning can be intended by the user."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(NamedTuple):
    """One check: its finding in one line, the files it found, the remedy, and what was fixed."""

    name: str
    verdict: Verdict = Verdict.OK
    message: str = ""
    paths: tuple[str, ...] = ()
    remedy: str = ""
    fixed: tuple[str, ...] = ()


def count_found(name: str, verdict: Verdict, text: str, files: Iterable[str], remedy: str) -> Check:
    """Return an OK check if nothing is found, else one with the number and paths found."""
    paths = tuple(files)
    return Check(name, verdict, f"{text}: {len(paths):,}", paths, remedy) if paths else Check(name)
