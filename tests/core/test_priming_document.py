"""A document is divided at its headings, and a note tells whether somebody edited it."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_note
from vaultmem.core.notes.note import Note
from vaultmem.core.reference import (
    choose_note_paths,
    is_edited,
    plan_priming,
    primed_digest,
    split_document,
)

SOURCE = """\
---
title: The API
tags: [x]
---
Intro before any heading.

# Overview #

Text of the overview.

Refunds
=======

Refunds are slow.
And whole.

Limits
------

429 above 120.

```md
# no heading
## nor this
```

~~~
still code
# no
~~~

    # indented: code

- item
- ---

| a | b |
|---|---|
| 1 | 2 |

***

## Limits

A second one of that name.

### Limits

Below the second.

##

#hashtag is text

Two lines of
a heading
---

End.
"""


def test_headings_of_all_kinds_divide_and_code_does_not() -> None:
    document = split_document(SOURCE)
    assert document.title == "The API"
    parts = [(part.heading, part.parents, part.body.split("\n")[0]) for part in document.parts]
    assert parts == [
        ("", (), "Intro before any heading."),
        ("Overview", (), "Text of the overview."),
        ("Refunds", (), "Refunds are slow."),
        ("Limits", ("Refunds",), "429 above 120."),
        ("Limits", ("Refunds",), "A second one of that name."),
        ("Limits", ("Refunds", "Limits"), "Below the second."),
        ("Two lines of a heading", ("Refunds",), "End."),
    ]
    assert "# no heading" in document.parts[3].body
    assert "# indented: code" in document.parts[3].body
    assert "#hashtag is text" in document.parts[5].body
    lines = SOURCE.split("\n")
    assert all(p.heading.split()[0] in lines[p.line - 1] for p in document.parts[1:])


def test_line_ends_and_byte_order_mark_make_no_difference() -> None:
    plain = split_document(SOURCE)
    assert split_document("\ufeff" + SOURCE.replace("\n", "\r\n")) == plain


@pytest.mark.parametrize("text", ["", "\n\n", "# Only a heading\n", "---\ntitle: x\n---\n"])
def test_document_without_text_has_no_parts(text: str) -> None:
    assert split_document(text).parts == ()


def test_names_are_made_of_headings_and_of_those_above_where_taken() -> None:
    names = [
        PurePosixPath(note.path).name
        for note in choose_note_paths("api", "a.md", split_document(SOURCE))
    ]
    assert names == [
        *("the-api.md", "overview.md", "refunds.md", "limits.md"),
        *("refunds-limits.md", "limits-limits.md", "two-lines-of-a-heading.md"),
    ]


def as_notes(texts: dict[str, str | None], existing: dict[str, Note]) -> dict[str, Note]:
    found = dict(existing)
    for path, text in texts.items():
        if text is None:
            del found[path]
        else:
            found[path] = make_note(text, path)
    return found


WORDS = st.lists(
    st.sampled_from(["text", "é漢", "- item", "> q", "#tag", "\\", "'", '"', ": x", "%"]),
    min_size=1,
    max_size=3,
)
SECTIONS = st.lists(
    st.tuples(st.sampled_from(["A", "B", "B: 'x'", "a", "C # d", "漢字", "- x"]), WORDS),
    min_size=1,
    max_size=6,
)


@pytest.mark.campaign
@settings(max_examples=60, deadline=None)
@given(SECTIONS, SECTIONS, st.booleans())
def test_primed_again_without_a_change_nothing_differs_and_with_one_all_is_as_if_new(
    first: list[tuple[str, list[str]]], second: list[tuple[str, list[str]]], pin: bool
) -> None:
    def wanted(sections: list[tuple[str, list[str]]]) -> list[object]:
        text = "\n\n".join(f"## {heading}\n\n{' '.join(words)}" for heading, words in sections)
        return choose_note_paths("s", "f.md", split_document(text))

    made = as_notes(plan_priming(wanted(first), {}, pin).texts, {})
    again = plan_priming(wanted(first), made, pin)
    assert (again.texts, again.kept_notes) == ({}, {})
    assert not any(is_edited(note) for note in made.values())
    changed = plan_priming(wanted(second), made, pin)
    assert changed.kept_notes == {}
    fresh = as_notes(plan_priming(wanted(second), {}, pin).texts, {})
    assert {p: n.body.strip() for p, n in as_notes(changed.texts, made).items()} == {
        p: n.body.strip() for p, n in fresh.items()
    }


def plan(text: str, existing: dict[str, Note], **options: bool) -> object:
    return plan_priming(choose_note_paths("s", "f.md", split_document(text)), existing, **options)


def test_what_somebody_edited_is_kept_and_their_properties_as_well() -> None:
    made = as_notes(plan("# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\n", {}).texts, {})
    a, b, c = "primed/s/a.md", "primed/s/b.md", "primed/s/c.md"
    mine = make_note(made[b].text.replace("two", "two, by hand"), b)
    tagged = make_note(made[a].text.replace("---\n\n", "tags: [mine]  # my own\n---\n\n"), a)
    there = {**made, a: tagged, b: mine, "primed/s/own.md": make_note("Own.", "primed/s/own.md")}

    same = plan("# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\n", there)
    assert (same.texts, same.kept_notes) == ({}, {})
    other = plan("# A\n\nONE\n\n# B\n\nTWO\n", there)
    assert (other.changed, other.removed) == ((a,), (c,))
    assert other.kept_notes == {b: "edited here, and changed in the source"}
    text = other.texts[a]
    assert "tags: [mine]  # my own\n" in text
    assert make_note(text, a).body.strip() == "ONE"
    gone = plan("# A\n\none\n", there)
    assert gone.kept_notes == {b: "edited here, and gone from the source"}
    taken = plan("# A\n\none\n\n# B\n\nTWO\n\n# C\n\nthree\n", there, overwrite=True)
    assert taken.changed == (b,)


def test_note_by_hand_where_a_part_belongs_is_never_touched() -> None:
    own = {"primed/s/a.md": make_note("My own.", "primed/s/a.md")}
    made = plan("# A\n\none\n", own, overwrite=True)
    assert (made.texts, made.kept_notes) == ({}, {"primed/s/a.md": "written by hand"})
    assert plan("# B\n\nx\n", own, overwrite=True).removed == ()


def test_pin_is_set_and_never_taken_back() -> None:
    made = as_notes(plan("# A\n\none\n", {}, pin=True).texts, {})
    assert made["primed/s/a.md"].pinned
    assert plan("# A\n\none\n", made).texts == {}
    loose = as_notes(plan("# A\n\none\n", {}).texts, {})
    pinned = plan("# A\n\none\n", loose, pin=True)
    assert pinned.changed == ("primed/s/a.md",)
    assert make_note(pinned.texts["primed/s/a.md"]).pinned
    assert primed_digest(loose["primed/s/a.md"]) in pinned.texts["primed/s/a.md"]
