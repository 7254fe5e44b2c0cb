"""Reading frontmatter: hostile blocks are told, thematic breaks are text, nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_note
from vaultmem.core.notes.frontmatter import MAX_BLOCK_BYTES, read_frontmatter
from vaultmem.core.notes.note import parse_note
from vaultmem.core.notes.yaml_block import MAX_DEPTH

BODY = "# Heading\n\nthe body's last words\n"
#: Reads a note of its standard input, so that a crash or a hang is not the test's own.
CHILD = """
import json, sys
from pathlib import PurePosixPath
from vaultmem.core.notes.note import parse_note
note = parse_note(PurePosixPath("notes/x.md"), sys.stdin.buffer.read())
told = [note.frontmatter.problem, *note.warnings]
sections = [note.section_text(section) for section in note.sections]
print(json.dumps({"told": told, "body": note.body, "sections": sections}))
"""


def laughs(levels: int) -> str:
    """Return the billion laughs: each list is ten times the one before it."""
    lines = ["l0: &l0 [lol, lol]"]
    for level in range(1, levels):
        again = ", ".join([f"*l{level - 1}"] * 10)
        lines.append(f"l{level}: &l{level} [{again}]")
    return "\n".join(lines)


def merge_bomb(levels: int) -> str:
    """Return maps that each merge the one before it twice."""
    lines = ["m0: &m0 {a: 1}"]
    for level in range(1, levels):
        lines.append(f"m{level}: &m{level} {{<<: [*m{level - 1}, *m{level - 1}]}}")
    return "\n".join(lines)


ATTACKS = {
    "brackets": "title: " + "[" * 60_000,
    "bare brackets": "[" * 60_000,
    "braces": "title: " + "{" * 60_000,
    "hyphens": "title:\n  " + "- " * 30_000,
    "blanks": "title:" + " " * 60_000 + "\x01",
    "items in one line": "title:\n" + "- a" * 20_000 + ": x",
    "comment signs": "title: " + "x #" * 20_000 + "\x01",
    "ten thousand lists": "title:\n" + "  - []\n" * 10_000,
    "merge bomb": merge_bomb(28),
    "billion laughs": laughs(10),
    "python object": 'title: !!python/object/apply:os.system ["echo hello"]',
    "python name": "title: !!python/name:os.system",
    "own tag": "title: !secret value",
    "duplicate keys": "title: a\ntitle: b",
    "tabs": "title:\n\t- a",
    "templater": 'title: "x"\n<% tp.file.cursor() %>',
    "unquoted template": "created: {{date}} {{time}}",
    "date template": "created: {{date}}",
    "nan": "confidence: .nan",
    "infinity": "confidence: -.inf",
    "too large": "title: " + "a" * MAX_BLOCK_BYTES,
    "too many events": "title: [" + "a, " * 5_000 + "]",
    "too deep": "title: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "complex key": "? [a, b]\n: c",
    "control character": "title: a\x07b",
    "directive": "%YAML 1.1\ntitle: x",
    "two documents": "title: a\n...\ntitle: b",
    "number as tags": "tags: 12",
    "map as tags": "tags: {a: b}",
    "map as aliases": "aliases:\n  a: b",
    "unknown kind": "kind: gossip",
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.campaign
def test_hostile_block_is_told_and_the_body_is_whole(name: str) -> None:
    note = f"---\n{ATTACKS[name]}\n---\n{BODY}"
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=note.encode(), capture_output=True, timeout=30
    )
    assert done.returncode == 0, done.stderr[-500:]
    read = json.loads(done.stdout)
    assert any(read["told"]), "neither a problem nor a warning"
    assert read["body"].endswith(BODY)
    assert read["sections"][-1] == "the body's last words"


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("tags: null", ()),
        ("tags:", ()),
        ("tags: []", ()),
        ("tags: 12", ("12",)),
        ("tags: one", ("one",)),
        ("tags: one, two/three", ("one", "two/three")),
        ("tags: [one, [two], null, 3, {a: b}]", ("one", "3")),
        ("tags: [[one]]", ()),
        ("tags: {a: b}", ()),
        ("tags: true", ("true",)),
        ("tags:\n- '#one'\n- ~\n- ''\n- 2026-11-21", ("one", "2026-11-21")),
    ],
)
def test_tags_of_any_type_are_read_as_far_as_they_make_sense(
    tags: str, wanted: tuple[str, ...]
) -> None:
    note = make_note(f"---\n{tags}\naliases: {tags.partition(':')[2].strip() or '~'}\n---\nbody\n")
    if not note.frontmatter.problem:
        assert note.tags == wanted
    assert note.body == "body\n"


def test_keys_of_any_type_become_text() -> None:
    matter = read_frontmatter("---\n1: a\n2026-11-21: b\nnull: c\n.nan: d\ntrue: e\n~: f\n---\n")
    names = [prop.name for prop in matter.properties]
    assert names == ["1", "2026-11-21", "null", ".nan", "true", "~"]
    assert [prop.value for prop in matter.properties] == list("abcdef")


def test_scalars_stay_as_they_are_written() -> None:
    matter = read_frontmatter("---\na: 010\nb: 12:30:45\nc: 1e3\nd: 0x1F # x\ne: 2026-11-21\n---\n")
    values = {prop.name: (prop.value, prop.kind) for prop in matter.properties}
    assert values["a"] == ("010", "int")
    assert values["b"] == ("12:30:45", "int")
    assert values["c"] == ("1e3", "str")
    assert values["d"] == ("0x1F", "int")
    assert values["e"] == ("2026-11-21", "timestamp")


def test_last_of_duplicate_keys_counts_with_a_warning() -> None:
    matter = read_frontmatter("---\na: 1\nb: 2\na: 3\n---\n")
    assert [(prop.name, prop.value) for prop in matter.properties] == [("a", "3"), ("b", "2")]
    assert 'the property "a" occurs twice' in matter.warnings[0]


def test_problem_names_the_line_of_the_file() -> None:
    assert "line 3" in read_frontmatter("---\na: 1\nb: 'x' y\n---\n").problem


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nhello\n\n---",
        "---\n\nhello\n\n---\n\nmore\n",
        "---\nhello\n---\nmore",
        "---\n**bold** words\n---\nmore",
        "---\n# A title between rules\n---\nmore",
        "---\n- a list\n- of things\n---\nmore",
        "---\n| a | table |\n---\n",
        "---\n> a quote\n\n%% comment %%\n---\n",
        "---\nhello",
        "--- \nhello\n--- \n",
        "---",
        "----\ntitle: x\n----\n",
        "--- title: x\n---\n",
        "text\n---\ntitle: x\n---\n",
        "\n---\ntitle: x\n---\n",
        "----\r\nhello\r\n",
    ],
)
def test_rule_that_opens_no_mapping_is_text(text: str) -> None:
    for start in ("", "\ufeff"):
        note = make_note(start + text)
        assert note.frontmatter.body == 0
        assert note.frontmatter.properties == ()
        assert note.body == start + text
        shown = "\n".join(f"# {s.heading}\n{note.section_text(s)}" for s in note.sections)
        assert all(line.strip() in shown for line in text.split("\n") if "%%" not in line)


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_rules_inside_the_body_stay_in_it(eol: str) -> None:
    body = f"one{eol}---{eol}two: three{eol}---{eol}four"
    matter = read_frontmatter(f"---{eol}title: x{eol}---{eol}{body}")
    assert [prop.name for prop in matter.properties] == ["title"]
    note = make_note(f"---{eol}title: x{eol}---{eol}{body}")
    assert note.body == body
    assert note.section_text(note.sections[0]) == body


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("a: 1\n...\n--- b", "line 4: but found another document"),
        ("a: 1\n--- b\n", "line 3: but found another document"),
        ("a: 1\n--- b\n--- !x y", "uses the tag '!x'"),
        ("a: 1\n--- b\n--- [", "not valid YAML, line"),
    ],
)
def test_what_stands_behind_a_document_is_told(block: str, problem: str) -> None:
    assert problem in read_frontmatter(f"---\n{block}\n---\n").problem


def test_block_that_is_never_closed_is_body_and_a_problem() -> None:
    matter = read_frontmatter("---\ntitle: x\n\nbody")
    assert (matter.body, matter.properties) == (0, ())
    assert "never closed" in matter.problem


def test_empty_block_is_frontmatter_without_properties() -> None:
    for text, body in (("---\n---\nbody", "body"), ("---\n\n---", ""), ("---\r\n---\r\nb", "b")):
        matter = read_frontmatter(text)
        assert matter.properties == ()
        assert matter.body
        assert text[matter.body :] == body


@pytest.mark.campaign
@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.text("-\n\r: a[]#'\"\ufeff", max_size=30).map("---\n".__add__)))
def test_reading_any_text_raises_nothing_and_loses_nothing(text: str) -> None:
    matter = read_frontmatter(text)
    assert 0 <= matter.start <= matter.end <= matter.body <= len(text)
    if matter.body:
        assert text[: matter.start].lstrip("\ufeff").rstrip() == "---"
        assert text[matter.end : matter.body].rstrip() == "---"
        block = text[matter.start : matter.end]
        assert matter.properties or matter.problem or matter.warnings or not block.strip()


@pytest.mark.parametrize(("path", "state"), [("notes/a.md", "candidate"), ("Daily/a.md", "active")])
def test_the_most_restricted_of_two_states_counts_in_a_managed_note(path: str, state: str) -> None:
    note = parse_note(PurePosixPath(path), b"---\nstate: candidate\nstate: active\n---\nA.\n")
    assert note.state == state
    assert note.warnings == ('the property "state" occurs twice; the most restricted one counts',)


def test_two_states_of_which_one_is_quarantined_quarantine_any_note() -> None:
    text = b"---\nstate: quarantined\nstate: active\n---\nA.\n"
    assert parse_note(PurePosixPath("Daily/a.md"), text).state == "quarantined"
