"""The line that shows a hit: a whole sentence with what was asked, and no decoration."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from vaultmem.core.notes.sections import find_sentence_ends
from vaultmem.core.packs.passages import choose_excerpt, has_sentence
from vaultmem.core.search.terms import count_terms


def show(text: str, question: str, width: int = 100) -> str:
    return choose_excerpt(text, list(count_terms(question)), width)


def split(text: str) -> list[str]:
    edges = [0, *find_sentence_ends(text), len(text)]
    return [text[a:b].strip() for a, b in pairwise(edges)]


@pytest.mark.parametrize(
    "sentence",
    [
        "My dentist is Dr. Okafor in Elm Street.",
        "Adding `!` before a link, e.g. an image, embeds it.",
        "Ask Prof. Weber or Mrs. Hill at St. Mary's.",
        "See No. 5, fig. 3 and p. 12.",
        "It showed 1.5 bar at J. R. R. Tolkien's, i.e. Oxford.",
        "Wir treffen z. B. Anna bzw. Uwe am 3. März bei Hr. Schmidt.",
        "La Sra. García y el Dr. Pérez llaman, p. ej. Ana.",
        "Mme. Dupont et M. Petit viennent.",
        'He asked "why?" and left.',
    ],
)
def test_an_abbreviation_ends_no_sentence(sentence: str) -> None:
    assert split(f"{sentence} The rest is here.") == [sentence, "The rest is here."]


@pytest.mark.parametrize(
    "text",
    [
        "We use DNS. The key is new.",
        "It costs 80. The plumber came.",
        "No. We keep it.",
        "It is so! Why? Because.",
        "Hello there, etc. The rest.",
    ],
)
def test_other_stops_end_one(text: str) -> None:
    assert len(split(text)) > 1


def test_a_sentence_of_a_full_width_script_ends_without_a_blank() -> None:
    assert split("今日は雨。明日は晴れ。") == ["今日は雨。", "明日は晴れ。", ""]


DECORATION = [
    "![GitHub all releases](https://img.shields.io/github/downloads/a/refunds/total)",
    "[![Refunds](https://img.shields.io/refunds)](https://example.org/refunds)   ",
    "![[refunds.png]]",
    '<span class="git-footer">[Edit refunds](https://a.b "x") | [Copy refunds](https://a.b)</span>',
    '<img src="refunds.png" alt="refunds">',
    "#refunds #counter/refunds",
    "Tags: #refunds #counter",
    "## Refunds",
    "**Refunds**",
    "> [!note]",
]


@pytest.mark.parametrize("line", DECORATION)
@pytest.mark.parametrize("order", ["{0}\n\n{1}", "{0}\n{1}", "{1}\n\n{0}"])
def test_decoration_is_no_line_while_there_is_a_sentence(line: str, order: str) -> None:
    sentence = "Amounts follow the table below."
    assert show(order.format(line, sentence), "refunds counter") == sentence


@pytest.mark.parametrize("line", DECORATION)
def test_decoration_alone_is_shown_as_it_is(line: str) -> None:
    assert show(line, "refunds")
    assert not has_sentence(line)


@pytest.mark.parametrize(
    "line",
    [
        "<p>My dentist is Dr. Okafor.</p>",
        "**Never deploy on Friday.**",
        "The ![x](y.png) button deploys it.",
        "| deploy | never on Friday |",
    ],
)
def test_what_says_something_is_no_decoration(line: str) -> None:
    assert has_sentence(line)


def test_tags_behind_a_sentence_are_none() -> None:
    text = "The clock goes back on Sunday. #time/clock #todo"
    assert show(text, "time clock todo") == "The clock goes back on Sunday."


def test_a_wrapped_sentence_is_one_line_and_short_lines_are_several() -> None:
    wrapped = (
        "> [!NOTE]\n> If the interface is not added to the chain of classes,\n"
        "> the compiler removes that code. Nothing else does."
    )
    assert show(wrapped, "compiler", 200) == (
        "If the interface is not added to the chain of classes, the compiler removes that code."
    )
    assert show("Plugin: tides\nAuthor Ilse\nSite down", "ilse") == "Author Ilse"


def test_code_and_tables_are_shown_where_they_have_more_of_what_was_asked() -> None:
    text = "Deploy it.\n\n```sh\n# deploy\njust deploy staging\n```\n"
    assert show(text, "deploy staging") == "just deploy staging"
    table = "The deploy days:\n\n| day | deploy |\n|---|---|\n| Friday | no |\n"
    assert show(table, "Friday deploy") == "The deploy days:"
    assert show(table, "Friday") == "| Friday | no |"


def test_a_long_sentence_is_cut_where_the_words_are() -> None:
    start, end = "It has been known to all of us for long " * 4, " and so on and on" * 9
    text = f"{start}that the dentist is Okafor{end}."
    line = show(text, "dentist okafor")
    assert "the dentist is Okafor" in line
    assert line.startswith("... ")
    assert line.endswith(" ...")
    assert len(line) <= 108
    assert show(text, "known").startswith("It has been known")
    assert show(f"{start}that the dentist is Okafor.", "okafor").endswith("dentist is Okafor.")


def test_targets_of_links_make_room_for_words() -> None:
    text = f"See [the guide]({'https://example.org/' + 'a' * 90}) by Okafor."
    assert show(text, "okafor") == "See the guide by Okafor."
    assert show("See [it](http://a.b) here.", "see") == "See [it](http://a.b) here."


@pytest.mark.parametrize(
    "unit", ["![", "<a", "**a", "a. ", "> ", "#a ", "[a](b) ", "a|b\n", "\n", "x" * 99, "Dr. "]
)
def test_no_text_takes_quadratic_time(unit: str) -> None:
    began = time.process_time()
    show(unit * (200_000 // len(unit)), "okafor x a")
    assert time.process_time() - began < 5
