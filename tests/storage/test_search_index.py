"""The index's contract: what any distribution of Whoosh has to give.

The same tests run against another distribution when VAULTMEM_WHOOSH_PATH names a folder that it
was installed to:

    pip install --target .build/whoosh-reloaded Whoosh-Reloaded
    VAULTMEM_WHOOSH_PATH=.build/whoosh-reloaded pytest tests/storage/test_search_index.py
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from whoosh import index as whoosh_index

from vaultmem.core.indexing.rows import NoteRows
from vaultmem.core.indexing.section_texts import SectionTexts
from vaultmem.core.indexing.term_arrays import MAX_COUNTS, TermCounter
from vaultmem.core.search.terms import FIELDS
from vaultmem.errors import DamagedError, VaultError
from vaultmem.storage.index import segment_encoding
from vaultmem.storage.index.batch import NUMBER_COLUMNS, SectionArrays, describe_sections
from vaultmem.storage.index.search_index import SearchIndex
from vaultmem.storage.index.segment_encoding import MERGE_FACTOR
from vaultmem.storage.index.snapshot import Snapshot

OpenIndex = Callable[[], SearchIndex]


@pytest.fixture
def open_index(tmp_path: Path) -> Iterator[OpenIndex]:
    """Return a function that opens the test's index anew; all are closed at the end."""
    opened: list[SearchIndex] = []

    def open_one() -> SearchIndex:
        opened.append(SearchIndex(tmp_path / "index"))
        return opened[-1]

    yield open_one
    for index in opened:
        index.close()


#: A section by (document, ordinal): its words in each field.
Sections = dict[tuple[int, int], dict[str, list[str]]]

#: Words that are their own terms.
WORDS = [f"w{n}" for n in range(30)] + ["東京", "x" * 64, "ñ", "0"]
TERMS = {"ñ": "n"}


def make_sections(documents: Iterable[int], seed: int = 1) -> Sections:
    chance = random.Random(seed)
    return {
        (document, ordinal): {
            "body": chance.choices(WORDS, k=chance.randrange(0, 40)),
            "title": chance.choices(WORDS, k=chance.randrange(0, 4)),
            "tags": chance.choices(WORDS, k=chance.randrange(0, 3)),
        }
        for document in documents
        for ordinal in range(chance.randrange(1, 4))
    }


def make_parts(sections: Sections) -> list[SectionArrays]:
    """Return the sections in two parts, as a full index has many."""
    documents = sorted({document for document, _ in sections})
    half = len(documents) // 2
    return [make_part(sections, some) for some in (documents[:half], documents[half:]) if some]


def make_part(sections: Sections, documents: list[int]) -> SectionArrays:
    ordinals = Counter(document for document, _ in sections)
    notes = [make_rows(document, ordinals[document]) for document in documents]
    texts = [
        make_texts(sections[document, ordinal])
        for document in documents
        for ordinal in range(ordinals[document])
    ]
    return describe_sections(documents, notes, TermCounter().count(texts))


def make_texts(fields: Mapping[str, list[str]]) -> SectionTexts:
    title, tags, body = (" ".join(fields[name]) for name in FIELDS)
    return SectionTexts([title], tags, body)


def make_rows(document: int, many: int) -> NoteRows:
    labels = np.arange(document % 3, dtype=np.uint32).tobytes()
    return NoteRows("a.md", "", (), [*range(many)], "", [], [], "", (*make_facts(document), labels))


def make_facts(document: int) -> tuple[int, int, int]:
    return document % 6, document * 1_000, document * 2_000


def count_by_hand(sections: Sections) -> dict[tuple[str, str], dict[tuple[int, int], int]]:
    found: dict[tuple[str, str], dict[tuple[int, int], int]] = defaultdict(dict)
    for key, fields in sections.items():
        for name, words in fields.items():
            for word, count in Counter(words).items():
                found[name, word][key] = count
    return found


def check_same(index: SearchIndex, sections: Sections) -> None:
    """Compare every posting, and every number of a section, with a count by hand."""
    snapshot = index.snapshot()
    columns = {name: [int(n) for n in snapshot.column(name)] for name in NUMBER_COLUMNS}
    keys = list(zip(columns["document"], columns["ordinal"], strict=True))
    assert sorted(keys) == sorted(sections)
    assert index.documents() == {document for document, _ in sections}
    for number, key in enumerate(keys):
        for name in FIELDS:
            assert snapshot.column(f"{name}_length")[number] == len(sections[key][name])
        assert columns["state"][number] == key[0] % 6
        assert (columns["created"][number], columns["updated"][number]) == make_facts(key[0])[1:]
    check_same_labels(snapshot, keys, sections)
    check_same_sequences(snapshot, keys, sections)
    expected = count_by_hand(sections)
    for word in WORDS:
        for name, found in read_postings(snapshot, word).items():
            assert {keys[row]: n for row, n in found.items()} == expected.get((name, word), {})


def read_postings(snapshot: Snapshot, word: str) -> dict[str, dict[int, int]]:
    """Return for each field the rows that have a word, and how often; looked up in each way."""
    term = TERMS.get(word, word)
    rows, codes = snapshot.term(term)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert snapshot.count_sections(term) == len(rows)
    slowly = [snapshot.locate(*each) for each in list_sections(snapshot, term)]
    columns = (snapshot.column(name)[rows].tolist() for name in ("document", "ordinal"))
    assert slowly == list(zip(*columns, strict=True))
    counts = snapshot.counts[codes]
    return {
        name: {row: n for row, n in zip(rows.tolist(), counts[:, place].tolist(), strict=True) if n}
        for place, name in enumerate(FIELDS)
    }


def list_sections(snapshot: Snapshot, term: str) -> Iterator[tuple[int, int]]:
    for place, numbers in snapshot.find_sections(term):
        yield from ((place, number) for number in numbers)


def check_same_labels(snapshot: Snapshot, keys: list[tuple[int, int]], sections: Sections) -> None:
    many = Counter(document for document, _ in sections)
    labels, starts = snapshot.labels()
    for row, (document, _) in enumerate(keys):
        wanted = list(range(document % 3)) if many[document] == 1 else []
        assert labels[starts[row] : starts[row + 1]].tolist() == wanted


def check_same_sequences(
    snapshot: Snapshot, keys: list[tuple[int, int]], sections: Sections
) -> None:
    rows = np.arange(len(keys))[:: 3 if len(keys) > 3 else 1]
    asked = [*WORDS[:20], "nowhere"]
    marks, starts = snapshot.mark_sequences(rows, [[term] for term in asked])
    for n, row in enumerate(rows):
        fields = sections[keys[row]]
        wanted = [*fields["title"], "", *fields["tags"], "", *fields["body"]]
        found = [asked.index(word) + 1 if word in asked else 0 for word in wanted]
        assert marks[starts[n] : starts[n + 1]].tolist() == found


def test_an_index_gives_what_a_count_by_hand_gives(open_index: OpenIndex) -> None:
    sections = make_sections(range(1, 200))
    index = open_index()

    index.write(make_parts(sections), set())

    check_same(index, sections)
    check_same(open_index(), sections)


def test_an_empty_index_has_nothing(open_index: OpenIndex) -> None:
    with pytest.raises(DamagedError):
        open_index().snapshot()
    assert not open_index().stamp()

    open_index().reset()

    assert open_index().stamp()
    check_same(open_index(), {})


def write_in_batches(index: SearchIndex, count: int) -> Sections:
    """Write that many documents, eight in each batch."""
    sections: Sections = {}
    for start in range(1, count, 8):
        new = make_sections(range(start, start + 8), seed=start)
        index.write(make_parts(new), set())
        sections |= new
    return sections


def list_sizes(index: SearchIndex) -> list[int]:
    return [part.size for part in index.snapshot()._parts]


def test_merges_keep_everything_and_the_number_of_segments_small(open_index: OpenIndex) -> None:
    index = open_index()
    sections = write_in_batches(index, 400)
    check_same(index, sections)
    assert len(list_sizes(index)) <= 4 * MERGE_FACTOR


@pytest.mark.campaign
def test_a_merge_makes_no_segment_that_memory_would_not_hold(
    open_index: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_encoding, "MAX_SIZE", 120)
    index = open_index()
    sections = write_in_batches(index, 800)
    check_same(index, sections)
    sizes = list_sizes(index)
    assert max(sizes) <= 120
    assert len(sizes) <= len(sections) // 40 + 4 * MERGE_FACTOR


def test_dropped_documents_vanish_and_the_others_stay(open_index: OpenIndex) -> None:
    index = open_index()
    sections = make_sections(range(1, 120))
    index.write(make_parts(sections), set())
    dropped = {document for document in range(1, 120) if document % 3 == 0}
    new = make_sections(range(200, 210))

    index.write(make_parts(new), dropped)

    kept = {key: fields for key, fields in sections.items() if key[0] not in dropped}
    check_same(index, kept | new)


def test_a_merge_forgets_the_terms_that_no_section_has_any_more(open_index: OpenIndex) -> None:
    index = open_index()
    old: Sections = {
        (n, 0): {"title": [f"w{n}"], "tags": ["w9"], "body": [f"only{n}", "w0"]}
        for n in range(1, 7)
    }
    new: Sections = {(8, 0): {"title": ["w8"], "tags": [], "body": ["w0", "w2"]}}
    index.write(make_parts(old), set())

    index.write(make_parts(new), {1, 2, 3, 5})

    left = {key: fields for key, fields in old.items() if key[0] in (4, 6)} | new
    ((names, starts),) = index.snapshot().vocabulary()
    spans = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    assert [names[start:end].decode() for start, end in spans] == sorted(
        {word for fields in left.values() for words in fields.values() for word in words}
    )
    check_same(index, left)


def test_random_batches_and_drops_leave_what_a_count_by_hand_gives(open_index: OpenIndex) -> None:
    chance = random.Random(11)
    index = open_index()
    sections: Sections = {}
    dropped: set[int] = set()
    for turn in range(40):
        size = chance.choice([1, 1, 2, 5, 30])
        new = make_sections(range(turn * 100 + 1, turn * 100 + 1 + size), seed=turn)
        living = sorted({document for document, _ in sections} - dropped)
        dropped |= set(chance.sample(living, min(len(living), chance.randrange(4))))
        index.write(make_parts(new), dropped)
        sections |= new
        held = index.documents()
        assert {document for document, _ in sections} - dropped <= held
    check_same(index, {key: fields for key, fields in sections.items() if key[0] in held})


def test_whoosh_is_not_even_imported_to_read_our_own_segments(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    open_index().write(make_parts(make_sections(range(1, 60))), set())
    code = (
        "import sys; from pathlib import Path\n"
        "from vaultmem.storage.index.search_index import SearchIndex\n"
        "index = SearchIndex(Path(sys.argv[1]))\n"
        "found, stamp = index.snapshot().term('w1')[0], index.stamp()\n"
        "print(len(found) > 0, bool(stamp), 'whoosh' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "index")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["True", "True", "False"]


@pytest.mark.parametrize("harm", ["removed", "empty", "cut", "changed", "version"])
def test_a_damaged_segment_is_known_and_set_aside(
    open_index: OpenIndex, tmp_path: Path, harm: str
) -> None:
    open_index().write(make_parts(make_sections(range(1, 60))), set())
    stamp = open_index().stamp()
    (file,) = (tmp_path / "index").glob("*.arrays")
    damage(file, harm)

    assert open_index().stamp() != stamp
    assert open_index().find_damage()
    if harm not in ("removed", "changed"):
        index = open_index()
        with pytest.raises(DamagedError):
            index.snapshot()
        assert not index.stamp()
        assert file.exists()  # Who only reads sets nothing aside.
        index.reset()
        assert (tmp_path / "index.damaged" / file.name).exists()
        check_same(open_index(), {})


@pytest.mark.parametrize("harm", ["removed", "cut", "changed", "replaced"])
def test_a_snapshot_knows_whether_somebody_wrote_to_its_files(
    open_index: OpenIndex, tmp_path: Path, harm: str
) -> None:
    sections = make_sections(range(1, 60))
    index = open_index()
    index.write(make_parts(sections), set())
    snapshot = index.snapshot()
    (file,) = (tmp_path / "index").glob("*.arrays")
    if harm == "replaced":
        (tmp_path / "other").write_bytes(b"other")
        (tmp_path / "other").replace(file)
    else:
        damage(file, harm)

    if harm == "cut":
        with pytest.raises(DamagedError):
            snapshot.mark_sequences(np.arange(snapshot.size), [["w1"]])
    if is_ours := harm in ("removed", "replaced"):
        check_same_labels(snapshot, sorted(sections), sections)
    assert index.is_as_read() == is_ours
    assert bool(index.stamp()) == (harm == "replaced")


def test_a_segment_of_whooshs_own_writer_counts_as_damaged(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    open_index().write(make_parts(make_sections(range(1, 60))), set())
    with whoosh_index.open_dir(tmp_path / "index").writer() as writer:
        writer.merge = False
        writer.add_document(body="gangway")

    with pytest.raises(DamagedError):
        open_index().snapshot()
    assert not open_index().stamp()


def test_what_whoosh_raises_is_an_error_of_ours(
    open_index: OpenIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index()
    index.write(make_parts(make_sections([1])), set())
    for error, wanted in (
        (whoosh_index.EmptyIndexError(), DamagedError),
        (FileNotFoundError(), DamagedError),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(whoosh_index.TOC, "write", fail)
        with pytest.raises(wanted):
            index.write(make_parts(make_sections([2])), set())


def damage(file: Path, harm: str) -> None:
    data = file.read_bytes()
    place = len(data) // 2
    if harm == "removed":
        file.unlink()
    elif harm == "empty":
        file.write_bytes(b"")
    elif harm == "cut":
        file.write_bytes(data[:place])
    elif harm == "version":
        file.write_bytes(data.replace(b"vaultmem-segment-", b"vaultmem-sogment-"))
    else:
        file.write_bytes(data[:place] + bytes([data[place] ^ 8]) + data[place + 1 :])


def test_a_changed_segment_is_merged_with_nothing(open_index: OpenIndex, tmp_path: Path) -> None:
    open_index().write(make_parts(make_sections(range(1, 4))), set())
    (file,) = (tmp_path / "index").glob("*.arrays")
    damage(file, "changed")

    with pytest.raises(VaultError, match="was damaged"):
        open_index().write(make_parts(make_sections(range(5, 6))), set())


def test_a_list_that_is_lost_is_read_from_the_table_of_contents(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    sections = make_sections(range(1, 60))
    open_index().write(make_parts(sections), set())
    stamp = open_index().stamp()
    (tmp_path / "index" / "segments.json").unlink()

    assert open_index().stamp() == stamp
    check_same(open_index(), sections)


def test_counts_that_do_not_fit_are_the_largest_that_do(open_index: OpenIndex) -> None:
    index = open_index()
    sections: Sections = {
        (1, 0): {"title": ["w1"] * 20, "tags": ["w1"] * 99, "body": ["w1"] * 5_000},
        (2, 0): {"title": [], "tags": [], "body": ["w1"]},
    }

    index.write(make_parts(sections), set())

    rows, codes = index.snapshot().term("w1")
    assert rows.tolist() == [0, 1]
    assert index.snapshot().counts[codes].tolist() == [list(MAX_COUNTS), [0, 0, 1]]


def test_a_snapshot_stays_whole_while_another_object_writes(open_index: OpenIndex) -> None:
    sections = make_sections(range(1, 12))
    reader, writer = open_index(), open_index()
    writer.write(make_parts(sections), set())
    check_same(reader, sections)
    snapshot = reader.snapshot()
    before = read_postings(snapshot, "w2")

    writer.write(make_parts(make_sections(range(20, 30))), {1, 2, 3})

    assert read_postings(snapshot, "w2") == before
    assert read_postings(snapshot, "w3")["title"]
    assert reader.documents() == writer.documents()


def test_the_stamp_differs_exactly_when_the_content_does(open_index: OpenIndex) -> None:
    index = open_index()
    empty = index.stamp()
    index.write(make_parts(make_sections([1])), set())
    one = index.stamp()

    assert one != empty
    assert open_index().stamp() == one
    index.write(make_parts(make_sections([2])), set())
    assert index.stamp() != one
    index.reset()
    assert index.stamp() != one
    check_same(index, {})


# Whoosh forgets to close a table of contents that it could not read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["format", "toc"])
@pytest.mark.parametrize("harm", ["removed", "empty", "garbage"])
def test_an_index_that_cannot_be_opened_is_set_aside(
    open_index: OpenIndex, tmp_path: Path, name: str, harm: str
) -> None:
    folder = tmp_path / "index"
    open_index().write(make_parts(make_sections(range(5))), set())
    (file,) = [file for file in folder.iterdir() if name in file.name.lower()]
    if harm == "removed":
        file.unlink()
    else:
        file.write_bytes(b"" if harm == "empty" else b"\x80\x04garbage.")

    index = open_index()

    assert not index.stamp()
    with pytest.raises(DamagedError):
        index.snapshot()
    index.write(make_parts(make_sections([9])), set())
    check_same(open_index(), make_sections([9]))


def test_an_index_of_another_version_is_not_kept_as_damaged(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    open_index().write(make_parts(make_sections(range(5))), set())
    (tmp_path / "index" / "format").write_text("1 1")

    open_index().write(make_parts(make_sections([9])), set())

    check_same(open_index(), make_sections([9]))
    assert not (tmp_path / "index.damaged").exists()


OTHER = os.environ.get("VAULTMEM_WHOOSH_PATH", "")


@pytest.mark.skipif(not OTHER, reason="VAULTMEM_WHOOSH_PATH names no other Whoosh")
def test_the_contract_holds_on_another_distribution_of_whoosh() -> None:
    environment = {key: value for key, value in os.environ.items() if "WHOOSH" not in key}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(OTHER).resolve()), str(Path.cwd())])
    where = "import whoosh; print(whoosh.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", where], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith(str(Path(OTHER).resolve()))

    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::SyntaxWarning"]
    files = [__file__, str(Path(__file__).with_name("test_codec.py"))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]


def test_a_write_that_fails_at_its_end_leaves_the_index_to_the_next(
    open_index: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index()
    index.write(make_parts(make_sections([1])), set())

    def fail(_: SearchIndex) -> None:
        raise VaultError("index.lock: the lock cannot be made (Too many open files)")

    monkeypatch.setattr(SearchIndex, "_swap", fail)
    with pytest.raises(VaultError, match="cannot be made"):
        index.write(make_parts(make_sections([2])), set())
    monkeypatch.undo()

    index.write(make_parts(make_sections([3])), set())
    assert index.documents() == {1, 3}
