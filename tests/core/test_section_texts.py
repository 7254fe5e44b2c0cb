"""What marks a section besides its words: who says it, and that it is links alone."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from vaultmem.core.indexing.section_texts import (
    find_speaker,
    is_links_alone,
    list_full_texts,
    list_texts,
)
from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.terms import mark_name


@pytest.mark.parametrize(
    ("body", "speaker"),
    [
        ("Maren: the tide turns", "Maren"),
        ("**Maren:** the tide turns\n\nShe went on.", "Maren"),
        ("**Maren**: the tide turns", "Maren"),
        ("Maren Vogel (harbour master): the tide turns", "Maren Vogel"),
        ("- [2025-01-21 10:15] Maren: the tide turns", "Maren"),
        ('Maren said, "The tide turns."', "Maren"),
        ("Maren: the tide turns\nMaren: and the wind", "Maren"),
        ("Jürgen: die Flut kommt", "Jürgen"),
        ("Maren: does it turn?\nOmar: it does", ""),
        ("The tide turns: at six.", ""),
        ("We asked Maren: the tide turns at six", ""),
        ("assistant: the tide turns", "assistant"),
        ("10:15 at the pier", ""),
        ("https://tide.example: turns", ""),
        ("def turn(): return", ""),
        ("Maren:", ""),
        ("", ""),
    ],
)
def test_a_text_is_said_by_whom_its_turns_are_labelled_with(body: str, speaker: str) -> None:
    assert find_speaker(body) == speaker


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[[Tides]]", True),
        ("- [[Tides]]\n- [[Moons|the moon]]\n- ![[Map]]", True),
        ("[Tide (high)](../sea/tide_(high).md)  \n[Ebb](ebb.md#when)", True),
        ("See also [[Tides]], [[Ebb]] and [[Moon]]", False),
        ("See [[Tides]] and [[Ebb]], [[Moon]]", True),
        ("Use [[Redis]]", False),
        ("- [[Tides]]: when the water comes\n- [[Ebb]]: when it goes", False),
        ("[Tides](https://tide.example/high)", False),
        ("The tide turns at six.", False),
        ("", False),
    ],
)
def test_a_text_is_links_alone_where_it_has_fewer_words_of_its_own(
    body: str, expected: bool
) -> None:
    assert is_links_alone(body) is expected


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        ("Maren Vogel", (":", "maren:", "vogel:")),
        ("human", ()),
        ("agent", ()),
        ("tide table", ()),
        ("the 3rd log", ()),
    ],
)
def test_who_a_note_is_from_says_all_its_sections(source: str, marks: tuple[str, ...]) -> None:
    text = f"---\nsource: {source}\n---\nThe tide turns.\n\n## Wind\n\nIt comes with the tide.\n"
    note = parse_note(PurePosixPath("a.md"), text.encode())
    named = (mark_name("a"),)
    assert [texts.marks for texts in list_texts(note, "")] == [(*marks, *named), marks]


def test_a_shortened_note_has_the_texts_of_the_whole_one_and_what_was_added() -> None:
    whole = "# Tides\n\nThe pier has 3 lamps.\n\n## Wind\n\nIt comes with the tide.\n"
    left = "---\ntitle: Tides\n---\nKeywords: pier, 3, ebb\n\n## Later\n\nOmar came.\n"
    notes = [parse_note(PurePosixPath("a.md"), text.encode()) for text in (left, whole)]
    texts, ordinals = list_full_texts(*notes, "sea")
    assert [each.body.strip() for each in texts] == [
        *("The pier has 3 lamps.", "It comes with the tide.", "ebb", "Omar came."),
    ]
    assert [*texts[:2]] == list_texts(notes[1], "sea")
    assert ordinals == [0, 0, 0, 1]
