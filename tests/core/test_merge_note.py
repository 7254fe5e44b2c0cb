"""Merging two versions of a note: nothing that either side wrote is lost without a conflict."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from branching import change
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from core.builders import generated_notes, read_values
from vaultmem.core.lifecycle import rank_state
from vaultmem.core.merging.merge_note import merge_texts
from vaultmem.core.merging.text import (
    ConflictChoice,
    DiscardedValue,
    MergedText,
    merge_lines,
    resolve_callouts,
)
from vaultmem.core.notes.conflict import Speaker, extract_callouts, find_conflict
from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.notes.frontmatter import read_frontmatter, read_timestamp
from vaultmem.core.text.line_diff import diff_lines, match_lines, split_keys, split_lines
from vaultmem.errors import RefusedError

BASE = """\
---
title: Session tokens
state: candidate # until reviewed
tags:
  - auth
  - tokens
updated: 2026-11-01T10:00:00
# Nobody's line
reviewed-by: Birgit
---
# Session tokens

Tokens are opaque.

- They live for an hour.
- They are never logged.

## Rotation

Keys rotate weekly.
"""


def merge_clean(base: str, ours: str, theirs: str, path: str = "notes/a.md") -> str:
    merged = merge_texts(path, base, ours, theirs)
    assert merged.conflicts == ()
    return merged.text


# ---- the properties, by example


def test_different_properties_on_both_sides_are_both_taken() -> None:
    ours = change(BASE, "state: candidate #", "state: active #")
    theirs = change(BASE, "title: Session", "title: Opaque session", "Birgit", "Maren  # again")

    assert merge_clean(BASE, ours, theirs) == change(
        ours, "title: Session", "title: Opaque session", "Birgit", "Maren  # again"
    )


def test_properties_added_and_removed_on_both_sides() -> None:
    ours = change(BASE, "---\n# S", "kind: decision\n---\n# S")
    theirs = change(BASE, "reviewed-by: Birgit\n", "confidence: 0.9\n")

    assert merge_clean(BASE, ours, theirs) == change(
        BASE, "reviewed-by: Birgit\n", "confidence: 0.9\nkind: decision\n"
    )


def test_comments_that_both_sides_added_to_the_frontmatter_are_kept() -> None:
    ours = change(BASE, "title: S", "# ours above\ntitle: S", "  - auth", "  - auth # ours")
    theirs = change(BASE, "title: S", "# theirs above\ntitle: S", "  - tokens", "  # t\n  - tokens")
    theirs = change(theirs, "# Nobody's line\n", "")

    assert merge_clean(BASE, ours, theirs) == change(
        BASE,
        "title: S",
        "# ours above\n# theirs above\ntitle: S",
        "  - auth\n  - tokens",
        "  - auth # ours\n  # t\n  - tokens",
        "# Nobody's line\n",
        "",
    )


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        (
            "tags:\n  - a",
            "tags:\n  - a\n  - b",
            "tags:\n  - a\n  - c",
            "tags:\n  - a\n  - b\n  - c",
        ),
        ("tags:\n  - a\n  - b", "tags:\n  - b", "tags:\n  - a", "tags: []"),
        ("tags:\n- a\n- b", "tags:\n- b\n- x", "tags:\n- y\n- a\n- b", "tags:\n- b\n- x\n- y"),
        ("", "tags:\n  - a", "tags:\n  - b\n  - a", "tags:\n  - a\n  - b"),
        ("", "tags:\n  - a", "tags:\n    - 010 # x", "tags:\n  - a\n  - 010 # x"),
        ("", "tags: [a]", "tags:\n  - b", "tags: [a, b]"),
        ("", "tags:\n  - a # ours", "tags: [b, c]", "tags:\n  - a # ours\n  - b\n  - c"),
        (
            "tags: ['a', 010]",
            "tags: ['a', 010, b] # x",
            "tags: [a, 010, c]",
            "tags: ['a', 010, b, c] # x",
        ),
        ("tags: [a, b, c]", "tags: [b, c] # x", "tags: [a, b, d]", "tags: [b, d] # x"),
        ("tags: [\n  a,\n]", "tags: [\n  a, b,\n]", "tags: [a, c]", "tags: [\n  a, b, c\n]"),
        ("tags: a", "tags: a, b", "tags: a, c", 'tags: "a, b, c"'),
        ("tags: a", "tags: [a, b]", "tags: a, c", "tags: [a, b, c]"),
        ("tags:", "tags: [a]", "tags:\n  - b", "tags: [a, b]"),
        ("tags:\n  - a", "", "tags:\n  - a\n  - b", "tags:\n  - b"),
        ("tags:\n  - a", "tags: []", "", ""),
        ('refs: ["[[A]]"]', 'refs: ["[[A]]", b]', 'refs: ["[[C]]"]', 'refs: [b, "[[C]]"]'),
        ("mine:\n  - a", "mine:\n  - a\n  - b", "mine: [a, c]", "mine:\n  - a\n  - b\n  - c"),
        ("größe: [1]", "größe: [1, 2]", "größe: [1, 3]", 'größe: [1, 2, "3"]'),
    ],
)
def test_lists_merge_as_sets_in_our_order(base: str, ours: str, theirs: str, merged: str) -> None:
    for eol in ("\n", "\r\n"):
        old, mine, other, wanted = (
            f"---\ntitle: x\n{block}{block and chr(10)}---\nbody\n".replace("\n", eol)
            for block in (base, ours, theirs, merged)
        )
        assert merge_clean(old, mine, other) == wanted


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("x: [a, [b]]", "x: [a, [b], c]", "x: [a, [b], d]"),
        ("x:\n  - a\n  - {b: c}", "x:\n  - a\n  - {b: d}", "x:\n  - a\n  - {b: c}\n  - e"),
        ("x:\n  - a\n    b", "x:\n  - a\n    b\n  - c", "x:\n  - a\n    b\n  - d"),
        ("x: a", "x: [a, b]", "x: [a, c]"),
        ("tags: [a]", "tags: [a, b] # why b", "tags: [a, c] # why c"),
        ("tags:\n  - a # 1", "tags:\n  - a # 2", "tags:\n  - a # 3"),
        ("tags:\n  - a", "tags:\n  - a # keep it", "tags: []"),
        ("m:\n  a: 1", "m:\n  a: 2", "m:\n  a: 1\n  b: 3"),
        ("x: |\n  one\n  two", "x: |\n  ONE\n  two", "x: |\n  one\n  TWO"),
    ],
)
@pytest.mark.parametrize("later", ["ours", "theirs"])
def test_what_is_more_than_a_list_of_texts_stays_as_one_side_has_it_and_is_not_flattened(
    base: str, ours: str, theirs: str, later: str
) -> None:
    old, mine, other = (f"---\nt: 1\n{block}\n---\nbody\n" for block in (base, ours, theirs))
    merged = merge_texts("a.md", old, mine, other, later)

    name = base.partition(":")[0]
    assert merged.text == (mine if later == "ours" else other)
    assert not merged.conflicts
    (loss,) = merged.losses
    assert loss.what == f'property "{name}"'
    assert set(loss.value.split()) <= set((theirs if later == "ours" else ours).split())


def test_of_a_scalar_that_both_changed_the_later_stays_and_the_other_value_is_told() -> None:
    ours = change(BASE, "Birgit", "Maren", "title: Session", "title: S")
    theirs = change(BASE, "Birgit", "Ole", "hour", "day")
    for later, name, lost in (("ours", "Maren", "Ole"), ("theirs", "Ole", "Maren")):
        merged = merge_texts("a.md", BASE, ours, theirs, later)
        assert merged.text == change(
            BASE, "Birgit", name, "hour", "day", "title: Session", "title: S"
        )
        assert (merged.conflicts, merged.losses) == (
            (),
            (DiscardedValue("a.md", 'property "reviewed-by"', lost),),
        )
    found = [merge_texts("a.md", BASE, *pair) for pair in ((ours, theirs), (theirs, ours))]
    assert found[0] == found[1]  # Which is later is not known: both machines choose the same.


@pytest.mark.parametrize(
    ("name", "base", "ours", "theirs", "kept"),
    [
        ("state", "candidate", "active", "stale", "stale"),
        ("state", "active", "deprecated", "quarantined", "quarantined"),
        ("state", "active", "archived", "candidate", "archived"),
        ("state", "quarantined", "active", "candidate", "candidate"),
        ("state", "candidate", "", "archived", "archived"),
        ("state", "quarantined", "", "candidate", "candidate"),
        ("state", "active", "candidate", "dne", "dne"),
        ("pinned", "", "true", "false", "false"),
        ("kind", "semantic_fact", "policy_rule", "decision", "decision"),
    ],
)
def test_what_restricts_a_note_more_stays_whoever_is_later(
    name: str, base: str, ours: str, theirs: str, kept: str
) -> None:
    old, mine, other = (
        f"---\nt: 1\n{name + ': ' + value + chr(10) if value else ''}---\nx\n"
        for value in (base, ours, theirs)
    )
    for later in ("", "ours", "theirs"):
        for sides in ((mine, other), (other, mine)):
            merged = merge_texts("a.md", old, *sides, later)
            assert read_values(merged.text).get(name, "") == kept


@pytest.mark.parametrize("agent_is_ours", [True, False])
def test_what_a_person_said_first_stays_theirs_though_an_agent_said_it_too(
    agent_is_ours: bool,
) -> None:
    person = "---\ncreated: 2026-11-01T08:00:00\nsource: human\n---\n\nDeploys are on Tuesdays.\n"
    agent = (
        "---\ncreated: 2026-11-02T08:00:00\nsource: agent\nagent: ada\nsession: s-1\n---\n\n"
        "Deploys are on Tuesdays.\n"
    )
    sides = (agent, person) if agent_is_ours else (person, agent)
    merged = merge_texts("a.md", "", *sides)
    assert merged.is_twin
    assert "source: human\n" in merged.text
    assert "\nagent:" not in merged.text
    assert "\nsession:" not in merged.text
    assert "ada, session s-1" in merged.text


def test_the_same_value_written_differently_is_no_conflict_and_its_comment_stays() -> None:
    ours = change(BASE, "reviewed-by: Birgit", "reviewed-by: Maren")
    theirs = change(BASE, "reviewed-by: Birgit", 'reviewed-by: "Maren"  # in May')
    other = change(BASE, "reviewed-by: Birgit", "reviewed-by: Maren # in June")

    assert merge_clean(BASE, ours, theirs) == theirs
    assert merge_clean(BASE, theirs, ours) == theirs
    (loss,) = merge_texts("a.md", BASE, theirs, other, "theirs").losses
    assert loss.value == 'reviewed-by: "Maren"  # in May'


def test_of_two_updated_the_later_moment_stays() -> None:
    late = change(BASE, "updated: 2026-11-01T10:00:00", "updated: 2026-11-03 # a date")
    early = change(BASE, "updated: 2026-11-01T10:00:00", 'updated: "2026-11-02T23:00:00"')
    odd = change(BASE, "updated: 2026-11-01T10:00:00", "updated: tomorrow")

    assert merge_clean(BASE, late, early) == late
    assert merge_clean(BASE, early, late) == late
    (loss,) = merge_texts("a.md", BASE, early, odd).losses
    assert loss.value == "tomorrow"


def test_a_frontmatter_that_one_side_brings_joins_the_other_sides_body() -> None:
    ours = "# Title\n\ntext\n"
    theirs = "---\ntags: [a]\n---\n# Title\n\ntext\n"

    assert merge_clean(ours, ours + "more\n", theirs) == theirs + "more\n"
    assert merge_clean(ours, theirs, ours + "more\n") == theirs + "more\n"
    assert merge_clean(theirs, ours, theirs + "more\n") == ours + "more\n"
    both = merge_clean(ours, theirs, "---\nkind: decision\ntags: [b]\n---\n" + ours)
    assert both == "---\nkind: decision\ntags: [a, b]\n---\n# Title\n\ntext\n"
    kept = merge_texts("a.md", theirs, ours, theirs.replace("[a]", "[a, b]"))
    assert (kept.text, kept.conflicts) == ("---\ntags: [b]\n---\n" + ours, ())


def test_a_frontmatter_of_a_template_is_merged_as_lines() -> None:
    base = "---\ncreated: {{date}} {{time}}\ntitle: {{title}}\n---\n# {{title}}\n\n- one\n"
    ours = change(base, "- one\n", "- one\n- two\n")
    theirs = change(
        base, "title: {{title}}\n", "title: x\ntags: {{tags}}\n", "- one\n", "- one\n- 2\n"
    )

    assert merge_clean(base, ours, theirs) == change(theirs, "- 2\n", "- two\n- 2\n")
    mine = change(base, "{{date}}", "{{now}}")
    other = change(base, "{{date}}", "2026-11-21")
    merged = merge_texts("a.md", base, mine, other)
    assert merged.text in (mine, other)
    assert [x.what for x in merged.losses] == ["properties"]


@pytest.mark.parametrize(
    "block",
    [
        "title: a\ntitle: b",
        "{title: a, state: x}",
        "{title: a,\n state: x}",
        "title: [",
        "\ttitle: a",
        "? [b]\n: c",
        "title: a\n...",
        "  title: a\n  state: x",
        "a: &x 1\nb: *x",
        "",
        "# only a comment",
    ],
)
def test_odd_frontmatter_is_merged_or_a_conflict_and_keeps_all_lines(block: str) -> None:
    base = f"---\n{block}\n---\nbody\n"
    ours = f"---\n{block}\nkind: decision\n---\nbody\n"
    theirs = f"---\nconfidence: 1\n{block}\n---\nbody\n"

    for mine, other in ((ours, theirs), (theirs, ours), (ours, base + "x\n"), ("text\n", ours)):
        merged = merge_texts("a.md", base, mine, other)
        have = merged.text.splitlines()
        assert set(mine.splitlines()) - set(base.splitlines()) <= set(have)
        assert set(other.splitlines()) - set(base.splitlines()) <= set(have)
    assert merge_texts("a.md", base, ours, base + "x\n").text == ours + "x\n"


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("  a: 1\n", "  a: 1\n  b: 1\n", "a: 1\nc: 1\n"),
        ("a: 1\n", "", "# of a block without properties\na: 1\n"),
    ],
    ids=["two depths", "a block that would be none"],
)
def test_of_properties_that_would_not_be_read_back_merged_one_side_stays(
    base: str, ours: str, theirs: str
) -> None:
    old, mine, other = (f"---\n{block}---\nbody\n" for block in (base, ours, theirs))
    merged = merge_texts("a.md", old, mine, other)
    assert merged.text in (mine, other)
    assert [loss.what for loss in merged.losses] == ["properties"]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "text", "lost"),
    [
        (
            "",
            "state: active\n",
            "- new\nstate: candidate\n",
            "state: candidate\n",
            ("properties", "state: active\n- new"),
        ),
        (
            "title: A\n",
            "",
            "title: A\n# free\n",
            "title: A\n# free\n",
            ('property "title"', "(removed)"),
        ),
        (
            "title:\n  w: 1\n",
            "  w: 1\n",
            "title:\n  w: 1\nstate: active\n",
            "title:\n  w: 1\nstate: active\n",
            ('property "title"', "(removed)"),
        ),
    ],
    ids=["a state that is restricted", "a property that comes back", "one above others"],
)
def test_what_a_frontmatter_that_stays_whole_does_not_show_is_told(
    base: str, ours: str, theirs: str, text: str, lost: tuple[str, str]
) -> None:
    old, mine, other = (
        f"---\n{block}---\n" if block else "---\n---\n" for block in (base, ours, theirs)
    )
    for sides in ((mine, other), (other, mine)):
        merged = merge_texts("a.md", old, *sides)
        assert merged.text == f"---\n{text}---\n"
        assert [(x.what, sorted(x.value.splitlines())) for x in merged.losses] == [
            (lost[0], sorted(lost[1].splitlines()))
        ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("a: 1\nx: 1\nb: 1\ny: 1\nc: 1\n", "c: 2\na: 1\nx: 1\nb: 1\ny: 1\n"),
        ("a: 1\nx: 1\nb: 1\ny: 1\n", "x: 1\nb: 1\na: 2\ny: 1\n"),
    ],
    ids=["would have c twice", "would have no a"],
)
def test_of_properties_that_merged_as_lines_would_break_one_side_stays(
    ours: str, theirs: str
) -> None:
    blocks = ("a: 1\nx: 1\nb: 1\na: 2\ny: 1\n", ours, theirs)
    base, mine, other = (f"---\n{block}---\nbody\n" for block in blocks)
    assert not merge_lines(base, mine, other).conflicts

    merged = merge_texts("a.md", base, mine, other)
    found = read_frontmatter(merged.text)
    assert not found.problem
    assert not found.warnings
    assert read_values(merged.text).keys() == read_values(mine).keys() | read_values(other).keys()


# ---- the body, by example


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("- a\n", "- a\n- b\n", "- a\n- c\n", "- a\n- b\n- c\n"),
        ("- a\n", "- a\n- b\n- s\n", "- a\n- s\n- c\n", "- a\n- b\n- s\n- c\n"),
        ("- a", "- a\n- b", "- a\n- c", "- a\n- b\n- c"),
        ("- a\n", "- a\n\n- b\n  more\n", "- a\n\n- c\n", "- a\n\n- b\n  more\n\n- c\n"),
        ("1. a\nx\n", "1. a\n2. b\nx\n", "1. a\n2. c\nx\n", "1. a\n2. b\n2. c\nx\n"),
        ("- a\n", "- a\n- b\n", "- a\n  - s\n", "- a\n  - s\n- b\n"),
        ("- a\n", "- a\n- p\n  - b\n", "- a\n- p\n  - c\n", "- a\n- p\n  - b\n  - c\n"),
        ("# T\n", "# T\n\n## A\n\na\n", "# T\n\n## B\n\nb\n", "# T\n\n## A\n\na\n\n## B\n\nb\n"),
        ("- a\n", "- a\n\n## A\n\na\n", "- a\n- b\n", "- a\n- b\n\n## A\n\na\n"),
        ("# T\n", "# T\n## A\n- a\n", "# T\n## A\n- b\n", "# T\n## A\n- a\n- b\n"),
        (
            "# T\n## Z\n",
            "# T\n## A\na\n## Z\n",
            "# T\n## B\nb\n## Z\n",
            "# T\n## A\na\n## B\nb\n## Z\n",
        ),
        ("", "# Memory\n\n- a\n", "# Memory\n\n- b\n", "# Memory\n\n- a\n- b\n"),
        ("- a\n- b\n", "- a!\n- b\n", "- a\n- b\n- c\n", "- a!\n- b\n- c\n"),
        ("- a\n- b\n", "- a\n- b!\n", "- a\n- b\n- c\n", "- a\n- b!\n- c\n"),
        ("- a\n- b\n- c\n", "- a!\n- b\n- c\n", "- a\n- b!\n", "- a!\n- b!\n"),
        ("- a\n- b\n", "- b\n", "- a\n- b!\n", "- b!\n"),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
        ("a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nc\nd\n"),
        ("a\nb\n", "a\nx\nb\n", "a\nx\nb\ny\n", "a\nx\nb\ny\n"),
        ("a", "x\na", "a\ny", "x\na\ny"),
        ("a\n\nb\n", "a\n\nb", "c\n\nb\n", "c\n\nb"),
        ("a\r\nb\r\nc\r\n", "a\nb\nc\n", "a\r\nb\r\nd\r\n", "a\nb\nd\r\n"),
        ("a\nb\nc\n", "a\r\nb\nc\n", "a\nb\nc", "a\r\nb\nc"),
    ],
)
def test_bodies_that_merge(base: str, ours: str, theirs: str, merged: str) -> None:
    assert merge_clean(base, ours, theirs) == merged
    head = "---\nt: 1\n---\n"
    assert merge_clean(head + base, head + ours, head + theirs) == head + merged


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("a\nb\n", "a\n", "a\nB\n", "a\n{=B\n}"),
        ("- a\n- b\n", "- a\n", "- a\n- B\n", "- a\n{=- B\n}"),
        ("a\n", "a\nb\n", "a\nc\n", "a\n{b\n=c\n}"),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nb\nC\n", "a\n{B\nc\n=b\nC\n}"),
        ("a", "b", "c", "{b\n=c\n}"),
        ("a\nb", "a\nx\nb\n1", "a\nx\nb\n2", "a\nx\nb\n{1\n=2\n}"),
        ("- a\n", "- a\nlazy b\n", "- a\n- c\n", "- a\n{lazy b\n=- c\n}"),
        ("- a\n  more\n", "- a\n- b\n  more\n", "- a\n- c\n  more\n", "- a\n{- b\n=- c\n}  more\n"),
        ("- a\n  m\n- b\n", "- a\n  M\n- b\n", "- a\n  m\n- B\n", "- a\n{  M\n- b\n=  m\n- B\n}"),
        (
            "```\n- a\n```\n",
            "```\n- a\n- b\n```\n",
            "```\n- a\n- c\n```\n",
            "```\n- a\n{- b\n=- c\n}```\n",
        ),
        ("```\na\n", "```\na\n# b\n", "```\na\n# c\n", "```\na\n{# b\n=# c\n}"),
        ("text\n", "# A\ntext\n", "# B\ntext\n", "{# A\n=# B\n}text\n"),
        ("", "# A\n\na\n", "# B\n\nb\n", "{# A\n\na\n=# B\n\nb\n}"),
        ("- a\n", "- a\n- b\n  ```\n", "- a\n- c\n", "- a\n{- b\n  ```\n=- c\n}"),
        ("a\r\nb\r\n", "a\r\nB\r\n", "a\r\nC\r\n", "a\r\n{B\r\n=C\r\n}"),
        ("- a\n- b\n", "- A\n  ```\n- b\n", "- a\n- B\n", "{- A\n  ```\n- b\n=- a\n- B\n}"),
        ("- a\n- b\n  m\n", "- A\n- b\n  m\n", "- a\n- B\n  m\n", "{- A\n- b\n=- a\n- B\n}  m\n"),
    ],
)
def test_bodies_that_conflict(base: str, ours: str, theirs: str, merged: str) -> None:
    """`{ours=theirs}`: ours stay, theirs follow as a callout, and can be put in their place."""
    mine, _, other = merged.partition("{")[2].partition("}")[0].partition("=")
    before, behind = merged.partition("{")[0], merged.partition("}")[2]
    result = merge_texts("a.md", base, ours, theirs)
    (conflict,) = result.conflicts
    assert [split_keys(x) for x in (conflict.ours, conflict.theirs)] == [
        split_keys(mine),
        split_keys(other),
    ]
    assert find_conflict(result.text) == ""
    bare, (placed,) = extract_callouts(result.text)
    assert split_keys(bare) == split_keys(before + mine + behind)
    for choice, words in (
        (ConflictChoice.OURS, mine),
        (ConflictChoice.THEIRS, other),
    ):
        settled = resolve_callouts(result.text, choice)
        if placed.callout.our_line_count or choice is ConflictChoice.OURS:
            assert split_keys(settled) == split_keys(before + words + behind)
    both = resolve_callouts(result.text, ConflictChoice.BOTH)
    assert not Counter(split_keys(mine + other)) - Counter(split_keys(both))


def test_conflicts_are_named_by_the_lines_of_our_file() -> None:
    ours = change(
        BASE, "weekly", "daily", "Tokens are opaque.\n", "One.\nTwo.\n", "title: S", "t: S"
    )
    theirs = change(BASE, "weekly", "hourly", "Tokens are opaque.\n", "Three.\n")
    gone = change(BASE, "Tokens are opaque.\n", "")

    names = [x.what for x in merge_texts("a.md", BASE, ours, theirs).conflicts]
    assert names == ["lines 13-14", "line 21"]
    assert [ours.splitlines()[number - 1] for number in (13, 14, 21)] == [
        "One.",
        "Two.",
        "Keys rotate daily.",
    ]
    names = [x.what for x in merge_texts("a.md", BASE, gone, theirs).conflicts]
    assert names == ["after line 12"]


def test_bullets_that_both_append_to_a_memory_file_are_all_kept() -> None:
    base = "# Memory\n\n## Project\n\n- a\n- b\n\n## Gotchas\n\n- z\n"
    ours = change(base, "- b\n", "- b, edited\n- ours\n- same\n", "- z\n", "- z\n- ours too\n")
    theirs = change(base, "- a\n", "- a!\n", "- z\n", "- z\n  - theirs below\n")
    theirs = change(theirs, "- b\n", "- b\n- same\n- theirs\n")

    assert merge_clean(base, ours, theirs, "MEMORY.md") == (
        "# Memory\n\n## Project\n\n- a!\n- b, edited\n- ours\n- same\n- theirs\n\n"
        "## Gotchas\n\n- z\n  - theirs below\n- ours too\n"
    )


def test_files_that_are_no_markdown_are_merged_as_lines_alone() -> None:
    base, ours, theirs = "a:\n- 1\n", "a:\n- 1\n- 2\n", "a:\n- 1\n- 3\n"
    assert merge_texts("vaultmem.yaml", base, ours, theirs).conflicts
    assert not merge_texts("A.MD", base, ours, theirs).conflicts
    frontmatter = ("---\na: 1\n---\n", "---\na: 1\nb: 1\n---\n", "---\na: 1\nc: 1\n---\n")
    assert merge_texts("a.txt", *frontmatter).conflicts
    assert not merge_texts("a.md", *frontmatter).conflicts


def test_a_byte_order_mark_and_crlf_are_kept() -> None:
    base = "\ufeff" + BASE.replace("\n", "\r\n").removesuffix("\r\n")
    ours = change(base, "state: candidate #", "state: active #", "weekly.", "daily.")
    theirs = change(base, "Birgit", "Maren", "- They are never logged.\r\n", "")

    assert merge_clean(base, ours, theirs) == change(
        ours, "Birgit", "Maren", "- They are never logged.\r\n", ""
    )
    bare = base.removeprefix("\ufeff")
    assert merge_clean(base, bare, theirs) == theirs.removeprefix("\ufeff")
    assert merge_clean(bare, theirs.removeprefix("\ufeff"), base) == theirs


# ---- any texts


def count_lines(text: str) -> Counter[str]:
    """Count the lines that have words; blank ones may go with an item that stands twice."""
    return Counter(key for key in split_keys(text.replace("\ufeff", "")) if key.strip())


def count_bodies(*texts: str) -> list[Counter[str]]:
    return [count_lines(text[read_frontmatter(text).body :]) for text in texts]


def has_lost_lines(base: str, side: str, merged: str) -> bool:
    """Tell whether lines are missing, of the body or of the whole text.

    Lists may be written in another form in the frontmatter, and an edit may make a body of it.
    """
    was, now, new = count_bodies(base, side, merged)
    return not (now - was <= new or count_lines(side) - count_lines(base) <= count_lines(merged))


@dataclass(frozen=True)
class Fork:
    base: str
    ours: str
    theirs: str


NEW_LINES = [
    *("- new", "- newer", "  more", "  - below", "# New", "## New too", "words", "|a|b|", "> q"),
    *("```", "", "---", "title: x", "* star", "1. first", "<<<<<<< ours", "\ttab", "- a: b"),
]
STATES = ["candidate", "stale", "archived", "deprecated", "quarantined"]
NEW_ITEMS = ["x", "y", "a/b", "010", "[[N]]"]
FREE = ["# free", "", "# other", "  # in"]
BLOCK = st.lists(
    st.sampled_from(
        [
            *(
                "title: A title",
                "state: candidate",
                "tags:\n  - a\n  - b",
                "tags: [a, b]",
                "tags: a",
            ),
            *(
                "refs:\n- r # why\n# between\n- s",
                "updated: 2026-01-01",
                "# free",
                "",
                "note: |\n  x",
            ),
            *(
                "own: {a: 1}",
                'aliases: ["q", r]',
                "created: {{date}}",
                "title: again",
                "kind: decision",
            ),
        ]
    ),
    max_size=6,
    unique_by=lambda part: part.partition(":")[0],
)


@st.composite
def base_notes(draw: st.DrawFn) -> str:
    shapes = draw(
        st.lists(
            st.sampled_from(
                ["- item {}", "  - sub {}", "  cont {}", "# H {}", "text {}", "", "```"]
            ),
            max_size=10,
        )
    )
    body = "".join(shape.format(number) + "\n" for number, shape in enumerate(shapes))
    parts = draw(st.one_of(st.none(), BLOCK))
    text = body if parts is None else "\n".join(["---", *parts, "---", body])
    return text.removesuffix("\n") if draw(st.booleans()) else text


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(
            st.sampled_from(
                ["insert", "delete", "replace", "append", "set", "remove", "tag", "free"]
            )
        )
        lines = split_lines(text)
        new = draw(st.sampled_from(NEW_LINES)) + "\n"
        place = draw(st.integers(0, max(len(lines) - 1, 0)))
        if kind == "insert":
            lines.insert(place, new)
        elif kind == "append":
            lines = [*(x if x.endswith("\n") else x + "\n" for x in lines), f"- {new}"]
        elif kind in {"delete", "replace"} and lines:
            lines[place : place + 1] = [new] if kind == "replace" else []
        elif kind == "free" and (matter := read_frontmatter(text)).body:
            at = text.count("\n", 0, matter.start) + draw(st.integers(0, 2))
            lines.insert(
                min(at, text.count("\n", 0, matter.end)), draw(st.sampled_from(FREE)) + "\n"
            )
        text = (
            "".join(lines)
            if kind not in {"set", "remove", "tag"}
            else edit_property(draw, text, kind)
        )
    return text


def edit_property(draw: st.DrawFn, text: str, kind: str) -> str:
    name = draw(st.sampled_from(["state", "tags", "refs", "title", "fresh", "updated", "kind"]))
    prop = read_frontmatter(text).get("tags")
    try:
        if kind == "tag":
            have = prop.value if prop and isinstance(prop.value, tuple) else ()
            kept = draw(st.lists(st.sampled_from(have), unique=True)) if have else []
            kept = [item for item in have if item in kept]
            return set_property(text, "tags", (*kept, draw(st.sampled_from(NEW_ITEMS))))
        if kind == "remove":
            return remove_property(text, name)
        if name == "state":
            return set_property(text, name, draw(st.sampled_from(["active", *STATES, ""])))
        if name == "updated":
            return set_property(text, name, draw(st.dates()))
        return set_property(text, name, draw(st.sampled_from(["one", "two", "x: y", ""])))
    except RefusedError:
        return text


@st.composite
def forks(draw: st.DrawFn) -> Fork:
    base = draw(st.one_of(base_notes(), generated_notes().map(lambda note: note.text)))
    fork = Fork(base, draw(edited(base)), draw(edited(base)))
    if draw(st.integers(0, 5)) == 0:
        fork = Fork(*(x.replace("\n", "\r\n") for x in (fork.base, fork.ours, fork.theirs)))
    return fork


def assert_nothing_lost(base: str, side: str, other: str, merged: str) -> None:
    """Every line and item that a side added is in the merged text, each as often as added."""
    assert not has_lost_lines(base, side, merged)
    matters = [read_frontmatter(text) for text in (base, side, other, merged)]
    if any(matter.problem or matter.warnings for matter in matters):
        assert count_lines(side) - count_lines(base) <= count_lines(merged)
        return
    was, now, there, new = map(count_lines, (base, side, other, merged))
    if all(matter.body for matter in matters):
        was, now, there, new = count_bodies(base, side, other, merged)
    untouched = Counter({key: n for key, n in was.items() if now[key] >= n <= there[key]})
    assert untouched <= new
    assert_values_kept(base, side, other, merged)
    fronts = [text[: matter.body] for text, matter in zip((base, side), matters, strict=False)]
    old, mine, kept = (
        {line.strip() for line in text.splitlines() if line.lstrip().startswith("#")}
        for text in (*fronts, merged)
    )
    assert mine - old <= kept


def assert_values_kept(base: str, side: str, other: str, merged: str) -> None:
    old, mine, theirs, new = map(read_values, (base, side, other, merged))
    for name in {*mine, *old}:
        value, was, is_now = mine.get(name), old.get(name), new.get(name)
        if value == was or (name == "updated" and theirs.get(name) != was):
            continue  # Of two moments the later stays.
        if name in {"tags", "refs", "aliases"} or isinstance(value, tuple):
            assert as_items(value) - as_items(was) <= as_items(is_now)
            gone = as_items(was) - as_items(value)
            assert not gone & as_items(is_now) - (as_items(theirs.get(name)) - as_items(was))
        elif not value and isinstance(theirs.get(name), tuple):
            assert as_items(is_now) <= as_items(theirs[name])
        elif not value and name not in theirs:  # One side emptied what the other removed.
            assert not is_now
        else:
            assert is_now == value


def as_items(value: str | tuple[str, ...] | None) -> set[str]:
    items = value if isinstance(value, tuple) else (value or "").split(",")
    return {item.strip() for item in items} - {""}


@pytest.mark.campaign
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(forks())
@example(
    Fork(
        base="---\r\ntitle:\r\n- 010\r\nkind: w_\r\n---",
        ours="- new\r\n---\r\ntitle:\r\n- 010\r\nkind: w_\r\n---",
        theirs="---\r\ntitle:\r\nkind: w_\r\n---",
    )
)
@example(
    Fork(
        base="---\r\ntitle:\r\n- 010\r\nkind: w_\r\n---",
        ours="- new\r\n---\r\ntitle:\r\n- 010\r\nkind: w_\r\n---",
        theirs="---\r\ntitle:\r\n\r\nkind: w_\r\n---",
    )
)
@example(
    Fork(
        base="---\ntitle:\n---",
        ours="---\n  more\ntitle:\n- new\n---",
        theirs="---\n  more\ntitle:\n  more\n---",
    )
)
def test_a_merge_loses_nothing_that_either_side_added(fork: Fork) -> None:
    check_fork(fork)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(forks())
def test_twenty_thousand_merges_lose_nothing_that_either_side_added(fork: Fork) -> None:
    check_fork(fork)


THEIRS = Speaker("Ann", "2026-11-22", "laptop")


def check_fork(fork: Fork) -> None:
    merged = merge_texts("notes/a.md", fork.base, fork.ours, fork.theirs, speaker=THEIRS)
    texts = (fork.base, fork.ours, fork.theirs)
    event("conflict" if merged.conflicts else "clean")
    assert not find_conflict(merged.text)
    check_properties(fork, merged)
    if merged.conflicts or merged.losses:
        assert_all_said(fork.base, fork.ours, merged)
        assert_all_said(fork.base, fork.theirs, merged)
    elif fork.base and len({bool(read_frontmatter(x).body) for x in texts}) == 1:
        assert_nothing_lost(fork.base, fork.ours, fork.theirs, merged.text)
        assert_nothing_lost(fork.base, fork.theirs, fork.ours, merged.text)


def check_properties(fork: Fork, merged: MergedText) -> None:
    """What both could read is read; the state is no freer than both have made it."""
    sides = [read_frontmatter(text) for text in (fork.ours, fork.theirs)]
    if any(side.problem or side.warnings for side in sides):
        return
    found = read_frontmatter(merged.text)
    assert not found.problem
    assert not found.warnings
    old, mine, other, new = (
        rank_state(str(read_values(text).get("state", "")))
        for text in (fork.base, fork.ours, fork.theirs, merged.text)
    )
    assert new >= (min(mine, other) if old in (mine, other) else max(mine, other))


def is_later(text: str, other: str) -> bool:
    times = [read_timestamp(str(read_values(each).get("updated", ""))) for each in (text, other)]
    return times[0] is not None and times[1] is not None and times[0] > times[1]


def assert_all_said(base: str, side: str, merged: MergedText) -> None:
    """Each line that a side added is in the text, in a callout, or told as lost."""
    said = Counter(
        line.removeprefix(">").removeprefix(" ").strip() for line in split_keys(merged.text)
    )
    told = " ".join(f"{loss.what} {loss.value}" for loss in merged.losses)
    was, now = (Counter(map(str.strip, split_keys(text))) for text in (base, side))
    for line in (now - was) - said:
        if line.startswith("updated:") and is_later(merged.text, side):
            continue  # Of two moments the later stays.
        value, _, comment = line.partition(":")[2].partition(" #")
        words = value.strip(" \"'") if value else line
        items = {item.strip(" -\"'[]") for item in words.split(",")}
        if f" #{comment}".rstrip() not in base:  # The other side may have taken out what was there.
            items.add(comment.strip(" \"'"))
        assert not line or all(item in told + merged.text for item in items), (line, merged)


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(forks())
def test_one_changed_side_is_taken_byte_for_byte(fork: Fork) -> None:
    base, changed = fork.base, fork.ours
    assert merge_clean(base, changed, base) == changed
    assert merge_clean(base, base, changed) == changed
    assert merge_clean(base, changed, changed) == changed
    for args in ((base, changed, base), (base, base, changed), (base, changed, changed)):
        assert merge_lines(*args, prose=0).text == changed


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(generated_notes(), st.data())
def test_the_frontmatter_of_one_side_and_the_body_of_the_other_are_taken_byte_for_byte(
    note: object, data: st.DataObject
) -> None:
    base = data.draw(st.just(note)).text  # type: ignore[attr-defined]
    matter = read_frontmatter(base)
    front, body = base[: matter.body], base[matter.body :]
    if not matter.body or not body:
        return
    edited_front = set_property(front, "fresh", data.draw(st.sampled_from(["x", "y: z"])))
    edited_body = body + "\n- more"
    for ours, theirs in (
        (edited_front + body, front + edited_body),
        (front + edited_body, edited_front + body),
    ):
        merged = merge_clean(base, ours, theirs)
        assert merged.startswith(edited_front)
        assert split_keys(merged.removeprefix(edited_front)) == split_keys(edited_body)


@settings(max_examples=100, deadline=None)
@given(*[st.lists(st.sampled_from("abcd"), max_size=12)] * 2)
def test_a_diff_turns_one_list_of_lines_into_the_other(old: list[str], new: list[str]) -> None:
    made, at = [], 0
    for hunk in diff_lines(old, new):
        made += old[at : hunk.start] + new[hunk.new_start : hunk.new_end]
        at = hunk.end
    assert made + old[at:] == new
    for start, new_start, length in match_lines(old, new):
        assert old[start : start + length] == new[new_start : new_start + length]


# ---- large notes


def test_a_note_of_twenty_thousand_lines_is_merged_in_seconds() -> None:
    rng = random.Random(1)
    lines = [rng.choice([f"- fact {n}", f"word {n % 50}", "", f"- {n % 9}"]) for n in range(20_000)]
    ours, theirs = list(lines), list(lines)
    for place in range(0, 20_000, 40):
        ours[place] = f"ours {place}"
        theirs[place + 20] = f"theirs {place}"
    ours.append("- ours at the end")
    theirs.append("- theirs at the end")
    texts = ["---\ntitle: x\n---\n" + "\n".join(side) + "\n" for side in (lines, ours, theirs)]
    started = time.monotonic()
    merged = merge_clean(*texts)
    assert time.monotonic() - started < 5
    assert sum(line.startswith(("ours", "theirs")) for line in merged.splitlines()) == 1000
    assert merged.endswith("- ours at the end\n- theirs at the end\n")


@pytest.mark.campaign
@pytest.mark.parametrize("shape", ["few words", "all blank", "reversed", "islands"])
def test_repeated_lines_of_a_megabyte_cost_seconds_at_most(shape: str) -> None:
    rng = random.Random(2)

    def make(words: list[str], count: int) -> str:
        return "".join(rng.choice(words) + "\n" for _ in range(count))

    if shape == "all blank":
        texts = ["\n" * count for count in (1_000_000, 900_000, 800_000)]
    elif shape == "reversed":
        counted = [f"line {n}\n" for n in range(80_000)]
        texts = ["".join(counted), "".join(counted[::-1]), "".join(sorted(counted))]
    else:
        words = [f"w{n}" for n in range(150)]
        # Unique lines between them divide the texts into parts that are each dear to compare.
        islands = range(12) if shape == "islands" else range(1)
        size = 120_000 // len(islands)
        texts = ["".join(f"{make(words, size)}{n}\n" for n in islands) for _ in range(3)]
    started = time.process_time()
    merged = merge_texts("a.md", *texts)
    assert time.process_time() - started < 10
    assert not has_lost_lines(texts[0], texts[1], merged.text)
    assert not has_lost_lines(texts[0], texts[2], merged.text)
