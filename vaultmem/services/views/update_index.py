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
from vaultmem.core.notes.obsidian import DailyNotes, ExclusionFilter, find_set_aside
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
from vaultmem.services.views.trust_withdrawal import (
    find_in_force,
    review_commits,
    review_files,
    write_withdrawals,
)
from vaultmem.storage.displaced_files import clear_leftover, find_leftovers
from vaultmem.storage.git.git_locks import GitLocation, has_own_locks, remove_left_locks
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.introduced import IntroducedBlob, date_brought, find_brought
from vaultmem.storage.lock import READER, WRITER, hold_lock
from vaultmem.storage.scan_files import Rules, Scan, SkippedFiles, Stat, scan_vault
from vaultmem.storage.uncompared_notes import add_waiting
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
_FLUSH_SECONDS = 3.0

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
            result = read()
            if all(each.index.is_as_read() for each in vaults):
                return result
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
    notes, stats = scan.notes, vault.manifest.stats()
    matches = (stats.get(path, _NO_STAT)[:2] == stat[:2] for path, stat in notes.items())
    return sum(matches), len(notes)


def find_skipped_files(vault: Vault) -> SkippedFiles:
    """Return the files that the last scan skipped; scan now if there was none."""
    if "skipped" not in vault.state.kept:
        return scan_vault(vault.root, read_note_rules(vault).for_scan).skipped
    skipped_files: SkippedFiles = vault.state.kept["skipped"][1]
    return skipped_files


def sync_paths(vault: Vault, paths: Iterable[PurePosixPath]) -> IndexReport:
    """Index the files just written to these paths, without scanning others.

    If the index is out of date or damaged, it is rebuilt.
    """
    with vault.lock_caches():
        with contextlib.suppress(DamagedError):
            if vault.postpones_index or not is_index_stale(vault):
                scan_time = time.time_ns()
                difference = _scan_paths(vault, [str(path) for path in paths])
                report = _update(vault, difference, scan_time, has_index=not vault.postpones_index)
                write_withdrawals(vault)
                return report
        return sync_vault(vault)


class NoteRules(NamedTuple):
    """The rules at one time; read them once for many paths.

    `key` changes if Obsidian's settings make other files notes; its line 1 changes if they date
    notes differently.
    """

    config: Config
    aside: ExclusionFilter
    key: str

    def why_not(self, path: str) -> str:
        """Return the rule by which a markdown file is not a note, "" if it is one."""
        if self.config.is_ignored(path):
            return "ignored by vaultmem.yaml"
        return self.aside.why(path)

    @property
    def for_scan(self) -> Rules:
        """The rules in the form for a scan."""
        config, exclusions = self.config, self.aside
        ignores = config.ignores if config.ignore or config.generated else None
        return ignores, exclusions.why if exclusions else None


def read_note_rules(vault: Vault) -> NoteRules:
    """Return the present rules from the vault's and Obsidian's settings."""
    settings = vault.store.obsidian
    dates = "" if settings.daily.format == DailyNotes().format else repr(settings.daily)
    exclusions = (settings.template_folders, settings.templates, settings.excluded)
    key = f"{dates}\n{exclusions!r}" if dates or any(exclusions) else ""
    return NoteRules(vault.config, find_set_aside(settings), key)


def _sync_vault(vault: Vault, progress: Progress | None) -> IndexReport:
    started = time.monotonic()
    report = IndexReport()
    recover(vault)
    rules = read_note_rules(vault)
    scan_time = time.time_ns()
    scan = scan_vault(vault.root, rules.for_scan)
    if _clear_leftovers(vault, scan):
        scan_time, scan = time.time_ns(), scan_vault(vault.root, rules.for_scan)
    last_state = (vault.state.get("scan"), vault.state.get("note_rules"))
    vault.state.kept["skipped"] = ("", scan.skipped)
    if last_state != (scan.signature(), rules.key) or is_index_stale(vault):
        with wrapping_os_errors("the index is not updated"), vault.lock_caches(), no_collection():
            if vault.state.get("note_rules").partition("\n")[0] != rules.key.partition("\n")[0]:
                vault.index.reset()  # Dates change, so all are read again.
            repair_index(vault)
            report = _update(vault, _compare(vault, scan, rules.key), scan_time, progress)
            with vault.state.transaction():
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
    if has_own_locks(vault.state_folder) and (repository := find_git_folder(vault.root)):
        with contextlib.suppress(VaultError):
            remove_left_locks(GitLocation(*repository, vault.state_folder))
    transcript_leftovers = find_leftovers(vault.root / TRANSCRIPTS)  # Scans skip that folder.
    files = [*(vault.root / path for path in scan.leftovers), *transcript_leftovers]
    if not files:
        return False
    restored_files: list[Path | None] = []
    with contextlib.suppress(VaultError, OSError), hold_lock(vault.state_folder / "lock", 0.0):
        restored_files = [clear_leftover(file) for file in files]
    return any(restored_files)


class _Difference(NamedTuple):
    """Paths at which folder and manifest differ: notes to read, other files, and removed."""

    notes: Mapping[str, Stat]
    others: Mapping[str, KnownFile]
    removed: Sequence[str]


def _compare(vault: Vault, scan: Scan, rules: str) -> _Difference:
    known_stats = _known_stats(vault, scan, rules)
    others = {path: KnownFile("", _NO_STAT, None, why) for path, why in scan.unsafe.items()}
    for path, stat in scan.others.items():
        others[path] = KnownFile("", stat, None, scan.unsafe.get(path, ""))
    return _Difference(
        {path: stat for path, stat in scan.notes.items() if known_stats.get(path) != stat},
        {path: file for path, file in others.items() if known_stats.get(path) != file.stat},
        [path for path in known_stats if path not in scan.notes and path not in others],
    )


def _known_stats(vault: Vault, scan: Scan, rules: str) -> dict[str, Stat]:
    """Return the known file stats, except where new rules change what is a note."""
    stats = vault.manifest.stats()
    if vault.state.get("note_rules") != rules:
        for path, file in vault.manifest.files().items():
            was_note = file.document is not None or bool(file.problem)
            if was_note != (path in scan.notes or path in scan.unsafe):
                stats[path] = _NO_STAT
    return stats


def _scan_paths(vault: Vault, names: Sequence[str]) -> _Difference:
    """Return the files at some paths, treated as if all of them differed."""
    exclusions = read_note_rules(vault).aside
    stats = {name: stat for name in names if (stat := stat_now(vault, name)) is not None}
    others = {
        name: KnownFile("", stat, None, "")
        for name, stat in stats.items()
        if not is_note_name(name) or exclusions.why(name)
    }
    notes = {name: stat for name, stat in stats.items() if name not in others}
    return _Difference(notes, others, [name for name in names if name not in stats])


def _update(
    vault: Vault,
    difference: _Difference,
    scan_time: int,
    progress: Progress | None = None,
    has_index: bool = True,
) -> IndexReport:
    """Update the manifest, and the index unless it has to wait (`has_index` is False).

    The folder was scanned at `scan_time`, in ns since the epoch.
    """
    from vaultmem.services.views.chunk import read_notes

    other_paths = [*difference.others, *difference.removed]
    known_files = vault.manifest.files([*difference.notes, *other_paths])
    replaced_files = [known_files[path] for path in other_paths if path in known_files]
    in_force = find_in_force(vault, (*difference.notes, *other_paths))
    report = IndexReport()
    if other_paths:
        with vault.state.transaction():
            vault.manifest.drop_files(difference.removed)
            vault.manifest.put_files(difference.others)
            review_files(vault, in_force, other_paths)
            finish_view(vault, replaced_files)
    jobs = _jobs(difference.notes, known_files)
    stats = {path: _settled(stat, scan_time) for path, stat in difference.notes.items()}
    chunks = read_notes(vault.root, jobs, counts_terms=has_index)
    read_count = 0
    while read_count < len(jobs):
        batch, start = Batch(vault), time.monotonic()
        with vault.state.transaction():
            for group, chunk in chunks:
                report.changed += _take(batch, vault, group, chunk, stats, known_files)
                review_files(vault, in_force, [job.path for job in group])
                finish_view(
                    vault, (known_files[job.path] for job in group if job.path in known_files)
                )
                read_count += len(group)
                if progress is not None:
                    progress(read_count, len(jobs))
                if batch.is_full or time.monotonic() - start > _FLUSH_SECONDS:
                    break
        if has_index:
            batch.write()
    if has_index and not jobs:
        remember_index(vault)
    if any(map(find_writer, (*difference.notes, *difference.others))):
        from vaultmem.services.views.attribution import record_client_writes

        record_client_writes(vault, (*difference.notes, *difference.others))
    report.read = len(difference.notes)
    report.added = sum(path not in known_files for path in difference.notes)
    report.removed = sum(file.document is not None for file in replaced_files)
    report.is_racy = stats != difference.notes
    return report


def _take(
    batch: Batch,
    vault: Vault,
    jobs: Sequence[ReadJob],
    chunk: Chunk,
    stats: Mapping[str, Stat],
    known_files: Mapping[str, KnownFile],
) -> int:
    """Record the files read at some paths, and add notes unless their bytes are indexed.

    Return how many known paths have other bytes now.
    """
    from vaultmem.services.views.invalid_notes import settle

    changed_count = 0
    removed_paths: list[str] = []
    files: dict[str, KnownFile] = {}
    documents = batch.add(jobs, chunk)
    versions = settle(vault, _head_commit(vault), batch, jobs, chunk, known_files)
    for job, (note, blob, problem, _), document in zip(
        jobs, chunk.readings, documents, strict=True
    ):
        known_file = known_files.get(job.path)
        if note is None and not blob and not problem:
            removed_paths.append(job.path)
            continue
        if job.path in versions:
            document, problem = versions[job.path]
        elif note is None and known_file is not None and known_file.blob == blob:
            document = known_file.document
        files[job.path] = KnownFile(blob, stats[job.path], document, problem)
        changed_count += known_file is not None and known_file.blob != blob
    vault.manifest.drop_files(removed_paths)
    vault.manifest.put_files(files)
    return changed_count


def _jobs(stats: Mapping[str, Stat], known_files: Mapping[str, KnownFile]) -> list[ReadJob]:
    """Return the jobs to read, with the blob id of each path that is already a note."""
    from vaultmem.services.views.chunk import ReadJob

    return [
        ReadJob(
            path,
            file.blob if file and file.document is not None and not file.problem else "",
            stat[0],
        )
        for path, stat in stats.items()
        for file in [known_files.get(path)]
    ]


def _settled(stat: Stat, scan_time: int) -> Stat:
    """Return the stat to store for a file, taken at `scan_time` (ns since the epoch).

    A file that had just changed can change again within the same tick of the file system's clock.
    It gets a stat that no file has, so it is read again next time.
    """
    is_recent = scan_time - max(stat[1], stat[2]) < _RACY_NS
    return (stat[0], stat[1], 0, stat[3]) if is_recent else stat


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
    head, previous_head = vault.head(), vault.state.get("head")
    if head is None or not head.commit:
        return
    history = vault.history
    from vaultmem.services.views.attribution import carry_attribution, record_attribution

    carry_attribution(vault)
    if vault.journal.agents_paths():
        record_attribution(vault, head.commit, previous_head)
    changes = find_brought(history, head.commit, previous_head)
    is_descendant = bool(previous_head) and history.refs.is_ancestor(previous_head, head.commit)
    is_rebased = bool(previous_head) and vault.state.get("branch") == head.branch
    senders = _list_arrivals(vault, previous_head, changes) if is_descendant or is_rebased else {}
    if is_descendant or is_rebased:
        review_commits(vault, previous_head, changes)
    if previous_head and not is_descendant:  # The new branch has its own history.
        changes = find_brought(history, head.commit, "")
    with vault.state.transaction():
        if not is_descendant:
            vault.state.put("name", next(iter(vault.store.find_names()), ""))
        vault.manifest.put_commit_dates(date_brought(changes), is_anew=not is_descendant)
        vault.state.put("head", head.commit)
        vault.state.put("branch", head.branch)
        vault.state.put("head_time", str(history.commit_time(head.commit)))
        add_waiting(vault.state, senders)


def _list_arrivals(
    vault: Vault, previous_head: str, changes: Sequence[IntroducedBlob]
) -> dict[str, str]:
    """Return, by path, the senders of notes in commits from elsewhere, newest first.

    The index must match the disk and know no commits after `previous_head`. Vaultmem's own
    commits, and those that a rebase only moved, are recognised by their bytes.
    """
    notes = [each for each in changes if each.blob and is_note_name(each.path)]
    new_notes = [each for each in notes if not vault.manifest.is_committed(each.path, each.blob)]
    files = vault.manifest.files(list({each.path for each in new_notes}))
    current_paths = {
        each.path for each in new_notes if (file := files.get(each.path)) and file.blob == each.blob
    }
    own_commits = _find_made_here(vault, previous_head) if current_paths else set()
    commits_by_path: dict[str, list[str]] = {}
    for each in new_notes:
        if each.path in current_paths and each.commit not in own_commits:
            commits_by_path.setdefault(each.path, []).append(each.commit)
    return _find_senders(vault, commits_by_path) if commits_by_path else {}


def _find_made_here(vault: Vault, previous_head: str) -> set[str]:
    """Return the commits made here by plain git: no remote has them."""
    span = (
        "--first-parent",
        "--no-merges",
        "HEAD",
        f"^{previous_head}",
        "--not",
        "--remotes",
        "--",
    )
    return set(vault.history.git.run("rev-list", *span, check=False).split())


def _find_senders(vault: Vault, commits_by_path: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the author of the last of these commits; merges count last."""
    from vaultmem.storage.git.log import read_commits

    try:
        commits = read_commits(
            vault.history, {each for path in commits_by_path for each in commits_by_path[path]}
        )
    except VaultError:
        return dict.fromkeys(commits_by_path, "")
    return {
        path: _find_sender([commits[c] for c in commits_by_path[path] if c in commits])
        for path in commits_by_path
    }


def _find_sender(commits: Sequence[Commit]) -> str:
    plain_commits = [each for each in commits if len(each.parents) < 2]
    return next((each.who for each in [*plain_commits, *commits]), "")
