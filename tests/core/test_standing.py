"""Standing wishes: which sentences are some, whose, what they are about, and whom they concern."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.builders import make_hit
from vaultmem.core.packs.warnings import Preference, choose_preferences
from vaultmem.core.preferences import (
    PreferenceSentence,
    SpeakerRole,
    find_in_note,
    find_standing,
    find_topic,
)

_LINES = (Path(__file__).parent / "data" / "standing-sentences.txt").read_text(encoding="utf-8")
SENTENCES = [line.split(" ", 2) for line in _LINES.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("language", "sign", "said"), SENTENCES)
def test_a_sentence_is_a_standing_wish_by_its_form(language: str, sign: str, said: str) -> None:
    sentence, _, about = said.partition(" | ")
    wanted = (PreferenceSentence(sentence, about),) if sign == "+" else ()
    assert find_standing(sentence, SpeakerRole.OWNER) == wanted, language


def test_a_wish_is_found_in_the_notes_of_a_folder_that_somebody_brought() -> None:
    lines = (Path(__file__).parent / "data" / "adopted-wishes.txt").read_text(encoding="utf-8")
    count = {"+": [0, 0], "-": [0, 0]}
    for line in lines.splitlines():
        if line.startswith("#"):
            continue
        _, sign, note = line.split(" ", 2)
        text = note.replace(" // ", "\n\n").replace(" / ", "\n")
        count[sign][bool(find_in_note(text, SpeakerRole.OWNER))] += 1
    assert count == {"+": [9, 51], "-": [37, 3]}


def test_there_are_enough_sentences_of_both_sorts_in_both_languages() -> None:
    for language in ("en", "de"):
        for sign in "+-":
            assert sum(each[:2] == [language, sign] for each in SENTENCES) >= 20
    assert min(sum(each[1] == sign for each in SENTENCES) for sign in "+-") >= 60


DOCUMENT = "# Memory\n\nAlways call free() after malloc(). Never call it twice.\n"


def test_an_order_in_a_document_is_nobodys_wish() -> None:
    assert find_standing(DOCUMENT, SpeakerRole.OWNER) == ()
    long = "Always close the file.\n\n" + "The file is open. " * 60
    assert find_standing(long, SpeakerRole.OWNER) == ()


def test_what_a_document_says_of_me_counts() -> None:
    text = f"{DOCUMENT}\n- Always ask me before you call it.\n- I prefer `calloc`.\n"
    found = [each.text for each in find_standing(text, SpeakerRole.OWNER)]
    assert found == ["Always ask me before you call it.", "I prefer `calloc`."]


@pytest.mark.parametrize(
    "text",
    [
        "> I prefer short answers.",
        "```\nI prefer short answers.\n```",
        "<system-reminder>\nAlways answer me briefly.\n</system-reminder>",
        "<!-- I prefer short answers. -->",
        "%% I prefer short answers. %%",
    ],
)
def test_what_is_quoted_hidden_or_put_in_by_a_program_is_not_said(text: str) -> None:
    assert find_standing(text, SpeakerRole.OWNER) == ()


@pytest.mark.parametrize(
    "said",
    [
        "I prefer pytest.",
        "I will always run the linter.",
        "Always run the linter.",
        "From now on I always run the tests first.",
        "Please always ask me first.",
        "Ich bevorzuge pytest.",
    ],
)
def test_an_agents_own_words_are_no_wish_of_the_users(said: str) -> None:
    assert find_standing(said, SpeakerRole.AGENT) == ()


def test_an_agent_can_report_what_the_user_prefers() -> None:
    told = "We talked about tests. User prefers pytest. I prefer unittest."
    assert find_standing(told, SpeakerRole.AGENT) == (
        PreferenceSentence("User prefers pytest.", ""),
    )


def test_a_wish_is_found_among_other_sentences_and_once() -> None:
    text = "The build broke. Always run `make check` before you push to my_branch. Thanks!"
    twice = f"{text}\n\n{text}"
    found = find_standing(twice, SpeakerRole.OWNER)
    assert [each.text for each in found] == [
        "Always run `make check` before you push to my_branch."
    ]


def test_a_topic_is_what_is_left_of_the_condition() -> None:
    assert find_topic("When you write about **Kafka topics**, never use `we`.") == "Kafka topics"
    assert find_topic("Always answer in Spanish.") == ""


def test_a_question_gets_what_concerns_it_first_and_what_concerns_everything() -> None:
    texts = {"errors": "API errors", "trips": "trips to Rome", "short": "", "tables": ""}
    known = [
        Preference(make_hit("Say so.", name, f"notes/{name}.md", number), about)
        for number, (name, about) in enumerate(texts.items(), 1)
    ]

    def choose(question: str, *found: int) -> list[str]:
        hits = [known[number].hit for number in found]
        return [hit.record.title for hit in choose_preferences(known, question, hits)]

    assert choose("Why does the API return an error?") == ["errors", "short", "tables"]
    assert choose("Compare the two", 3) == ["tables", "short"]
    assert choose("Where to eat?", 1) == ["trips", "short", "tables"]
    assert choose("") == ["short", "tables", "errors", "trips"]
