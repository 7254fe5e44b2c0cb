"""Statements whose subjects differ in a date, number or identifier concern different things."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from vaultmem.core.similarity.compare import KnownText, compare_texts
from vaultmem.core.similarity.facts import read_facts
from vaultmem.core.similarity.subjects import find_subjects, find_titled
from vaultmem.core.similarity.updates import find_update

SERIES = Path(__file__).parents[2] / "benchmarks/series.jsonl"


def is_reported(old: str, new: str) -> bool:
    """Tell whether two texts are taken for two values of one thing."""
    if compare_texts(new, KnownText(old)).is_contradiction:
        return True
    return find_update(read_facts(old), read_facts(new)) is not None


@pytest.mark.parametrize(
    ("one", "other", "keys"),
    [
        (
            "On day 1 the boiler pressure was 1.1 bar.",
            "On day 8 the boiler pressure was 1.8 bar.",
            ("day 1", "day 8"),
        ),
        (
            "2026-11-01: boiler pressure 1.1 bar",
            "2026-11-02: boiler pressure 1.3 bar",
            ("2026-11-01", "2026-11-02"),
        ),
        ("Room 12 has a projector.", "Room 13 has no projector.", ("Room 12", "Room 13")),
        ("INV-1041 is paid.", "INV-1042 is not paid.", ("INV-1041", "INV-1042")),
        ("Queue at 10:02: 14 jobs", "Queue at 10:07: 61 jobs", ("10:02", "10:07")),
        ("We saw 3 mice in room 5.", "We saw 9 mice in room 6.", ("room 5", "room 6")),
        ("Zimmer 21 kostet 80 Euro.", "Zimmer 22 kostet 95 Euro.", ("Zimmer 21", "Zimmer 22")),
        ("v1.4.0 closed 31 issues.", "v1.5.0 closed 18 issues.", ("v1.4.0", "v1.5.0")),
        ("The tank was full on 3 May.", "The tank was not full on 4 May.", ("3 May", "4 May")),
    ],
)
def test_keys_tell_things_apart(one: str, other: str, keys: tuple[str, str]) -> None:
    assert find_subjects(one, other) == keys
    assert find_subjects(other, one) == keys[::-1]
    assert not is_reported(one, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Room 12 seats 8 people.", "Room 12 seats 10 people."),
        ("The standup is at 9:30.", "The standup is at 10:00."),
        ("At 6:00 the bakery opens.", "At 7:00 the bakery opens."),
        ("The API listens on port 8080.", "The API listens on port 9090."),
        (
            "Python 3.11 is the oldest version.",
            "Python 3.12 is the oldest version.",
        ),
        ("Max 5 connections are allowed.", "Max 20 connections are allowed now."),
        ("The rent is 900 euros since March 2025.", "The rent is 950 euros since March 2026."),
        ("Boiler: 1.1 bar, 60 degrees", "Boiler: 1.5 bar, 65 degrees"),
        ("The archive moved to Hall 4 on 3 May.", "The archive moved to Hall 6 on 8 September."),
        ("Keep 7 daily backups.", "Keep 14 daily backups."),
    ],
)
def test_a_new_value_of_one_thing_is_reported(old: str, new: str) -> None:
    assert find_subjects(old, new) is None
    assert is_reported(old, new)


def test_titles_and_first_sentences_are_keys_of_the_whole_text() -> None:
    text = "Boiler pressure was {} bar."
    days = ("2026-11-01", "2026-11-02")
    assert find_titled(text.format(1.1), days[0], text.format(1.3), days[1]) == days
    bill = "Invoice {} came from Kurz. The amount is {} euros."
    keys = find_titled(bill.format(1041, 300), "", bill.format(1042, 450), "")
    assert keys == ("Invoice 1041", "Invoice 1042")
    assert find_titled(text.format(1.1), "Boiler", text.format(1.3), "Boiler") is None
    assert find_titled(text.format(1.1), "note-1", text.format(1.3), "note-2") is None


@pytest.mark.campaign
def test_a_set_of_series_and_updates_is_told_apart() -> None:
    flagged, reported = 0, 0
    cases = [json.loads(line) for line in SERIES.read_text(encoding="utf-8").splitlines()]
    for case in cases:
        is_told = any(is_reported(*pair) for pair in combinations(case["texts"], 2))
        flagged += is_told and case["kind"] == "series"
        reported += is_told and case["kind"] == "update"
    assert flagged <= 3
    assert reported >= 166
