"""Do something with each of many vaults; what is done is kept as it comes, so a job can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import vaultmem
from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.json_values import as_plain
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.packs.expectation import Expectation, judge_pack, read_plain
from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError, VaultError, name_failure
from vaultmem.services.finding.judge import judge_vault
from vaultmem.services.finding.pack import make_unseen
from vaultmem.services.history.blame import blame_bytes
from vaultmem.services.pools.clones import LATE, Clones, Work
from vaultmem.services.pools.pool import Lane, Pool
from vaultmem.services.upkeep.compact import plan_compaction
from vaultmem.services.upkeep.curate import curate
from vaultmem.storage.git.log import Commit, Writer, follow_path
from vaultmem.storage.kept_work import KeptWork
from vaultmem.vault import Vault

#: Changes whenever a job returns something else, as this package's version does.
_FORMAT = 2


class Job(NamedTuple):
    """What is to be done with many vaults.

    `run` pickles, and returns what JSON has. `given` is what results depend on besides the vaults.
    """

    name: str
    run: Work[Any]
    given: tuple[object, ...] = ()

    @property
    def key(self) -> str:
        """What names it with all that its results depend on, this version's rules among it."""
        given = json.dumps(as_plain([vaultmem.__version__, _FORMAT, self.given]))
        return f"{self.name} {hashlib.sha256(given.encode()).hexdigest()[:16]}"


class JobOptions(NamedTuple):
    """How a job is done: where results are kept, and how long a vault may take (seconds).

    With `again`, what was kept does not count. `tell` makes what is told how many are done, of how
    many, given what is done.
    """

    kept: KeptWork
    seconds: float = 120.0
    again: bool = False
    tell: Callable[[str], Callable[[int, int], None]] = lambda _: lambda done, total: None

    @property
    def day(self) -> str:
        """The day of the job: what is old, and what holds, depends on it."""
        return datetime.fromtimestamp(self.kept.now).date().isoformat()


class JobResults(NamedTuple):
    """Which vaults are done, how many of them only now (`asked`), and why others are not.

    `behind` says why some may be older than their remotes are.
    """

    key: str
    kept: KeptWork
    done: tuple[str, ...]
    asked: int
    missing: dict[str, str]
    behind: dict[str, str]

    def read(self, name: str) -> Any:
        """Return what was made of a vault."""
        return self.kept.read(self.key, name)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the vaults that are done with what was made of each, one after the other."""
        for name in self.done:
            yield name, self.read(name)


class _Ran(NamedTuple):
    """At which commit a vault is, why it may be older than its remote, and what was made of it.

    The value is None where it `is_known`.
    """

    commit: str
    problem: str
    is_known: bool
    value: Any


def run_job(pool: Pool, names: Iterable[str], options: JobOptions, job: Job) -> JobResults:
    """Do a job with each of these vaults, or with all.

    A vault that is at the commit at which the job was done before is not asked again. Where no
    vault is done for as long as one may take, those that are left are named as late. What is done
    stays done, however this ends.

    Raises:
        NoteNotFoundError: there is no such vault.
    """
    wanted = list(dict.fromkeys(names)) or list(pool.names)
    if options.again:
        options.kept.forget(job.key)
    known = options.kept.list_stands(job.key)
    running: dict[Future[_Ran], str] = {}
    done: set[str] = set()
    asked = 0
    missing: dict[str, str] = {}
    behind: dict[str, str] = {}
    tell = options.tell(job.name)
    try:
        for name in wanted:
            given = (job.run, known.get(name, ""))
            running[pool.submit(name, _run_unless_known, *given, lane=Lane.LONG)] = name
        while running:
            ended, _ = wait(running, options.seconds, FIRST_COMPLETED)
            if not ended:
                missing |= dict.fromkeys(running.values(), f"{LATE} ({options.seconds:g} s)")
                break
            for future in ended:
                name = running.pop(future)
                try:
                    ran = future.result()
                    if not ran.is_known:
                        options.kept.keep(job.key, name, ran.commit, ran.value)
                        asked += 1
                    if ran.problem:
                        behind[name] = ran.problem
                    done.add(name)
                except (VaultError, OSError) as error:
                    missing[name] = str(name_failure(error))
                tell(len(done) + len(missing), len(wanted))
    finally:
        for future in running:
            future.cancel()
    return JobResults(
        job.key,
        options.kept,
        tuple(name for name in wanted if name in done),
        asked,
        {name: missing[name] for name in wanted if name in missing},
        behind,
    )


def _run_unless_known(clones: Clones, name: str, run: Work[Any], known: str) -> _Ran:
    """Return what a function makes of a vault, unless it is still at the commit that is known."""
    fresh = clones.bring(name)
    if fresh.commit == known:
        return _Ran(fresh.commit, fresh.problem, is_known=True, value=None)
    value = as_plain(clones.read(name, run, takes_long=True))
    return _Ran(fresh.commit, fresh.problem, is_known=False, value=value)


def judge_all(
    pool: Pool, names: Iterable[str], options: JobOptions, expected: Expectation
) -> JobResults:
    """Return of each vault why its pack is not as expected, nothing if it is."""
    run = partial(judge_vault, expected=expected)
    job = Job("testing packs", run, (list_expected(expected), options.day))
    return run_job(pool, names, options, job)


def curate_all(pool: Pool, names: Iterable[str], options: JobOptions) -> JobResults:
    """Return of each vault what `curate` proposes: the fields of each proposal."""
    return run_job(pool, names, options, Job("curating", _propose, (options.day,)))


def compact_all(pool: Pool, names: Iterable[str], options: JobOptions) -> JobResults:
    """Return of each vault the `steps` of notes that are due, and how many are `exempt` and why."""
    return run_job(pool, names, options, Job("planning", _plan, (options.day,)))


def list_expected(expected: Expectation) -> list[object]:
    """Return an expectation as what JSON has."""
    return [expected.query, expected.finds, expected.says, expected.negated, expected.budget]


def _propose(vault: Vault) -> list[Any]:
    return list(curate(vault).proposals)


def _plan(vault: Vault) -> dict[str, Any]:
    done = plan_compaction(vault)
    return {"steps": [each._replace(text="") for each in done.steps], "exempt": done.exempt}


#: Characters that are shown of what a note says.
_SHOWN = 300


class Belief(NamedTuple):
    """Where a vault says something, and since when: the commit, and who wrote it.

    `says` are the words there, `at` is in seconds since the epoch, `time` the same in ISO 8601 as
    the commit has it. `source` is what the note names as its own.
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


class Believers(NamedTuple):
    """The vaults that say something, the first one first; who does not, and who is not known."""

    believers: tuple[tuple[str, Belief], ...]
    others: tuple[str, ...]
    missing: dict[str, str]
    behind: dict[str, str]


def find_believers(
    pool: Pool, names: Iterable[str], options: JobOptions, expected: Expectation
) -> Believers:
    """Return which vaults have a pack as expected, and since when.

    Raises:
        RefusedError: it is expected that nothing is said, which has no beginning.
    """
    if expected.negated:
        raise RefusedError("what is not said has no first commit; leave out --not")
    run = partial(find_belief, expected=expected)
    job = Job("looking who says so", run, (list_expected(expected), options.day))
    done = run_job(pool, names, options, job)
    found = [(name, Belief(**value)) for name, value in done.items() if value is not None]
    found.sort(key=lambda each: (each[1].at, each[0]))
    others = {*done.done} - {name for name, _ in found}
    return Believers(
        tuple(found),
        tuple(name for name in done.done if name in others),
        done.missing,
        done.behind,
    )


def find_belief(vault: Vault, expected: Expectation) -> Belief | None:
    """Return since when a vault says what is expected, and who wrote it; None if it does not.

    Of several notes that say it, it is the one that did first. A note says it from the commit on
    since which it has said it ever since, in its own lines or in another note from which they came.
    """
    pack = make_unseen(vault, expected.query, expected.budget or None)
    if judge_pack(pack, expected):
        return None
    found = [
        belief
        for path, (item, words) in _find_notes(pack.items, expected).items()
        if (belief := _trace(vault, path, item, words)) is not None
    ]
    return min(found, key=lambda each: each.at, default=None)


def _find_notes(
    items: Sequence[PackItem], expected: Expectation
) -> dict[str, tuple[PackItem, tuple[str, ...]]]:
    """Return the notes of a pack that show what is expected, with those of the texts they say."""
    found: dict[str, tuple[PackItem, tuple[str, ...]]] = {}
    for item in items:
        text = read_plain(f"{item.hit.name}\n{item.text}")
        words = tuple(each for each in map(read_plain, expected.says) if each in text)
        is_named = {item.hit.record.path, item.hit.address} & {*expected.finds}
        if words or is_named:
            found.setdefault(item.hit.record.path, (item, words))
    return found


def _trace(vault: Vault, path: str, item: PackItem, words: tuple[str, ...]) -> Belief | None:
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
    told = blame_bytes(vault, change.path, data, lines, commit.commit).lines if words else ()
    origins = [each for each in told if each.commit is not None and each.text.strip()]
    if origins:  # All of it was said when the last of its lines was.
        last = max(origins, key=lambda each: each.commit.at if each.commit else 0)
        commit = last.commit or commit
        writer = Writer(last.who, last.agent, last.session, last.claimed_by)
    says = " ".join(each.text.strip() for each in origins) or item.hit.name
    return Belief(
        path=path,
        says=one_line(says)[:_SHOWN],
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
    """Return the version since which a note has always said some words, of versions newest first.

    None where not even the newest does, as git has them.
    """
    blobs = list(dict.fromkeys(change.blob for _, change in versions))
    read = vault.history.objects.read_all(blobs) if blobs else ()
    texts = {blob: data for blob, (_, data) in zip(blobs, read, strict=True)}
    first = None
    for commit, change in versions:
        data = texts[change.blob]
        said = read_plain(decode_text(data).text)
        if any(each not in said for each in words):
            break
        first = commit, change, data
    return first


def _find_lines(lines: Sequence[str], words: tuple[str, ...]) -> tuple[int, int]:
    """Return the first and the last line (1-based) of those that say the words; all, if none."""
    places = [
        n for n, line in enumerate(lines, 1) if any(each in read_plain(line) for each in words)
    ]
    return (places[0], places[-1]) if places else (1, max(1, len(lines)))
