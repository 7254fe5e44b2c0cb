"""Bring manifest and index up to what is on disk: scan, compare, repair."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from vaultmem.services.reading import Outcome, read_notes
from vaultmem.storage.manifest import KnownFile
from vaultmem.storage.scan import Scan, Stat, scan_vault
from vaultmem.storage.segments import SegmentBatch
from vaultmem.vault import Vault

#: Called with (done, total) while many notes are read.
Progress = Callable[[int, int], None]

#: Documents a batch: what an interruption loses at most, and what one index segment holds.
BATCH_SIZE = 20_000

#: A file that changed this shortly (ns) before it was looked at is looked at again next time.
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
    looked = time.time_ns()
    scan = scan_vault(vault.root, vault.config.ignores if vault.config.ignore else None)
    if vault.state.get("scan") != scan.signature() or _is_index_behind(vault):
        with vault.lock(), _no_collection():
            _repair_index(vault)
            _apply(vault, scan, looked, report, progress)
    if vault.state.get("head") != _head_commit(vault):
        with vault.lock():
            _learn_commit_dates(vault)
    report.seconds = time.monotonic() - started
    return report


def sync_paths(vault: Vault, paths: Iterable[PurePosixPath]) -> None:
    """Take in what was just written to these paths, without looking at any other."""
    with vault.lock():
        names = [str(path) for path in paths]
        looked = time.time_ns()
        stats = {name: _stat_now(vault, name) for name in names}
        there = {name: stat for name, stat in stats.items() if stat is not None}
        known = vault.manifest.files(names)
        batch = _Batch(vault)
        with vault.state.transaction():
            for name, outcome in read_notes(vault.root, _known_blobs(there, known)):
                batch.take(name, _settled(there[name], looked), known.get(name), outcome)
            vault.manifest.drop_files(stats.keys() - there.keys())
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
    vault: Vault, scan: Scan, looked: int, report: SyncReport, progress: Progress | None
) -> None:
    found = _compare(vault, scan)
    known = vault.manifest.files([*found.notes, *found.gone])
    with vault.state.transaction():
        vault.manifest.drop_files(found.gone)
        for path in (*found.others, *found.unsafe):
            stat = scan.others.get(path, _NO_STAT)
            vault.manifest.put_file(path, KnownFile("", stat, None, scan.unsafe.get(path, "")))
        _finish_view(vault, (known[path] for path in found.gone))
    outcomes = read_notes(vault.root, _known_blobs(found.notes, known))
    for start in range(0, len(found.notes), BATCH_SIZE):
        paths = found.notes[start : start + BATCH_SIZE]
        batch = _Batch(vault)
        with vault.state.transaction():
            for number, (path, outcome) in enumerate(islice(outcomes, len(paths)), start):
                if progress is not None and number % 100 == 0:
                    progress(number, len(found.notes))
                batch.take(path, _settled(scan.notes[path], looked), known.get(path), outcome)
            _finish_view(vault, (known[path] for path in paths if path in known))
        batch.write()
    if not found.notes:
        _remember_index(vault)
    racy = any(_settled(scan.notes[path], looked) != scan.notes[path] for path in found.notes)
    vault.state.put("scan", "" if racy else scan.signature())
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

    def take(self, path: str, stat: Stat, known: KnownFile | None, outcome: Outcome) -> None:
        """Remember what was read at a path, and add the note unless these bytes are indexed."""
        manifest = self._vault.manifest
        note, blob, problem = outcome
        document = known.document if known is not None and known.blob == blob else None
        if note is not None:
            document = manifest.find_document(path, blob)
            if document is None:
                document = manifest.add_document(note)
                for section, counts in zip(note.sections, note.counts, strict=True):
                    self._segment.add(document, section.ordinal, counts)
        elif not blob and not problem:
            manifest.drop_files([path])
            return
        manifest.put_file(path, KnownFile(blob, stat, document, problem))

    def write(self) -> None:
        """Write the index after the database: a crash between leaves it behind, never ahead."""
        index = self._vault.index
        if len(self._segment):
            dropped = index.documents() - set(self._vault.manifest.view())
            index.write(self._segment, dropped)
        _remember_index(self._vault)


def _known_blobs(paths: Iterable[str], known: Mapping[str, KnownFile]) -> dict[str, str]:
    """Return the blob id of each path that is a note already, "" for the others."""
    return {
        path: known[path].blob if path in known and not known[path].problem else ""
        for path in paths
    }


def _settled(stat: Stat, looked: int) -> Stat:
    """Return what to remember of a file's stat, taken at `looked` (ns since the epoch).

    A file that had only just changed may change again within the same tick of the file system's
    clock; it gets a stat that no file has, and so is read again the next time.
    """
    fresh = looked - max(stat[1], stat[2]) < _RACY_NS
    return (stat[0], stat[1], 0, stat[3]) if fresh else stat


def _repair_index(vault: Vault) -> None:
    """Index again what the database knows and the index does not hold (it was interrupted)."""
    if not _is_index_behind(vault):
        return
    if vault.state.get("index") or not vault.state.get("view"):
        # Neither written by this database nor on its way: damaged, or left by a lost database
        # whose document numbers start again.
        vault.index.reset()
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
    vault.state.put("scan", "")
    vault.state.put("view", str(time.time_ns()))


def _remember_index(vault: Vault) -> None:
    vault.state.put("index", vault.index.stamp())


def _stat_now(vault: Vault, path: str) -> Stat | None:
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
