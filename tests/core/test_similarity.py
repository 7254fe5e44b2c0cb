"""How near two texts are: the labelled pairs, and each kind of difference on its own."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.config import Config
from vaultmem.core.notes.agent_changes import (
    MAX_CONFIRMATIONS,
    Attestation,
    Confirmation,
    confirm_note,
    drop_confirmation,
    find_confirmation,
    has_room,
)
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.similarity.compare import KnownText, TextSimilarity, compare_texts
from vaultmem.core.similarity.statement import split_sentences

FILE = Path(__file__).parents[2] / "benchmarks" / "dedup_pairs.jsonl"
PAIRS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
NEAR = Config().related_threshold
AT = datetime(2026, 11, 21, 10, 30)


def compare(text: str, known: str, title: str = "") -> TextSimilarity:
    return compare_texts(text, KnownText(known, title))


def kinds(text: str, known: str) -> set[str]:
    return {difference.kind for difference in compare(text, known).differences}


def test_the_labelled_set_is_large_and_a_part_of_it_was_held_out() -> None:
    counts = {(pair["same"], pair["part"]) for pair in PAIRS}
    assert len(counts) == 4
    for part in ("tuning", "held-out"):
        for same in (True, False):
            assert sum((p["same"], p["part"]) == (same, part) for p in PAIRS) >= 100
    assert len({(pair["a"], pair["b"]) for pair in PAIRS}) == len(PAIRS)


@pytest.mark.campaign
def test_what_differs_in_a_near_miss_is_named() -> None:
    wanted = [pair for pair in PAIRS if not pair["same"]]
    silent = [pair for pair in wanted if not compare(pair["b"], pair["a"]).differences]
    assert silent == []


def test_95_of_100_held_out_duplicates_are_near() -> None:
    wanted = [pair for pair in PAIRS if pair["same"] and pair["part"] == "held-out"]
    seen = [pair for pair in wanted if compare(pair["b"], pair["a"]).similarity >= NEAR]
    assert len(seen) >= 0.95 * len(wanted)


@pytest.mark.parametrize(
    ("text", "known", "kind"),
    [
        ("Tokens live 30 minutes.", "Tokens live 15 minutes.", "number"),
        ("Tokens live 15 hours.", "Tokens live 15 minutes.", "number"),
        ("We run Postgres 15.1.", "We run Postgres 15.", "number"),
        ("The office opens at 9:30.", "The office opens at 8:30.", "time"),
        ("The review is on 2026-03-14.", "The review is on 2026-03-15.", "date"),
        ("The review is on Friday.", "The review is on Monday.", "date"),
        ("The lead is Maren.", "The lead is Jonas.", "name"),
        ("Read src/a.py first.", "Read src/b.py first.", "identifier"),
        ("Tests need Redis in staging.", "Tests need Redis.", "environment"),
        ("The cache is not shared.", "The cache is shared.", "negation"),
        ("At least five keys are allowed.", "At most five keys are allowed.", "limit"),
        ("Deploy on Fridays except in May.", "Deploy on Fridays.", "exception"),
        ("Only admins see invoices.", "Admins see invoices.", "only"),
        ("Copy from Holm to Lund.", "Copy from Lund to Holm.", "wording"),
        ("Frontend calls backend.", "Backend calls frontend.", "wording"),
        ("Maren works at Holmpay.", "Maren worked at Holmpay.", "wording"),
        ("Use spaces, not tabs.", "Use tabs, not spaces.", "direction"),
        ("Users may log in.", "Users must log in.", "modality"),
    ],
)
def test_what_must_not_differ_is_named(text: str, known: str, kind: str) -> None:
    assert kind in kinds(text, known)
    assert kind in kinds(known, text)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Wait 60 seconds.", "Wait 1 minute."),
        ("It costs €1,500.", "It costs 1500 EUR."),
        ("The job starts at 2 pm.", "The job starts at 14:00."),
        ("It ended on 31.12.2027.", "It ended on 31 December 2027."),
        ("**Deploy** with `make ship`.", "- Deploy with make ship"),
        ("See [[notes/auth|the auth note]] first.", "See the auth note first."),
        ("The API is called by the worker.", "The worker calls the API."),
    ],
)
def test_of_one_fact_in_other_forms_no_number_or_name_differs(text: str, known: str) -> None:
    found = compare(text, known)
    assert found.similarity == 1.0
    assert {each.kind for each in found.differences} <= {"wording"}


def test_where_two_wordings_differ_is_told() -> None:
    (told,) = compare("Maren works at Holmpay.", "Maren worked at Holmpay.").differences
    assert (told.kind, told.ours, told.theirs) == ("wording", "works", "worked")
    (told,) = compare("Priya is Ole's boss.", "Ole is Priya's boss.").differences
    assert (told.ours, told.theirs) == ("Priya ... Ole's", "Ole ... Priya's")
    assert compare("the queue is full", "The queue is *full*.").differences == ()


def test_a_sentence_is_compared_with_the_nearest_of_a_longer_note() -> None:
    note = "The api is in Python.\n\n- Tests run with `make test`.\n- Releases are tagged.\n"

    assert compare("Tests are run with make test.", note).is_said(0.9)
    assert not compare("Tests are run with make bench.", note).is_said(0.9)


def test_another_value_of_the_same_thing_is_a_contradiction_and_another_subject_is_none() -> None:
    known = "Session tokens expire after 15 minutes."

    assert compare("Session tokens expire after 30 minutes.", known).is_contradiction
    assert compare("Session tokens do not expire after 15 minutes.", known).is_contradiction
    assert not compare("Refresh tokens expire after 15 minutes.", known).is_contradiction
    assert not compare("Session tokens expire after 15 minutes.", known).is_contradiction
    assert not compare("The ferry leaves at noon.", known).is_contradiction
    assert compare("Tokens live 30 minutes.", "Tokens live 15 minutes.").is_contradiction


def test_another_value_among_known_sentences_is_named() -> None:
    known = (
        "They are opaque. Redis keeps them. Tokens live 15 minutes. Nobody may read them by hand."
    )

    assert compare(known.replace("15", "30"), known).differences


def test_a_title_explains_words() -> None:
    found = compare("The Holmpay limit is 120 a minute.", "120 a minute.", "Holmpay limit")

    assert found.is_said(0.75)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=200))
def test_any_text_says_what_it_says_itself(text: str) -> None:
    found = compare(text, text)

    assert found.differences == ()
    assert 0 <= found.similarity <= 1


@pytest.mark.parametrize(
    "text",
    [
        "a-" * 100_000,
        "a.b" * 100_000,
        "9" * 100_000,
        "9k " * 1_000 + "9" * 900 + "k",
        "[[" * 50_000,
        "`" * 100_000,
        "not " * 50_000,
        "on " * 900,
        "١٢٣ " * 900,
        "x\n" * 1_500,
    ],
    ids=[
        "hyphens",
        "dots",
        "digits",
        "thousands",
        "links",
        "ticks",
        "nots",
        "ons",
        "arabic",
        "lines",
    ],
)
def test_hostile_texts_are_compared_in_bounded_time(text: str) -> None:
    started = time.process_time()

    compare(text, text)
    compare("Tokens live 15 minutes.", text)
    compare(text, "Tokens live 15 minutes.")

    assert time.process_time() - started < 10


def test_sentences_are_unwrapped_items_and_what_limits_one_stays_with_it() -> None:
    text = "One line\ngoes on. Two.\n\n- item a\n- item b\n\nDeploy daily. Except in May.\n"

    assert split_sentences(text) == [
        "One line goes on.",
        "Two.",
        "- item a",
        "- item b",
        "Deploy daily. Except in May.",
    ]


def note_of(text: str) -> Note:
    return parse_note(PurePosixPath("notes/n.md"), text.encode())


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_who_said_it_again_and_how_stands_among_the_properties_and_nothing_else_changes(
    eol: str,
) -> None:
    before = eol.join(["---", "title: T", "agent: claude", "session: s-1", ""])
    note = note_of(f"{before}---{eol}{eol}One.  {eol}")
    said = Attestation("codex", "s-2", AT, tags=("x",), cites=("a.py",), wording="one!\nand: more")

    text = confirm_note(note, said)

    new = ["tags:", "  - x", "cites:", "  - a.py", "also_said:"]
    new += ['  - "codex, session s-2: one!\\nand: more"', "confirmed_by:"]
    new += ['  - "codex, session s-2"', "updated: 2026-11-21T10:30:00", ""]
    assert text == f"{before}{eol.join(new)}---{eol}{eol}One.  {eol}"


def test_the_last_confirmation_is_taken_back_with_its_words() -> None:
    note = note_of("---\ntitle: T\n---\n\nOne.\n")
    first = note_of(confirm_note(note, Attestation("claude", "", AT)))
    second = note_of(confirm_note(first, Attestation("codex", "s", AT, wording="one")))

    assert find_confirmation(second) == Confirmation("codex, session s", "one")
    assert drop_confirmation(second, find_confirmation(second)) == first.text
    assert find_confirmation(first) == Confirmation("claude")
    assert find_confirmation(note) is None


def test_a_note_without_properties_gets_none_and_the_same_author_is_no_witness() -> None:
    bare = note_of("just text\n")
    own = note_of("---\nagent: claude\nsession: s-1\n---\nx\n")
    said = Attestation("claude", "s-1", AT)

    assert confirm_note(bare, said) == bare.text
    assert not has_room(bare, "")
    assert "confirmed_by" not in confirm_note(own, said)


def test_a_stale_note_is_active_again_when_it_is_said_again() -> None:
    note = note_of("---\nstate: stale\nstate_reason: old\n---\nx\n")

    again = note_of(confirm_note(note, Attestation("claude", "s", AT)))

    assert again.state == "active"
    assert again.frontmatter.get("state_reason") is None


def test_witnesses_are_counted_up_to_a_limit() -> None:
    note = note_of("---\ntitle: t\n---\nx\n")
    for number in range(MAX_CONFIRMATIONS + 3):
        said = Attestation("claude", f"s-{number}", AT)
        note = note_of(confirm_note(note, said))

    names = note.frontmatter.get("confirmed_by").value
    assert len(names) == MAX_CONFIRMATIONS
    assert names[-1] == f"claude, session s-{MAX_CONFIRMATIONS + 2}"
