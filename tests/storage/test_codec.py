"""Whoosh over segments of arrays, beside Whoosh's own codec and beside answers by hand."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whoosh import index, query
from whoosh.qparser import QueryParser
from whoosh.query.spans import SpanFirst, SpanNear
from whoosh.scoring import PL2, TF_IDF, Frequency
from whoosh.writing import NO_MERGE

from vaultmem.core.indexing.section_texts import SectionTexts
from vaultmem.core.indexing.term_arrays import TermCounter
from vaultmem.core.search.terms import FIELDS, list_compounds, list_stop_terms, term_sequence
from vaultmem.storage.index.batch import NUMBER_COLUMNS, SectionArrays
from vaultmem.storage.index.codec import ArraySegment, TermTokenizer, make_schema
from vaultmem.storage.index.segment_encoding import encode_segment
from vaultmem.storage.index.segments import (
    VERSION,
    ArrayFile,
    DamagedFileError,
    SegmentArrays,
    encode_arrays,
)

#: Words that are their own terms, and no compounds.
WORDS = ["alpha", "alpin", "beta", "gamma", "gama", "delta", "naiv", "uberzug", "日本", "x"]

#: Lengths that Whoosh's own codec keeps exactly in its byte.
LENGTHS = [*range(11), 12, 13, 14, 16, 17, 18, 20, 21, 23, 25]

#: A section's title, tags and body.
Text = tuple[str, str, str]


def make_text(chance: random.Random, most: int = 25) -> str:
    length = chance.choice([length for length in LENGTHS if length <= most])
    return " ".join(chance.choices(WORDS, k=length))


def make_batches(seed: int) -> list[list[Text]]:
    chance = random.Random(seed)
    return [
        [(make_text(chance, 4), make_text(chance, 3), make_text(chance)) for _ in range(many)]
        for many in (chance.randrange(1, 60) for _ in range(chance.randrange(1, 5)))
    ]


def write_by_whoosh(folder: Path, batches: Sequence[Sequence[Text]]) -> Any:
    """Write the same sections with Whoosh's own codec."""
    ix = index.create_in(str(folder), make_schema())
    for batch in batches:
        sections = make_sections(batch)
        ends = sections.label_counts.cumsum()
        writer = ix.writer()
        for row, text in enumerate(batch):
            first = int(ends[row] - sections.label_counts[row])
            numbers = {name: int(column[row]) for name, column in sections.numbers.items()}
            labels = sections.labels[first : int(ends[row])].astype("<u4").tobytes()
            named = dict(zip(FIELDS, text, strict=True))
            writer.add_document(**named, **numbers, labels=labels)
        writer.commit(mergetype=NO_MERGE)
    return ix


class Pair:
    """The same sections in our codec and in Whoosh's own."""

    def __init__(self, folder: Path, seed: int) -> None:
        batches = make_batches(seed)
        for name in ("ours", "theirs"):
            (folder / name).mkdir()
        ours = write_in_bulk(folder / "ours", *batches)
        self.indexes = [ours, write_by_whoosh(folder / "theirs", batches)]

    def compare(self, read: Callable[[Any], Any], **options: Any) -> Any:
        """Return what both searchers give, which is to be the same."""
        answers = []
        for ix in self.indexes:
            with ix.searcher(**options) as searcher:
                answers.append(read(searcher))
        assert answers[0] == answers[1]
        return answers[0]


@pytest.fixture(scope="module", params=[1, 2, 106])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("pair"), request.param)


def list_queries() -> list[query.Query]:
    term = query.Term
    return [
        *(term(name, word) for name in FIELDS for word in WORDS),
        term("body", "nowhere"),
        query.And([term("body", "alpha"), term("body", "beta"), term("title", "x")]),
        query.Or([term("body", "alpha"), term("title", "delta"), term("tags", "x")]),
        query.And([term("body", "gamma"), query.Not(term("body", "alpha"))]),
        query.Not(term("body", "gamma")),
        query.AndMaybe(term("body", "gamma"), term("title", "gamma")),
        query.AndNot(term("tags", "gamma"), term("body", "beta")),
        query.DisjunctionMax([term("body", "delta"), term("title", "delta")]),
        query.Prefix("body", "al"),
        query.Prefix("tags", "日"),
        query.Wildcard("body", "*a?a"),
        query.Regex("title", "[bg].*a$"),
        query.TermRange("body", "alpin", "delta"),
        query.FuzzyTerm("body", "gamna", maxdist=1),
        query.FuzzyTerm("tags", "betta", maxdist=2, prefixlength=1),
        query.Phrase("body", ["alpha", "beta"]),
        query.Phrase("body", ["gamma", "gamma"]),
        query.Phrase("title", ["naiv", "uberzug"], slop=2),
        SpanFirst(term("body", "delta"), limit=1),
        SpanNear(term("body", "delta"), term("body", "x"), slop=2, ordered=False),
        query.Every(),
        query.Every("title"),
    ]


@pytest.mark.parametrize("limit", [None, 3, 1])
def test_every_query_is_answered_as_by_whooshs_own_codec(pair: Pair, limit: int | None) -> None:
    def search(searcher: Any) -> Any:
        return [
            (str(wanted), [(hit.docnum, hit.score) for hit in found])
            for wanted in list_queries()
            for found in [searcher.search(wanted, limit=limit)]
        ]

    found = pair.compare(search)
    assert sum(len(hits) > 0 for _, hits in found) > len(found) // 2


@pytest.mark.parametrize("weighting", [TF_IDF(), Frequency(), PL2()])
def test_other_ways_of_scoring_give_the_same(pair: Pair, weighting: Any) -> None:
    wanted = query.Or([query.Term("body", word) for word in WORDS[:4]])
    pair.compare(
        lambda searcher: [(hit.docnum, hit.score) for hit in searcher.search(wanted)],
        weighting=weighting,
    )


def test_terms_and_their_facts_are_the_same(pair: Pair) -> None:
    def list_facts(searcher: Any) -> Any:
        reader = searcher.reader()
        return [
            (
                term,
                reader.doc_frequency(*term),
                reader.frequency(*term),
                (info.weight(), info.doc_frequency(), info.max_weight()),
                (info.min_id(), info.max_id(), info.min_length(), info.max_length()),
            )
            for term in reader.all_terms()
            for info in [reader.term_info(*term)]
        ]

    assert pair.compare(list_facts)
    pair.compare(lambda searcher: sorted(searcher.reader().indexed_field_names()))
    pair.compare(lambda searcher: list(searcher.reader().terms_from("tags", b"bet")))
    pair.compare(lambda searcher: list(searcher.reader().lexicon("title")))
    pair.compare(lambda searcher: searcher.reader().frequency("body", "nowhere"))
    pair.compare(lambda searcher: [("body", word) in searcher.reader() for word in ("x", "gam")])
    pair.compare(
        lambda searcher: [
            (term, info.weight()) for term, info in searcher.reader().iter_from("tags", "be")
        ]
    )
    pair.compare(lambda searcher: [*map(str, searcher.reader().most_frequent_terms("body"))])


def test_postings_have_the_same_documents_weights_and_positions(pair: Pair) -> None:
    def list_postings(searcher: Any) -> Any:
        reader = searcher.reader()
        found = []
        for field, text in reader.all_terms():
            matcher = reader.postings(field, text)
            while matcher.is_active():
                count, positions = map(matcher.value_as, ("frequency", "positions"))
                found.append((field, text, matcher.id(), matcher.weight(), count, positions))
                matcher.next()
        return found

    assert pair.compare(list_postings)


def test_columns_and_sorting_by_them_are_the_same(pair: Pair) -> None:
    def read(searcher: Any) -> Any:
        reader = searcher.reader()
        return [
            (name, reader.has_column(name), [column[row] for row in reader.all_doc_ids()])
            for name in (*NUMBER_COLUMNS, "labels")
            for column in [reader.column_reader(name)]
        ]

    assert pair.compare(read)
    for reverse in (False, True):
        pair.compare(
            lambda searcher, reverse=reverse: [
                hit.docnum
                for hit in searcher.search(
                    query.Every(), sortedby="updated", reverse=reverse, limit=None
                )
            ]
        )


def test_documents_and_lengths_are_the_same(pair: Pair) -> None:
    def read(searcher: Any) -> Any:
        reader = searcher.reader()
        documents = [
            (number, [reader.doc_field_length(number, name) or 0 for name in FIELDS], stored)
            for number, stored in reader.iter_docs()
        ]
        counts = (reader.doc_count(), reader.doc_count_all(), reader.has_deletions())
        lengths = [(reader.field_length(name), reader.max_field_length(name)) for name in FIELDS]
        return counts, lengths, documents

    assert pair.compare(read)


def test_misspelled_words_are_corrected_the_same(pair: Pair) -> None:
    def suggest(searcher: Any) -> Any:
        parsed = QueryParser("body", make_schema()).parse("gamna dleta")
        corrected = searcher.correct_query(parsed, "gamna dleta", maxdist=2)
        corrector = searcher.reader().corrector("body")
        words = [corrector.suggest(word, limit=3) for word in ("gamm", "bta", "alhpa", "日木")]
        within = sorted(searcher.reader().terms_within("body", "beta", 2))
        return corrected.string, words, within

    pair.compare(suggest)


def test_a_cursor_goes_through_a_fields_terms_as_theirs(pair: Pair) -> None:
    def go(searcher: Any) -> Any:
        found = []
        for leaf, _ in searcher.reader().leaf_readers():
            for field in ("body", "tags"):
                cursor = leaf.cursor(field)
                found += [cursor.text(), cursor.next(), cursor.find("bet"), cursor.next()]
                found += [cursor.find(b"delta"), cursor.text(), cursor.is_valid()]
                found += [cursor.first(), cursor.term_info() and cursor.term_info().weight()]
                found += [cursor.find("\U0010ffff"), cursor.text(), cursor.is_valid()]
        return found

    assert pair.compare(go)


def test_scores_are_those_of_the_formula_where_whooshs_own_lengths_are_not_exact(
    tmp_path: Path,
) -> None:
    texts = ["alpha " * (number % 5) + "beta " * number for number in range(90)]
    lengths = [len(text.split()) for text in texts]
    mean = sum(lengths) / len(lengths)
    many = sum("alpha" in text for text in texts)
    with write_in_bulk(tmp_path, [("", "", text) for text in texts]).searcher() as searcher:
        for hit in searcher.search(query.Term("body", "alpha"), limit=None):
            count = texts[hit.docnum].count("alpha")
            norm = 0.25 + 0.75 * lengths[hit.docnum] / mean
            idf = log(len(texts) / (many + 1)) + 1
            assert hit.score == pytest.approx(idf * count * 2.2 / (count + 1.2 * norm))


def test_blocks_without_a_good_posting_are_skipped_and_none_is_lost(tmp_path: Path) -> None:
    texts = ["alpha alpha alpha beta x" if n == 1500 else "alpha beta x" for n in range(2000)]
    with write_in_bulk(tmp_path, [("", "", text) for text in texts]).searcher() as searcher:
        wanted = query.Or([query.Term("body", "alpha"), query.Term("body", "beta")])
        assert [hit.docnum for hit in searcher.search(wanted, limit=2)] == [1500, 0]
        matcher = searcher.postings("body", "alpha")
        matcher.skip_to(1400)
        assert matcher.id() == 1400
        scorer = searcher.weighting.scorer(searcher, "body", b"alpha")
        matcher = searcher.reader().postings("body", b"alpha", scorer=scorer)
        assert matcher.skip_to_quality(scorer._score(1, 3)) == 1500 // 128
        assert matcher.id() == 1500 // 128 * 128


TEXTS = [
    (
        "Sign in",
        "login web",
        "Tokens expire. The e-mail server signs tokens, and tokens expire twice.",
    ),
    ("", "", "snake_case names and the e-mail address"),
    ("Naïve caching", "cache", ""),
    ("Tokens", "", "We expire caches; expiring tokens is naïve. 日本語の索引"),
]


def make_sections(texts: Sequence[Text]) -> SectionArrays:
    numbers = {
        name: np.arange(len(texts), dtype=np.uint32) * (place + 1)
        for place, name in enumerate(NUMBER_COLUMNS)
    }
    counts = np.arange(len(texts), dtype=np.uint32) % np.uint32(3)
    labels = np.arange(int(counts.sum()), dtype=np.uint32) * np.uint32(70_000)
    return SectionArrays(
        TermCounter().count([SectionTexts([title], tags, body) for title, tags, body in texts]),
        numbers,
        labels,
        counts,
    )


def write_in_bulk(folder: Path, *batches: Sequence[Text]) -> Any:
    ix = index.create_in(str(folder), make_schema())
    segments = []
    for texts in batches:
        segment = ArraySegment(ix.indexname, len(texts))
        parts = encode_segment([make_sections(texts)])
        (folder / segment.file_name()).write_bytes(b"".join(parts))
        segments.append(segment)
    index.TOC(make_schema(), segments, 1).write(ix.storage, ix.indexname)
    return index.open_dir(str(folder))


def find_phrase(words: list[str], field: int) -> list[int]:
    found = []
    for number, text in enumerate(TEXTS):
        sequence = term_sequence(text[field])
        places = range(len(sequence) - len(words) + 1)
        if any(sequence[place : place + len(words)] == words for place in places):
            found.append(number)
    return found


def list_terms(text: str) -> list[str]:
    """Return all terms of a text; stop words are terms, too, but have no place in its order."""
    return term_sequence(text) + list_compounds(text) + list_stop_terms(text)


def score_by_hand(term: str, field: int, number: int) -> float:
    """Return the BM25F score of a section; source: `whoosh.scoring.bm25`, B 0.75 and K1 1.2."""
    lengths = [len(term_sequence(text[field])) for text in TEXTS]
    counts = [Counter(list_terms(text[field]))[term] for text in TEXTS]
    idf = log(len(TEXTS) / (sum(map(bool, counts)) + 1)) + 1
    norm = 1 - 0.75 + 0.75 * lengths[number] / (sum(lengths) / len(TEXTS))
    return idf * counts[number] * 2.2 / (counts[number] + 1.2 * norm)


@pytest.mark.parametrize("split", [4, 2])
def test_whoosh_reads_what_was_written_in_bulk(tmp_path: Path, split: int) -> None:
    ix = write_in_bulk(tmp_path, *filter(None, [TEXTS[:split], TEXTS[split:]]))

    with ix.searcher() as searcher:
        reader = searcher.reader()
        parser = QueryParser("body", ix.schema)
        for place, field in enumerate(FIELDS):
            for term in reader.lexicon(field):
                found = searcher.search(query.Term(field, term.decode()), limit=None)
                scores = {hit.docnum: hit.score for hit in found}
                holding = {
                    number: pytest.approx(score_by_hand(term.decode(), place, number))
                    for number, text in enumerate(TEXTS)
                    if term.decode() in list_terms(text[place])
                }
                assert scores == holding
        for phrase in ("tokens expire", "expire twice", "e-mail server", "mail e", "naïve"):
            found = searcher.search(parser.parse(f'"{phrase}"'), limit=None)
            assert sorted(hit.docnum for hit in found) == find_phrase(term_sequence(phrase), 2)
        assert [hit.docnum for hit in searcher.search(parser.parse("EXPIRING"))]
        assert reader.corrector("body").suggest("tokn") == ["token"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_query_is_cut_into_the_terms_of_a_section(text: str) -> None:
    tokens = [
        (token.text, token.pos, text[token.startchar : token.endchar])
        for token in TermTokenizer()(text, positions=True, chars=True)
    ]
    assert [term for term, _, _ in tokens] == term_sequence(text)
    assert [position for _, position, _ in tokens] == list(range(len(tokens)))
    assert all(term in term_sequence(run) for term, _, run in tokens)


def test_what_is_written_in_one_piece_has_no_positions(tmp_path: Path) -> None:
    with write_in_bulk(tmp_path, TEXTS).searcher() as searcher:
        matcher = searcher.postings("body", "email")
        assert (matcher.id(), matcher.weight(), matcher.value_as("positions")) == (0, 1, [])
        assert matcher.spans() == []
        assert searcher.postings("body", "mail").value_as("positions") == [3]


def test_columns_of_bulk_segments_are_read_and_sorted_by(tmp_path: Path) -> None:
    with write_in_bulk(tmp_path, TEXTS, TEXTS[:2]).searcher() as searcher:
        reader = searcher.reader()
        assert list(reader.column_reader("created")) == [0, 4, 8, 12, 0, 4]
        leaf = reader.leaf_readers()[0][0]
        assert sorted(leaf._perdoc.list_columns()) == sorted([*NUMBER_COLUMNS, "labels"])
        labels = reader.column_reader("labels", translate=False)
        assert [np.frombuffer(value, "<u4").tolist() for value in labels] == [
            *([], [0], [70_000, 140_000], []),
            *([], [0]),
        ]
        found = searcher.search(query.Every(), sortedby="updated", reverse=True)
        assert [hit.docnum for hit in found][:2] == [3, 2]


def test_each_damaged_file_is_told(tmp_path: Path) -> None:
    ix = write_in_bulk(tmp_path, TEXTS)
    file = tmp_path / ix._segments()[0].file_name()
    whole = file.read_bytes()
    chance = random.Random(1)

    for _ in range(300):
        place = chance.randrange(len(whole))
        changed = whole[place] ^ 1 << chance.randrange(8)
        file.write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
        with pytest.raises(DamagedFileError):
            ix.reader()
        file.write_bytes(whole[:place])
        with pytest.raises(DamagedFileError):
            ix.reader()
    file.write_bytes(whole)
    with ix.reader() as reader:
        assert reader.doc_count() == len(TEXTS)


def test_a_file_of_another_version_is_told(tmp_path: Path) -> None:
    ix = write_in_bulk(tmp_path, TEXTS)
    file = tmp_path / ix._segments()[0].file_name()
    old = ArrayFile.open(file, VERSION)
    arrays = {name: np.array(old[name]) for name in old.names()}
    facts = old.facts
    file.write_bytes(b"".join(encode_arrays(arrays, facts, "vaultmem-segment-0")))
    with pytest.raises(DamagedFileError):
        ix.reader()
    file.write_bytes(b"".join(encode_arrays({"x": arrays["rank"]}, facts, VERSION)))
    with pytest.raises(DamagedFileError):
        SegmentArrays.open(file)


def test_segments_are_read_without_whoosh() -> None:
    code = """
import sys
import vaultmem.storage.index.segments
assert not any(name.split(".")[0] in ("whoosh", "numpy") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
