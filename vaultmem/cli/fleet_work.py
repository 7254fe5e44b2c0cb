"""What commands do with `--fleet FILE`: with all vaults whose remotes a file names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vaultmem.answers import fleet as answers
from vaultmem.cli import fleet_text as text
from vaultmem.cli.output import ProgressLine, emit_json, warn
from vaultmem.cli.shared import needing
from vaultmem.core.counting import count_things
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.core.packs.expectation import Expectation
    from vaultmem.services.finding.ask import Ask, QueryResult, Show
    from vaultmem.services.finding.pack import AskPack, PackAnswer
    from vaultmem.services.finding.vault_set import VaultSet
    from vaultmem.services.fleetwork.jobs import JobOptions, JobResults
    from vaultmem.services.pools.pool import Pool
    from vaultmem.services.pools.source import Source

#: What stands before the address of a cluster.
_RAY = "ray:"

#: Seconds for which the vaults of a question are waited for, and one vault of a job.
_QUESTION, JOB_SECONDS = 60.0, 120.0

#: Vaults that did not answer, as many as are named; JSON has all.
_NAMED = 20


@contextlib.contextmanager
def open_fleet(fleet: str, folder: str = "") -> Iterator[Pool]:
    """Open the vaults that a file or folder names, or the fleet of a cluster, for a `with`.

    Raises:
        RefusedError: a file says something else.
        VaultError: there is none; or the extra `fleet` is not installed.
    """
    from vaultmem.services.pools.pool import LocalPool

    if fleet.startswith(_RAY):
        with needing("fleet", "--fleet"):
            from vaultmem.fleet.pool import RayPool
        pool: Pool = RayPool(fleet.removeprefix(_RAY))
    else:
        pool = LocalPool(read_fleet(fleet), find_folder(folder))
    with contextlib.closing(pool):
        yield pool


def read_fleet(fleet: str) -> list[Source]:
    """Return the vaults that a file or folder names."""
    from vaultmem.services.pools.source import read_sources

    return read_sources(Path(fleet).expanduser())


def find_folder(folder: str = "") -> Path:
    """Return the folder of the clones: this one, else one in the state folder."""
    from vaultmem.environment import current_environment
    from vaultmem.vault import find_user_folders

    if folder:
        return Path(folder).expanduser().absolute()
    return find_user_folders(current_environment()).state / "fleet"


@contextlib.contextmanager
def open_job(
    fleet: str, seconds: float = JOB_SECONDS, again: bool = False
) -> Iterator[tuple[Pool, JobOptions]]:
    """Open a fleet for a job over it, with what was done before, for a `with`.

    Where Ctrl-C stops it, it is said that what is done stays.
    """
    from vaultmem.services.fleetwork.jobs import JobOptions
    from vaultmem.storage.kept_work import KeptWork

    with open_fleet(fleet) as pool, KeptWork(find_folder(), time.time()) as kept:
        try:
            yield pool, JobOptions(kept, seconds, again, ProgressLine)
        except KeyboardInterrupt:
            warn("stopped; what vaults did is kept, and the same command goes on with the rest")
            raise


def refuse_with_fleet(**given: object) -> None:
    """Refuse options of a command that are for one vault.

    Raises:
        RefusedError: one is given.
    """
    for name, value in given.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise RefusedError(f"{option}: is for one vault; leave it out with --fleet")


def recall_fleet(
    fleet: str, vaults: Sequence[str], asked: Ask, show: Show
) -> tuple[QueryResult, dict[str, str]]:
    """Return what answers a question in a fleet, and why some vaults have no part in it."""
    with open_fleet(fleet) as pool:
        answer, missing = pool.recall(vaults or None, asked, seconds=_QUESTION)
    no_vault = cast("VaultSet", None)  # Texts are at hand; none is looked at.
    return answer._replace(shown=show(no_vault, answer) or ()), missing


def pack_fleet(
    fleet: str, vaults: Sequence[str], asked: AskPack
) -> tuple[PackAnswer, dict[str, str]]:
    """Return a pack of a fleet, and why some vaults have no part in it."""
    with open_fleet(fleet) as pool:
        return pool.pack(vaults or None, asked, seconds=_QUESTION)


def stats_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print what each vault holds, and at which commit it is."""
    with open_fleet(fleet) as pool:
        names = [vault] if vault else None
        missing = pool.refresh(names).missing
        found = pool.stats(names)
    missing = {name: why for name, why in missing.items() if not found.results[name].problem}
    if as_json:
        emit_json(answers.fleet_stats_json(found.results, {**missing, **found.missing}))
        return
    text.say_stats(found.results)
    warn_missing({**missing, **found.missing})


def assert_fleet(fleet: str, vault: str, expected: Expectation, as_json: bool) -> bool | None:
    """Print which vaults' packs are not as expected; return whether all are, None if unknown."""
    from vaultmem.services.fleetwork.jobs import judge_all

    judge = partial(judge_all, expected=expected)
    given = (judge, answers.fleet_judged_json, text.say_judged)
    judged, done = _do_each(fleet, vault, as_json, *given)
    if any(judged.values()):
        return False
    return None if done.missing else True


def curate_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print what `curate` would propose in each vault."""
    from vaultmem.services.fleetwork.jobs import curate_all

    given = (curate_all, answers.fleet_curated_json, text.say_proposals)
    _do_each(fleet, vault, as_json, *given)


def compact_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print what `compact` would shorten in each vault."""
    from vaultmem.services.fleetwork.jobs import compact_all

    given = (compact_all, answers.fleet_compacted_json, text.say_compactions)
    _do_each(fleet, vault, as_json, *given)


def _do_each(
    fleet: str,
    vault: str,
    as_json: bool,
    work: Callable[..., JobResults],
    to_json: Callable[[dict[str, Any], JobResults], object],
    say_found: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, Any], JobResults]:
    """Do a job with each vault, print what it made of them, and return that."""
    with open_job(fleet) as (pool, options):
        done = work(pool, [vault] if vault else [], options)
        found = dict(done.items())
    if as_json:
        emit_json(to_json(found, done))
    else:
        say_found(found)
        warn_missing(done.missing, done.behind)
    return found, done


def warn_missing(missing: Mapping[str, str], behind: Mapping[str, str] | None = None) -> None:
    """Name the vaults that have no part in an answer, or not as their remotes are."""
    for name, why in list(missing.items())[:_NAMED]:
        warn(f"{name}: not asked: {why}")
    if (more := len(missing) - _NAMED) > 0:
        warn(f"and {count_things(more, 'more vault')} not asked")
    if behind:
        some = ", ".join(list(behind)[:_NAMED])
        warn(f"as their clones were, for their remotes were not read: {some}")
