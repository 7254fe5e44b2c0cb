"""Terms and queries: the same words for notes and for questions."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_hit
from vaultmem.core.languages import read_words
from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.search.query import MAX_QUERY_CHARS, NoteFilter, parse_query
from vaultmem.core.search.terms import (
    MAX_TERM_LENGTH,
    NAMES,
    count_terms,
    list_compounds,
    split_words,
    term_sequence,
    weak_terms,
)
from vaultmem.errors import RefusedError


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "CAFE"),
        ("Größe", "grosse"),
        ("naïve", "naive"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("ﬁle", "file"),
        ("running runs", "run run"),
        ("tokens", "token"),
        ("auth-token_store", "auth token store"),
        ("don't", "don"),
        ("caf&eacute; &Eacute;t&#233; ni&#xF1;o", "café été niño"),
    ],
)
def test_words_that_mean_the_same_have_the_same_terms(one: str, other: str) -> None:
    assert term_sequence(one) == term_sequence(other)


def test_composed_and_decomposed_text_have_the_same_terms() -> None:
    text = "Ångström, où est 한국어 と が?"
    assert term_sequence(unicodedata.normalize("NFD", text)) == term_sequence(text)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("认证令牌", ["认证", "证令", "令牌"]),
        ("认证", ["认证"]),
        ("认", ["认"]),
        ("用RS256签名", ["用", "rs256", "签名"]),
        ("トークン", ["トー", "ーク", "クン"]),
        ("한국어", ["한국", "국어"]),
    ],
)
def test_cjk_text_becomes_pairs_of_characters(text: str, terms: list[str]) -> None:
    assert term_sequence(text) == terms


def test_pairs_of_a_cjk_query_stand_in_the_text() -> None:
    assert set(term_sequence("令牌")) <= set(term_sequence("认证令牌用RS256签名"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("C++, c# and F#?", ["c++", "c#", "f#"]),
        ("C/C++ or **.NET** since C++17", ["c++", ".net", "c++"]),
        ("c++i; abc++ a.net c#section #c## .network asp.net", []),
    ],
)
def test_names_with_marks_are_terms_of_their_own(text: str, names: list[str]) -> None:
    assert [term for term in list_compounds(text) if term in NAMES] == names


@pytest.mark.parametrize(
    ("one", "two"), [("cleanup", "clean up"), ("Setup", "setting up"), ("filenames", "file name")]
)
def test_words_are_found_in_one_piece_or_two(one: str, two: str) -> None:
    for asked, text in ((one, two), (two, one)):
        query = parse_query(asked)
        found = {*term_sequence(text), *list_compounds(text)}
        assert found & {*query.terms, *query.compounds} - {*term_sequence("clean set file name")}


def test_references_to_signs_and_unknown_ones_stay_words() -> None:
    words = ["r", "amp", "d", "x", "nbsp", "a", "copy", "1", "bogus"]
    assert split_words("R&amp;D x&nbsp; ?a&copy=1 &bogus;") == words


def test_function_words_are_weak_in_a_question_of_their_language() -> None:
    german = weak_terms("german") - weak_terms()
    assert {"nach", "und", "uber"} <= german
    assert weak_terms("french") == weak_terms()


def test_stop_words_are_not_terms() -> None:
    assert term_sequence("Who did what, and has it been done?") == []
    assert all(not term_sequence(word.upper()) for word in read_words("stop_words"))


def test_words_that_are_too_long_are_not_indexed() -> None:
    assert term_sequence("x" * MAX_TERM_LENGTH) == ["x" * MAX_TERM_LENGTH]
    assert term_sequence("x" * (MAX_TERM_LENGTH + 1)) == []
    assert count_terms("a1 " + "y" * 1_000_000) == {"a1": 1}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_counts_and_order_are_of_the_same_terms(text: str) -> None:
    sequence = term_sequence(text)
    assert count_terms(text) == {term: sequence.count(term) for term in sequence}
    assert all(term and len(term) <= MAX_TERM_LENGTH + 4 for term in sequence)
    assert tuple(sequence) == parse_query(text).terms


@settings(max_examples=100, deadline=None)
@given(st.text("abc é漢字한 -_.", max_size=20))
def test_ascii_words_read_the_same_beside_other_letters(text: str) -> None:
    assert split_words("Tokens x1 " + text)[:2] == ["tokens", "x1"]


def test_query_that_is_too_long_is_refused_at_once() -> None:
    with pytest.raises(RefusedError, match="3,000,000 characters"):
        parse_query("x" * 3_000_000)
    assert set(parse_query("x " * (MAX_QUERY_CHARS // 2)).terms) == {"x"}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("(" * 900, ()),
        ("title:auth AND (tokens OR NOT keys)", ("titl", "auth", "token", "not", "kei")),
        ('"exact phrase"~2 wild*card fuzzy~ [a TO b]', None),
        ("what is auth?", ("auth",)),
        ("tags:* ^2 +must -not", ("tag", "2", "must", "not")),
    ],
)
def test_query_syntax_is_read_as_words(text: str, terms: tuple[str, ...] | None) -> None:
    query = parse_query(text)
    assert query.terms == (terms if terms is not None else tuple(term_sequence(text)))
    assert all(term.isalnum() for term in query.terms)


def test_terms_are_told_in_the_words_that_were_asked() -> None:
    query = parse_query("How are Refunds handled by e-mails, refunds_of or 渡し船は?")
    near = query._replace(terms=(*query.terms, "hous"), replaced=(("huses", "houses"),))
    assert {term: word for term, word in near.words.items() if term != word} == {
        "refund": "Refunds",
        "handl": "handled",
        "mail": "mails",
        "email": "e-mails",
        "refundsof": "refunds_of",
        "hous": "houses",
    }


def test_filter_lets_all_but_hidden_states_through() -> None:
    records = [make_hit("", kind="decision", state=state).record for state in NoteState]
    admitted = {record.state for record in records if NoteFilter().admits(record)}
    assert admitted == {
        NoteState.ACTIVE,
        NoteState.CANDIDATE,
        NoteState.STALE,
        NoteState.UNREADABLE,
    }
    assert all(map(NoteFilter(any_state=True).admits, records))
    archived = NoteFilter(states=frozenset({NoteState.ARCHIVED}))
    assert {r.state for r in records if archived.admits(r)} == {NoteState.ARCHIVED}


@pytest.mark.parametrize(
    ("note_filter", "admitted"),
    [
        (NoteFilter(kinds=frozenset({NoteKind.DECISION})), True),
        (NoteFilter(kinds=frozenset({NoteKind.REFLECTION})), False),
        (NoteFilter(tags=("auth",)), True),
        (NoteFilter(tags=("#AUTH/Tokens",)), True),
        (NoteFilter(tags=("au",)), False),
        (NoteFilter(tags=("auth/tok",)), False),
        (NoteFilter(tags=("auth", "db")), False),
        (NoteFilter(context="services"), True),
        (NoteFilter(context="services/auth"), True),
        (NoteFilter(context="serv"), False),
        (NoteFilter(pinned=True), False),
        (NoteFilter(pinned=False), True),
    ],
)
def test_filter_matches_whole_names_and_what_is_inside(
    note_filter: NoteFilter, admitted: bool
) -> None:
    record = make_hit("", kind="decision", tags=("auth/tokens",), context="services/auth").record
    assert note_filter.admits(record) is admitted
