"""Comparing two versions of a note: what a person is told, and that nothing is left out."""

from __future__ import annotations

import difflib

import pytest
from branching import change
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import generated_notes, make_note
from vaultmem.core.notes.changes import (
    ChangeOp,
    NoteChange,
    PropertyChange,
    compare_notes,
    diff_text,
    summarise_change,
)
from vaultmem.core.text.line_diff import split_lines

BASE = """\
---
title: Session tokens
state: candidate
tags:
  - auth
  - old
own:
  nested: 1
---
# Session tokens

one
two
three
four
five
six
seven
"""


def compare(old: str | None, new: str | None) -> NoteChange:
    return compare_notes(*(None if text is None else make_note(text) for text in (old, new)))


def edit(*pairs: str, text: str = BASE) -> str:
    return change(text, *pairs)


def test_a_change_is_told_by_property_and_by_line() -> None:
    new = edit("candidate", "active", "  - old\n", "  - a/b\n", "title: Session tokens\n", "")
    new = edit("# Session tokens\n", "# Session tokens\n\nzero", "six\n", "6\n", text=new)
    found = compare(BASE, edit("own:", "kind: decision\nown:", text=new))

    assert found.op == ChangeOp.REPLACE
    assert found.properties == (
        PropertyChange(ChangeOp.REPLACE, "state", "candidate", "active"),
        PropertyChange(ChangeOp.REPLACE, "tags", ("auth", "old"), ("auth", "a/b")),
        PropertyChange(ChangeOp.ADD, "kind", "", "decision"),
        PropertyChange(ChangeOp.REMOVE, "title", "Session tokens", ""),
    )
    assert found.body == (
        "@@ -10,9 +10,10 @@",
        " # Session tokens",
        " ",
        "+zero",
        " one",
        " two",
        " three",
        " four",
        " five",
        "-six",
        "+6",
        " seven",
    )
    assert (found.added, found.removed) == (2, 1)
    assert summarise_change(found) == (
        "state: candidate -> active, tags +a/b -old, +kind: decision, -title, body +2 -1"
    )


def test_a_new_and_a_removed_note_are_told_whole() -> None:
    added, removed = compare(None, BASE), compare(BASE, None)

    assert (added.op, removed.op) == (ChangeOp.ADD, ChangeOp.REMOVE)
    assert [item.name for item in added.properties] == ["title", "state", "tags", "own"]
    assert {item.op for item in added.properties} == {ChangeOp.ADD}
    assert [(item.new, item.old) for item in removed.properties] == [
        (item.old, item.new) for item in added.properties
    ]
    assert (added.added, added.removed) == (removed.removed, removed.added) == (9, 0)
    assert added.body[:2] == ("@@ -0,0 +10,9 @@", "+# Session tokens")
    assert removed.body[0] == "@@ -10,9 +0,0 @@"
    assert summarise_change(added) == (
        "new note, +title: Session tokens, +state: candidate, tags +auth +old, "
        "+own: nested: 1, body +9"
    )
    assert summarise_change(removed) == "removed, body -9"
    with pytest.raises(ValueError, match="no two versions"):
        compare(None, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state: candidate\n", "state:   candidate\n"),
        ("state: candidate\n", "state: 'candidate'  # why\n"),
        ("state: candidate\n", "# a comment\nstate: candidate\n"),
        ("state: candidate\n", "state: candidate\r\n"),
        ("  - old\n", "    \n  - old\n"),
    ],
)
def test_what_changes_no_property_is_still_told(old: str, new: str) -> None:
    found = compare(BASE, edit(old, new))

    assert found
    assert (found.properties, found.body) == ((), ())
    first = new.split("\n")[0]
    assert found.frontmatter_diff[0].startswith("@@ -")
    assert f"+{first}" in found.frontmatter_diff
    assert summarise_change(found) == "frontmatter rewritten"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('x: "1"', "x: 1", 'x: "1" -> 1'),
        ("x: a", "x: [a, b]", "x: a -> [a, b]"),
        ("x: [a, b]", "x: [b, a]", "x reordered"),
        ("x: [a, a]", "x: [a]", "x -a"),
        ("x: [a]", "y: b", "+y: b, x -a"),
        ("x: a", "x:", 'x: a -> ""'),
        ("x: {a: 1}", "x: {a: 2}", "x: {a: 1} -> {a: 2}"),
        ("x: a", f"x: {'b' * 99}", f"x: a -> {'b' * 37}..."),
        ("x: a", 'x: "b\\e[2J\\u202Ec"', "x: a -> b\\x1b[2J\\u202ec"),
        ("x: {a: 1}", "x: {a: 1}", "no change"),
    ],
)
def test_a_property_in_one_line(old: str, new: str, told: str) -> None:
    found = compare(f"---\n{old}\n---\n", f"---\n{new}\n---\n")
    assert summarise_change(found) == told
    assert bool(found) == (old != new)


def test_many_properties_are_counted_in_the_summary() -> None:
    block = "".join(f"p{number}: {number}\n" for number in range(20))
    found = compare("text\n", f"---\n{block}---\ntext\n")
    assert len(found.properties) == 20
    assert summarise_change(found).endswith("+p7: 7, 12 more properties")


def test_frontmatter_that_cannot_be_read_is_compared_as_lines() -> None:
    old = "---\ntitle: {{title}} {{date}}\n---\nbody\n"
    found = compare(old, old.replace("body", "other"))
    assert found.properties == ()
    assert found.body == (
        "@@ -1,4 +1,4 @@",
        " ---",
        " title: {{title}} {{date}}",
        " ---",
        "-body",
        "+other",
    )

    mended = compare(old, "---\ntitle: x\n---\nbody\n")
    assert "-title: {{title}} {{date}}" in mended.body
    assert (mended.added, mended.removed, mended.frontmatter_diff) == (1, 1, ())


def test_a_rename_and_line_ends_alone_are_told() -> None:
    same = make_note(BASE)
    assert not compare_notes(same, same)
    assert summarise_change(compare_notes(same, same)) == "no change"
    renamed = compare_notes(same, same, renamed_from="notes/a\n.md")
    assert renamed
    assert summarise_change(renamed) == "renamed from notes/a\\n.md"
    crlf = compare("a\nb\n", "a\r\nb\n")
    assert crlf.body == ("@@ -1,2 +1,2 @@", "-a", "+a\r", " b")
    last = compare("a\nb\n", "a\nb")
    assert last.body == (
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+b",
        "\\ No newline at end of file",
    )


@pytest.mark.campaign
@settings(max_examples=150, deadline=None)
@given(*[st.lists(st.integers(0, 40).map("line {}\n".format), max_size=30, unique=True)] * 2)
def test_the_diff_is_the_one_that_difflib_writes(old: list[str], new: list[str]) -> None:
    shared = [line for line in old if line in new]
    new = shared + [line for line in new if line not in shared]  # Same order: one shortest diff.
    told = [line.rstrip("\n") for line in difflib.unified_diff(old, new, n=3)][2:]
    shown, added, removed = diff_text("".join(old), "".join(new))
    assert list(shown) == told
    assert added == sum(line.startswith("+") for line in told)
    assert removed == sum(line.startswith("-") for line in told)


@pytest.mark.campaign
@settings(max_examples=60, deadline=None)
@given(generated_notes(), generated_notes())
def test_every_difference_of_two_notes_is_told(one: object, other: object) -> None:
    old, new = (make_note(note.text) for note in (one, other))  # type: ignore[attr-defined]
    found = compare_notes(old, new)
    assert bool(found) == (old.text != new.text)
    values = [
        {x.name: (x.kind, x.value) for x in note.frontmatter.properties} for note in (old, new)
    ]
    told = {item.name for item in found.properties}
    assert {
        name for name in values[0] | values[1] if values[0].get(name) != values[1].get(name)
    } <= told
    parts = (found.frontmatter_diff, found.body)
    for note, mark in ((old, "-"), (new, "+")):
        shown = [line[1:] for part in parts for line in part if line[0] == mark]
        twin = new if note is old else old
        kept = [line.removesuffix("\n") for line in split_lines(twin.text)]
        for line in split_lines(note.text):
            assert line.removesuffix("\n") in kept or line.removesuffix("\n") in shown
    assert "\n" not in summarise_change(found)
