"""Bring manifest and index up to what is on disk: scan, compare, repair."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.paths import is_note_name
from vaultmem.errors import DamagedError, naming_faults
from vaultmem.services.reading.indexing import (
    Batch,
    Progress,
    finish_view,
    is_index_behind,
    no_collection,
    remember_index,
    repair_index,
)
from vaultmem.services.reading.leftovers import clear_leftovers
from vaultmem.services.reading.note_rules import read_note_rules
from vaultmem.services.reading.recovery import recover
from vaultmem.services.reading.withdraw import find_in_force, review_files, write_withdrawals
from vaultmem.storage.scan import Scan, Stat, scan_vault
from vaultmem.storage.views import KnownFile
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.reading.chunk import Chunk, Job

#: A file that changed this shortly (ns) before it was looked at is looked at again next time.
_RACY_NS = 100_000_000

#: How often a sync begins again where it finds damage: once for the database, once for the index.
_ATTEMPTS = 2

#: Seconds after which what was read is written, for an interruption to leave it.
_KEPT_AFTER = 3.0

_NO_STAT: Stat = (0, 0, 0, 0)


class SyncReport:
    """What a sync did, by number of notes; `seconds` is wall time."""

    read = 0
    added = 0
    changed = 0
    removed = 0
    seconds = 0.0


def sync_vault(vault: Vault, progress: Progress | None = None) -> SyncReport:
    """Make the index equal to the folder; interrupted anywhere, the next call goes on.

    Nothing is written where nothing changed. Index or database that prove to be damaged meanwhile
    are built again.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(DamagedError):
            return _sync_vault(vault, progress)
    return _sync_vault(vault, progress)


def _sync_vault(vault: Vault, progress: Progress | None) -> SyncReport:
    started = time.monotonic()
    report = SyncReport()
    recover(vault)
    rules = read_note_rules(vault)
    looked = time.time_ns()
    scan = scan_vault(vault.root, rules.for_scan)
    if clear_leftovers(vault, scan):
        looked, scan = time.time_ns(), scan_vault(vault.root, rules.for_scan)
    known = (vault.state.get("scan"), vault.state.get("note_rules"))
    if known != (scan.signature(), rules.key) or is_index_behind(vault):
        with naming_faults("the index is not updated"), vault.lock_caches(), no_collection():
            if vault.state.get("note_rules").partition("\n")[0] != rules.key.partition("\n")[0]:
                vault.index.reset()  # Notes are dated otherwise, so all are read again.
            repair_index(vault)
            _apply(vault, scan, rules.key, looked, report, progress)
    if vault.state.get("head") != _head_commit(vault):
        from vaultmem.services.reading.commits import learn_commits

        with vault.lock_caches():
            learn_commits(vault)
    write_withdrawals(vault)
    mark_in_sync(vault)
    report.seconds = time.monotonic() - started
    return report


def mark_in_sync(vault: Vault) -> None:
    """Note that somebody has brought the vault up to date since its database was opened."""
    vault.notices.stale = ""
    vault.state.get("scan")  # Opening the database drops what is kept beside it.
    vault.state.kept["in_sync"] = ("", True)


def count_indexed(vault: Vault) -> tuple[int, int]:
    """Return how many of the folder's notes are indexed as they are, and how many there are."""
    scan = scan_vault(vault.root, read_note_rules(vault).for_scan)
    notes, known = scan.notes, vault.manifest.stats()
    same = (known.get(path, _NO_STAT)[:2] == stat[:2] for path, stat in notes.items())
    return sum(same), len(notes)


def sync_paths(vault: Vault, paths: Iterable[PurePosixPath]) -> None:
    """Take in what was just written to these paths, without looking at any other.

    Where the index is behind already, or damaged, it is mended with this.
    """
    with vault.lock_caches():
        with contextlib.suppress(DamagedError):
            if vault.postpones_index or not is_index_behind(vault):
                _take_paths(vault, [str(path) for path in paths])
                return
        sync_vault(vault)


def _take_paths(vault: Vault, names: list[str]) -> None:
    from vaultmem.services.reading.chunk import read_notes

    looked = time.time_ns()
    stats = {name: stat_now(vault, name) for name in names}
    there = {name: stat for name, stat in stats.items() if stat is not None}
    aside = read_note_rules(vault).aside
    others = {
        name: KnownFile("", stat, None, "")
        for name, stat in there.items()
        if not is_note_name(name) or aside.why(name)
    }
    known = vault.manifest.files(names)
    batch = Batch(vault)
    settled = {name: _settled(stat, looked) for name, stat in there.items()}
    in_force = find_in_force(vault, names)
    with vault.state.transaction():
        vault.manifest.put_files(others)
        notes = {name: stat for name, stat in there.items() if name not in others}
        for jobs, chunk in read_notes(vault.root, _jobs(notes, known)):
            _take(batch, vault, jobs, chunk, settled, known)
        vault.manifest.drop_files(stats.keys() - there.keys())
        review_files(vault, in_force, names)
        finish_view(vault, known.values())
    write_withdrawals(vault)
    if not vault.postpones_index:
        batch.write()


class _Difference(NamedTuple):
    """Paths at which the folder and the manifest differ."""

    notes: list[str]
    others: list[str]
    unsafe: list[str]
    gone: list[str]

    def __bool__(self) -> bool:
        return bool(self.notes or self.others or self.unsafe or self.gone)


def _compare(vault: Vault, scan: Scan, rules: str) -> _Difference:
    known = _known_stats(vault, scan, rules)
    notes = [path for path, stat in scan.notes.items() if known.get(path) != stat]
    others = [path for path, stat in scan.others.items() if known.get(path) != stat]
    unsafe = [
        path for path in scan.unsafe if path not in scan.others and known.get(path) != _NO_STAT
    ]
    files = len(scan.notes) + len(scan.others) + len(scan.unsafe.keys() - scan.others.keys())
    gone: list[str] = []
    if len(known) + sum(path not in known for path in (*notes, *others, *unsafe)) != files:
        gone = [*(known.keys() - scan.notes.keys() - scan.others.keys() - scan.unsafe.keys())]
    return _Difference(notes, others, unsafe, gone)


def _known_stats(vault: Vault, scan: Scan, rules: str) -> dict[str, Stat]:
    """Return what was seen of each file, but of those that other rules make a note, or none."""
    known = vault.manifest.stats()
    if vault.state.get("note_rules") != rules:
        for path, file in vault.manifest.files().items():
            was_note = file.document is not None or bool(file.problem)
            if was_note != (path in scan.notes or path in scan.unsafe):
                known[path] = _NO_STAT
    return known


def _apply(
    vault: Vault,
    scan: Scan,
    rules: str,
    looked: int,
    report: SyncReport,
    progress: Progress | None,
) -> None:
    from vaultmem.services.reading.chunk import read_notes

    found = _compare(vault, scan, rules)
    no_notes = [*found.others, *found.unsafe]
    known = vault.manifest.files([*found.notes, *no_notes, *found.gone])
    replaced = [known[path] for path in (*found.gone, *no_notes) if path in known]
    in_force = find_in_force(vault, (*found.notes, *no_notes, *found.gone))
    with vault.state.transaction():
        vault.manifest.drop_files(found.gone)
        vault.manifest.put_files(
            {
                path: KnownFile(
                    "", scan.others.get(path, _NO_STAT), None, scan.unsafe.get(path, "")
                )
                for path in no_notes
            }
        )
        review_files(vault, in_force, (*no_notes, *found.gone))
        finish_view(vault, replaced)
    jobs = _jobs({path: scan.notes[path] for path in found.notes}, known)
    settled = {path: _settled(scan.notes[path], looked) for path in found.notes}
    chunks = read_notes(vault.root, jobs)
    done = 0
    while done < len(jobs):
        batch, begun = Batch(vault), time.monotonic()
        with vault.state.transaction():
            for some, chunk in chunks:
                report.changed += _take(batch, vault, some, chunk, settled, known)
                review_files(vault, in_force, [job.path for job in some])
                finish_view(vault, (known[job.path] for job in some if job.path in known))
                done += len(some)
                if progress is not None:
                    progress(done, len(jobs))
                if batch.is_full or time.monotonic() - begun > _KEPT_AFTER:
                    break
        batch.write()
    if not found.notes:
        remember_index(vault)
    racy = any(settled[path] != scan.notes[path] for path in found.notes)
    vault.state.put("scan", "" if racy else scan.signature())
    vault.state.put("note_rules", rules)
    report.read = len(found.notes)
    report.added = sum(path not in known for path in found.notes)
    report.removed = sum(file.document is not None for file in replaced)


def _take(
    batch: Batch,
    vault: Vault,
    jobs: Sequence[Job],
    chunk: Chunk,
    stats: Mapping[str, Stat],
    known: Mapping[str, KnownFile],
) -> int:
    """Remember what was read at some paths, and add notes unless their bytes are indexed.

    Return at how many of the paths that were known other bytes are now.
    """
    from vaultmem.services.reading.doubt import settle

    changed = 0
    gone: list[str] = []
    found: dict[str, KnownFile] = {}
    documents = batch.add(jobs, chunk)
    settled = settle(vault, _head_commit(vault), batch, jobs, chunk, known)
    for job, (note, blob, problem, _), document in zip(
        jobs, chunk.readings, documents, strict=True
    ):
        before = known.get(job.path)
        if note is None and not blob and not problem:
            gone.append(job.path)
            continue
        if job.path in settled:
            document, problem = settled[job.path]
        elif note is None and before is not None and before.blob == blob:
            document = before.document
        found[job.path] = KnownFile(blob, stats[job.path], document, problem)
        changed += before is not None and before.blob != blob
    vault.manifest.drop_files(gone)
    vault.manifest.put_files(found)
    return changed


def _jobs(stats: Mapping[str, Stat], known: Mapping[str, KnownFile]) -> list[Job]:
    """Return what to read: with the blob id of each path that is a note already."""
    from vaultmem.services.reading.chunk import Job

    return [
        Job(
            path,
            file.blob if file and file.document is not None and not file.problem else "",
            stat[0],
        )
        for path, stat in stats.items()
        for file in [known.get(path)]
    ]


def _settled(stat: Stat, looked: int) -> Stat:
    """Return what to remember of a file's stat, taken at `looked` (ns since the epoch).

    A file that had only just changed may change again within the same tick of the file system's
    clock; it gets a stat that no file has, and so is read again the next time.
    """
    fresh = looked - max(stat[1], stat[2]) < _RACY_NS
    return (stat[0], stat[1], 0, stat[3]) if fresh else stat


def stat_now(vault: Vault, path: str) -> Stat | None:
    """Return what the file system says of a path now, None if nothing is there to be seen."""
    try:
        status = (vault.root / path).lstat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _head_commit(vault: Vault) -> str:
    head = vault.head()
    return head.commit if head is not None else ""
