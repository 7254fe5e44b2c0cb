"""What people do not see of a note: comments and labels that wait for text."""

from __future__ import annotations

import random
import re
from pathlib import PurePosixPath

import pytest

from vaultmem.core.notes.comments import hide_unseen, strip_hidden
from vaultmem.core.notes.note import Note, parse_note


def make_note(text: str) -> Note:
    return parse_note(PurePosixPath("notes/a.md"), text.encode())


def see(text: str) -> str:
    return strip_hidden(hide_unseen(text, 0).text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a <!-- b --> c <!-- d --> e", "a  c  e"),
        ("a\n\n<!-- b\n\nc\n# d\n-->\n\ne\n", "a\n\ne\n"),
        ("a <!-- b\nc --> d", "a \n d"),
        ("a %%b%% c %%d%%", "a  c "),
        ("a\n\n%%\nb\n\n%% c\n", "a\n\n c\n"),
        ("%%\r\nb\r\n\r\n%%\r\na\r\n", "a\r\n"),
        ("- x\n  <!-- b\n  c -->\n- y\n", "- x\n- y\n"),
        ("**Why.** <!-- the reason -->\n1. <!-- step -->\n- <!-- x -->\nyes\n", "yes\n"),
        ("**Why.** It was <!-- b --> late.", "**Why.** It was  late."),
        ("`a` and `<!-- b -->` and ``%% ` c %%``", "`a` and `<!-- b -->` and ``%% ` c %%``"),
        ("```html\n<!-- b -->\n%%\n```\n%% c %%\n", "```html\n<!-- b -->\n%%\n```\n"),
        ("1. x\n\n   ```\n   <!-- b -->\n   ```\n", "1. x\n\n   ```\n   <!-- b -->\n   ```\n"),
        ("It grew by 100%% in May.", "It grew by 100%% in May."),
        ("a <!-- b, never closed\n\nc", "a <!-- b, never closed\n\nc"),
        ("a -> b --> c, 1 < 2 <-- d", "a -> b --> c, 1 < 2 <-- d"),
    ],
)
def test_comments_are_not_seen_and_code_is(text: str, seen: str) -> None:
    assert see(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "- a\n  ```\n\n<!-- evil -->\n",  # The code ends with its list item.
        "<div>\n```\n</div>\n\n<!-- evil -->\n\n<div>\n```\n</div>\n",
        "<pre>\n\n```\n<!-- evil -->\n```\n</pre>\n",
        "- a `\n- b ` c ` <!-- evil --> `\n",  # No code span goes from one item to the next.
        "| ` | ` a ` <!-- evil --> ` |\n|-|-|\n",
        'a <b title="`"> <!-- evil --> `\n',
        "a \\` <!-- evil --> `\n",
        "<!-- a --> ` <!-- evil --> `\n",
        "> <!-- a\n\nb --> c\n\nevil",  # To a browser the quote's comment is never closed.
        "para\n    ~~~\n    <!-- evil -->\n    ~~~\n",
        "x 100%% y\n\n%%\nevil\n%%\n",
        "x\n\n%%\n\nevil",
        "x\n\n<!--\n\nevil",
        "<!--> `\n```\n<!-- evil -->\n",
    ],
)
def test_where_it_is_not_certain_that_people_see_it_it_is_hidden(text: str) -> None:
    assert "evil" not in see(text)


_PARTS = (
    *["<!--", "-->", "`", "```", "\n```\n", "\n~~~\n", "\n", "\n\n", " ", "- ", "\n- ", "\n  "],
    *["\n    ", "\n1. ", "> ", "\n> ", "<div>", "\n<div>\n", "\n</div>\n", "<pre>", "\n<pre>\n"],
    *["</pre>", "|", "\\", "# ", "W", " W ", "\n\t", "\n  ```\n", "[a]: /x '", "<!", "<?", "?>"],
)
_COMMENT = r"<!--(?:>|->|(.*?)(?:-->|--!>|\Z))"


@pytest.mark.campaign
def test_nothing_is_seen_that_a_renderer_of_commonmark_hides() -> None:
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True})
    chance = random.Random(17)
    for _ in range(3_000):
        parts = [chance.choice(_PARTS) for _ in range(chance.randint(3, 28))]
        text = "".join(part.replace("W", f"W{n}Z") for n, part in enumerate(parts))
        html = markdown.render(text)
        hidden = re.findall(r"W\d+Z", " ".join(re.findall(_COMMENT, html, re.DOTALL)))
        assert not [word for word in hidden if word in see(text)], text


def test_sections_keep_their_places_and_comments_make_none() -> None:
    note = make_note(
        "---\ntags: [a]\n---\n# Title <!-- x -->\n\n<!--\n# No heading\n#no-tag\n-->\n\n"
        "## Empty\n\n<!-- later -->\n\n## Full\n\nText. <!-- no --> More. #yes\n"
    )
    assert note.title == "Title"
    assert note.tags == ("a", "yes")
    assert [section.heading for section in note.sections] == ["Full"]
    section = note.sections[0]
    assert note.text.split("\n")[section.line - 1] == "## Full"
    assert note.section_text(section) == "Text.  More. #yes"
    assert "<!-- no -->" in note.text[section.start : section.end]


@pytest.mark.parametrize(("opening", "line"), [("<!-- typo", 3), ("%%", 3), ("<!-- a", 3)])
def test_comment_that_is_left_open_is_named(opening: str, line: int) -> None:
    note = make_note(f"# A\n\n{opening}\n\nThe rest.\n")
    assert note.visible_body.strip() == "# A"
    assert [f"line {line} " in each for each in note.warnings] == [True]
    assert not make_note("# A\n\n<!-- b\n\n-->\n\n%%\nc\n%%\nd\n").warnings


def test_what_is_hidden_hides_no_conflict() -> None:
    marks = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"
    assert make_note(f"<!--\n{marks}-->\n").problem
    assert make_note(f"%%\n{marks}%%\n").problem


@pytest.mark.parametrize(
    "unit", ["<!--", "%% a", "[[", "$$a$$", "$a ", "$a$ ", "$", "\n%%\n", "a<!-- -->", "<!-- a\n"]
)
def test_no_text_takes_quadratic_time(unit: str) -> None:
    """A text of a megabyte would take minutes."""
    hide_unseen("%%<!-- x -->" + unit * (200_000 // len(unit)), 0)


@pytest.mark.parametrize(
    "text",
    [
        "- `$a$` looks like $a$\n- Text in `%%` is, and `%% Comments %%`\n\nThe rest.\n",
        "- Use a `|`, e.g. `[[a|b]]`: `$x^2$` is $x^2$\n- In `%%` is `%% c %%`\n\nThe rest.\n",
        "It costs $5. Text in `%%` is, and `%% c %%`.\n\nThe rest.\n",
        "$a$\n\n```\n$b\n%%\n```\n\nThe rest.\n",
    ],
)
def test_percent_and_dollar_in_code_are_text(text: str) -> None:
    assert see(text) == text
    assert not make_note(text).warnings


@pytest.mark.parametrize(
    "text",
    [
        "$5 $`$ <!-- evil --> `\n",  # Mathematics may begin at the second one.
        "a$b$`$ <!-- evil --> `\n",
        "\\$a$ ` $ <!-- evil --> `\n",
        "$ ` $ ` <!-- evil --> `\n",
        "a `|` b | ` <!-- evil --> ` |\n-|-\n",
    ],
)
def test_what_may_be_mathematics_or_a_table_is_no_code_for_certain(text: str) -> None:
    assert "evil" not in see(text)


@pytest.mark.campaign
def test_nothing_is_seen_that_a_renderer_of_tables_hides() -> None:
    markdown_it = pytest.importorskip("markdown_it")
    markdown = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
    chance = random.Random(23)
    more = ("|", "\n|-|-|\n", "\n| a | b |\n|-|-|\n| ", "`|`", "$", "$a$", " $a$ ")
    for _ in range(3_000):
        parts = [chance.choice(_PARTS + more) for _ in range(chance.randint(3, 28))]
        text = "".join(part.replace("W", f"W{n}Z") for n, part in enumerate(parts))
        html = markdown.render(text)
        hidden = re.findall(r"W\d+Z", " ".join(re.findall(_COMMENT, html, re.DOTALL)))
        assert not [word for word in hidden if word in see(text)], text
