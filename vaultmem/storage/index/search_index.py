"""The inverted index: sections in, postings as arrays out (a Whoosh index of our own codec).

The index is a cache, and Whoosh's table of contents is a pickle: it lives in a private folder of
the user's, and any trouble with it means that it is set aside and built again. A section belongs to
a document id of the state database; which documents count is the reader's choice (a view).
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vaultmem.core.finding.terms import ANALYSIS_VERSION
from vaultmem.errors import DamagedError, VaultError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.index.array_file import DamagedFileError
from vaultmem.storage.index.segment_arrays import OWN_ARRAYS, SUFFIX, VERSION, SegmentArrays
from vaultmem.storage.index.segment_list import (
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

#: A folder that changed this shortly (ns) ago may change again within the same tick of its clock.
_RACY_NS = 100_000_000


class SearchIndex:
    """The index in one folder; open it once and use it for many searches and batches.

    Who reads changes nothing, whatever is found: only who holds the vault's lock may write, and
    `reset` what is damaged.
    """

    def __init__(self, folder: Path, patience: float = WRITER) -> None:
        self._folder = folder
        self._patience = patience
        self._snapshot: Snapshot | None = None
        #: What the snapshot is of, what proved to be damaged, and the folder's time when last read.
        self._listed: SegmentList | None = None
        self._damaged: SegmentList | None = None
        self._seen = 0

    def stamp(self) -> str:
        """Return a text that differs whenever the index holds something else.

        It is empty where there is no index, or a damaged one.
        """
        try:
            return f"{_FORMAT}:{self._read(self._describe)}"
        except DamagedError:
            return ""

    def _describe(self) -> str:
        listed = self._list_segments()
        if listed == self._damaged:
            raise DamagedFileError
        return describe_files(self._folder, listed)

    def documents(self) -> set[int]:
        """Return the ids of all documents that have a section here."""
        return self.snapshot().documents()

    def write(self, parts: Sequence[SectionArrays], dropped: set[int]) -> None:
        """Add sections and forget documents; readers see all of it or nothing.

        Raises:
            DamagedError: what is there cannot be added to.
        """
        from vaultmem.storage.index.codec import ArrayCodec

        with _whoosh_errors():
            existing = self._open_existing()
            index = existing[0] if existing else self._create()
            try:
                writer = index.writer(codec=ArrayCodec(), timeout=30.0)
            except OSError as error:
                traceback.clear_frames(error.__traceback__)  # A writer half made holds the index.
                raise
            try:
                name = index.indexname
                segments = self._write_segment(name, parts, dropped, list(writer.segments))
                with self._swap():
                    writer.commit(mergetype=lambda _, __: segments)
                    self._put_list(writer.generation, segments)
            except BaseException:
                if not writer.is_closed:  # Else this process would hold the index for good.
                    writer.cancel()
                raise
        self.close()

    def _write_segment(
        self, name: str, parts: Sequence[SectionArrays], dropped: set[int], old: list[Any]
    ) -> list[Any]:
        """Write one segment of these sections and of old segments; return all that are to stay."""
        from vaultmem.storage.index.batch import keep_sections
        from vaultmem.storage.index.codec import ArraySegment
        from vaultmem.storage.index.merging import choose_merge, find_dropped
        from vaultmem.storage.index.segment_encoding import decode_segment, encode_segment

        listed = self._list_segments()
        opened = {file: self._open_segment(listed, file) for file in listed.files}
        merged = choose_merge(opened, sum(map(len, parts)), dropped)
        absorbed = []
        for file in sorted(merged):
            if not opened[file].file.is_whole():
                self._damaged = listed
                raise DamagedFileError
            found = decode_segment(opened[file])
            absorbed.append(keep_sections(found, ~find_dropped(opened[file], dropped)))
        kept = [segment for segment in old if segment.file_name() not in merged]
        if not (size := sum(map(len, [*parts, *absorbed]))):
            return kept
        segment = ArraySegment(name, size)
        # No fsync: a power cut leaves a file of another size or time, which is built again.
        encoded = encode_segment([*parts, *absorbed])
        write_atomically(self._folder / segment.file_name(), encoded, durable=False)
        return [*kept, segment]

    def reset(self) -> None:
        """Empty the index; what is in it is set aside."""
        self.close()
        with _whoosh_errors():
            self._create()

    def snapshot(self) -> Snapshot:
        """Return the index as it is now; the same object while nothing has changed.

        Raises:
            DamagedError: there is none, or it is damaged.
        """
        return self._read(self._take_snapshot)

    def is_as_read(self) -> bool:
        """Tell whether nobody wrote to a file that the last snapshot reads from."""
        if self._snapshot is None or self._snapshot.is_as_opened():
            return True
        self._damaged = self._listed
        self.close()
        return False

    def _take_snapshot(self) -> Snapshot:
        seen = folder_time(self._folder)
        if self._snapshot is not None and self._seen == seen > 0:
            return self._snapshot
        listed = self._list_segments()
        if self._snapshot is None or self._listed != listed:
            parts = [self._open_segment(listed, name) for name in listed.files]
            self._snapshot, self._listed = Snapshot(listed.generation, parts), listed
        self._seen = seen if time.time_ns() - seen > _RACY_NS else 0
        return self._snapshot

    def _open_segment(self, listed: SegmentList, name: str) -> SegmentArrays:
        """Open a segment, which has to be one of those that are written in bulk."""
        try:
            found = SegmentArrays.open(self._folder / name)
            written = dict(zip(listed.files, listed.marks, strict=False))
            is_ours = OWN_ARRAYS.issubset(found.file.names())
            if not is_ours or written.get(name, found.file.mark) != found.file.mark:
                raise DamagedFileError
        except DamagedFileError:
            self._damaged = listed
            raise
        return found

    def _list_segments(self) -> SegmentList:
        """Return the newest generation and its segments, without Whoosh if possible."""
        listed = read_list(self._folder, _FORMAT)
        if listed is not None:
            return listed
        existing = self._open_existing()
        if existing is None:
            raise DamagedFileError
        return existing[1]

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
        except (OSError, DamagedError):
            return "the index is damaged (a segment is lost, or cut short)"
        return ""

    def close(self) -> None:
        """Forget what is open; the object can be used again afterwards."""
        self._snapshot = self._listed = None

    def _read(self, read: Callable[[], _T]) -> _T:
        """Return what is read; where a writer got in between, once more with writers held off.

        A segment's files never change, so what could be opened belongs together.
        """
        with contextlib.suppress(FileNotFoundError, DamagedError):
            return read()
        try:
            with self._swap():
                return read()
        except FileNotFoundError as error:
            raise DamagedFileError from error

    def _open_existing(self) -> tuple[Any, SegmentList] | None:
        """Return the index and what it lists, None if there is none that can be read."""
        from whoosh import index

        try:
            if (self._folder / "format").read_text() != _FORMAT:
                return None
            found = index.open_dir(str(self._folder))
            contents = index.TOC.read(found.storage, found.indexname)
            contents.schema.names()
            names = tuple(segment.file_name() for segment in contents.segments)
            return found, SegmentList(int(contents.generation), names)
        except FileNotFoundError:
            return None
        except OSError:
            raise
        except Exception:  # noqa: BLE001 - whatever a damaged pickle raises: rebuild.
            return None

    def _create(self) -> Any:
        from whoosh import index

        from vaultmem.storage.index.schema import make_schema

        with self._swap():
            _set_aside(self._folder)
            created = index.create_in(str(self._folder), make_schema())
            (self._folder / "format").write_text(_FORMAT)
        return created

    def _swap(self) -> AbstractContextManager[None]:
        """Hold off others for the moment in which files of the index come and go."""
        return hold_lock(self._folder.with_name("index.lock"), self._patience)


@contextlib.contextmanager
def _whoosh_errors() -> Iterator[None]:
    """Let what Whoosh raises be errors of ours, and a folder that went away damage."""
    from whoosh import index

    try:
        yield
    except index.LockError as error:
        raise VaultError("the index is in use by another process; try again") from error
    except (index.IndexError, FileNotFoundError) as error:
        raise DamagedFileError from error


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
