"""Edits of one property, by example: what a person sees in the diff."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from vaultmem.core.notes.edit_properties import PropertyValue, remove_property, set_property
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.errors import RefusedError


@pytest.mark.guarantee
@pytest.mark.parametrize(
    ("block", "name", "value", "expected"),
    [
        ("kind: decision # why", "kind", "reflection", "kind: reflection # why"),
        ("kind:   'decision'", "kind", "reflection", "kind:   reflection"),
        ("kind:", "kind", "reflection", "kind: reflection"),
        ("kind: # none yet", "kind", "reflection", "kind: reflection # none yet"),
        ("kind:\n  decision\nb: 1", "kind", "reflection", "kind:\n  reflection\nb: 1"),
        ("a: |\n  one\n\n  two\nb: 1", "a", "three", "a: three\nb: 1"),
        ("a: |\nb: 1", "a", "text", "a: text\nb: 1"),
        ("a: 'one\n\n  two'\nb: 1", "a", "three", "a: three\nb: 1"),
        ("n: 010\nt: 12:30:45", "x", 1, "n: 010\nt: 12:30:45\nx: 1"),
        ("pinned: false", "pinned", True, "pinned: true"),
        ("created: 2026-11-21", "created", date(2027, 1, 2), "created: 2027-01-02"),
        ("a: 1", "a", datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC), "a: 2027-01-02T03:04:05"),
        ("a: 1", "a", "yes", 'a: "yes"'),
        ("a: 1", "a", "No", 'a: "No"'),
        ("a: 1", "a", "2026-11-21", 'a: "2026-11-21"'),
        ("a: 1", "a", "[[Note]]", 'a: "[[Note]]"'),
        ("a: 1", "a", "x: y # z", 'a: "x: y # z"'),
        ("a: 1", "a", "", 'a: ""'),
        ("a: 1", "a", "line\nbreak", 'a: "line\\nbreak"'),
        ("tags: [a, 'b']  # c", "tags", ("a", "b", "😀, d"), 'tags: [a, b, "😀, d"]  # c'),
        ("tags: [a]", "tags", (), "tags: []"),
        ("tags: []", "tags", ("a",), "tags: [a]"),
        ("tags: a, b", "tags", ("a",), "tags:\n  - a"),
        ("tags:\n- a # x\n-   b", "tags", ("a", "b", "c"), "tags:\n- a # x\n-   b\n- c"),
        ("tags:\n    - a\n    # why\n    - b", "tags", ("b",), "tags:\n    # why\n    - b"),
        ("tags:\n  - a", "tags", (), "tags: []"),
        ("tags:\n  - a\n  - b", "tags", ("b", "a"), "tags:\n  - b\n  - a"),
        ("tags:\n  - a\n  - a", "tags", ("a",), "tags:\n  - a"),
        ("tags:\n  - a\n    b\n  - c", "tags", ("c",), "tags:\n  - c"),
        ("tags:\n  - a", "tags", "text", "tags: text"),
        ('"my own": 1', "my own", 2, '"my own": 2'),
        ("  a: 1", "b", 2, "  a: 1\n  b: 2"),
        ("{a: 1, b: 2}", "a", "x, y", '{a: "x, y", b: 2}'),
    ],
)
def test_edit_changes_only_what_it_must(
    block: str, name: str, value: PropertyValue, expected: str
) -> None:
    for eol in ("\n", "\r\n"):
        note = f"---\n{block}\n---\nbody".replace("\n", eol)
        wanted = f"---\n{expected}\n---\nbody".replace("\n", eol)
        assert set_property(note, name, value) == wanted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("body", "---\na: 1\n---\nbody"),
        ("", "---\na: 1\n---\n"),
        ("one\r\ntwo", "---\r\na: 1\r\n---\r\none\r\ntwo"),
        ("\ufeffbody\n", "\ufeff---\na: 1\n---\nbody\n"),
        ("---\n\nhello\n\n---\n", "---\na: 1\n---\n---\n\nhello\n\n---\n"),
        ("---\n---", "---\na: 1\n---"),
    ],
)
def test_first_property_brings_a_block(text: str, expected: str) -> None:
    assert set_property(text, "a", 1) == expected


@pytest.mark.parametrize(
    "block",
    [
        "created: {{date}} {{time}}",
        "\ta: 1",
        "a: 1\na: 2",
        "a: &x 1\nb: *x",
        "a: !ruby/object:X {}",
        "a: [1",
        "? [b]\n: c\n<% tp.file.title %>",
    ],
)
def test_block_that_cannot_be_read_is_never_rewritten(block: str) -> None:
    note = f"---\n{block}\n---\nbody\n"
    for name in ("a", "created", "new"):
        with pytest.raises(RefusedError, match="fix it in an editor"):
            set_property(note, name, "x")
        with pytest.raises(RefusedError, match="fix it in an editor"):
            remove_property(note, name)


def test_block_that_is_not_closed_is_never_rewritten() -> None:
    with pytest.raises(RefusedError, match="never closed"):
        set_property("---\ntitle: x\n\nbody\n", "pinned", True)


@pytest.mark.parametrize("block", ["{a: 1, b: 2}", "{a: 1,\n b: 2}"])
def test_removal_that_would_touch_another_property_is_refused(block: str) -> None:
    with pytest.raises(RefusedError, match="without touching others"):
        remove_property(f"---\n{block}\n---\n", "a")


@pytest.mark.parametrize("name", ["", "1a", "a:b", "a\n", "a#b", "-a", "a" * 65, "- a", "a."])
def test_names_that_need_quotes_are_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="not a property's name"):
        set_property("body", name, "x")


def test_value_that_is_only_half_a_character_is_refused() -> None:
    with pytest.raises(RefusedError):
        set_property("---\na: 1\n---\n", "a", "\ud83d")


def test_removing_what_is_not_there_changes_nothing() -> None:
    text = "---\na: 1 # b\n---\nbody"
    assert remove_property(text, "b") == text
    assert remove_property("body", "b") == "body"


def test_nested_lists_and_maps_of_others_survive() -> None:
    own = "plugin:\n  nested: {deep: [1, [2]]}\n  # comment\n  list:\n    - - a\n      - b\n"
    note = f"---\ntitle: a\n{own}tags: [x]\n---\n"
    edited = set_property(set_property(note, "title", "b"), "tags", ("z",))
    assert edited == f"---\ntitle: b\n{own}tags: [z]\n---\n"
    assert read_frontmatter(edited).properties[1].kind == "map"
