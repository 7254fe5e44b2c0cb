"""The inverted index: add and remove sections, read postings, count shared terms.

The index is a cache; after any error it is set aside and rebuilt. It is in the user's private
folder, because Whoosh's table of contents is a pickle. A section belongs to a document id of the
state database; the reader's view selects documents.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vaultmem.core.search.terms import ANALYSIS_VERSION
from vaultmem.errors import DamagedError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.index.segments import (
    SUFFIX,
    VERSION,
    DamagedFileError,
    SegmentArrays,
    SegmentList,
    describe_files,
    folder_time,
    read_list,
    write_list,
)
from vaultmem.storage.index.snapshot import Snapshot
from vaultmem.storage.lock import WRITER, hold_lock

if TYPE_CHECKING:
    from vaultmem.storage.index.batch import SectionArrays


_T = TypeVar("_T")

_FORMAT = f"{VERSION} {ANALYSIS_VERSION}"

#: Whoosh's name of the index, in the file names of its tables of contents.
_NAME = "MAIN"

#: A folder changed less than this (ns) ago can change again without a new modification time.
_RACY_NS = 100_000_000


class SearchIndex:
    """The index in one folder; open it once for many searches and writes.

    Readers never repair it; only the holder of the vault's lock may `write` or `reset`.
    """

    def __init__(self, folder: Path, patience: float = WRITER) -> None:
        self._folder = folder
        self._patience = patience
        self._snapshot: Snapshot | None = None
        #: The snapshot's segments, the damaged segments, and the folder's time when last read.
        self._listed: SegmentList | None = None
        self._damaged: SegmentList | None = None
        self._read_time = 0

    def stamp(self) -> str:
        """Return a text that changes with the index, empty if it is missing or damaged."""
        try:
            return f"{_FORMAT}:{self._read(self._describe)}"
        except DamagedError:
            return ""

    def _describe(self) -> str:
        segment_list = self._list_segments()
        if segment_list == self._damaged:
            raise DamagedFileError
        return describe_files(self._folder, segment_list)

    def documents(self) -> set[int]:
        """Return the ids of all documents with a section in the index."""
        return self.snapshot().documents()

    def write(self, parts: Sequence[SectionArrays], dropped: set[int]) -> None:
        """Add sections and remove documents; readers see all of the change or nothing.

        Raises:
            DamagedError: the present index is damaged.
        """
        from whoosh import index

        with _whoosh_errors():
            if (contents := self._read_contents()) is None:
                self._create()
                contents = index.TOC.read(self._open_storage(), _NAME)
            segments = self._write_segment(parts, dropped, contents.segments)
            generation = contents.generation + 1
            storage = self._open_storage()
            with self._swap():
                index.TOC(contents.schema, segments, generation).write(storage, _NAME)
                index.clean_files(storage, _NAME, generation, segments)
                self._put_list(generation, segments)
        self.close()

    def _write_segment(
        self, parts: Sequence[SectionArrays], dropped: set[int], old: list[Any]
    ) -> list[Any]:
        """Write a segment of new and merged sections; return all segments of the generation."""
        from vaultmem.storage.index.batch import select_sections
        from vaultmem.storage.index.codec import ArraySegment
        from vaultmem.storage.index.segment_encoding import (
            choose_merge,
            decode_segment,
            encode_segment,
            find_dropped,
        )

        segment_list = self._list_segments()
        arrays = {file: self._open_segment(segment_list, file) for file in segment_list.files}
        merged = choose_merge(arrays, sum(map(len, parts)), dropped)
        merged_parts = []
        for file in sorted(merged):
            if not arrays[file].file.is_whole():
                self._damaged = segment_list
                raise DamagedFileError
            sections = decode_segment(arrays[file])
            merged_parts.append(select_sections(sections, ~find_dropped(arrays[file], dropped)))
        unmerged = [segment for segment in old if segment.file_name() not in merged]
        if not (size := sum(map(len, [*parts, *merged_parts]))):
            return unmerged
        segment = ArraySegment(_NAME, size)
        # No fsync: after a power cut, a wrong size or time causes a rebuild.
        encoded = encode_segment([*parts, *merged_parts])
        write_atomically(self._folder / segment.file_name(), encoded, durable=False)
        return [*unmerged, segment]

    def reset(self) -> None:
        """Replace the index by an empty one; the old one is set aside."""
        self.close()
        with _whoosh_errors():
            self._create()

    def snapshot(self) -> Snapshot:
        """Return the current index; the same object until it changes.

        Raises:
            DamagedError: the index is missing or damaged.
        """
        return self._read(self._open_snapshot)

    def is_as_read(self) -> bool:
        """Return whether the last snapshot's files are unwritten; close it if they are not."""
        if self._snapshot is None or self._snapshot.is_as_opened():
            return True
        self._damaged = self._listed
        self.close()
        return False

    def _open_snapshot(self) -> Snapshot:
        timestamp = folder_time(self._folder)
        if self._snapshot is not None and self._read_time == timestamp > 0:
            return self._snapshot
        segment_list = self._list_segments()
        if self._snapshot is None or self._listed != segment_list:
            parts = [self._open_segment(segment_list, name) for name in segment_list.files]
            self._snapshot, self._listed = Snapshot(segment_list.generation, parts), segment_list
        self._read_time = timestamp if time.time_ns() - timestamp > _RACY_NS else 0
        return self._snapshot

    def _open_segment(self, segment_list: SegmentList, name: str) -> SegmentArrays:
        try:
            segment = SegmentArrays.open(self._folder / name)
            marks = dict(zip(segment_list.files, segment_list.marks, strict=False))
            if marks.get(name, segment.file.mark) != segment.file.mark:
                raise DamagedFileError
        except DamagedFileError:
            self._damaged = segment_list
            raise
        return segment

    def _list_segments(self) -> SegmentList:
        """Return the newest generation and its segments, without Whoosh if possible."""
        segment_list = read_list(self._folder, _FORMAT)
        if segment_list is not None:
            return segment_list
        if (contents := self._read_contents()) is None:
            raise DamagedFileError
        names = tuple(segment.file_name() for segment in contents.segments)
        return SegmentList(int(contents.generation), names)

    def _put_list(self, generation: int, segments: list[Any]) -> None:
        names = tuple(segment.file_name() for segment in segments)
        with contextlib.suppress(OSError):
            write_list(self._folder, _FORMAT, SegmentList(generation, names))

    def find_damage(self) -> str:
        """Return why the index cannot be read, empty if all checksums are correct."""
        try:
            for name in self._list_segments().files:
                if not SegmentArrays.open(self._folder / name).file.is_whole():
                    return f"the index is damaged ({name} was changed)"
        except (OSError, DamagedError):
            return "the index is damaged (a segment is lost, or cut short)"
        return ""

    def close(self) -> None:
        """Release the snapshot; the object can still be used."""
        self._snapshot = self._listed = None

    def _read(self, read: Callable[[], _T]) -> _T:
        """Return the result of `read`; if that fails, try again with writers locked out.

        Segment files never change, so all files that could be opened are consistent.
        """
        with contextlib.suppress(FileNotFoundError, DamagedError):
            return read()
        try:
            with self._swap():
                return read()
        except FileNotFoundError as error:
            raise DamagedFileError from error

    def _read_contents(self) -> Any:
        """Return Whoosh's newest table of contents, None if it is missing or unreadable."""
        from whoosh import index

        try:
            if (self._folder / "format").read_text() != _FORMAT:
                return None
            contents = index.TOC.read(self._open_storage(), _NAME)
            contents.schema.names()
            for segment in contents.segments:
                segment.file_name()
            return contents
        except FileNotFoundError:
            return None
        except OSError:
            raise
        except Exception:  # noqa: BLE001 - a damaged pickle can raise anything: rebuild.
            return None

    def _open_storage(self) -> Any:
        from whoosh.filedb.filestore import FileStorage

        return FileStorage(str(self._folder))

    def _create(self) -> None:
        from whoosh import index

        from vaultmem.storage.index.codec import make_schema

        with self._swap():
            _set_aside(self._folder)
            index.create_in(str(self._folder), make_schema(), _NAME)
            (self._folder / "format").write_text(_FORMAT)

    def _swap(self) -> AbstractContextManager[None]:
        """Lock out other processes while files of the index are replaced."""
        return hold_lock(self._folder.with_name("index.lock"), self._patience)


@contextlib.contextmanager
def _whoosh_errors() -> Iterator[None]:
    """Convert Whoosh's errors and missing files to DamagedFileError."""
    from whoosh import index

    try:
        yield
    except (index.IndexError, FileNotFoundError) as error:
        raise DamagedFileError from error


def _set_aside(folder: Path) -> None:
    """Empty the folder; if it has segments, keep it as `<name>.damaged` for inspection.

    A folder without segments never replaces an older `.damaged` folder. An index of another version
    is not damaged, so it is not kept.
    """
    import shutil

    aside = folder.with_name(folder.name + ".damaged")
    format_file = folder / "format"
    is_other = format_file.exists() and format_file.read_bytes() != _FORMAT.encode()
    if any(folder.glob(f"*{SUFFIX}")) and not is_other:
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


# The sections that share most of a text's rare terms, by the index only: no note is read.

#: Most postings that a look-up reads, so that its time does not grow with the vault.
_BUDGET = 10_000

#: Most terms that a look-up reads; more of them do not improve the result.
_TERMS = 16


class SharedTermHits(NamedTuple):
    """Sections as (document, ordinal), best first, and the number of sections with each term.

    `shares` is each section's share (0 to 1) of the weight of the terms looked up.
    """

    sections: tuple[tuple[int, int], ...]
    shares: tuple[float, ...]
    counts: dict[str, int]
    size: int

    def weigh(self, term: str) -> float:
        """Return the rarity of a term: 0.5 if all sections have it, 1 if none has."""
        if not self.size or term not in self.counts:
            return 1.0
        rarity = math.log((self.size + 1) / (self.counts[term] + 1)) / math.log(self.size + 1)
        return 0.5 + 0.5 * rarity


def find_sharing(
    snapshot: Snapshot,
    terms: Iterable[str],
    limit: int,
    term_counts: dict[str, int] | None = None,
) -> SharedTermHits:
    """Return at most `limit` sections that share the most terms, weighted by ln(1 + N / n).

    Only the rarest terms within the budget of postings are looked up. `term_counts` caches the
    counts of terms between calls.
    """
    cache = {} if term_counts is None else term_counts
    counts = {term: _count(snapshot, term, cache) for term in dict.fromkeys(terms)}
    whole = 0.0
    scores: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for term, weight in _choose_terms(counts, snapshot.size):
        whole += weight
        for place, numbers in snapshot.find_sections(term):
            section_scores = scores[place]
            for number in numbers:
                section_scores[number] = section_scores.get(number, 0.0) + weight
    best = _choose_best(scores, limit)
    return SharedTermHits(
        tuple(snapshot.locate(place, number) for _, place, number in best),
        tuple(-score / whole for score, _, _ in best),
        counts,
        snapshot.size,
    )


def _choose_terms(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Return the terms to look up among `size` sections, rarest first, with their weights.

    `counts` is the number of sections with each term.
    """
    weighted_terms: list[tuple[str, float]] = []
    budget = _BUDGET
    for count, term in sorted((count, term) for term, count in counts.items() if count):
        if len(weighted_terms) == _TERMS or (weighted_terms and count > budget):
            break
        budget -= count
        weighted_terms.append((term, math.log1p(size / count)))
    return weighted_terms


def _choose_best(
    scores: Mapping[int, Mapping[int, float]], limit: int
) -> list[tuple[float, int, int]]:
    """Return the `limit` best as negative score, segment place and section number, best first."""
    largest = heapq.nlargest(limit, chain.from_iterable(each.values() for each in scores.values()))
    least = largest[-1] if largest else 0.0
    rows = [
        (-score, place, number)
        for place, section_scores in scores.items()
        for number, score in section_scores.items()
        if score >= least
    ]
    return sorted(rows)[:limit]


def _count(snapshot: Snapshot, term: str, cache: dict[str, int]) -> int:
    """Return the number of sections with a term, including those of forgotten notes."""
    count = cache.get(term)
    if count is None:
        count = cache[term] = snapshot.count_sections(term)
    return count


def find_with_all(
    snapshot: Snapshot, terms: Iterable[str], other_terms: Iterable[str], limit: int
) -> list[tuple[int, int]]:
    """Return at most `limit` sections with all terms, first those with most of the other terms.

    Terms with more sections than the budget allows are ignored; if all are, the result is empty.
    """
    common_sections: set[tuple[int, int]] | None = None
    budget = _BUDGET
    for count, term in sorted((snapshot.count_sections(term), term) for term in set(terms)):
        if count > budget:
            break
        budget -= count
        sections = _list_sections(snapshot, term)
        common_sections = sections if common_sections is None else common_sections & sections
    if not common_sections or len(common_sections) <= limit:
        return [snapshot.locate(*each) for each in sorted(common_sections or ())]
    scores = dict.fromkeys(sorted(common_sections, reverse=True), 0)
    for term in other_terms:
        if (count := snapshot.count_sections(term)) <= budget:
            budget -= count
            for each in common_sections & _list_sections(snapshot, term):
                scores[each] += 1
    best = heapq.nlargest(limit, scores, key=scores.__getitem__)
    return [snapshot.locate(*each) for each in best]


def _list_sections(snapshot: Snapshot, term: str) -> set[tuple[int, int]]:
    return {(place, n) for place, numbers in snapshot.find_sections(term) for n in numbers}
