"""Update manifest and index from the files on disk: recover, scan, compare, read, index.

Each read or write of a vault starts here. Reading never waits for a writer, and is repeated if
database or index prove to be damaged.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from vaultmem.config import Config
from vaultmem.core.clients.auto_memory import find_writer
from vaultmem.core.notes.obsidian import DailyNotes, SetAside, find_set_aside
from vaultmem.core.text.paths import TRANSCRIPTS, is_note_name
from vaultmem.errors import (
    DamagedError,
    LockTimeoutError,
    SystemFailureError,
    VaultError,
    wrap_os_error,
    wrapping_os_errors,
)
from vaultmem.services.views.read_index import (
    Batch,
    Progress,
    finish_view,
    is_index_stale,
    no_collection,
    remember_index,
    repair_index,
)
from vaultmem.services.views.recovery import recover
from vaultmem.services.views.withdraw import (
    find_in_force,
    review_commits,
    review_files,
    write_withdrawals,
)
from vaultmem.storage.arrivals import add_waiting
from vaultmem.storage.displaced_files import clear_leftover, find_leftovers
from vaultmem.storage.git.git_locks import GitLocation, has_own_locks, remove_left_locks
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.introduced import Brought, date_brought, find_brought
from vaultmem.storage.lock import READER, WRITER, hold_lock
from vaultmem.storage.scan_files import Rules, Scan, SkippedFiles, Stat, scan_vault
from vaultmem.storage.views import KnownFile
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.views.chunk import Chunk, ReadJob
    from vaultmem.storage.git.log import Commit

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Read = Callable[Concatenate[Vault, _P], _T]

#: A file changed less than this (ns) before the scan is read again next time.
_RACY_NS = 100_000_000

#: Repairs before giving up: one for the database, one for the index.
_ATTEMPTS = 2

#: Seconds after which a batch is written, so that an interruption keeps it.
_KEPT_AFTER = 3.0

_NO_STAT: Stat = (0, 0, 0, 0)

#: Whether a caller already repeats the read: document numbers are invalid after a rebuild.
_is_inside: ContextVar[bool] = ContextVar("is_inside", default=False)


class IndexReport:
    """The result of a sync, in numbers of notes; `seconds` is wall time.

    `is_full` means that the whole folder was scanned. `is_racy` means that a file had just changed
    and is read again next time.
    """

    read = 0
    added = 0
    changed = 0
    removed = 0
    seconds = 0.0
    is_full = False
    is_racy = False

    def __str__(self) -> str:
        """Return a short summary, "" if nothing was new."""
        counts = ((self.added, "new"), (self.changed, "changed"), (self.removed, "gone"))
        return ", ".join(f"{count:,} {name}" for count, name in counts if count)


def sync_vault(vault: Vault, progress: Progress | None = None) -> IndexReport:
    """Update the index from the folder; after an interruption, the next call continues.

    Without changes, nothing is written. A damaged index or database is rebuilt.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(DamagedError):
            return _sync_vault(vault, progress)
    return _sync_vault(vault, progress)


def update_index_nonblocking(vault: Vault, progress: Progress | None = None) -> IndexReport:
    """Update the index as `sync_vault` does, if that is possible without a long wait."""
    return read_nonblocking(vault, lambda brief: sync_vault(brief, progress)) or IndexReport()


def sync_once(vault: Vault, progress: Progress | None = None) -> None:
    """Update the index, unless that was tried since the vault was opened."""
    if "in_sync" not in vault.state.kept and not vault.notices.stale:
        update_index_nonblocking(vault, progress)


def read_nonblocking(vault: Vault, sync: Callable[[Vault], _T]) -> _T | None:
    """Update the index by `sync`, unless others are writing or the disk is full.

    In these cases the old index is used, `vault.notices.stale` is the reason, and None is
    returned. The first build of an index is waited for.

    Raises:
        LockTimeoutError: there is no index yet, and its builder is stuck.
    """
    try:
        return sync(replace(vault, patience=min(vault.patience, READER)))
    except (OSError, SystemFailureError) as error:  # A full disk can still be read.
        if not _has_index(vault):
            raise
        fault = error.fault if isinstance(error, SystemFailureError) else wrap_os_error(error)
        vault.notices.stale = f"without what was saved since the last look: {fault}"
    except LockTimeoutError as error:
        if not _has_index(vault):
            return _wait_for_index(vault, sync)
        vault.notices.stale = f"without what was saved since the last look: {error}"
    return None


def _has_index(vault: Vault) -> bool:
    """Return whether there is an index; the first one is written after the database."""
    return bool(vault.state.get("view") and vault.index.stamp())


def _wait_for_index(vault: Vault, sync: Callable[[Vault], _T]) -> _T:
    try:
        return sync(replace(vault, patience=WRITER))
    except LockTimeoutError as error:
        raise LockTimeoutError(f"there is no index yet, and {error}") from None


def retries_after_rebuild(read: _Read[_P, _T]) -> _Read[_P, _T]:
    """Decorate a read: if it finds damage, sync the vault and read again.

    A sync of the folder does not repair a view of commits. There, DamagedError means that it must
    be opened again.
    """

    @wraps(read)
    def reading(vault: Vault, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return read_healed([vault], lambda: read(vault, *args, **kwargs))

    return reading


def read_healed(vaults: Sequence[Vault], read: Callable[[], _T]) -> _T:
    """Return a read of several vaults, retried as by `retries_after_rebuild`."""
    if _is_inside.get():
        return read()
    token = _is_inside.set(True)
    try:
        return _try(vaults, read)
    finally:
        _is_inside.reset(token)


def _try(vaults: Sequence[Vault], read: Callable[[], _T]) -> _T:
    in_folders = all(each.view.is_work_tree for each in vaults)
    for _ in range(_ATTEMPTS):
        try:
            found = read()
            if all(each.index.is_as_read() for each in vaults):
                return found
        except DamagedError:
            if not in_folders:
                raise
        except Exception:
            if all(each.index.is_as_read() for each in vaults):
                raise  # No damaged file is the cause.
        if not in_folders:
            raise DamagedError("the index was damaged; run the command again")
        for each in vaults:
            sync_vault(each)
    return read()


def mark_in_sync(vault: Vault) -> None:
    """Record that the vault was updated since its database was opened."""
    vault.notices.stale = ""
    vault.state.get("scan")  # Opening the database clears `kept`.
    vault.state.kept["in_sync"] = ("", True)


def count_indexed(vault: Vault) -> tuple[int, int]:
    """Return how many of the folder's notes are indexed and unchanged, and how many there are."""
    scan = scan_vault(vault.root, read_note_rules(vault).for_scan)
    notes, known = scan.notes, vault.manifest.stats()
    same = (known.get(path, _NO_STAT)[:2] == stat[:2] for path, stat in notes.items())
    return sum(same), len(notes)


def find_skipped_files(vault: Vault) -> SkippedFiles:
    """Return the files that the last scan skipped; scan now if there was none."""
    if "skipped" not in vault.state.kept:
        return scan_vault(vault.root, read_note_rules(vault).for_scan).skipped
    found: SkippedFiles = vault.state.kept["skipped"][1]
    return found


def sync_paths(vault: Vault, paths: Iterable[PurePosixPath]) -> IndexReport:
    """Index the files just written to these paths, without scanning others.

    If the index is out of date or damaged, it is rebuilt.
    """
    with vault.lock_caches():
        with contextlib.suppress(DamagedError):
            if vault.postpones_index or not is_index_stale(vault):
                looked = time.time_ns()
                found = _scan_paths(vault, [str(path) for path in paths])
                report = _update(vault, found, looked, has_index=not vault.postpones_index)
                write_withdrawals(vault)
                return report
        return sync_vault(vault)


class NoteRules(NamedTuple):
    """The rules at one time; read them once for many paths.

    `key` changes if Obsidian's settings make other files notes; its line 1 changes if they date
    notes differently.
    """

    config: Config
    aside: SetAside
    key: str

    def why_not(self, path: str) -> str:
        """Return the rule by which a markdown file is not a note, "" if it is one."""
        if self.config.is_ignored(path):
            return "ignored by vaultmem.yaml"
        return self.aside.why(path)

    @property
    def for_scan(self) -> Rules:
        """The rules in the form for a scan."""
        config, aside = self.config, self.aside
        ignores = config.ignores if config.ignore or config.generated else None
        return ignores, aside.why if aside else None


def read_note_rules(vault: Vault) -> NoteRules:
    """Return the present rules from the vault's and Obsidian's settings."""
    told = vault.store.obsidian
    dates = "" if told.daily.format == DailyNotes().format else repr(told.daily)
    aside = (told.template_folders, told.templates, told.excluded)
    key = f"{dates}\n{aside!r}" if dates or any(aside) else ""
    return NoteRules(vault.config, find_set_aside(told), key)


def _sync_vault(vault: Vault, progress: Progress | None) -> IndexReport:
    started = time.monotonic()
    report = IndexReport()
    recover(vault)
    rules = read_note_rules(vault)
    looked = time.time_ns()
    scan = scan_vault(vault.root, rules.for_scan)
    if _clear_leftovers(vault, scan):
        looked, scan = time.time_ns(), scan_vault(vault.root, rules.for_scan)
    known = (vault.state.get("scan"), vault.state.get("note_rules"))
    vault.state.kept["skipped"] = ("", scan.skipped)
    if known != (scan.signature(), rules.key) or is_index_stale(vault):
        with wrapping_os_errors("the index is not updated"), vault.lock_caches(), no_collection():
            if vault.state.get("note_rules").partition("\n")[0] != rules.key.partition("\n")[0]:
                vault.index.reset()  # Dates change, so all are read again.
            repair_index(vault)
            report = _update(vault, _compare(vault, scan, rules.key), looked, progress)
            vault.state.put("scan", "" if report.is_racy else scan.signature())
            vault.state.put("note_rules", rules.key)
    if vault.state.get("head") != _head_commit(vault):
        with vault.lock_caches():
            _learn_commits(vault)
    write_withdrawals(vault)
    mark_in_sync(vault)
    report.is_full = True
    report.seconds = time.monotonic() - started
    return report


def _clear_leftovers(vault: Vault, scan: Scan) -> bool:
    """Remove leftovers of interrupted writes; return whether one restored a user's text.

    If another process is writing to the vault, a later command does this.
    """
    for file in find_leftovers(vault.state_folder):
        clear_leftover(file, is_held=False)
    if has_own_locks(vault.state_folder) and (found := find_git_folder(vault.root)):
        with contextlib.suppress(VaultError):
            remove_left_locks(GitLocation(*found, vault.state_folder))
    unread = find_leftovers(vault.root / TRANSCRIPTS)  # Scans skip that folder.
    left = [*(vault.root / path for path in scan.leftovers), *unread]
    if not left:
        return False
    kept: list[Path | None] = []
    with contextlib.suppress(VaultError, OSError), hold_lock(vault.state_folder / "lock", 0.0):
        kept = [clear_leftover(file) for file in left]
    return any(kept)


class _Difference(NamedTuple):
    """Paths at which folder and manifest differ: notes to read, other files, and gone."""

    notes: Mapping[str, Stat]
    others: Mapping[str, KnownFile]
    gone: Sequence[str]


def _compare(vault: Vault, scan: Scan, rules: str) -> _Difference:
    known = _known_stats(vault, scan, rules)
    others = {path: KnownFile("", _NO_STAT, None, why) for path, why in scan.unsafe.items()}
    for path, stat in scan.others.items():
        others[path] = KnownFile("", stat, None, scan.unsafe.get(path, ""))
    return _Difference(
        {path: stat for path, stat in scan.notes.items() if known.get(path) != stat},
        {path: file for path, file in others.items() if known.get(path) != file.stat},
        [path for path in known if path not in scan.notes and path not in others],
    )


def _known_stats(vault: Vault, scan: Scan, rules: str) -> dict[str, Stat]:
    """Return the known file stats, except where new rules change what is a note."""
    known = vault.manifest.stats()
    if vault.state.get("note_rules") != rules:
        for path, file in vault.manifest.files().items():
            was_note = file.document is not None or bool(file.problem)
            if was_note != (path in scan.notes or path in scan.unsafe):
                known[path] = _NO_STAT
    return known


def _scan_paths(vault: Vault, names: Sequence[str]) -> _Difference:
    """Return the files at some paths, treated as if all of them differed."""
    aside = read_note_rules(vault).aside
    there = {name: stat for name in names if (stat := stat_now(vault, name)) is not None}
    others = {
        name: KnownFile("", stat, None, "")
        for name, stat in there.items()
        if not is_note_name(name) or aside.why(name)
    }
    notes = {name: stat for name, stat in there.items() if name not in others}
    return _Difference(notes, others, [name for name in names if name not in there])


def _update(
    vault: Vault,
    found: _Difference,
    looked: int,
    progress: Progress | None = None,
    has_index: bool = True,
) -> IndexReport:
    """Update the manifest, and the index unless it has to wait (`has_index` is False).

    The folder was scanned at `looked`, in ns since the epoch.
    """
    from vaultmem.services.views.chunk import read_notes

    elsewhere = [*found.others, *found.gone]
    known = vault.manifest.files([*found.notes, *elsewhere])
    replaced = [known[path] for path in elsewhere if path in known]
    in_force = find_in_force(vault, (*found.notes, *elsewhere))
    report = IndexReport()
    if elsewhere:
        with vault.state.transaction():
            vault.manifest.drop_files(found.gone)
            vault.manifest.put_files(found.others)
            review_files(vault, in_force, elsewhere)
            finish_view(vault, replaced)
    jobs = _jobs(found.notes, known)
    stats = {path: _settled(stat, looked) for path, stat in found.notes.items()}
    chunks = read_notes(vault.root, jobs, counts_terms=has_index)
    done = 0
    while done < len(jobs):
        batch, begun = Batch(vault), time.monotonic()
        with vault.state.transaction():
            for some, chunk in chunks:
                report.changed += _take(batch, vault, some, chunk, stats, known)
                review_files(vault, in_force, [job.path for job in some])
                finish_view(vault, (known[job.path] for job in some if job.path in known))
                done += len(some)
                if progress is not None:
                    progress(done, len(jobs))
                if batch.is_full or time.monotonic() - begun > _KEPT_AFTER:
                    break
        if has_index:
            batch.write()
    if has_index and not jobs:
        remember_index(vault)
    if any(map(find_writer, (*found.notes, *found.others))):
        from vaultmem.services.views.attribution import record_client_writes

        record_client_writes(vault, (*found.notes, *found.others))
    report.read = len(found.notes)
    report.added = sum(path not in known for path in found.notes)
    report.removed = sum(file.document is not None for file in replaced)
    report.is_racy = stats != found.notes
    return report


def _take(
    batch: Batch,
    vault: Vault,
    jobs: Sequence[ReadJob],
    chunk: Chunk,
    stats: Mapping[str, Stat],
    known: Mapping[str, KnownFile],
) -> int:
    """Record the files read at some paths, and add notes unless their bytes are indexed.

    Return how many known paths have other bytes now.
    """
    from vaultmem.services.views.invalid_notes import settle

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


def _jobs(stats: Mapping[str, Stat], known: Mapping[str, KnownFile]) -> list[ReadJob]:
    """Return the jobs to read, with the blob id of each path that is already a note."""
    from vaultmem.services.views.chunk import ReadJob

    return [
        ReadJob(
            path,
            file.blob if file and file.document is not None and not file.problem else "",
            stat[0],
        )
        for path, stat in stats.items()
        for file in [known.get(path)]
    ]


def _settled(stat: Stat, looked: int) -> Stat:
    """Return the stat to store for a file, taken at `looked` (ns since the epoch).

    A file that had just changed can change again within the same tick of the file system's clock.
    It gets a stat that no file has, so it is read again next time.
    """
    fresh = looked - max(stat[1], stat[2]) < _RACY_NS
    return (stat[0], stat[1], 0, stat[3]) if fresh else stat


def stat_now(vault: Vault, path: str) -> Stat | None:
    """Return a path's present stat, None if there is nothing."""
    try:
        status = (vault.root / path).lstat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _head_commit(vault: Vault) -> str:
    head = vault.head()
    return head.commit if head is not None else ""


def _learn_commits(vault: Vault) -> None:
    """Read dates and authors of the commits that are new since the last call."""
    head, before = vault.head(), vault.state.get("head")
    if head is None or not head.commit:
        return
    history = vault.history
    from vaultmem.services.views.attribution import carry_attribution, record_attribution

    carry_attribution(vault)
    if vault.journal.agents_paths():
        record_attribution(vault, head.commit, before)
    brought = find_brought(history, head.commit, before)
    goes_on = bool(before) and history.refs.is_ancestor(before, head.commit)
    is_rebased = bool(before) and vault.state.get("branch") == head.branch
    arrived = _list_arrivals(vault, before, brought) if goes_on or is_rebased else {}
    if goes_on or is_rebased:
        review_commits(vault, before, brought)
    if before and not goes_on:  # The new branch has its own history.
        brought = find_brought(history, head.commit, "")
    with vault.state.transaction():
        if not goes_on:
            vault.state.put("name", next(iter(vault.store.find_names()), ""))
        vault.manifest.put_commit_dates(date_brought(brought), is_anew=not goes_on)
        vault.state.put("head", head.commit)
        vault.state.put("branch", head.branch)
        vault.state.put("head_time", str(history.commit_time(head.commit)))
        add_waiting(vault.state, arrived)


def _list_arrivals(vault: Vault, since: str, brought: Sequence[Brought]) -> dict[str, str]:
    """Return, by path, the senders of notes in commits from elsewhere, newest first.

    The index must match the disk and know no commits after `since`. Vaultmem's own commits, and
    those that a rebase only moved, are recognised by their bytes.
    """
    notes = [each for each in brought if each.blob and is_note_name(each.path)]
    fresh = [each for each in notes if not vault.manifest.is_committed(each.path, each.blob)]
    files = vault.manifest.files(list({each.path for each in fresh}))
    now = {each.path for each in fresh if (file := files.get(each.path)) and file.blob == each.blob}
    made_here = _find_made_here(vault, since) if now else set()
    sent: dict[str, list[str]] = {}
    for each in fresh:
        if each.path in now and each.commit not in made_here:
            sent.setdefault(each.path, []).append(each.commit)
    return _find_senders(vault, sent) if sent else {}


def _find_made_here(vault: Vault, since: str) -> set[str]:
    """Return the commits made here by plain git: no remote has them."""
    span = ("--first-parent", "--no-merges", "HEAD", f"^{since}", "--not", "--remotes", "--")
    return set(vault.history.git.run("rev-list", *span, check=False).split())


def _find_senders(vault: Vault, sent: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the author of the last of these commits; merges count last."""
    from vaultmem.storage.git.log import read_commits

    try:
        commits = read_commits(vault.history, {each for path in sent for each in sent[path]})
    except VaultError:
        return dict.fromkeys(sent, "")
    return {path: _find_sender([commits[c] for c in sent[path] if c in commits]) for path in sent}


def _find_sender(commits: Sequence[Commit]) -> str:
    written = [each for each in commits if len(each.parents) < 2]
    return next((each.who for each in [*written, *commits]), "")
