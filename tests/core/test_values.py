"""Notes as values: properties as far as they make sense, with a warning where they do not."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_note
from vaultmem.core.indexing.section_texts import analyse_note
from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.frontmatter import as_json, read_frontmatter, read_timestamp
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.record import has_tag
from vaultmem.core.search.terms import count_terms
from vaultmem.core.text.blob import blob_id


def test_note_without_properties_is_an_active_fact() -> None:
    note = make_note("Just text.\n", "notes/auth/tokens.md")
    assert (note.kind, note.state, note.pinned) == (NoteKind.SEMANTIC_FACT, NoteState.ACTIVE, False)
    assert (note.title, note.tags, note.confidence, note.warnings) == ("tokens", (), None, ())


def test_title_is_the_property_else_a_heading_above_all_text_else_the_file() -> None:
    assert make_note("---\ntitle: A\n---\n# B\n").title == "A"
    assert make_note("---\ntitle:\n---\n<!-- c -->\n\n# B\ntext\n").title == "B"
    assert make_note("text\n# B\n").title == "note"
    assert make_note("## B\ntext\n").title == "note"
    assert make_note("text\n").title == "note"


def test_files_pinned_by_name_are_pinned_at_the_root_alone() -> None:
    assert make_note("x", "MEMORY.md").pinned
    assert not make_note("x", "notes/MEMORY.md").pinned
    assert make_note("---\npinned: yes\n---\n").pinned


@pytest.mark.parametrize("data", [b"a\0b", b"\xe9\0", b"\xff\xfea\0\0\0", "größe".encode("utf-32")])
def test_bytes_that_are_not_text_are_no_note(data: bytes) -> None:
    with pytest.raises(UnreadableNoteError):
        parse_note(PurePosixPath("x.md"), data)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_note_that_is_not_utf8_is_read_and_says_so(encoding: str) -> None:
    text = "---\ntitle: Größe\nstate: quarantined\n---\n# Größe\n"
    note = parse_note(PurePosixPath("x.md"), text.encode(encoding))
    assert (note.title, note.state, note.text) == ("Größe", NoteState.QUARANTINED, text)
    assert note.encoding == {"utf-16": "UTF-16", "latin-1": "Windows-1252"}[encoding]
    assert "save it as UTF-8" in note.warnings[0]


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("kind: gossip", 'unknown kind "gossip"'),
        ("state: dead", 'unknown state "dead"'),
        ("confidence: 2", "is not a number from 0 to 1"),
        ("confidence: high", "is not a number from 0 to 1"),
        ("confidence: .nan", "is not a number from 0 to 1"),
        ("created: yesterday", "is not a date"),
        ("created: 2026-13-01", "is not a date"),
        ("pinned: maybe", 'the property "pinned" should be true or false'),
        ("title: [a, b]", 'the property "title" should be text'),
        ("tags: 12", 'the property "tags" should be a list'),
        ("aliases: {a: b}", 'the property "aliases" should be a list'),
    ],
)
def test_value_that_makes_no_sense_is_a_warning(line: str, warning: str) -> None:
    note = make_note(f"---\n{line}\nagent: claude\n---\nbody\n")
    assert warning in " ".join(note.warnings)
    assert (note.agent, note.body) == ("claude", "body\n")
    assert (note.kind, note.state, note.confidence) == (
        NoteKind.SEMANTIC_FACT,
        NoteState.ACTIVE,
        None,
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-21", "2026-11-21"),
        ("2026-11-21T10:30:00", "2026-11-21T10:30:00"),
        ("2026-11-21T10:30:00Z", "2026-11-21T10:30:00Z"),
        ("2026-11-21 10:30", "2026-11-21T10:30:00"),
        ("20261121T103000", "2026-11-21T10:30:00"),
        ("20261121", "2026-11-21"),
        ("2026-W47-6T10:30", "2026-11-21T10:30:00"),
    ],
)
def test_dates_begin_with_their_day(written: str, read: str) -> None:
    assert make_note(f'---\ncreated: "{written}"\n---\n').created == read


def test_moments_that_are_none_have_no_seconds() -> None:
    assert read_timestamp("1970-01-02T00:00:00+00:00") == 86_400
    assert read_timestamp("soon") is None


@pytest.mark.parametrize(
    ("body", "tags"),
    [
        ("#one and #two/three, (#four) #one", ("one", "two/three", "four")),
        ("#123 is no tag, #1a is", ("1a",)),
        ("a#b and https://x.org/#frag and \\#c", ()),
        ("`#code` #yes `x\n#also`", ("yes", "also")),
        ("```\n#no\n```\n#yes\n~~~\n#no\n~~~\n#end", ("yes", "end")),
        ("```\r\n#no\r\n```\r\n#yes", ("yes",)),
        ("```inline``` #yes", ("yes",)),
        ("# Heading\n#größe", ("größe",)),
        ("[see](#anchor), ![](#b), [a] (#yes) and [x](y) (#also)", ("yes", "also")),
    ],
)
def test_inline_tags_count_outside_of_code(body: str, tags: tuple[str, ...]) -> None:
    assert make_note(body).tags == tags


def test_declared_and_inline_tags_are_each_there_once() -> None:
    assert make_note("---\ntags: ['#a', b]\n---\n#b #c\n").tags == ("a", "b", "c")


def test_tag_matches_whole_or_as_a_parent() -> None:
    assert has_tag(("auth/tokens",), "#Auth")
    assert has_tag(("auth",), "auth")
    assert not has_tag(("auth",), "au")
    assert not has_tag(("auth",), "auth/tokens")


def _counts_of(note: Note) -> list[dict[str, dict[str, int]]]:
    texts = analyse_note(note.path, note.text.encode()).texts
    return [
        {
            "title": count_terms("\n".join(title)),
            "tags": count_terms(tags),
            "body": count_terms(body),
        }
        for title, tags, body, *_ in texts
    ]


def test_properties_of_the_persons_own_are_searched_as_text() -> None:
    note = make_note(
        "---\nowner: Maren\nmood: [calm, {x: y}]\ndone: true\nkind: decision\n---\nb\n"
    )
    assert note.extra == "Maren\ncalm"
    counts = _counts_of(note)[0]
    assert "maren" in counts["body"]
    assert "decis" not in counts["body"]


def test_only_the_first_section_answers_for_aliases_and_own_properties() -> None:
    text = "---\ntitle: Tide\naliases: [Buoy]\nowner: Maren\n---\n# A\nx\n## B\ny\n"
    note = make_note(text, "notes/auth/x.md")
    first, second = _counts_of(note)
    assert "maren" in first["body"]
    assert "maren" not in second["body"]
    assert "buoi" in first["title"]
    assert "buoy" not in second["title"]
    assert second["tags"] == {"auth": 1}


def test_section_is_found_case_and_spacing_aside() -> None:
    note = make_note("# First\na\n##  Second   Part\nb\n")
    found = note.find_section("second part")
    assert found is not None
    assert note.section_text(found) == "b"
    assert note.find_section("third") is None


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("010", "010"),
        ("0x1F", "0x1F"),
        ("12:30:45", "12:30:45"),
        ("0.5", 0.5),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("1_000", "1_000"),
        ("true", True),
        ("No", False),
        ("~", None),
        ("2026-11-21", "2026-11-21"),
        ("9" * 30, "9" * 30),
        ("[a, 1]", ["a", "1"]),
        ("{a: b}", None),
        ("!!null x", None),
    ],
)
def test_json_values_lose_nothing_that_was_written(written: str, value: object) -> None:
    prop = read_frontmatter(f"---\na: {written}\n---\n").properties[0]
    assert as_json(prop) == value
    assert type(as_json(prop)) is type(value)


@settings(max_examples=150, deadline=None)
@given(st.text("0123456789.eE+-_xobnaifINF:~truey ", max_size=12))
def test_every_value_is_valid_json(text: str) -> None:
    for prop in read_frontmatter(f"---\na: {text}\n---\n").properties:
        json.loads(json.dumps(as_json(prop), allow_nan=False))


def test_blob_is_named_as_git_names_it() -> None:
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(b"what is up, doc?") == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"
