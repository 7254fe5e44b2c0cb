"""Merges of merges: callouts stay a set, twins one note, and who merges first changes no fact."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.merging.merge_note import merge_texts
from vaultmem.core.merging.text import ConflictChoice, resolve_callouts
from vaultmem.core.notes.conflict import (
    OTHER_TEXT,
    Callout,
    PlacedCallout,
    Speaker,
    extract_callouts,
    find_callouts,
    insert_callouts,
)
from vaultmem.core.notes.frontmatter import read_frontmatter

BASE = "---\ntitle: Pier\n---\n# Pier\n\nIt is old.\n\nEnd.\n"
NAMES = ("ann", "ben", "cleo")


def by(name: str, later: str = "") -> tuple[str, Speaker]:
    return later, Speaker(name, "2026-11-22", f"{name}s")


def texts_of(text: str) -> set[str]:
    bare, placed = extract_callouts(text)
    said = {line for each in placed for line in each.callout.lines}
    return {line for line in [*bare.splitlines(), *said] if line.startswith("It is")}


@pytest.mark.campaign
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["a\n", "\n", "- b\n", "> q\n", "# H\n", "```\n"]), max_size=8),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.booleans()), max_size=4),
)
def test_callouts_are_taken_out_as_they_were_put_in(
    lines: list[str], places: list[tuple[int, int, bool]]
) -> None:
    text = "".join(lines)
    if "```" in text:  # In code nothing is a callout, and none is put there.
        text = text.replace("```\n", "```\ncode\n```\n")
        places = []
    placed = [
        PlacedCallout(
            Callout(OTHER_TEXT, Speaker("x" if named else ""), ("words", "")[:about], about), place
        )
        for place, about, named in places
        if place <= text.count("\n")
    ]
    placed.sort(key=lambda each: each.place)
    there = insert_callouts(text, placed)
    bare, found = extract_callouts(there)
    assert bare == text
    assert [each.place for each in found] == [each.place for each in placed]
    assert [each.callout.lines for each in found] == [each.callout.lines for each in placed]
    assert insert_callouts(bare, found).replace("somebody", "") == there.replace("somebody", "")


def test_three_sides_say_the_same_things_in_whatever_order_they_merge() -> None:
    """Which words stay above differs with who merges; what is said, by whom, does not."""
    sides = {name: BASE.replace("old", f"by {name}") for name in NAMES}
    for first, second, third in permutations(NAMES):
        once = merge_texts("a.md", BASE, sides[first], sides[second], *by(second))
        twice = merge_texts("a.md", BASE, once.text, sides[third], *by(third)).text
        assert texts_of(twice) == {f"It is by {name}." for name in NAMES}
        found = find_callouts(twice)
        assert {each.callout.speaker.author for each in found} == {second, third}
        assert twice.count("[!conflict]") == 2
        assert merge_texts("a.md", BASE, sides[first], twice, *by(third)).text == twice
        assert merge_texts("a.md", once.text, twice, once.text).text == twice


def test_crosswise_merges_come_to_the_same_facts_and_quote_no_callout() -> None:
    ours, theirs = (BASE.replace("old", f"by {name}") for name in ("ann", "ben"))
    left = merge_texts("a.md", BASE, ours, theirs, *by("ben")).text
    right = merge_texts("a.md", BASE, theirs, ours, *by("ann")).text
    for mine, other in ((left, right), (right, left)):
        met = merge_texts("a.md", BASE, mine, other, *by("x")).text
        assert texts_of(met) == {"It is by ann.", "It is by ben."}
        assert "> > " not in met


def test_what_one_side_has_resolved_stays_resolved() -> None:
    ours, theirs = (BASE.replace("old", f"by {name}") for name in ("ann", "ben"))
    met = merge_texts("a.md", BASE, ours, theirs, *by("ben")).text
    for choice, kept in ((ConflictChoice.OURS, "ann"), (ConflictChoice.THEIRS, "ben")):
        front = met[: read_frontmatter(met).body]
        resolved = front + resolve_callouts(met[len(front) :], choice)
        edited = met.replace("End.", "The end.")
        for pair in ((resolved, edited), (edited, resolved)):
            merged = merge_texts("a.md", met, *pair)
            assert merged.text == BASE.replace("old", f"by {kept}").replace("End.", "The end.")
            assert not merged.conflicts


def twin(name: str, second: int, said: str = "The pier is closed.", **more: str) -> str:
    fields = {"title": "Pier", "created": f"2026-11-22T10:00:0{second}", "agent": name, **more}
    lines = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f"---\n{lines}session: {name}-1\n---\n{said}\n"


def test_twins_are_one_note_whoever_merges_and_in_whatever_order() -> None:
    sides = [twin(name, number) for number, name in enumerate(NAMES)]
    first = merge_texts("a.md", "", sides[0], sides[1])
    assert first == merge_texts("a.md", "", sides[1], sides[0])
    assert (first.is_twin, first.conflicts, first.losses) == (True, (), ())
    found = set()
    for one, two, three in permutations(sides):
        text = merge_texts("a.md", "", merge_texts("a.md", "", one, two).text, three).text
        matter = read_frontmatter(text)
        values = {prop.name: prop.value for prop in matter.properties}
        assert (values["agent"], values["created"]) == ("ann", "2026-11-22T10:00:00")
        assert values["updated"] == "2026-11-22T10:00:02"
        found.add(tuple(sorted(values["confirmed_by"])))
        assert merge_texts("a.md", "", three, text).text == text
    assert found == {("ben, session ben-1", "cleo, session cleo-1")}


@pytest.mark.parametrize(
    ("more", "name", "kept"),
    [
        ({"state": "quarantined"}, "state", "quarantined"),
        ({"tags": "[a, b]"}, "tags", ("a", "b")),
        ({"confidence": "0.4"}, "confidence", "0.4"),
    ],
)
def test_what_only_one_twin_has_is_kept(
    more: dict[str, str], name: str, kept: str | tuple[str, ...]
) -> None:
    pair = [twin("ann", 0, state="active") if name == "state" else twin("ann", 0)]
    pair.append(twin("ben", 1, **more))
    random.Random(1).shuffle(pair)
    values = {
        x.name: x.value for x in read_frontmatter(merge_texts("a.md", "", *pair).text).properties
    }
    assert values[name] == kept


def test_the_other_wording_of_a_twin_is_kept_and_another_statement_is_none() -> None:
    pair = twin("ann", 0), twin("ben", 1, "The Pier is closed")
    text = merge_texts("a.md", "", *pair).text
    assert text.endswith("---\nThe pier is closed.\n")
    assert 'also_said:\n  - "ben, session ben-1: The Pier is closed"\n' in text
    other = twin("ben", 1, "The pier is open.")
    merged = merge_texts("a.md", "", twin("ann", 0), other, *by("ben"))
    assert not merged.is_twin
    assert texts_said(merged.text) == {"The pier is closed.", "The pier is open."}
    assert "agent: ann\n" in merged.text


def texts_said(text: str) -> set[str]:
    return {line.removeprefix("> ") for line in text.splitlines() if "The pier" in line}
