"""Run a job over many vaults, resumable, and compare their notes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import vaultmem
from vaultmem.config import CONFIG_NAME
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.packs.receipt import Expectation, judge_pack, read_plain
from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import as_plain
from vaultmem.errors import RefusedError, VaultError, wrap_os_error
from vaultmem.services.curation.compact import plan_compaction
from vaultmem.services.curation.curate import curate
from vaultmem.services.fleet.clones import TIMEOUT_REASON, Clones, Work
from vaultmem.services.fleet.pool import Lane, Pool
from vaultmem.services.history.blame import blame_bytes
from vaultmem.services.packs.build import make_unseen
from vaultmem.services.packs.evaluate import judge_vault
from vaultmem.services.similarity.pairs import Pair, compare_vault, is_counted, read_whole
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.log import Commit, Writer, follow_path
from vaultmem.storage.value_store import JobResultCache
from vaultmem.vault import UserFolders, Vault, open_vault

#: Increase it when a job returns other results with the same version of the package.
_FORMAT = 2


class FleetJob(NamedTuple):
    """An operation to run over many vaults.

    `run` pickles, and returns JSON values. Results depend on `inputs` and the vaults.
    """

    name: str
    run: Work[Any]
    inputs: tuple[object, ...] = ()

    @property
    def key(self) -> str:
        """The job's key: its name, and a digest of all that its results depend on."""
        inputs = json.dumps(as_plain([vaultmem.__version__, _FORMAT, self.inputs]))
        digest = hashlib.sha256(inputs.encode()).hexdigest()[:16]
        return f"{self.name.replace(' ', '-')}-{digest}"


class JobOptions(NamedTuple):
    """Options of a job: its stored results, and the time limit of a vault in seconds.

    `restarts` ignores stored results. `start_progress` returns a progress callback for a job's
    name: it gets the number of vaults done, and of all.
    """

    store: JobResultCache
    seconds: float = 120.0
    restarts: bool = False
    start_progress: Callable[[str], Callable[[int, int], None]] = lambda _: lambda done, total: None

    @property
    def day(self) -> str:
        """The date of the job; results about age and validity depend on it."""
        return datetime.fromtimestamp(self.store.now).date().isoformat()


class JobResults(NamedTuple):
    """The vaults that are done, how many of them ran now (`run_count`), and why others are missing.

    `stale_reasons` has the reasons why some might be older than their remotes.
    """

    key: str
    store: JobResultCache
    completed_vaults: tuple[str, ...]
    run_count: int
    missing: dict[str, str]
    stale_reasons: dict[str, str]

    def read(self, name: str) -> Any:
        """Return the result of a vault."""
        return self.store.read(self.key, name)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the vaults that are done, with their results."""
        for name in self.completed_vaults:
            yield name, self.read(name)


class _Ran(NamedTuple):
    """A vault's commit, why it might be older than its remote, and the result.

    `value`: None if it `is_known`.
    """

    commit: str
    problem: str
    is_known: bool
    value: Any


def run_job(pool: Pool, names: Iterable[str], options: JobOptions, job: FleetJob) -> JobResults:
    """Run a job over these vaults, or over all.

    A vault still at the commit of its stored result is skipped. If no vault ends within
    `options.seconds`, all remaining ones are missing as late. Results are stored even if this is
    interrupted.

    Raises:
        NoteNotFoundError: there is no such vault.
    """
    vault_names = list(dict.fromkeys(names)) or list(pool.names)
    if options.restarts:
        options.store.forget(job.key)
    commits = options.store.list_stands(job.key)
    futures: dict[Future[_Ran], str] = {}
    completed_names: set[str] = set()
    run_count = 0
    missing: dict[str, str] = {}
    stale_reasons: dict[str, str] = {}
    progress = options.start_progress(job.name)
    try:
        for name in vault_names:
            arguments = (job.run, commits.get(name, ""))
            futures[pool.submit(name, _run_unless_known, *arguments, lane=Lane.LONG)] = name
        while futures:
            ended_futures, _ = wait(futures, options.seconds, FIRST_COMPLETED)
            if not ended_futures:
                missing |= dict.fromkeys(
                    futures.values(), f"{TIMEOUT_REASON} ({options.seconds:g} s)"
                )
                break
            for future in ended_futures:
                name = futures.pop(future)
                try:
                    result = future.result()
                    if not result.is_known:
                        options.store.keep(job.key, name, result.commit, result.value)
                        run_count += 1
                    if result.problem:
                        stale_reasons[name] = result.problem
                    completed_names.add(name)
                except (VaultError, OSError) as error:
                    missing[name] = str(wrap_os_error(error))
                progress(len(completed_names) + len(missing), len(vault_names))
    finally:
        for future in futures:
            future.cancel()
    return JobResults(
        job.key,
        options.store,
        tuple(name for name in vault_names if name in completed_names),
        run_count,
        {name: missing[name] for name in vault_names if name in missing},
        stale_reasons,
    )


def _run_unless_known(clones: Clones, name: str, run: Work[Any], known_commit: str) -> _Ran:
    """Return a function's result for a vault, unless it is still at the known commit."""
    record = clones.fetch_clone(name)
    if record.commit == known_commit:
        return _Ran(record.commit, record.problem, is_known=True, value=None)
    value = as_plain(clones.read(name, run, takes_long=True))
    return _Ran(record.commit, record.problem, is_known=False, value=value)


def judge_all(
    pool: Pool, names: Iterable[str], options: JobOptions, expected: Expectation
) -> JobResults:
    """Return for each vault why its pack is not as expected, empty if it is."""
    run = partial(judge_vault, expected=expected)
    job = FleetJob("testing packs", run, (list_expected(expected), options.day))
    return run_job(pool, names, options, job)


def curate_all(pool: Pool, names: Iterable[str], options: JobOptions) -> JobResults:
    """Return for each vault the fields of each proposal of `curate`."""
    return run_job(pool, names, options, FleetJob("curating", _propose, (options.day,)))


def compact_all(pool: Pool, names: Iterable[str], options: JobOptions) -> JobResults:
    """Return for each vault the `steps` for notes that are due, and counts of `exempt` reasons."""
    return run_job(pool, names, options, FleetJob("planning", _plan, (options.day,)))


def list_expected(expected: Expectation) -> list[object]:
    """Return an expectation as JSON values."""
    return [expected.query, expected.addresses, expected.texts, expected.negated, expected.budget]


def _propose(vault: Vault) -> list[Any]:
    return list(curate(vault).proposals)


def _plan(vault: Vault) -> dict[str, Any]:
    plan = plan_compaction(vault)
    return {"steps": [each._replace(text="") for each in plan.steps], "exempt": plan.exempt}


#: Most characters shown of a note's text.
_MAX_STATEMENT_CHARS = 300


class FirstMention(NamedTuple):
    """The first mention of a text in a vault: its note, commit and author.

    `says` are the matching lines. `at` is in seconds since the epoch, `time` the same in ISO 8601
    from the commit. `source` is a property of the note.
    """

    path: str
    says: str
    source: str
    commit: str
    at: int
    time: str
    who: str
    agent: str
    session: str
    event: str
    subject: str


class Mentions(NamedTuple):
    """The vaults that state something, the earliest first; the others, and the missing ones."""

    believers: tuple[tuple[str, FirstMention], ...]
    others: tuple[str, ...]
    missing: dict[str, str]
    stale_reasons: dict[str, str]


def find_believers(
    pool: Pool, names: Iterable[str], options: JobOptions, expected: Expectation
) -> Mentions:
    """Return the vaults whose pack is as expected, with the first mention in each.

    Raises:
        RefusedError: an absent text is expected, which has no first mention.
    """
    if expected.negated:
        raise RefusedError("an absent text has no first commit; leave out --absent")
    run = partial(find_belief, expected=expected)
    job = FleetJob("looking who states it", run, (list_expected(expected), options.day))
    results = run_job(pool, names, options, job)
    mentions = [
        (name, FirstMention(**value)) for name, value in results.items() if value is not None
    ]
    mentions.sort(key=lambda each: (each[1].at, each[0]))
    others = {*results.completed_vaults} - {name for name, _ in mentions}
    return Mentions(
        tuple(mentions),
        tuple(name for name in results.completed_vaults if name in others),
        results.missing,
        results.stale_reasons,
    )


def find_belief(vault: Vault, expected: Expectation) -> FirstMention | None:
    """Return a vault's first mention of an expected text, None if its pack is not as expected.

    Of several notes, it is the earliest. A mention begins at the commit since which the note has
    always contained it. Lines moved from another note count from that note's commit.
    """
    pack = make_unseen(vault, expected.query, expected.budget or None)
    if judge_pack(pack, expected):
        return None
    mentions = [
        belief
        for path, (item, words) in _find_notes(pack.items, expected).items()
        if (belief := _trace(vault, path, item, words)) is not None
    ]
    return min(mentions, key=lambda each: each.at, default=None)


def _find_notes(
    items: Sequence[PackItem], expected: Expectation
) -> dict[str, tuple[PackItem, tuple[str, ...]]]:
    """Return the notes of a pack that match the expectation, each with the texts it contains."""
    matches: dict[str, tuple[PackItem, tuple[str, ...]]] = {}
    for item in items:
        text = read_plain(f"{item.hit.name}\n{item.text}")
        words = tuple(each for each in map(read_plain, expected.texts) if each in text)
        is_named = {item.hit.record.path, item.hit.address} & {*expected.addresses}
        if words or is_named:
            matches.setdefault(item.hit.record.path, (item, words))
    return matches


def _trace(vault: Vault, path: str, item: PackItem, words: tuple[str, ...]) -> FirstMention | None:
    history = vault.history
    head = history.head().commit
    versions = [
        (commit, change)
        for commit, change in (follow_path(history, head, path) if head else ())
        if change.blob and change.is_regular
    ]
    first = _find_first(vault, versions, words) or _find_first(vault, versions, ())
    if first is None:
        return None
    commit, change, data = first
    lines = _find_lines(decode_text(data).text.split("\n"), words)
    writer = commit.find_writer(history.prefix + change.path, lines[0])
    blamed_lines = (
        blame_bytes(vault, change.path, data, lines, commit.commit).lines if words else ()
    )
    origins = [each for each in blamed_lines if each.commit is not None and each.text.strip()]
    if origins:  # The statement is complete with its last line.
        last_line = max(origins, key=lambda each: each.commit.at if each.commit else 0)
        commit = last_line.commit or commit
        writer = Writer(last_line.author, last_line.agent, last_line.session, last_line.claimed_by)
    statement = " ".join(each.text.strip() for each in origins) or item.hit.name
    return FirstMention(
        path=path,
        says=one_line(statement)[:_MAX_STATEMENT_CHARS],
        source=item.hit.record.source,
        commit=commit.commit,
        at=commit.at,
        time=commit.time,
        who=writer[0],
        agent=writer[1],
        session=writer[2],
        event=commit.event,
        subject=commit.subject,
    )


def _find_first(
    vault: Vault, versions: Sequence[tuple[Commit, FileChange]], words: tuple[str, ...]
) -> tuple[Commit, FileChange, bytes] | None:
    """Return the version since which a note has always contained some words.

    `versions` are newest first. None if not even the newest has them, as git has it.
    """
    blobs = list(dict.fromkeys(change.blob for _, change in versions))
    objects = vault.history.objects.read_all(blobs) if blobs else ()
    texts = {blob: data for blob, (_, data) in zip(blobs, objects, strict=True)}
    first = None
    for commit, change in versions:
        data = texts[change.blob]
        text = read_plain(decode_text(data).text)
        if any(each not in text for each in words):
            break
        first = commit, change, data
    return first


def _find_lines(lines: Sequence[str], words: tuple[str, ...]) -> tuple[int, int]:
    """Return the first and the last line (1-based) with the words; all lines if none has them."""
    places = [
        n for n, line in enumerate(lines, 1) if any(each in read_plain(line) for each in words)
    ]
    return (places[0], places[-1]) if places else (1, max(1, len(lines)))


# Duplicates and contradictions between notes of many vaults: all notes are copied into one
# temporary vault, and compared as `curate` compares a vault's.


class FleetNote(NamedTuple):
    """A note: its vault, path, title, author, and when it was written (seconds since the epoch)."""

    vault: str
    path: str
    title: str
    agent: str
    written: float


class DifferingStatements(NamedTuple):
    """Two statements from several vaults, the older one first, with the number of notes for each.

    `differences` have a kind, the older value and the newer value. `similarity` (0 to 1) is how
    much of one the other states.
    """

    older: FleetNote
    newer: FleetNote
    similarity: float
    differences: tuple[tuple[str, str, str], ...]
    older_notes: int
    newer_notes: int


class FleetComparison(NamedTuple):
    """The comparison of all vaults; `run_count` counts those read now, `notes` all notes.

    `same` has notes that state the same, the oldest first. Pairs are sorted by the newer note, the
    latest first. `missing` vaults were not compared.
    """

    same: tuple[tuple[FleetNote, ...], ...]
    near: tuple[DifferingStatements, ...]
    contradicting: tuple[DifferingStatements, ...]
    vaults: int
    notes: int
    run_count: int
    missing: dict[str, str]
    stale_reasons: dict[str, str]


def compare_all(pool: Pool, names: Iterable[str], options: JobOptions) -> FleetComparison:
    """Compare the notes of these vaults, or of all, across vaults.

    Pairs inside one vault are left to its own `curate`.
    """
    results = run_job(pool, names, options, FleetJob("reading notes", _list_notes))
    with tempfile.TemporaryDirectory(prefix="vaultmem-compare-") as folder:
        all_notes = _Whole(Path(folder), results)
        with contextlib.closing(all_notes.open()) as vault:
            sync_vault(vault)
            pairs = compare_vault(vault, options.start_progress("comparing notes"))
    all_notes.join([pair.names for pair in pairs.duplicates])
    return FleetComparison(
        same=tuple(all_notes.list_same()),
        near=tuple(all_notes.list_differing(pairs.similar)),
        contradicting=tuple(all_notes.list_differing(pairs.contradictions)),
        vaults=len(results.completed_vaults),
        notes=all_notes.notes,
        run_count=results.run_count,
        missing=results.missing,
        stale_reasons=results.stale_reasons,
    )


def _list_notes(vault: Vault) -> list[dict[str, Any]]:
    """Return the notes of a vault to compare, with author and time."""
    return [
        {
            "path": record.path,
            "title": record.title,
            "agent": record.agent,
            "written": record.written,
            "digest": record.body_digest,
            "text": note.text,
        }
        for record in vault.view.records()
        if is_counted(record) and (note := read_whole(vault, record.path))
    ]


class _Whole:
    """A temporary vault with the notes of all; identical copies are written once.

    `_groups` maps each of its notes to all notes that state the same, the oldest first.
    """

    def __init__(self, folder: Path, results: JobResults) -> None:
        self._folder = folder
        self._groups: dict[str, list[FleetNote]] = {}
        self.notes = 0
        places: dict[tuple[str, str], str] = {}
        self._root = folder / "vault"
        self._root.mkdir()
        (self._root / CONFIG_NAME).touch()
        for vault, notes in results.items():
            for each in notes:
                self.notes += 1
                key = each["digest"], each["title"]
                if key not in places:
                    places[key] = self._write(vault, each)
                group = self._groups.setdefault(places[key], [])
                group.append(_make_side(vault, each))
        for group in self._groups.values():
            group.sort(key=_by_time)

    def open(self) -> Vault:
        """Open it; its derived state is next to it."""
        folders = (self._folder / name for name in ("state", "config", "data"))
        return open_vault(self._root, folders=UserFolders(*folders))

    def join(self, pairs: Sequence[frozenset[str]]) -> None:
        """Join groups of notes that state the same in other words."""
        for pair in pairs:
            our_notes, their_notes = (self._groups[path] for path in sorted(pair))
            if our_notes is not their_notes:
                our_notes += their_notes
                our_notes.sort(key=_by_time)
                for path in [path for path, group in self._groups.items() if group is their_notes]:
                    self._groups[path] = our_notes

    def list_same(self) -> list[tuple[FleetNote, ...]]:
        """Return groups of notes from several vaults, the largest first."""
        groups = {id(group): tuple(group) for group in self._groups.values() if _is_apart(group)}
        return sorted(groups.values(), key=lambda notes: (-len(notes), _by_time(notes[0])))

    def list_differing(self, pairs: Sequence[Pair]) -> list[DifferingStatements]:
        """Return the pairs across several vaults, each pair of statements once."""
        differences: dict[frozenset[int], DifferingStatements] = {}
        for pair in pairs:
            our_notes, their_notes = (
                self._groups[str(each.path)] for each in (pair.ours, pair.theirs)
            )
            key = frozenset((id(our_notes), id(their_notes)))
            if (
                key not in differences
                and our_notes is not their_notes
                and _is_apart([*our_notes, *their_notes])
            ):
                differences[key] = _describe(pair, our_notes, their_notes)
        order = sorted(differences.values(), key=lambda each: _by_time(each.older), reverse=True)
        return sorted(order, key=lambda each: _by_time(each.newer), reverse=True)

    def _write(self, vault: str, note: Mapping[str, Any]) -> str:
        """Write a note below a path that keeps its first folder, which has a meaning."""
        first, *rest = PurePosixPath(note["path"]).parts
        path = PurePosixPath(first, vault, *rest) if rest else PurePosixPath(vault, first)
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(note["text"].encode("utf-8", "surrogateescape"))
        os.utime(file, (note["written"], note["written"]))
        return str(path)


def _describe(
    pair: Pair, our_notes: Sequence[FleetNote], their_notes: Sequence[FleetNote]
) -> DifferingStatements:
    is_older = _by_time(our_notes[0]) <= _by_time(their_notes[0])
    older, newer = (our_notes, their_notes) if is_older else (their_notes, our_notes)
    differences = tuple(
        (each.kind, *((each.ours, each.theirs) if is_older else (each.theirs, each.ours)))
        for each in pair.likeness.differences
    )
    similarity = pair.likeness.similarity
    return DifferingStatements(older[0], newer[0], similarity, differences, len(older), len(newer))


def _make_side(vault: str, note: Mapping[str, Any]) -> FleetNote:
    return FleetNote(vault, *(note[name] for name in ("path", "title", "agent", "written")))


def _is_apart(group: Sequence[FleetNote]) -> bool:
    return len({each.vault for each in group}) > 1


def _by_time(side: FleetNote) -> tuple[float, str, str]:
    return side.written, side.vault, side.path
