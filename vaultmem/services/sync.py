"""Bring manifest and index up to what is on disk: scan, compare, repair."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.record import index_texts
from vaultmem.core.terms import count_terms
from vaultmem.core.tokens import count_tokens
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.manifest import KnownFile
from vaultmem.storage.scan import Scan, Stat, scan_vault
from vaultmem.storage.segments import SegmentBatch
from vaultmem.vault import Vault

#: Called with (done, total) while many notes are read.
Progress = Callable[[int, int], None]

#: Documents a batch: what an interruption loses at most, and what one index segment holds.
BATCH_SIZE = 5_000

#: A file that changed this shortly (ns) before it was read may change again within the same tick
#: of the file system's clock, so it is looked at again the next time.
_RACY_NS = 100_000_000

_NO_STAT: Stat = (0, 0, 0, 0)


@dataclass
class SyncReport:
    """What a sync did, by number of notes; `seconds` is wall time."""

    read: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    seconds: float = 0.0


def sync_vault(vault: Vault, progress: Progress | None = None) -> SyncReport:
    """Make the index equal to the folder; interrupted anywhere, the next call goes on.

    Nothing is written where nothing changed.
    """
    started = time.monotonic()
    report = SyncReport()
    scan = scan_vault(vault.root, vault.config.ignores)
    if _compare(vault, scan) or _is_index_behind(vault):
        with vault.lock(), _no_collection():
            _repair_index(vault)
            _apply(vault, scan, _compare(vault, scan), report, progress)
    if vault.state.get("head") != _head_commit(vault):
        with vault.lock():
            _learn_commit_dates(vault)
    report.seconds = time.monotonic() - started
    return report


def sync_paths(vault: Vault, paths: Iterable[PurePosixPath]) -> None:
    """Take in what was just written to these paths, without looking at any other."""
    with vault.lock():
        known = vault.manifest.files([str(path) for path in paths])
        batch, gone = _Batch(vault), []
        with vault.state.transaction():
            for path in paths:
                stat = _stat_now(vault, path)
                if stat is None:
                    gone.append(str(path))
                else:
                    _take_note(vault, str(path), stat, known.get(str(path)), batch)
            vault.manifest.drop_files(gone)
            _finish_view(vault, known.values())
        batch.write()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Let Python look for reference cycles later: a batch makes none, and many objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(slots=True)
class _Difference:
    """Paths at which the folder and the manifest differ."""

    notes: list[str]
    others: list[str]
    unsafe: list[str]
    gone: list[str]

    def __bool__(self) -> bool:
        return bool(self.notes or self.others or self.unsafe or self.gone)


def _compare(vault: Vault, scan: Scan) -> _Difference:
    known = vault.manifest.stats()
    notes = [path for path, stat in scan.notes.items() if known.get(path) != stat]
    others = [path for path, stat in scan.others.items() if known.get(path) != stat]
    unsafe = [path for path in scan.unsafe if path not in known and path not in scan.others]
    files = len(scan.notes) + len(scan.others) + len(scan.unsafe.keys() - scan.others.keys())
    gone: list[str] = []
    if len(known) + sum(path not in known for path in (*notes, *others)) + len(unsafe) != files:
        gone = [*(known.keys() - scan.notes.keys() - scan.others.keys() - scan.unsafe.keys())]
    return _Difference(notes, others, unsafe, gone)


def _is_index_behind(vault: Vault) -> bool:
    return vault.state.get("index") != vault.index.stamp()


def _apply(
    vault: Vault, scan: Scan, found: _Difference, report: SyncReport, progress: Progress | None
) -> None:
    known = vault.manifest.files([*found.notes, *found.gone])
    with vault.state.transaction():
        vault.manifest.drop_files(found.gone)
        for path in (*found.others, *found.unsafe):
            stat = scan.others.get(path, _NO_STAT)
            vault.manifest.put_file(path, KnownFile("", stat, None, scan.unsafe.get(path, "")))
        _finish_view(vault, (known[path] for path in found.gone))
    for start in range(0, len(found.notes), BATCH_SIZE):
        paths = found.notes[start : start + BATCH_SIZE]
        batch = _Batch(vault)
        with vault.state.transaction():
            for number, path in enumerate(paths, start):
                if progress is not None and number % 100 == 0:
                    progress(number, len(found.notes))
                _take_note(vault, path, scan.notes[path], known.get(path), batch)
            _finish_view(vault, (known[path] for path in paths if path in known))
        batch.write()
    if not found.notes:
        _remember_index(vault)
    if progress is not None:
        progress(len(found.notes), len(found.notes))
    report.read = len(found.notes)
    report.added = sum(path not in known for path in found.notes)
    report.changed = len(found.notes) - report.added
    report.removed = sum(known[path].document is not None for path in found.gone)


class _Batch:
    """Documents on their way into the index."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._segment = SegmentBatch()

    def add(self, note: Note, document: int) -> None:
        for section in note.sections:
            texts = index_texts(note, section.ordinal)
            counts = {name: count_terms(text) for name, text in texts.items()}
            self._segment.add(document, section.ordinal, counts)

    def write(self) -> None:
        """Write the index after the database: a crash between leaves it behind, never ahead."""
        index = self._vault.index
        if len(self._segment):
            dropped = index.documents() - set(self._vault.manifest.view())
            index.write(self._segment, dropped)
        _remember_index(self._vault)


def _take_note(vault: Vault, path: str, stat: Stat, known: KnownFile | None, batch: _Batch) -> None:
    """Read a note, remember it and add it to the batch unless these bytes are indexed."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except NoteNotFoundError:
        vault.manifest.drop_files([path])
        return
    except UnsafeFileError as error:
        problem = str(error).removeprefix(f"{path}: ")
        vault.manifest.put_file(path, KnownFile("", stat, None, problem))
        return
    if time.time_ns() - max(stat[1], stat[2]) < _RACY_NS:
        stat = (stat[0], stat[1], 0, stat[3])
    blob = blob_id(data)
    if known is not None and known.blob == blob and not known.problem:
        vault.manifest.put_file(path, KnownFile(blob, stat, known.document, ""))
        return
    try:
        document = vault.manifest.find_document(path, blob)
        if document is None:
            note = parse_note(PurePosixPath(path), data)
            document = vault.manifest.add_document(note, count_tokens(note.text))
            batch.add(note, document)
        vault.manifest.put_file(path, KnownFile(blob, stat, document, ""))
    except UnreadableNoteError as error:
        vault.manifest.put_file(path, KnownFile(blob, stat, None, str(error)))


def _repair_index(vault: Vault) -> None:
    """Index again what the database knows and the index does not hold (it was interrupted)."""
    if not _is_index_behind(vault):
        return
    held = vault.index.documents()
    lost = [record for record in vault.manifest.records() if record.document not in held]
    if not lost:
        return
    with vault.state.transaction():
        vault.manifest.drop_files([record.path for record in lost])
        vault.manifest.drop_documents([record.document for record in lost])


def _finish_view(vault: Vault, replaced: Iterable[KnownFile]) -> None:
    """End a change of the view; until the index is written too, it counts as behind."""
    documents = [file.document for file in replaced if file.document is not None]
    vault.manifest.drop_documents(documents)
    vault.state.put("index", "")
    vault.state.put("view", str(time.time_ns()))


def _remember_index(vault: Vault) -> None:
    vault.state.put("index", vault.index.stamp())


def _stat_now(vault: Vault, path: PurePosixPath) -> Stat | None:
    try:
        status = (vault.root / path).lstat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _head_commit(vault: Vault) -> str:
    head = vault.head()
    return head.commit if head is not None else ""


def _learn_commit_dates(vault: Vault) -> None:
    """Ask git since when it has had each note, for the commits that are new since last time."""
    commit, before = _head_commit(vault), vault.state.get("head")
    if commit:
        dates = vault.history.commit_dates(commit, before)
        with vault.state.transaction():
            vault.manifest.put_commit_dates(dates)
            vault.state.put("head", commit)
            vault.state.put("head_time", str(vault.history.commit_time(commit)))
