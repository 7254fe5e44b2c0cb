"""Terms of many sections at once: those that `core.finding.terms` gives text by text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaultmem.core.indexing.section_texts import SectionTexts
from vaultmem.core.indexing.term_arrays import (
    MAX_COUNTS,
    SHIFTS,
    TermArrays,
    TermCounter,
)
from vaultmem.core.search.terms import (
    FIELDS,
    LINKS_ALONE,
    list_compounds,
    list_stop_terms,
    mark_speaker,
    term_sequence,
)

#: Marks that join words, that end them, letters of many kinds, and what is split at its capitals.
MARKS = "aB1cD2-_./, ,\n\0é日本ßΣσ“”—İſñK中ABc123\ud800"

PIECES = ["e-mail", "readNote", "a/b/c.py", "750,000", "3.11.2", "snake_case", "the", "x" * 70]
PIECES += ["clean", "up", "file", "Names", "C++", "c#.", "(.NET", "F#", "c++i"]

TEXTS = st.one_of(
    st.text(st.sampled_from(MARKS), max_size=40),
    st.lists(st.sampled_from([*PIECES, "東京タワー", "Straße", "ca\u0301fe"]), max_size=6).map(
        " ".join
    ),
    st.text(st.characters(), max_size=20),
)
NAMES = st.lists(TEXTS, min_size=1, max_size=3, unique=True).map(tuple)

MARKED = [LINKS_ALONE, mark_speaker(""), mark_speaker("ab")]

#: Sections of which some have their title, their tags or both from a few that others have, too.
NOTES = st.tuples(st.lists(NAMES, max_size=2), st.lists(TEXTS, max_size=2)).flatmap(
    lambda shared: st.lists(
        st.builds(
            SectionTexts,
            st.sampled_from(shared[0]) | NAMES if shared[0] else NAMES,
            st.sampled_from(shared[1]) | TEXTS if shared[1] else TEXTS,
            TEXTS,
            st.lists(st.sampled_from(MARKED), unique=True).map(tuple),
        ),
        max_size=4,
    )
)


def count_one_by_one(
    sections: Sequence[SectionTexts],
) -> tuple[dict[tuple[int, bytes], int], list[bytes], list[int]]:
    """Return packed counts by section and term, the terms in their order, and many a field."""
    counts: dict[tuple[int, bytes], int] = Counter()
    sequence: list[bytes] = []
    lengths: list[int] = []
    for number, (names, tags, body, marks) in enumerate(sections):
        for mark in marks:
            counts[number, encode(mark)] += 1 << SHIFTS[2]
        for place, text in enumerate(("\n".join(names), tags, body)):
            terms = term_sequence(text)
            sequence += map(encode, terms)
            lengths.append(len(terms))
            others = list_compounds(text) + list_stop_terms(text)
            for term, many in Counter(terms + others).items():
                counts[number, encode(term)] += min(many, MAX_COUNTS[place]) << SHIFTS[place]
    return counts, sequence, lengths


def encode(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def check_same(found: TermArrays, sections: Sequence[SectionTexts]) -> None:
    counts, sequence, lengths = count_one_by_one(sections)
    entries = list(zip(found.term.tolist(), found.section.tolist(), strict=True))
    assert entries == sorted(set(entries))
    packed = zip(entries, found.packed.tolist(), strict=True)
    assert {(section, found.terms[term]): each for (term, section), each in packed} == counts
    assert [found.terms[term] for term in found.sequence.tolist()] == sequence
    assert found.lengths.shape == (len(sections), len(FIELDS))
    assert found.lengths.ravel().tolist() == lengths
    assert len(set(found.terms)) == len(found.terms)
    assert set(found.terms) == {term for _, term in counts}


@pytest.mark.campaign
@given(NOTES, NOTES, st.sampled_from([2, 300_000]))
def test_terms_are_those_of_each_text_by_itself(
    first: list[SectionTexts], second: list[SectionTexts], most: int
) -> None:
    counter = TermCounter(most)

    for sections in (first, second, first):
        check_same(counter.count(sections), sections)


@pytest.mark.parametrize("block", [1, 50, 300_000])
def test_the_blocks_that_are_split_at_once_change_nothing(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.core.indexing.term_arrays._BLOCK", block)
    sections: list[SectionTexts] = [
        SectionTexts(
            ("Mail", f"Part {n}"),
            "readNote e-mail",
            f"750,000 {n} {' '.join(PIECES)} 東京タワー -",
            tuple(MARKED[: n % 3]),
        )
        for n in range(40)
    ]

    check_same(TermCounter().count(sections), sections)


def test_counts_that_do_not_fit_are_the_largest_that_do() -> None:
    sections = [
        SectionTexts(("tide " * 16,), "tide " * 16, "tide " * 4_096),
        SectionTexts(("tide " * 15,), "", "e-mail " * 5_000),
    ]

    found = TermCounter().count(sections)

    check_same(found, sections)
    top = [many << shift for many, shift in zip(MAX_COUNTS, SHIFTS, strict=True)]
    assert found.packed[found.term == found.terms.index(b"tide")].tolist() == [sum(top), top[0]]


def test_no_section_and_sections_of_nothing_have_no_terms() -> None:
    for texts in ([], [(("",), "", "")], [(("the",), "", "\0"), (("-",), ",", "/")]):
        sections = [SectionTexts(*each) for each in texts]
        check_same(TermCounter().count(sections), sections)


@pytest.mark.campaign
def test_more_words_than_sixteen_bits_can_number_keep_their_numbers() -> None:
    sections = [
        SectionTexts(("",), "", " ".join(f"{n}x" for n in range(first, first + 35_000)))
        for first in (0, 35_000)
    ]

    found = TermCounter().count(sections)

    assert found.term.dtype == np.uint32
    check_same(found, sections)


def test_one_long_word_takes_no_longer_than_many() -> None:
    started = time.monotonic()
    assert list_compounds("word" * 50_000) == []
    assert time.monotonic() - started < 10.0
