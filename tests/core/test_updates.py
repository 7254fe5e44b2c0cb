"""New values of old facts: seen in plain words, by relation and subject; neighbours are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vaultmem.core.similarity.compare import KnownText, compare_texts
from vaultmem.core.similarity.facts import read_facts
from vaultmem.core.similarity.updates import ValueUpdate, find_update

FILE = Path(__file__).parents[2] / "benchmarks" / "update_pairs.jsonl"
PAIRS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def see_update(old: str, new: str) -> ValueUpdate | None:
    """Return how a text updates an older one, if it does."""
    return find_update(read_facts(old), read_facts(new))


@pytest.mark.parametrize(
    ("part", "share"),
    [*((part, 0.85) for part in ("tune", "held-out", "second")), ("fourth", 0.5), ("fifth", 0.7)],
)
def test_most_updates_are_seen_and_neighbours_are_not(part: str, share: float) -> None:
    def count(kind: str) -> tuple[int, int]:
        chosen = [p for p in PAIRS if p["part"] == part and p["kind"] == kind]
        return sum(see_update(p["old"], p["new"]) is not None for p in chosen), len(chosen)

    seen, updates = count("update")
    wrong, neighbours = count("neutral")
    assert seen >= share * updates
    assert wrong <= 0.02 * neighbours


@pytest.mark.parametrize(
    ("old", "new", "kind", "before", "after"),
    [
        ("Maria lives in Boston.", "Maria moved to Denver.", "city", "Boston", "Denver"),
        ("CI runs on Jenkins.", "CI runs on GitHub Actions.", "means", "Jenkins", "GitHub Actions"),
        (
            "The importer is written in Python.",
            "The importer was rewritten in Rust.",
            *("means", "Python", "Rust"),
        ),
        (
            "The bucket is in eu-west-1.",
            "The bucket is in eu-north-1.",
            *("city", "eu-west-1", "eu-north-1"),
        ),
        ("Tom prefers tea.", "Tom prefers coffee.", "value", "tea", "coffee"),
        ("The queue is Redis.", "The queue is RabbitMQ.", "value", "Redis", "RabbitMQ"),
        (
            "The region of flakuron is north.",
            "The region of flakuron is south.",
            *("value", "north", "south"),
        ),
        ("The color of Holm is green.", "The color of Holm is blue.", "value", "green", "blue"),
        ("Die Farbe von Holm ist grün.", "Die Farbe von Holm ist blau.", "value", "grün", "blau"),
    ],
)
def test_an_update_names_both_values(
    old: str, new: str, kind: str, before: str, after: str
) -> None:
    found = see_update(old, new)

    assert found is not None
    assert found[2:] == (kind, before, after)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Joanna and Nate talked on 23 January 2022.", "Joanna and Nate talked on 4 June 2022."),
        ("Kim met Ana in June.", "Kim met Ana in July."),
        ("On 3 July 2023 the demo was given.", "On 3 June 2023 the demo was given."),
    ],
)
def test_what_happened_on_another_day_contradicts_nothing(one: str, other: str) -> None:
    assert not compare_texts(one, KnownText(other)).is_contradiction
    assert see_update(one, other) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The region of flakuron is north.", "The region of pelagus is south."),
        ("The region of flakuron is north.", "The region of flakuron may be south."),
        ("The region of flakuron is flat and dry.", "The region of flakuron is rich and old."),
        ("The region is flat.", "The region is rich."),
        ("The mood of the team is calm.", "The mood of the team is good."),
        ("The region of flakuron is north.", "The status of flakuron is south."),
    ],
)
def test_another_word_about_a_thing_is_no_other_value_of_it(one: str, other: str) -> None:
    assert see_update(one, other) is None


def test_another_date_of_one_thing_is_a_contradiction_still() -> None:
    found = compare_texts("The launch is on 3 July.", KnownText("The launch is on 3 June."))

    assert found.is_contradiction


@pytest.mark.parametrize(
    "line", ["x " * 40_000, "Tom moved to " * 5_000, "a" * 90_000, "," * 90_000]
)
def test_a_hostile_text_is_read_quickly(line: str) -> None:
    assert see_update("Tom lives in Boston.", line) is None
