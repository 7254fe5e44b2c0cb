"""Whoosh over segments of arrays, beside Whoosh's own codec and beside answers by hand."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whoosh import analysis, columns, fields, formats, index, query
from whoosh.filedb.filestore import RamStorage
from whoosh.qparser import QueryParser
from whoosh.query.spans import SpanFirst, SpanNear
from whoosh.scoring import PL2, TF_IDF, Frequency
from whoosh.writing import NO_MERGE

from vaultmem.core.indexing.packing import unpack_numbers
from vaultmem.core.indexing.section_texts import SectionTexts
from vaultmem.core.indexing.term_arrays import TermCounter
from vaultmem.core.search.terms import FIELDS, list_compounds, list_stop_terms, term_sequence
from vaultmem.storage.index.batch import NUMBER_COLUMNS, SectionArrays
from vaultmem.storage.index.codec import ArrayCodec, ArraySegment, TermTokenizer, make_schema
from vaultmem.storage.index.segment_encoding import encode_segment
from vaultmem.storage.index.segments import (
    SUFFIX,
    VERSION,
    ArrayFile,
    DamagedFileError,
    SegmentArrays,
    encode_arrays,
)

WORDS = [
    "alpha",
    "alpine",
    "beta",
    "betas",
    "gamma",
    "gama",
    "delta",
    "naïve",
    "überzug",
    "日本",
    "x",
]

#: Lengths that Whoosh's own codec keeps exactly in its byte.
LENGTHS = [*range(11), 12, 13, 14, 16, 17, 18, 20, 21, 23, 25]

Corpus = list[list[dict[str, Any]]]


class Echo(analysis.Filter):
    """Gives each word that begins with a letter from a to c twice at one place."""

    def __call__(self, tokens: Any) -> Iterator[Any]:
        for token in tokens:
            yield token
            if token.text[0] in "abc":
                token.text = token.text.upper()
                yield token


def make_test_schema() -> fields.Schema:
    gaps = analysis.SpaceSeparatedTokenizer() | analysis.StopFilter(
        ["beta", "gamma", "x"], renumber=False, minsize=1
    )
    return fields.Schema(
        key=fields.ID(stored=True, unique=True, sortable=True),
        title=fields.TEXT(analyzer=analysis.SpaceSeparatedTokenizer(), stored=True, sortable=True),
        body=fields.TEXT(analyzer=analysis.SpaceSeparatedTokenizer()),
        gaps=fields.TEXT(analyzer=gaps),
        echo=fields.TEXT(analyzer=analysis.SpaceSeparatedTokenizer() | Echo()),
        tags=fields.KEYWORD(scorable=True, commas=True, lowercase=True),
        plain=fields.TEXT(analyzer=analysis.SpaceSeparatedTokenizer(), phrase=False),
        number=fields.NUMERIC(sortable=True, stored=True),
        flag=fields.COLUMN(columns.BitColumn()),
        blob=fields.COLUMN(columns.VarBytesColumn()),
        packed=fields.COLUMN(columns.CompressedBytesColumn()),
        ratio=fields.COLUMN(columns.NumericColumn("d")),
        kind=fields.COLUMN(columns.RefBytesColumn()),
        note=fields.STORED,
    )


def make_text(chance: random.Random, most: int = 25) -> str:
    length = chance.choice([length for length in LENGTHS if length <= most])
    return " ".join(chance.choices(WORDS, k=length))


def make_document(chance: random.Random, key: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "key": f"k{key}",
        "title": make_text(chance, 4),
        "body": make_text(chance),
        "gaps": make_text(chance, 10),
        "echo": make_text(chance, 5),
        "tags": ",".join(chance.choices(WORDS, k=chance.randrange(4))),
        "plain": make_text(chance, 8),
        "number": chance.randrange(-50, 50),
        "flag": chance.random() < 0.5,
        "blob": chance.randbytes(chance.randrange(5)),
        "packed": chance.randbytes(3) * 9,
        "ratio": chance.random(),
        "kind": chance.choice([b"one", b"two"]),
        "note": {"any": [key]},
    }
    left_out = [name for name in document if name != "key" and chance.random() < 0.2]
    return {name: value for name, value in document.items() if name not in left_out}


def make_corpus(seed: int) -> Corpus:
    chance = random.Random(seed)
    keys = iter(range(1000))
    return [
        [make_document(chance, next(keys)) for _ in range(chance.randrange(1, 40))]
        for _ in range(chance.randrange(1, 5))
    ]


def write_corpus(ix: Any, corpus: Corpus, seed: int, make_codec: Callable[[], Any]) -> None:
    """Write a segment a batch; after each, replace some documents and delete some."""
    chance = random.Random(seed)
    written: list[str] = []
    for batch in corpus:
        writer = ix.writer(codec=make_codec())
        for document in batch:
            writer.add_document(**document)
        for key in chance.sample(written, len(written) // 5):
            writer.delete_by_term("key", key)
        for key in chance.sample(written, len(written) // 6):
            writer.update_document(key=key, title="delta delta", number=7)
        writer.commit(mergetype=NO_MERGE)
        written += [document["key"] for document in batch]


class Pair:
    """The same documents in our codec and in Whoosh's own."""

    def __init__(self, folder: Path, seed: int, merge: bool) -> None:
        self.corpus = make_corpus(seed)
        self.indexes = []
        for name, make_codec in (("ours", ArrayCodec), ("theirs", lambda: None)):
            (folder / name).mkdir()
            ix = index.create_in(str(folder / name), make_test_schema())
            write_corpus(ix, self.corpus, seed, make_codec)
            if merge:
                ix.writer(codec=make_codec()).commit(optimize=True)
            self.indexes.append(ix)

    def compare(self, read: Callable[[Any], Any]) -> Any:
        """Return what both searchers give, which is to be the same."""
        answers = []
        for ix in self.indexes:
            with ix.searcher() as searcher:
                answers.append(read(searcher))
        assert answers[0] == answers[1]
        return answers[0]


@pytest.fixture(scope="module", params=[(seed, merge) for seed in (1, 2, 106) for merge in (0, 1)])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("pair"), *request.param)


def list_queries() -> list[query.Query]:
    term = query.Term
    return [
        *(term(name, word) for name in ("title", "body", "tags", "plain") for word in WORDS),
        term("echo", "ALPHA"),
        term("body", "nowhere"),
        term("number", 7),
        query.And([term("body", "alpha"), term("body", "beta"), term("title", "x")]),
        query.Or([term("body", "alpha"), term("title", "delta"), term("tags", "x")]),
        query.And([term("body", "gamma"), query.Not(term("body", "alpha"))]),
        query.Not(term("body", "gamma")),
        query.AndMaybe(term("body", "gamma"), term("title", "gamma")),
        query.AndNot(term("plain", "gamma"), term("body", "beta")),
        query.DisjunctionMax([term("body", "delta"), term("title", "delta")]),
        query.Prefix("body", "al"),
        query.Prefix("plain", "日"),
        query.Wildcard("body", "*a?a"),
        query.Regex("title", "[bg].*a$"),
        query.TermRange("body", "alpine", "delta"),
        query.NumericRange("number", -10, 20),
        query.FuzzyTerm("body", "gamna", maxdist=1),
        query.FuzzyTerm("plain", "betta", maxdist=2, prefixlength=1),
        query.Phrase("body", ["alpha", "beta"]),
        query.Phrase("body", ["gamma", "gamma"]),
        query.Phrase("title", ["naïve", "überzug"], slop=2),
        query.Phrase("gaps", ["alpha", "delta"]),
        query.Phrase("gaps", ["alpha", "delta"], slop=3),
        query.Phrase("echo", ["ALPHA", "beta"]),
        query.Phrase("echo", ["ALPHA", "BETA"]),
        SpanFirst(term("body", "delta"), limit=1),
        SpanNear(term("body", "delta"), term("body", "x"), slop=2, ordered=False),
        query.Every(),
        query.Every("title"),
    ]


@pytest.mark.parametrize("limit", [None, 3, 1])
def test_every_query_is_answered_as_by_whooshs_own_codec(pair: Pair, limit: int | None) -> None:
    def search(searcher: Any) -> Any:
        return [
            (str(wanted), [(hit.docnum, hit["key"], hit.score) for hit in found])
            for wanted in list_queries()
            for found in [searcher.search(wanted, limit=limit)]
        ]

    found = pair.compare(search)
    assert sum(len(hits) > 0 for _, hits in found) > len(found) // 2


@pytest.mark.parametrize("weighting", [TF_IDF(), Frequency(), PL2()])
def test_other_ways_of_scoring_give_the_same(pair: Pair, weighting: Any) -> None:
    answers = []
    for ix in pair.indexes:
        with ix.searcher(weighting=weighting) as searcher:
            found = searcher.search(query.Or([query.Term("body", word) for word in WORDS[:4]]))
            answers.append([(hit.docnum, hit.score) for hit in found])
    assert answers[0] == answers[1]


def test_terms_and_their_facts_are_the_same(pair: Pair) -> None:
    def list_facts(searcher: Any) -> Any:
        reader = searcher.reader()
        return [
            (
                term,
                reader.doc_frequency(*term),
                reader.frequency(*term),
                (info.weight(), info.doc_frequency(), info.max_weight()),
                (info.min_id(), info.max_id()),
                term[0] in ("title", "body", "plain") and (info.min_length(), info.max_length()),
            )
            for term in reader.all_terms()
            for info in [reader.term_info(*term)]
        ]

    assert pair.compare(list_facts)
    pair.compare(lambda searcher: sorted(searcher.reader().indexed_field_names()))
    pair.compare(lambda searcher: list(searcher.reader().terms_from("echo", b"bet")))
    pair.compare(lambda searcher: list(searcher.reader().lexicon("number")))
    pair.compare(lambda searcher: searcher.reader().frequency("body", "nowhere"))
    pair.compare(lambda searcher: [("body", word) in searcher.reader() for word in ("x", "gam")])
    pair.compare(
        lambda searcher: [
            (term, info.weight()) for term, info in searcher.reader().iter_from("plain", "be")
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
                positions = matcher.supports("positions") and matcher.value_as("positions")
                count = matcher.value_as("frequency")
                found.append((field, text, matcher.id(), matcher.weight(), count, positions))
                matcher.next()
        return found

    assert pair.compare(list_postings)
    pair.compare(
        lambda searcher: [
            (
                field,
                text,
                number,
                weight,
                formats.Positions().decode_frequency(value) if value else 0,
            )
            for field, text, number, weight, value in searcher.reader().iter_postings()
        ]
    )


def test_columns_and_sorting_by_them_are_the_same(pair: Pair) -> None:
    names = ["key", "title", "number", "flag", "blob", "packed", "ratio", "kind"]

    def read(searcher: Any) -> Any:
        reader = searcher.reader()
        ids = list(reader.all_doc_ids())
        return [
            (name, reader.has_column(name), [column[number] for number in ids])
            for name in names
            for column in [reader.column_reader(name)]
        ]

    assert pair.compare(read)
    for order in ("number", "title", "key"):
        for reverse in (False, True):
            pair.compare(
                lambda searcher, order=order, reverse=reverse: [
                    hit["key"]
                    for hit in searcher.search(
                        query.Every(), sortedby=order, reverse=reverse, limit=None
                    )
                ]
            )


def test_documents_lengths_and_stored_fields_are_the_same(pair: Pair) -> None:
    names = ["title", "body", "plain", "tags", "gaps"]

    def read(searcher: Any) -> Any:
        reader = searcher.reader()
        documents = [
            (number, [reader.doc_field_length(number, name) or 0 for name in names], stored)
            for number, stored in reader.iter_docs()
        ]
        counts = (reader.doc_count(), reader.doc_count_all(), reader.has_deletions())
        lengths = [(reader.field_length(name), reader.max_field_length(name)) for name in names]
        return counts, lengths, documents

    assert pair.compare(read)
    pair.compare(lambda searcher: searcher.document(key="k0"))


def test_misspelled_words_are_corrected_the_same(pair: Pair) -> None:
    def suggest(searcher: Any) -> Any:
        parsed = QueryParser("body", make_test_schema()).parse("gamna dleta")
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
            for field in ("body", "echo"):
                cursor = leaf.cursor(field)
                found += [cursor.text(), cursor.next(), cursor.find("bet"), cursor.next()]
                found += [cursor.find(b"delta"), cursor.text(), cursor.is_valid()]
                found += [cursor.first(), cursor.term_info() and cursor.term_info().weight()]
                found += [cursor.find("\U0010ffff"), cursor.text(), cursor.is_valid()]
        return found

    assert pair.compare(go)


def test_segments_are_merged_from_and_into_whooshs_own_codec(tmp_path: Path) -> None:
    pair = Pair(tmp_path, 3, False)
    before = pair.compare(read_all)
    for ix, make_codec in zip(pair.indexes, (lambda: None, ArrayCodec), strict=True):
        ix.writer(codec=make_codec()).commit(optimize=True)
    after = pair.compare(read_all)

    assert isinstance(pair.indexes[1]._segments()[0], ArraySegment)
    assert [found for _, found in after] == [found for _, found in before]


def read_all(searcher: Any) -> list[tuple[str, list[str]]]:
    return [
        (str(wanted), sorted(hit["key"] for hit in searcher.search(wanted, limit=None)))
        for wanted in list_queries()
    ]


def test_a_segment_has_one_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    ix = index.create_in(str(tmp_path), make_test_schema())
    write_corpus(ix, make_corpus(1), 1, ArrayCodec)
    ix.writer(codec=ArrayCodec()).commit(optimize=True)

    names = [file.name for file in tmp_path.iterdir() if not file.name.endswith(("LOCK", ".toc"))]
    assert names == [segment.file_name() for segment in ix._segments()]


def test_a_commit_without_documents_and_a_cancelled_one_leave_no_file(tmp_path: Path) -> None:
    ix = index.create_in(str(tmp_path), make_test_schema())
    ix.writer(codec=ArrayCodec()).commit()
    ix.writer(codec=ArrayCodec()).cancel()
    assert not list(tmp_path.glob(f"*{SUFFIX}"))


def test_a_segment_whose_documents_are_all_deleted_is_merged_to_an_empty_one(
    tmp_path: Path,
) -> None:
    ix = index.create_in(str(tmp_path), make_test_schema())
    with ix.writer(codec=ArrayCodec()) as writer:
        writer.add_document(key="a", body="alpha")
    with ix.writer(codec=ArrayCodec()) as writer:
        writer.delete_by_term("key", "a")
        writer.optimize = True
    with ix.searcher() as searcher:
        assert searcher.doc_count_all() == 0
        assert list(searcher.reader().all_terms()) == []
        assert not searcher.search(query.Every())


def write_texts(texts: list[str]) -> Any:
    ix = RamStorage().create_index(make_test_schema())
    for part in (texts[: len(texts) // 3], texts[len(texts) // 3 :]):
        writer = ix.writer(codec=ArrayCodec())
        for text in part:
            writer.add_document(body=text, gaps=text)
        writer.commit(mergetype=NO_MERGE)
    return ix


def test_queries_are_answered_as_by_hand() -> None:
    chance = random.Random(7)
    texts = [make_text(chance) for _ in range(80)]

    def has(text: str, *words: str) -> bool:
        return f" {' '.join(words)} " in f" {text} "

    term, phrase = query.Term, query.Phrase
    expected: list[tuple[query.Query, Callable[[str], bool]]] = [
        (term("body", "naïve"), lambda text: has(text, "naïve")),
        (
            query.And([term("body", "x"), query.Not(term("body", "beta"))]),
            lambda text: has(text, "x") and not has(text, "beta"),
        ),
        (
            query.Or([term("body", "x"), term("body", "beta")]),
            lambda text: has(text, "x") or has(text, "beta"),
        ),
        (query.Prefix("body", "al"), lambda text: has(text, "alpha") or has(text, "alpine")),
        (query.Wildcard("body", "g*a"), lambda text: has(text, "gamma") or has(text, "gama")),
        (query.FuzzyTerm("body", "gamna"), lambda text: has(text, "gamma") or has(text, "gama")),
        (phrase("body", ["日本", "x"]), lambda text: has(text, "日本", "x")),
        (phrase("body", ["x", "x", "x"]), lambda text: has(text, "x", "x", "x")),
        (query.Every(), lambda text: True),
    ]
    with write_texts(texts).searcher() as searcher:
        for wanted, is_found in expected:
            found = searcher.search(wanted, limit=None)
            by_hand = [number for number, text in enumerate(texts) if is_found(text)]
            assert sorted(hit.docnum for hit in found) == by_hand


def test_scores_are_those_of_the_formula_where_whooshs_own_lengths_are_not_exact() -> None:
    texts = ["alpha " * (number % 5) + "beta " * number for number in range(90)]
    lengths = [len(text.split()) for text in texts]
    mean = sum(lengths) / len(lengths)
    many = sum("alpha" in text for text in texts)
    with write_texts(texts).searcher() as searcher:
        for hit in searcher.search(query.Term("body", "alpha"), limit=None):
            count = texts[hit.docnum].count("alpha")
            norm = 0.25 + 0.75 * lengths[hit.docnum] / mean
            idf = log(len(texts) / (many + 1)) + 1
            assert hit.score == pytest.approx(idf * count * 2.2 / (count + 1.2 * norm))


def test_words_far_apart_take_no_room_and_keep_their_places() -> None:
    ix = write_texts(["x", "x alpha " + "beta " * 5000 + "delta alpha", "x"])
    with ix.searcher() as searcher:
        assert searcher.postings("gaps", "alpha").value_as("positions") == [1, 5003]
        assert searcher.postings("gaps", "delta").value_as("positions") == [5002]
        near = query.Phrase("gaps", ["alpha", "delta"], slop=5001)
        assert [hit.docnum for hit in searcher.search(near)] == [1]


def test_blocks_without_a_good_posting_are_skipped_and_none_is_lost() -> None:
    ix = RamStorage().create_index(make_test_schema())
    writer = ix.writer(codec=ArrayCodec())
    for number in range(2000):
        rare = "alpha alpha alpha" if number == 1500 else "alpha"
        writer.add_document(key=str(number), body=f"{rare} beta x")
    writer.commit()

    with ix.searcher() as searcher:
        wanted = query.Or([query.Term("body", "alpha"), query.Term("body", "beta")])
        best = [hit["key"] for hit in searcher.search(wanted, limit=2)]
        matcher = searcher.postings("body", "alpha")
        matcher.skip_to(1400)
        assert matcher.id() == 1400
        scorer = searcher.weighting.scorer(searcher, "body", b"alpha")
        matcher = searcher.reader().postings("body", b"alpha", scorer=scorer)
        assert matcher.skip_to_quality(scorer._score(1, 3)) == 1500 // 128
        assert matcher.id() == 1500 // 128 * 128

    assert best == ["1500", "0"]


def test_an_index_in_memory_and_a_stemmed_field_with_spelling_work() -> None:
    schema = fields.Schema(
        key=fields.ID(stored=True),
        body=fields.TEXT(analyzer=analysis.StemmingAnalyzer(), spelling=True),
    )
    ix = RamStorage().create_index(schema)
    writer = ix.writer(codec=ArrayCodec())
    writer.add_document(key="a", body="rendering rendered shading")
    writer.add_document(key="b", body="shading")
    writer.commit()

    with ix.searcher() as searcher:
        assert len(searcher.search(QueryParser("body", schema).parse("renders"))) == 1
        assert searcher.reader().corrector("body").suggest("shadng") == ["shading"]


def test_several_processes_write_with_the_codec(tmp_path: Path) -> None:
    ix = index.create_in(str(tmp_path), make_test_schema())
    writer = ix.writer(codec=ArrayCodec(), procs=2)
    for number in range(50):
        writer.add_document(key=str(number), title=f"word{number % 5}", body="alpha beta")
    writer.commit()

    with ix.searcher() as searcher:
        assert len(searcher.search(query.Term("title", "word3"), limit=None)) == 10
        assert len(searcher.search(query.Phrase("body", ["alpha", "beta"]), limit=None)) == 50
        assert searcher.field_length("body") == 100


def test_documents_without_any_terms_are_kept(tmp_path: Path) -> None:
    ix = index.create_in(str(tmp_path), make_test_schema())
    writer = ix.writer(codec=ArrayCodec())
    writer.add_document(note="only stored")
    writer.commit()

    with ix.searcher() as searcher:
        assert [hit["note"] for hit in searcher.search(query.Every())] == ["only stored"]
        assert list(searcher.reader().all_terms()) == []
        assert list(searcher.reader().column_reader("ratio")) == [0.0]


def write_one(schema: fields.Schema, **document: Any) -> Any:
    ix = RamStorage().create_index(schema)
    writer = ix.writer(codec=ArrayCodec())
    writer.add_document(**document)
    writer.commit()
    return ix


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (fields.TEXT(chars=True), "Characters"),
        (fields.FieldType(formats.PositionBoosts(), analysis.StandardAnalyzer()), "PositionBoosts"),
        (fields.TEXT(field_boost=1.5), "weight 1.5"),
        (fields.TEXT(vector=True), "vectors"),
    ],
)
def test_what_the_codec_cannot_keep_is_said(field: Any, message: str) -> None:
    if isinstance(field, fields.FieldType) and type(field) is fields.FieldType:
        field.scorable = field.indexed = True
    with pytest.raises(ValueError, match=f"body.*{message}"):
        write_one(fields.Schema(body=field), body="alpha beta")


def test_more_than_eight_fields_of_terms_are_refused() -> None:
    names = [f"field{number}" for number in range(9)]
    schema = fields.Schema(**dict.fromkeys(names, fields.TEXT))
    with write_one(schema, **dict.fromkeys(names[1:], "alpha")).searcher() as searcher:
        assert len(searcher.search(query.Term("field8", "alpha"))) == 1
    with pytest.raises(ValueError, match="more than 8 fields"):
        write_one(schema, **dict.fromkeys(names, "alpha"))


def test_a_whole_boost_and_a_large_count_are_kept() -> None:
    schema = fields.Schema(body=fields.TEXT(field_boost=2.0), plain=fields.TEXT(phrase=False))
    with write_one(schema, body="alpha", plain="beta " * 70_000).searcher() as searcher:
        assert searcher.postings("body", "alpha").weight() == 2
        assert searcher.postings("plain", "beta").weight() == 70_000
        assert searcher.field_length("plain") == 70_000


def test_many_different_counts_are_kept() -> None:
    ix = RamStorage().create_index(fields.Schema(body=fields.TEXT(phrase=False)))
    writer = ix.writer(codec=ArrayCodec())
    for number in range(400):
        writer.add_document(body="alpha " * (number + 1))
    writer.commit()

    with ix.searcher() as searcher:
        matcher = searcher.postings("body", "alpha")
        weights = []
        while matcher.is_active():
            weights.append(matcher.weight())
            matcher.next()
    assert weights == [number + 1 for number in range(400)]


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


def make_sections(texts: list[tuple[str, str, str]]) -> SectionArrays:
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


def write_in_bulk(folder: Path, *batches: list[tuple[str, str, str]]) -> Any:
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


def test_whoosh_merges_bulk_segments_and_leaves_out_deleted_sections(tmp_path: Path) -> None:
    ix = write_in_bulk(tmp_path, TEXTS[:2], TEXTS[2:])
    writer = ix.writer(codec=ArrayCodec())
    writer.delete_document(1)
    writer.commit(optimize=True)

    with ix.searcher() as searcher:
        assert len(ix._segments()) == 1
        parser = QueryParser("body", ix.schema)
        phrase = searcher.search(parser.parse('"tokens expire"'))
        assert [hit.docnum for hit in phrase] == [0]
        assert len(searcher.search(parser.parse("email"))) == 1
        assert list(searcher.reader().column_reader("created")) == [0, 0, 4]
        lengths = [searcher.doc_field_length(number, "body") for number in range(3)]
        kept = (0, 2, 3)
        assert lengths == [len(term_sequence(TEXTS[number][2])) for number in kept]


def test_sequences_of_both_ways_of_writing_are_read_alike(tmp_path: Path) -> None:
    ix = write_in_bulk(tmp_path, TEXTS)
    bulk = SegmentArrays.open(tmp_path / ix._segments()[0].file_name())
    sections = [0, 2, 3]
    before = [unpack_sequence(bulk, section) for section in sections]
    words = [bulk.term(place) for place in np.argsort(bulk["rank"])]

    ix.writer(codec=ArrayCodec()).commit(optimize=True)
    merged = SegmentArrays.open(tmp_path / ix._segments()[0].file_name())
    order = {name: place for place, name in enumerate(merged.fields)}
    after = [unpack_sequence(merged, section) for section in sections]
    new_words = [merged.term(place) for place in np.argsort(merged["rank"])]
    for old, new in zip(before, after, strict=True):
        assert len(old) == len(new)
        texts = [b" ".join(words[rank - 1] for rank in part) for part in split_fields(old)]
        found = [b" ".join(new_words[rank - 1] for rank in part) for part in split_fields(new)]
        assert [found[order[field]] for field in FIELDS] == texts


def unpack_sequence(segment: SegmentArrays, section: int) -> list[int]:
    (packed,) = segment.sequences([section])
    ranks: list[int] = unpack_numbers(np.frombuffer(packed, np.uint8)).tolist()
    return ranks


def split_fields(ranks: list[int]) -> list[list[int]]:
    ends = [place for place, rank in enumerate(ranks) if rank == 0]
    starts = [0, *(end + 1 for end in ends)]
    return [ranks[start:end] for start, end in zip(starts, [*ends, len(ranks)], strict=True)]


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
import vaultmem.storage.index.segments, vaultmem.storage.index.segments
assert not any(name.split(".")[0] in ("whoosh", "numpy") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
