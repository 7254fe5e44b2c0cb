"""The one form of a text: what is the same in it, and that nothing else is."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.similarity.canonical import canonical_form, states_same

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "benchmarks" / "dedup_pairs.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
NEAR_MISSES = [
    line.split(" | ")
    for line in (Path(__file__).parent / "data" / "near_misses.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
TEXTS = sorted({pair[side] for pair in PAIRS for side in ("a", "b")})


@pytest.mark.parametrize(("category", "one", "other"), NEAR_MISSES)
def test_two_facts_are_never_one(category: str, one: str, other: str) -> None:
    assert not states_same(one, other), category


def test_no_labelled_near_miss_is_the_same() -> None:
    assert [pair for pair in PAIRS if not pair["same"] and states_same(pair["a"], pair["b"])] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tokens live 15 minutes.", "tokens live 15 minutes"),
        ("Tokens live 15 minutes.", "Tokens live 15 min!"),
        ("TOKENS LIVE 15 MINUTES", "Tokens live 15 minutes."),
        ("The API returns JSON.", "the api returns json"),
        ("**Deploy** with `make ship`.", "- Deploy with make ship"),
        ("The cache is _never_ shared.", "The cache is never shared."),
        ("# Deploys are frozen", "Deploys are frozen."),
        ("The worker reads a queue.", "A worker reads the queue."),
        ("The worker reads the queue.", "Worker reads queue."),
        ("We don't deploy on Fridays.", "We do not deploy on Fridays."),
        ("It's cached, and it isn’t shared.", "It is cached and it is not shared."),
        ("Users cannot log in.", "Users can't log in."),
        ("Postgres, Redis, and Kafka are in use.", "Postgres, Redis and Kafka are in use."),
        ('Use "latest" as the tag.', "Use latest as the tag."),
        ("Use “latest” as the tag.", "Use 'latest' as the tag."),
        ("Retries are capped at three.", "Retries are capped at 3."),
        ("The colour of the repo's logo is grey.", "The color of the repo's logo is gray."),
        ("Docs are in the repository.", "Documentation is in the repo.".replace("is", "are")),
        ("CPU is at 90%.", "CPU is at 90 percent."),
        ("Tests – all of them – run nightly.", "Tests (all of them) run nightly."),
        ("Deploy first; test later.", "Deploy first. Test later."),
        ("One line\ngoes on.", "One line goes on."),
        ("Der Server läuft im Keller.", "Der Server läuft in dem Keller."),
        ("Es gibt zwei Server.", "Es gibt 2 Server!"),
        ("Ich weiß, dass es gibt's", "ich weiß dass es gibt es"),
        ("Is it cached?", "is it cached ?"),
        ("The window is 5–10 days.", "The window is 5-10 days."),
    ],
)
def test_one_statement_in_other_marks_is_the_same(one: str, other: str) -> None:
    assert states_same(one, other), (canonical_form(one), canonical_form(other))
    assert states_same(other, one)


def test_a_title_is_part_of_the_statement_where_it_says_more() -> None:
    fact = "The database listens on port 5433."

    assert not states_same(fact, fact, "Staging", "Production")
    assert not states_same(fact, fact, "Staging", "")
    assert not states_same("42", "42", "C++", "C#")
    assert states_same(fact, fact, "The database listens", "port 5433")
    assert states_same(fact, fact, "Staging", "staging.")


def test_code_is_the_same_to_the_letter_alone() -> None:
    block = "Run it:\n\n```\nif a:\n    b()\n```"

    assert states_same(block, f"{block}  \n")
    assert not states_same(block, block.replace("    b", "  b"))
    assert not states_same(block, block.replace("it", "It"))


def test_texts_without_words_are_the_same_to_the_letter() -> None:
    assert states_same("!!!", "!!!\n")
    assert not states_same("!!!", "...")


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_being_the_same_holds_both_ways(one: str, other: str) -> None:
    assert states_same(one, one)
    assert states_same(one, other) == states_same(other, one)


IDLE = {"a", "an", "the"}


@pytest.mark.campaign
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_text_without_a_word_or_with_another_is_not_the_same(
    text: str, data: st.DataObject
) -> None:
    words = [m for m in re.finditer(r"\w[\w'.,:/-]*\w|\w", text) if m.group().lower() not in IDLE]
    word = data.draw(st.sampled_from(words))
    other = data.draw(st.sampled_from(["harbour", "not", "7", "Ole", word.group() + "x"]))

    assert not states_same(text, text[: word.start()] + text[word.end() :])
    if other != word.group():
        assert not states_same(text, text[: word.start()] + other + text[word.end() :])


@pytest.mark.campaign
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_text_with_two_words_swapped_is_not_the_same(text: str, data: st.DataObject) -> None:
    words = re.findall(r"\w+|\W+", text)
    content = [n for n, each in enumerate(words) if each.isalpha() and each.lower() not in IDLE]
    first, second = (data.draw(st.sampled_from(content)) for _ in range(2))
    swapped = list(words)
    swapped[first], swapped[second] = swapped[second], swapped[first]

    if words[first].lower() != words[second].lower():
        assert not states_same(text, "".join(swapped))


@pytest.mark.parametrize(
    "text",
    [
        part * 20_000
        for part in ["a-", "a (", "*", "[", "`", "the ", '"', "_a ", "* a", "9.", "?!", "[a]("]
    ],
)
def test_hostile_texts_are_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    canonical_form(text)
    assert time.process_time() - started < 5
