"""The inverted index: sections in, postings as arrays out (a Whoosh index of our own codec).

The index is a cache, and Whoosh's table of contents is a pickle: it lives in a private folder of
the user's, and any trouble with it means that it is set aside and built again. A section belongs to
a document id of the state database; which documents count is the reader's choice (a view).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from vaultmem.core.finding.terms import ANALYSIS_VERSION
from vaultmem.errors import VaultError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.index.array_file import DamagedFileError
from vaultmem.storage.index.segment_arrays import SUFFIX, VERSION, SegmentArrays
from vaultmem.storage.index.segment_list import (
    SegmentList,
    describe_files,
    folder_time,
    read_list,
    write_list,
)
from vaultmem.storage.index.snapshot import Snapshot
from vaultmem.storage.lock import hold_lock

if TYPE_CHECKING:
    from vaultmem.storage.index.batch import SectionArrays

_T = TypeVar("_T")

_FORMAT = f"{VERSION} {ANALYSIS_VERSION}"

#: A folder that changed this shortly (ns) ago may change again within the same tick of its clock.
_RACY_NS = 100_000_000


class DamagedIndexError(VaultError):
    """The index was damaged: it was set aside, is empty now, and is built again by a sync."""


class SearchIndex:
    """The index in one folder; open it once and use it for many searches and batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: Any = None
        self._snapshot: Snapshot | None = None
        self._seen = 0

    def stamp(self) -> str:
        """Return a text that differs whenever the index holds something else, or is damaged."""
        found = self._read(lambda: describe_files(self._folder, self._list_segments()))
        return f"{_FORMAT}:{found}"

    def documents(self) -> set[int]:
        """Return the ids of all documents that have a section here."""
        return self.snapshot().documents()

    def write(self, parts: Sequence[SectionArrays], dropped: set[int]) -> None:
        """Add sections and forget documents; readers see all of it or nothing."""
        from vaultmem.storage.index.codec import ArrayCodec

        index = self._open()
        writer = index.writer(codec=ArrayCodec(), timeout=30.0)
        try:
            segments = self._write_segment(parts, dropped, list(writer.segments))
        except BaseException:
            writer.cancel()
            raise
        with self._swap():
            writer.commit(mergetype=lambda _, __: segments)
            self._put_list(writer.generation, segments)
        self._forget_snapshot()

    def _write_segment(
        self, parts: Sequence[SectionArrays], dropped: set[int], old: list[Any]
    ) -> list[Any]:
        """Write one segment of these sections and of old segments; return all that are to stay."""
        from vaultmem.storage.index.batch import keep_sections
        from vaultmem.storage.index.codec import ArraySegment
        from vaultmem.storage.index.merging import choose_merge, find_dropped
        from vaultmem.storage.index.segment_decoding import decode_segment
        from vaultmem.storage.index.segment_encoding import encode_segment

        opened = {segment.file_name(): self._open_segment(segment.file_name()) for segment in old}
        merged = choose_merge(opened, sum(map(len, parts)), dropped)
        absorbed = []
        for name in sorted(merged):
            if not opened[name].file.is_whole():
                self._give_up()
            found = decode_segment(opened[name])
            absorbed.append(keep_sections(found, ~find_dropped(opened[name], dropped)))
        kept = [segment for segment in old if segment.file_name() not in merged]
        if not (size := sum(map(len, [*parts, *absorbed]))):
            return kept
        segment = ArraySegment(self._index.indexname, size)
        # No fsync: a power cut leaves a file of another size or time, which is built again.
        encoded = encode_segment([*parts, *absorbed])
        write_atomically(self._folder / segment.file_name(), encoded, durable=False)
        return [*kept, segment]

    def reset(self) -> None:
        """Empty the index; what is in it is set aside."""
        self.close()
        with self._swap():
            _set_aside(self._folder)

    def snapshot(self) -> Snapshot:
        """Return the index as it is now; the same object while nothing has changed.

        Raises:
            DamagedIndexError: it was set aside.
        """
        return self._read(self._take_snapshot)

    def _take_snapshot(self) -> Snapshot:
        seen = folder_time(self._folder)
        if self._snapshot is not None and self._seen == seen > 0:
            return self._snapshot
        listed = self._list_segments()
        if self._snapshot is None or self._snapshot.generation != listed.generation:
            parts = [self._open_segment(name) for name in listed.files]
            self._snapshot = Snapshot(listed.generation, parts)
        self._seen = seen if time.time_ns() - seen > _RACY_NS else 0
        return self._snapshot

    def _open_segment(self, name: str) -> SegmentArrays:
        try:
            return SegmentArrays.open(self._folder / name)
        except DamagedFileError:
            self._give_up()

    def _give_up(self) -> NoReturn:
        self.reset()
        raise DamagedIndexError(
            f"the index was damaged; it was set aside as {self._folder.name}.damaged and is built "
            "again: run the command again"
        )

    def _list_segments(self) -> SegmentList:
        """Return the newest generation and its segments, without Whoosh if possible."""
        listed = read_list(self._folder, _FORMAT)
        if listed is not None:
            return listed
        contents = self._read_contents()
        names = tuple(segment.file_name() for segment in contents.segments)
        return SegmentList(int(contents.generation), names)

    def _read_contents(self) -> Any:
        from whoosh.index import TOC

        index = self._open()
        return TOC.read(index.storage, index.indexname)

    def _put_list(self, generation: int, segments: list[Any]) -> None:
        names = tuple(segment.file_name() for segment in segments)
        with contextlib.suppress(OSError):
            write_list(self._folder, _FORMAT, SegmentList(generation, names))

    def find_damage(self) -> str:
        """Return why the index cannot be read, empty if each of its bytes is as it was written."""
        try:
            for name in self._list_segments().files:
                if not SegmentArrays.open(self._folder / name).file.is_whole():
                    return f"the index is damaged ({name} was changed)"
        except (OSError, DamagedFileError):
            return "the index is damaged (a segment is lost, or cut short)"
        return ""

    def close(self) -> None:
        """Forget what is open; the object can be used again afterwards."""
        self._forget_snapshot()
        self._index = None

    def _read(self, read: Callable[[], _T]) -> _T:
        """Return what is read; where a writer got in between, once more with writers held off.

        A segment's files never change, so what could be opened belongs together.
        """
        try:
            return read()
        except Exception as error:
            if not _is_gone(error):
                raise
        self._index = None  # Another process may have set aside what was opened.
        try:
            with self._swap():
                return read()
        except FileNotFoundError:
            self._give_up()

    def _open(self) -> Any:
        if self._index is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._index = self._open_existing()
        if self._index is None:
            with self._swap():
                self._index = self._open_existing() or self._create()
        return self._index

    def _open_existing(self) -> Any:
        """Return the index, None if there is none that can be read."""
        from whoosh import index

        try:
            if (self._folder / "format").read_text() != _FORMAT:
                return None
            found = index.open_dir(str(self._folder))
            found.schema.names()
        except Exception:  # noqa: BLE001 - whatever a damaged pickle raises: rebuild.
            return None
        return found

    def _create(self) -> Any:
        from whoosh import index

        from vaultmem.storage.index.schema import make_schema

        _set_aside(self._folder)
        created = index.create_in(str(self._folder), make_schema())
        (self._folder / "format").write_text(_FORMAT)
        return created

    def _swap(self) -> AbstractContextManager[None]:
        """Hold off others for the moment in which files of the index come and go."""
        return hold_lock(self._folder.with_name("index.lock"))

    def _forget_snapshot(self) -> None:
        self._snapshot = None


def _is_gone(error: Exception) -> bool:
    """Tell whether files of the index were not there."""
    if isinstance(error, OSError):
        return True
    from whoosh.index import EmptyIndexError

    return isinstance(error, EmptyIndexError)


def _set_aside(folder: Path) -> None:
    """Empty the folder, keeping its segments as `damaged` for whoever wants to look.

    An index without any is made when a damaged one is gone; it is not worth losing that one for.
    """
    import shutil

    aside = folder.with_name(folder.name + ".damaged")
    if any(folder.glob(f"*{SUFFIX}")):
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
