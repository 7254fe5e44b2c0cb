"""Whatever a note says is text: nothing of it runs, loads, poses as the page or takes long."""

from __future__ import annotations

import re
import time

import pytest
from hostile_notes import read_hostile_notes
from hypothesis import given, settings
from hypothesis import strategies as st
from rendered_notes import find_faults, find_note_faults, render

from vaultmem.web.markdown.clean import clean_html

HOSTILE = read_hostile_notes()
#: What nh3 does not see to: where links in HTML lead within the page, or that they lead outside.
_LED = re.compile(r'<a href="(?!\s*[a-z]+:)|<a> leads outside|<img src="(?!//|[a-z]+:)', re.I)
PIECES = re.findall(
    r"\S+",
    "[ ] ![ [[ ![[ ]] ( ) < > <b> </b> & &# ; * ** _ == ~~ ` ``` ~~~ $ $$ % %% <!-- --> # ## ^ ^[ "
    "[^ [^a]: [a]: - + 1. | |-|-| --- === : :// https:// javascript: data: mailto: \" ' \\ / .. .md"
    " #tag [!note] [!tip]- [x] Other.md image.png 100x50 ^id \\| <br> <script> on=",
)
text = st.text(st.characters(exclude_categories=[]), max_size=8)
notes = st.lists(
    st.sampled_from(
        [*PIECES, "[[Other note", " ", "\n", "\n\n", "\n> ", "\n- ", "\n    ", "\t", "a"]
    )
    | text,
    max_size=40,
).map("".join)


@pytest.mark.guarantee
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_note_is_inert(name: str) -> None:
    assert find_note_faults(render(HOSTILE[name])) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_note_is_inert_in_another_one(name: str) -> None:
    rendered = render(
        "![[evil]]\n\n> [!note]- ![[evil]]\n> ![[evil]]", notes={"evil.md": HOSTILE[name]}
    )
    assert find_note_faults(rendered) == []


def test_there_are_enough_hostile_notes() -> None:
    assert len(HOSTILE) >= 60


@pytest.mark.campaign
@given(notes)
@settings(max_examples=150, deadline=None)
def test_any_text_is_rendered_and_inert(note: str) -> None:
    assert find_note_faults(render(note)) == []


@given(notes)
@settings(max_examples=60, deadline=None)
def test_any_text_is_inert_as_a_property_and_in_every_block(note: str) -> None:
    quoted = note.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    texts = (
        f'---\na: "{quoted}"\n---\n',
        f"# {note}",
        f"> [!{note}]+ {note}\n> x",
        f"|{note}|\n|-|",
    )
    for each in texts:
        assert find_note_faults(render(each)) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_the_second_wall_holds_alone(name: str) -> None:
    """As if markdown-it had let all HTML through."""
    cleaned = clean_html(HOSTILE[name].encode("utf-8", "replace").decode())
    faults = find_faults(cleaned)
    assert [fault for fault in faults if not _LED.match(fault)] == []


@pytest.mark.parametrize(
    "text",
    [
        "[" * 40_000,
        "![" * 20_000,
        "[[a" * 13_000,
        "^[" * 20_000,
        "[^a]: x\n\n" + "[^" * 20_000,
        "[a][b" * 8_000,
        "[" * 20_000 + "]" * 20_000,
        ">" * 40_000,
        "> - " * 10_000,
        "*a_ " * 10_000,
        "`a``" * 10_000,
        "%% <!-- " * 5_000,
        "---\na: " + "[" * 20_000 + "\n---\n",
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.campaign
def test_a_note_of_one_mark_is_answered_soon(text: str) -> None:
    """In minutes, or never, before brackets were counted; a second or two, now."""
    began = time.process_time()
    render(text)
    assert time.process_time() - began < 20
