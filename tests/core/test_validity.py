"""The time that a question asks about, and the day from which a text holds."""

from __future__ import annotations

from datetime import date

import pytest

from vaultmem.core.validity import Span, find_asked, find_end, find_start

TODAY = date(2026, 11, 23)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("Where did Maria live before June?", None, "2026-06-01"),
        ("Where did Maria live before December?", None, "2025-12-01"),
        ("until 2026-03-05, which broker?", None, "2026-03-05"),
        ("Who owned it prior to 3 May 2025?", None, "2025-05-03"),
        ("Who owned it in March 2026?", "2026-03-01", "2026-04-01"),
        ("Which version ran on 3 May?", "2026-05-03", "2026-05-04"),
        ("Who owned it in 2024?", "2024-01-01", "2025-01-01"),
        ("Who owned it on 29 February 2024?", "2024-02-29", "2024-03-01"),
        ("Which version ran on 29 February?", "2024-02-29", "2024-03-01"),
        ("Where did Maria live previously?", None, "2026-11-23"),
        ("Where did Maria live before?", None, "2026-11-23"),
        ("Wo wohnte Karin vor Juni?", None, "2026-06-01"),
        ("Wo wohnte Karin im Dezember 2025?", "2025-12-01", "2026-01-01"),
        ("Wer war am 03.05.2025 zust\u00e4ndig?", "2025-05-03", "2025-05-04"),
        ("Wo wohnte Karin fr\u00fcher?", None, "2026-11-23"),
    ],
)
def test_a_question_asks_about_a_time(question: str, start: str | None, end: str | None) -> None:
    days = (day and date.fromisoformat(day) for day in (start, end))

    assert find_asked(question, TODAY) == Span(*days)


@pytest.mark.parametrize(
    "question",
    [
        "Where does Maria live?",
        "What runs before the migration?",
        "may the worker retry in production",
        "on 31 February 2026",
        "What changed since June?",
    ],
)
def test_other_questions_ask_about_now(question: str) -> None:
    assert find_asked(question, TODAY) is None


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Maria moved to Denver in May.", "2026-05-01"),
        ("Viktor maintains the index since 3 April 2024.", "2024-04-03"),
        ("Karin wohnt seit Dezember in Bonn.", "2025-12-01"),
        ("As of 2026-02-01 the API is stable.", "2026-02-01"),
    ],
)
def test_a_text_says_from_when_on_it_holds(text: str, day: str) -> None:
    assert find_start(text, TODAY) == date.fromisoformat(day)


def test_a_text_ends_on_the_next_day_of_a_leap_year() -> None:
    assert find_end("Holm is closed until 29 February.", date(2028, 3, 5)) == date(2032, 2, 29)


def test_times_overlap_where_they_have_a_day_in_common() -> None:
    may, june, open_end = (
        Span(date(2026, 5, 1), date(2026, 6, 1)),
        Span(date(2026, 6, 1), date(2026, 7, 1)),
        Span(date(2026, 5, 31), None),
    )

    assert [may.overlaps(june), may.overlaps(open_end), open_end.overlaps(june)] == [
        False,
        True,
        True,
    ]
