"""Sections: every word of a body belongs to one of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_note
from vaultmem.core.notes.sections import MAX_SECTIONS, split_sections

LINES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8),
    st.sampled_from(
        [
            *("# A", "## B ##", "### C", "#no", "#", "##", "####### seven", "   # D", "    # code"),
            *(
                "```",
                "````",
                "~~~",
                "```py",
                "```x```",
                "Setext",
                "===",
                "---",
                "",
                "# E #",
                "# F#",
            ),
        ]
    ),
)


def outline(text: str) -> list[tuple[str, tuple[str, ...], str]]:
    sections, _ = split_sections(text, 0)
    return [(s.heading, s.parents, text[s.start : s.end].strip()) for s in sections]


@pytest.mark.campaign
@settings(max_examples=200, deadline=None)
@given(
    st.lists(LINES, max_size=10), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"])
)
def test_nothing_but_headings_and_blanks_is_outside_of_sections(
    lines: list[str], eol: str, bom: str
) -> None:
    text = bom + eol.join(lines)
    sections, _ = split_sections(text, 0)
    assert sections
    assert [section.ordinal for section in sections] == list(range(len(sections)))
    place = 0
    for section in sections:
        assert place <= section.start <= section.end <= len(text)
        for line in text[place : section.start].removeprefix("\ufeff").split("\n"):
            assert not line.strip() or line.lstrip(" ").startswith("#")
        assert section.line == text.count("\n", 0, section.start) + 1
        place = section.end
    for line in text[place:].split("\n"):
        assert not line.strip() or line.lstrip(" ").startswith("#")


def test_text_before_the_first_heading_is_a_section_of_its_own() -> None:
    assert outline("intro\n# A\ntext\n") == [("", (), "intro"), ("A", (), "text")]


def test_headings_know_their_parents() -> None:
    text = "# A\na\n## B\nb\n### C\nc\n## D\nd\n# E\n### F\nf\n"
    assert outline(text) == [
        ("A", (), "a"),
        ("B", ("A",), "b"),
        ("C", ("A", "B"), "c"),
        ("D", ("A",), "d"),
        ("F", ("E",), "f"),
    ]


def test_heading_without_text_lives_on_as_a_parent() -> None:
    assert outline("# A\n\n## B\nb\n## C\n\n") == [("B", ("A",), "b")]


def test_note_of_headings_alone_has_one_empty_section() -> None:
    assert outline("# A\n## B\n") == [("A", (), "")]
    assert outline("") == [("", (), "")]


def test_closing_marks_belong_to_no_heading() -> None:
    assert [name for name, _, _ in outline("# A ##\na\n# B#\nb\n# C #d\nc\n")] == [
        "A",
        "B#",
        "C #d",
    ]


@pytest.mark.parametrize("line", ["#tag", "####### x", "    # code", "\\# A", "#", "## ", "# #"])
def test_lines_that_only_look_like_headings_are_text(line: str) -> None:
    assert outline(f"{line}\ntext") == [("", (), f"{line}\ntext".strip())]


def test_setext_underlines_are_text() -> None:
    assert outline("Title\n===\ntext\n\nOther\n---\n") == [
        ("", (), "Title\n===\ntext\n\nOther\n---")
    ]


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "code",
    [
        "```\n# no\n```",
        "```python\n# no\n```",
        "~~~\n# no\n```\n# no\n~~~",
        "````\n```\n# no\n```\n````",
        "```\n# no\n```python\n# no\n```",
        "   ```\n# no\n   ```",
    ],
)
def test_headings_inside_code_are_text(code: str, eol: str) -> None:
    text = f"# A\n{code}\n# B\nb\n".replace("\n", eol)
    assert [name for name, _, _ in outline(text)] == ["A", "B"]


def test_code_that_is_never_closed_reaches_to_the_end() -> None:
    assert [name for name, _, _ in outline("# A\na\n```\n# no\n# no\n")] == ["A"]


def test_inline_code_of_three_backticks_opens_no_block() -> None:
    assert [name for name, _, _ in outline("```code``` here\n# A\na\n")] == ["", "A"]


def test_byte_order_mark_hides_no_heading() -> None:
    note = make_note("\ufeff# Title\ntext\n")
    assert note.title == "Title"
    assert [section.heading for section in note.sections] == ["Title"]


def test_more_headings_than_the_limit_are_text() -> None:
    sections, _ = split_sections("# A\ntext\n" * (MAX_SECTIONS + 5), 0)
    assert len(sections) == MAX_SECTIONS
    assert sections[-1].end == len("# A\ntext\n") * (MAX_SECTIONS + 5)


@pytest.mark.parametrize(
    "text",
    [
        "# a" + " " * 500_000 + "b",
        "# a " + "# " * 300_000 + "b",
        "# " + " " * 500_000 + "\rb",
        "```\n# x\n```\n" * 80_000,
        "`" * 500_000 + "\rx",
        "# a\nb\n" * 150_000,
    ],
    ids=["blanks", "marks", "return", "fences", "backticks", "headings"],
)
def test_a_megabyte_of_anything_is_split_in_time_that_grows_with_it(text: str) -> None:
    sections, _ = split_sections(text, 0)  # Quadratic, this would take hours.
    assert sections[-1].end == len(text)
