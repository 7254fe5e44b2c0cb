"""Passages: what is shown of a section that is too long, and that it can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.packs.passages import choose_passages, render_passages, split_text
from vaultmem.core.search.query import Match
from vaultmem.core.search.terms import count_terms

TALK = [f"Ann: It is day {n} of the fair and the weather stays as it was." for n in range(40)]
CODE = ["```python", *(f"call_{n}(value)" for n in range(40)), "rotate(key)", "```"]
ROWS = ["| city | mayor |", "|---|---|", *(f"| town{n} | nobody |" for n in range(40))]


def shorten(text: str, question: str, room: int) -> str:
    matches = [Match(term, ("body",), 1.0) for term in count_terms(question)]
    return render_passages(text, choose_passages(text, matches, room))


def test_dots_say_where_a_passage_stands() -> None:
    text = "\n".join([*TALK[:20], "Bob: The password rotates at noon.", *TALK[20:]])
    shown = shorten(text, "password", 60).splitlines()
    assert shown[0] == "... (line 20 of 41)"
    assert shown[2] == "Bob: The password rotates at noon."


def test_passages_stand_in_their_order_with_a_gap_between_them() -> None:
    text = "\n".join(["Bob: Keys rotate.", *TALK, "Bob: The keys rotate on Tuesday."])
    assert shorten(text, "keys rotate Tuesday", 40).splitlines() == [
        "Bob: Keys rotate.",
        "... (line 42 of 42)",
        "Bob: The keys rotate on Tuesday.",
    ]


def test_sentences_of_a_paragraph_are_whole() -> None:
    text = "Ships come. They go. " * 30 + "The key is blue, e.g. navy. " + "Nobody knows it. " * 9
    assert shorten(text, "key blue", 14) == "... The key is blue, e.g. navy."


def test_sentence_of_a_long_turn_keeps_the_speaker() -> None:
    text = f"Bob: {'I went to the fair again. ' * 30}The key is blue. {'And so on. ' * 20}"
    assert shorten(text, "key blue", 20).startswith("Bob: ... ")
    assert "The key is blue." in shorten(text, "key blue", 20)


def test_head_is_shown_where_nothing_matched() -> None:
    assert shorten("\n".join(TALK), "", 50).startswith(TALK[0])
    assert shorten("\n".join(TALK), "zebra", 50).startswith(TALK[0])


def test_row_comes_with_the_head_of_its_table() -> None:
    shown = shorten("\n".join(["Mayors:", "", *ROWS, "| Ulm | Ms Key |"]), "Ulm", 60).splitlines()
    start = shown.index("| city | mayor |")
    assert shown[start + 1] == "|---|---|"
    assert shown[-1] == "| Ulm | Ms Key |"


def test_cut_code_stays_in_its_fence() -> None:
    shown = shorten("\n".join(["Rotate it:", "", *CODE]), "rotate key", 50).splitlines()
    assert shown.count("```python") == shown.count("```") == 1
    assert shown[-2:] == ["rotate(key)", "```"]


def test_who_answers_comes_with_the_question() -> None:
    turns = ["Ann: When does the staging password rotate?", "Bob: Every second Tuesday at noon."]
    text = "\n".join([*TALK, *turns, *TALK, "Ann: I like the password."])
    shown = shorten(text, "when does the staging password rotate", 55)
    assert "\n".join(turns) in shown


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "a key. ",
                "Bob: b?\n",
                "- c\n",
                "\n",
                "```\n",
                "| a | b |\n",
                "|--|--|\n",
                "x\r\n",
                "键。",
            ]
        ),
        max_size=30,
    ).map("".join),
    st.integers(0, 60),
)
def test_units_hold_each_word_once_and_passages_are_parts(text: str, room: int) -> None:
    spans = [unit.span for unit in split_text(text)]
    assert spans == sorted(spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    matches = [Match("kei", ("body",), 1.0)]
    parts = choose_passages(text, matches, room)
    assert parts == choose_passages(text, matches, room)
    for line in render_passages(text, parts).split("\n"):
        for piece in line.split(" ... "):
            assert piece.startswith("...") or piece.strip() in text


@pytest.mark.parametrize("text", ["", "\n\n", "word" * 3000])
def test_nothing_is_shown_of_what_cannot_be_cut(text: str) -> None:
    assert shorten(text, "key", 40) == ""


def test_nothing_weaker_is_shown_in_place_of_the_best() -> None:
    text = f"Ships come. The key is {'very ' * 60}blue. They go."
    assert shorten(text, "key blue", 30) == ""
