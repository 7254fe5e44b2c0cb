"""Edits of one property: every other byte stays."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.builders import Generated, generated_notes, make_note, read_values
from vaultmem.core.notes.edit_properties import (
    PropertyValue,
    format_property,
    format_value,
    remove_property,
    set_property,
)
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.errors import RefusedError

VALUES = st.one_of(
    st.text(max_size=20),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
    st.lists(st.text(max_size=8), max_size=4).map(tuple),
)
FRAGMENTS = [
    *("a", "b: c", "title", "tags:", ": ", "- x", "\n- ", "#", "[", "]", "{", "}", ", ", "\n"),
    *("'", '"', "|\n  ", ">\n", "&x ", "*x", "!t ", "? ", "\n---\n", "---", "\n...\n", "\t"),
    *("\n  ", "\r\n", "\r", "\x85", "\u2028", "%", "@", "`", "<<: ", "😀", "\ufeff"),
    *("\x0b", "\x0c", "\x1c", "\0"),
]


def as_read(value: PropertyValue) -> str | tuple[str, ...]:
    return value if isinstance(value, (str, tuple)) else format_value(value)


def assert_edited(note: Generated, name: str, after: str) -> None:
    """The text around the property's own lines, and all other properties, are the same."""
    before, behind = note.around(name)
    assert after.startswith(before)
    assert after.endswith(behind)
    assert len(after) >= len(before) + len(behind)
    old, new = read_values(note.text), read_values(after)
    assert {k: v for k, v in new.items() if k != name} == {
        k: v for k, v in old.items() if k != name
    }


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(generated_notes(), VALUES, st.data())
def test_edit_keeps_every_other_byte(
    note: Generated, value: PropertyValue, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([name for name, _ in note.parts if name]))
    after = set_property(note.text, name, value)
    assert_edited(note, name, after)
    assert read_values(after)[name] == as_read(value)


@pytest.mark.campaign
@settings(max_examples=50, deadline=None)
@given(generated_notes(), st.data())
def test_removal_takes_the_propertys_lines_and_nothing_else(
    note: Generated, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([name for name, _ in note.parts if name]))
    after = remove_property(note.text, name)
    assert after == "".join(note.around(name))
    assert name not in read_values(after)


@pytest.mark.campaign
@settings(max_examples=50, deadline=None)
@given(generated_notes(), VALUES, st.sampled_from(["new", "neu-ö", "_x 1"]))
def test_new_property_is_added_behind_the_others(
    note: Generated, value: PropertyValue, name: str
) -> None:
    after = set_property(note.text, name, value)
    eol = "\r\n" if note.head.endswith("\r\n") else "\n"
    fresh = "".join(line + eol for line in format_property(name, value))
    assert after == note.head + note.block + fresh + note.tail
    assert read_values(after) == {**read_values(note.text), name: as_read(value)}


@pytest.mark.campaign
@settings(max_examples=50, deadline=None)
@given(generated_notes(), st.data())
def test_list_items_come_and_go_one_by_one(note: Generated, data: st.DataObject) -> None:
    lists = [k for k, v in read_values(note.text).items() if isinstance(v, tuple)]
    if not lists:
        return
    name = data.draw(st.sampled_from(lists))
    old = read_values(note.text)[name]
    grown = set_property(note.text, name, (*old, "one more: 😀"))
    assert_edited(note, name, grown)
    assert read_values(grown)[name] == (*old, "one more: 😀")
    shrunk = set_property(grown, name, old)
    assert_edited(note, name, shrunk)
    assert read_values(shrunk)[name] == old


@settings(max_examples=30, deadline=None)
@given(generated_notes())
def test_text_to_bytes_to_text_is_the_same(note: Generated) -> None:
    read = make_note(note.text)
    assert read.text == note.text
    assert read.text.encode() == note.text.encode()
    assert read.text[: read.frontmatter.body] + read.body == note.text


@pytest.mark.campaign
@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(
            lambda parts: f"---\n{''.join(parts)}\n---\nbody\n"
        ),
    ),
    st.sampled_from(["title", "tags", "a", "new"]),
    st.one_of(st.none(), VALUES),
)
@example("---\na: |\nb: c\n---\n", "a", "v")
@example("---\ntitle: x\n", "title", "y")
def test_edit_of_any_text_is_refused_or_leaves_the_rest(
    text: str, name: str, value: PropertyValue | None
) -> None:
    matter = read_frontmatter(text)
    try:
        after = remove_property(text, name) if value is None else set_property(text, name, value)
    except RefusedError:
        return
    if matter.body:
        assert after.startswith(text[: matter.start])
        assert after.endswith(text[matter.end :])
    else:
        assert after.endswith(text.removeprefix("\ufeff"))
    old, new = read_values(text), read_values(after)
    assert {k: v for k, v in new.items() if k != name} == {
        k: v for k, v in old.items() if k != name
    }
    assert new.get(name) == (None if value is None else as_read(value))
