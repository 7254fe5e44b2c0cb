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
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from vaultmem.core.finding.terms import number_terms
from vaultmem.core.indexing.section_terms import SectionTerms
from vaultmem.storage.index import search_index, segments
from vaultmem.storage.index.batch import (
    BYTES_COLUMNS,
    NUMBER_COLUMNS,
    TERM_FIELDS,
    SegmentBatch,
)
from vaultmem.storage.index.search_index import SearchIndex
from vaultmem.storage.index.segments import MERGE_FACTOR, iter_postings, make_schema
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

WORDS = [f"w{n}" for n in range(30)] + ["café", "東京", "x" * 64, "-", "#tag/x"]


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


def make_batch(sections: Sections) -> SegmentBatch:
    batch = SegmentBatch()
    for (document, ordinal), fields in sections.items():
        batch.add(document, ordinal, make_terms(document, fields))
    return batch


def make_terms(document: int, fields: Mapping[str, list[str]]) -> SectionTerms:
    sequence, labels = make_bytes(document, fields)
    lengths = (len(fields["title"]), len(fields["tags"]), len(fields["body"]))
    counts: dict[str, dict[str, int]] = {name: Counter(words) for name, words in fields.items()}
    return SectionTerms(counts, lengths, sequence, *make_facts(document), labels, f"§{document}")


def make_facts(document: int) -> tuple[int, int, int]:
    return document % 6, document * 1_000, document * 2_000


def make_bytes(document: int, fields: Mapping[str, list[str]]) -> tuple[bytes, bytes]:
    numbers = array("I", number_terms([*fields["title"], *fields["body"]]))
    return numbers.tobytes(), array("I", range(document % 3)).tobytes()


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
        for name in TERM_FIELDS:
            assert columns[f"{name}_length"][number] == len(sections[key][name])
        assert columns["state"][number] == key[0] % 6
        assert (columns["created"][number], columns["updated"][number]) == make_facts(key[0])[1:]
        assert snapshot.stored("text", number).decode() in ("", f"§{key[0]}")
    check_same_bytes(snapshot, keys, sections)
    expected = count_by_hand(sections)
    for name in TERM_FIELDS:
        for word in WORDS:
            numbers, counts = snapshot.postings(name, word)
            assert list(numbers) == sorted(numbers)
            found = {keys[int(n)]: int(c) for n, c in zip(numbers, counts, strict=True)}
            assert found == expected.get((name, word), {}), (name, word)


def check_same_bytes(snapshot: Snapshot, keys: list[tuple[int, int]], sections: Sections) -> None:
    rows = np.arange(len(keys))[:: 3 if len(keys) > 3 else 1]
    for place, name in enumerate(BYTES_COLUMNS):
        some, ends = snapshot.slices(name, rows)
        every, starts = snapshot.all_of(name)
        for n, row in enumerate(rows):
            wanted = make_bytes(keys[row][0], sections[keys[row]])[place]
            assert some[ends[n] : ends[n + 1]].tobytes() == wanted
            assert every[starts[row] : starts[row + 1]].tobytes() == wanted


def test_an_index_gives_what_a_count_by_hand_gives(open_index: OpenIndex) -> None:
    sections = make_sections(range(1, 200))
    index = open_index()

    index.write(make_batch(sections), set())

    check_same(index, sections)
    check_same(open_index(), sections)


def test_an_empty_index_has_nothing(open_index: OpenIndex) -> None:
    check_same(open_index(), {})


def write_in_batches(index: SearchIndex, count: int) -> Sections:
    """Write that many documents, eight in each batch."""
    sections: Sections = {}
    for start in range(1, count, 8):
        new = make_sections(range(start, start + 8), seed=start)
        index.write(make_batch(new), set())
        sections |= new
    return sections


def test_merges_keep_everything_and_the_number_of_segments_small(open_index: OpenIndex) -> None:
    index = open_index()
    sections = write_in_batches(index, 400)
    check_same(index, sections)
    assert len(index.snapshot().readers) <= 4 * MERGE_FACTOR


def test_a_merge_makes_no_segment_that_memory_would_not_hold(
    open_index: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MAX_MERGED", 120)
    index = open_index()
    sections = write_in_batches(index, 800)
    check_same(index, sections)
    sizes = [reader.doc_count_all() for reader in index.snapshot().readers]
    assert max(sizes) <= 120
    assert len(sizes) <= len(sections) // 40 + 4 * MERGE_FACTOR


def test_dropped_documents_vanish_and_the_others_stay(open_index: OpenIndex) -> None:
    index = open_index()
    sections = make_sections(range(1, 120))
    index.write(make_batch(sections), set())
    dropped = {document for document in range(1, 120) if document % 3 == 0}
    new = make_sections(range(200, 210))

    index.write(make_batch(new), dropped)

    kept = {key: fields for key, fields in sections.items() if key[0] not in dropped}
    check_same(index, kept | new)


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
        index.write(make_batch(new), dropped)
        sections |= new
        held = index.documents()
        assert {document for document, _ in sections} - dropped <= held
    check_same(index, {key: fields for key, fields in sections.items() if key[0] in held})


def write_plainly(folder: Path, sections: Mapping[tuple[int, int], dict[str, list[str]]]) -> None:
    """Write the index as Whoosh itself does: document by document, in blocks of its own."""
    from whoosh import index

    folder.mkdir()
    writer = index.create_in(str(folder), make_schema()).writer()
    for (document, ordinal), fields in sections.items():
        numbers = {f"{name}_length": len(fields[name]) for name in TERM_FIELDS}
        numbers |= dict(zip(("state", "created", "updated"), make_facts(document), strict=True))
        words = {name: " ".join(fields[name]) for name in TERM_FIELDS}
        values = dict(zip(BYTES_COLUMNS, make_bytes(document, fields), strict=True))
        writer.add_document(document=document, ordinal=ordinal, **numbers, **words, **values)
    writer.commit()
    (folder / "format").write_text(search_index._FORMAT)


def test_an_index_that_whoosh_itself_wrote_is_read_the_slow_way(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    sections = make_sections(range(1, 700))
    write_plainly(tmp_path / "index", sections)
    index = open_index()

    check_same(index, sections)
    assert len(index.snapshot().postings("body", "w1")[0]) > 128  # More than one block.


def test_a_segment_that_whoosh_itself_wrote_is_merged_with_ours(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    theirs, ours = make_sections(range(1, 8)), make_sections(range(50, 60), seed=5)
    write_plainly(tmp_path / "index", theirs)
    index = open_index()

    index.write(make_batch(ours), set())

    check_same(index, theirs | ours)


def test_whoosh_itself_reads_what_we_wrote(open_index: OpenIndex, tmp_path: Path) -> None:
    from whoosh import index as whoosh_index
    from whoosh.reading import TermNotFound

    sections = make_sections(range(1, 300))
    index = open_index()
    index.write(make_batch(sections), set())
    index.close()
    keys = list(sections)
    expected = count_by_hand(sections)

    reader = whoosh_index.open_dir(str(tmp_path / "index")).reader()
    for name in TERM_FIELDS:
        for word in WORDS:
            found = {}
            try:
                matcher = reader.postings(name, word)
            except TermNotFound:
                matcher = None
            while matcher is not None and matcher.is_active():
                found[keys[matcher.id()]] = int(matcher.weight())
                matcher.next()
            assert found == expected.get((name, word), {})
    reader.close()


def test_the_fast_way_of_reading_is_taken_for_our_own_segments(
    open_index: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index()
    index.write(make_batch(make_sections(range(1, 60))), set())

    def refuse(_: object) -> None:
        raise AssertionError("read the slow way")

    monkeypatch.setattr("vaultmem.storage.index.segments._read_slowly", refuse)

    reader = index.snapshot().readers[0]
    assert any(term == "w1" for _, term, _, _ in iter_postings(reader))


def test_whoosh_is_not_even_imported_to_read_our_own_segments(
    open_index: OpenIndex, tmp_path: Path
) -> None:
    open_index().write(make_batch(make_sections(range(1, 60))), set())
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


@pytest.mark.parametrize("harm", ["removed", "empty", "cut", "changed", "unlisted"])
def test_arrays_that_are_lost_or_damaged_are_made_again(
    open_index: OpenIndex, tmp_path: Path, harm: str
) -> None:
    sections = make_sections(range(1, 60))
    open_index().write(make_batch(sections), set())
    stamp = open_index().stamp()
    (file,) = (tmp_path / "index").glob("*.arrays")
    data = file.read_bytes()
    place = len(data) // 2
    if harm == "removed":
        file.unlink()
    elif harm == "unlisted":
        (tmp_path / "index" / "segments.json").unlink()
    else:
        changed = data[:place] + bytes(64) + data[place + 64 :]
        file.write_bytes({"empty": b"", "cut": data[:place], "changed": changed}[harm])

    check_same(open_index(), sections)
    check_same(open_index(), sections)

    assert open_index().stamp() == stamp
    kept = harm == "unlisted"
    assert bool(open_index().snapshot().stored("text", 0)) == kept


def test_arrays_of_another_version_are_made_again(open_index: OpenIndex, tmp_path: Path) -> None:
    sections = make_sections(range(1, 20))
    open_index().write(make_batch(sections), set())
    (file,) = (tmp_path / "index").glob("*.arrays")
    data = file.read_bytes()
    status = file.stat()
    file.write_bytes(data.replace(b"vaultmem-arrays-", b"vaultmem-arroyo-"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    check_same(open_index(), sections)


def test_texts_stay_beside_the_sections_through_merges(open_index: OpenIndex) -> None:
    index = open_index()
    for start in range(1, 200, 8):
        index.write(make_batch(make_sections(range(start, start + 8), seed=start)), {start})
    snapshot = index.snapshot()
    documents = snapshot.column("document").tolist()
    texts = [snapshot.stored("text", row).decode() for row in range(snapshot.size)]
    assert texts == [f"§{document}" for document in documents]


def test_counts_that_do_not_fit_are_the_largest_that_do(open_index: OpenIndex) -> None:
    index = open_index()
    batch = SegmentBatch()
    for document, count in ((1, 100_000), (2, 1)):
        counts: dict[str, dict[str, int]] = {"body": {"w": count}, "title": {}, "tags": {}}
        batch.add(document, 0, SectionTerms(counts, (0, 0, count), b"", 0, 0, 0, b""))

    index.write(batch, set())

    numbers, counts = index.snapshot().postings("body", "w")
    assert list(numbers) == [0, 1]
    assert list(counts) == [65_535, 1]


def test_a_snapshot_stays_whole_while_another_object_writes(open_index: OpenIndex) -> None:
    sections = make_sections(range(1, 12))
    reader, writer = open_index(), open_index()
    writer.write(make_batch(sections), set())
    check_same(reader, sections)
    snapshot = reader.snapshot()
    before = [list(part) for part in snapshot.postings("body", "w2")]

    writer.write(make_batch(make_sections(range(20, 30))), {1, 2, 3})

    assert [list(part) for part in snapshot.postings("body", "w2")] == before
    assert len(snapshot.postings("title", "w3")[0]) > 0
    assert reader.documents() == writer.documents()


def test_the_stamp_differs_exactly_when_the_content_does(open_index: OpenIndex) -> None:
    index = open_index()
    empty = index.stamp()
    index.write(make_batch(make_sections([1])), set())
    one = index.stamp()

    assert one != empty
    assert open_index().stamp() == one
    index.write(make_batch(make_sections([2])), set())
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
    open_index().write(make_batch(make_sections(range(5))), set())
    (file,) = [file for file in folder.iterdir() if name in file.name.lower()]
    if harm == "removed":
        file.unlink()
    else:
        file.write_bytes(b"" if harm == "empty" else b"\x80\x04garbage.")

    index = open_index()

    check_same(index, {})
    index.write(make_batch(make_sections([9])), set())
    check_same(open_index(), make_sections([9]))


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

    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::SyntaxWarning", __file__]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]
