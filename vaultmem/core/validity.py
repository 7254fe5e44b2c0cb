"""Validity of facts: the time that a query asks about, and the dates in a text."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from functools import cache
from typing import NamedTuple

from vaultmem.core.languages import read_lines, read_pairs
from vaultmem.core.similarity.words import MONTHS


class Span(NamedTuple):
    """A period from its first day to before `end`; None means unbounded."""

    start: date | None
    end: date | None

    def overlaps(self, other: Span) -> bool:
        """Return whether two periods have a day in common."""
        is_later = self.start is not None and other.end is not None and self.start >= other.end
        is_earlier = self.end is not None and other.start is not None and other.start >= self.end
        return not (is_later or is_earlier)


_TIME = (
    r"(?P<iso>\d{4}-\d\d(?:-\d\d)?)\b|(?P<dotted>\d{1,2}\.\d{1,2}\.\d{4})\b"
    rf"|(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?)?(?P<month>{MONTHS})\b"
    r"(?:\.? (?P<day_behind>\d{1,2})(?:st|nd|rd|th)?(?![\d:]))?(?:,? (?P<year>\d{4})\b)?"
    r"|(?P<only_year>(?:19|20)\d\d)\b"
)


#: The start of a label for a note that is not valid in the relevant period.
EXPIRED, EARLY = "expired since ", "not valid before "


def describe_limits(start: date | None, end: date | None, on: Span) -> str:
    """Return the label of a text valid from `start` to before `end`, "" if valid in `on`."""
    if Span(start, end).overlaps(on):
        return ""
    is_over = end is not None and on.start is not None and end <= on.start
    return f"{EXPIRED}{end}" if is_over else f"{EARLY}{start}"


def is_invalid(label: str) -> bool:
    """Return whether a hit's label marks it as not valid in the relevant period."""
    return label.startswith((EXPIRED, EARLY))


def read_day(text: str) -> date | None:
    """Return the day of an ISO 8601 date or timestamp, or None."""
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        return None


def find_asked(question: str, today: date) -> Span | None:
    """Return the past period that a query asks about (before June, in 2024, formerly), or None."""
    if match := _compiled("before").search(question):
        span = _read_span(match, today)
        return span and Span(None, span.start)
    if match := _compiled("during").search(question):
        return _read_span(match, today)
    is_past = any(_compiled(sort).search(question) for sort in ("past", "last"))
    return Span(None, today) if is_past else None


def find_start(text: str, written: date) -> date | None:
    """Return the day since which a text is valid (since May, in April 2026), or None.

    A month without a year is the last one before `written`.
    """
    match = _compiled("since").search(text) or _compiled("during").search(text)
    span = _read_span(match, written) if match else None
    return span.start if span else None


def find_end(text: str, written: date) -> date | None:
    """Return the day from which a text is no longer valid (until Friday), or None.

    A weekday is the next one after `written`. Days up to `written` are ignored.
    """
    for match in _until().finditer(text):
        end = _read_end(match, written)
        if end is not None and end > written:
            return end
    return None


def _read_end(match: re.Match[str], written: date) -> date | None:
    if weekday := match["weekday"]:
        number = int(read_pairs("weekdays")[weekday.casefold()])
        return written + timedelta(days=(number - written.isoweekday() - 1) % 7 + 1)
    if match["tomorrow"]:
        return written + timedelta(days=1)
    if match["week"]:
        return written + timedelta(days=8 - written.isoweekday())
    if match["end_month"]:
        return _span_month(written.year, written.month).end
    if match["end_year"]:
        return date(written.year + 1, 1, 1)
    span = _read_span(match, written)
    if span is None or span.start is None:
        return None
    # A month or a day without a year is the next one; in other phrases it is the last one.
    if not match["month"] or match["year"] or span.start > written:
        return span.start
    years = range(span.start.year + 1, span.start.year + 9)
    return min(_list_days(span.start.month, span.start.day, years), default=None)


@cache
def _until() -> re.Pattern[str]:
    ends = "|".join(
        f"(?P<{name}>(?i:{_join_words(sort)}))"
        for name, sort in (
            *(("tomorrow", "tomorrow"), ("week", "week")),
            *(("end_month", "month"), ("end_year", "year")),
        )
    )
    weekdays = "|".join(map(re.escape, read_pairs("weekdays")))
    weekday = rf"(?:next |nächsten |kommenden )?(?P<weekday>(?i:{weekdays}))"
    return re.compile(rf"\b(?i:{_join_words('until')}) (?:the )?(?:{weekday}|{ends}|{_TIME})\b")


def _join_words(sort: str) -> str:
    words = [line.partition(" ")[2] for line in read_lines("times") if line.startswith(f"{sort} ")]
    return "|".join(re.escape(each) for each in sorted(words, key=len, reverse=True))


@cache
def _compiled(sort: str) -> re.Pattern[str]:
    ties = _join_words(sort)
    time = {"past": "", "last": r"\W*$"}.get(sort, rf" (?:the )?(?:{_TIME})")
    return re.compile(rf"\b(?i:{ties})\b{time}")


def _read_span(match: re.Match[str], today: date) -> Span | None:
    try:
        return _make_span(match.groupdict(), today)
    except (ValueError, OverflowError):
        return None


def _make_span(groups: dict[str, str | None], today: date) -> Span:
    if year := groups["only_year"]:
        return Span(date(int(year), 1, 1), date(int(year) + 1, 1, 1))
    if dotted := groups["dotted"]:
        day, month, of_year = map(int, dotted.split("."))
        return _span_day(date(of_year, month, day))
    if iso := groups["iso"]:
        parts = [int(part) for part in iso.split("-")]
        return _span_day(date(*parts)) if len(parts) == 3 else _span_month(*parts)
    number = int(read_pairs("months")[str(groups["month"]).casefold()])
    of_day = groups["day"] or groups["day_behind"]
    if groups["year"]:
        start = date(int(groups["year"]), number, int(of_day or 1))
    else:
        days = _list_days(number, int(of_day or 1), range(today.year - 8, today.year + 1))
        start = max(day for day in days if day <= today)
    return _span_day(start) if of_day else _span_month(start.year, number)


def _list_days(month: int, day: int, years: Iterable[int]) -> Iterator[date]:
    """Yield the day of each year that has it: 29 February is not in each."""
    for year in years:
        with contextlib.suppress(ValueError):
            yield date(year, month, day)


def _span_day(day: date) -> Span:
    return Span(day, day + timedelta(days=1))


def _span_month(year: int, month: int) -> Span:
    return Span(date(year, month, 1), date(year + month // 12, month % 12 + 1, 1))
