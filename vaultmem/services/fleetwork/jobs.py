"""Do something with each of many vaults; what is done is kept as it comes, so a job can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import vaultmem
from vaultmem.core.json_values import as_plain
from vaultmem.core.packs.expectation import Expectation
from vaultmem.errors import VaultError, name_failure
from vaultmem.services.finding.judge import judge_vault
from vaultmem.services.pools.clones import LATE, Clones, Work
from vaultmem.services.pools.pool import Lane, Pool
from vaultmem.services.upkeep.compact import plan_compaction
from vaultmem.services.upkeep.curate import curate
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
    """At which commit a vault is, and what was made of it; nothing where that is known."""

    commit: str
    problem: str
    is_known: bool
    value: Any = None


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
    ran: dict[str, _Ran] = {}
    missing: dict[str, str] = {}
    tell = options.tell(job.name)
    try:
        for name in wanted:
            given = (job.run, known.get(name, ""))
            running[pool.submit(name, _run_unless_known, *given, lane=Lane.LONG)] = name
        while running:
            done, _ = wait(running, options.seconds, FIRST_COMPLETED)
            if not done:
                missing |= dict.fromkeys(running.values(), f"{LATE} ({options.seconds:g} s)")
                break
            for future in done:
                name = running.pop(future)
                try:
                    ran[name] = _keep(options.kept, job.key, name, future.result())
                except (VaultError, OSError) as error:
                    missing[name] = str(name_failure(error))
                tell(len(ran) + len(missing), len(wanted))
    finally:
        for future in running:
            future.cancel()
    return JobResults(
        job.key,
        options.kept,
        tuple(name for name in wanted if name in ran),
        sum(not each.is_known for each in ran.values()),
        {name: missing[name] for name in wanted if name in missing},
        {name: each.problem for name, each in ran.items() if each.problem},
    )


def _keep(kept: KeptWork, key: str, name: str, ran: _Ran) -> _Ran:
    if not ran.is_known:
        kept.keep(key, name, ran.commit, ran.value)
    return ran._replace(value=None)


def _run_unless_known(clones: Clones, name: str, run: Work[Any], known: str) -> _Ran:
    """Return what a function makes of a vault, unless it is still at the commit that is known."""
    fresh = clones.bring(name)
    if fresh.commit == known:
        return _Ran(fresh.commit, fresh.problem, True)
    value = as_plain(clones.read(name, run, takes_long=True))
    return _Ran(fresh.commit, fresh.problem, False, value)


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
