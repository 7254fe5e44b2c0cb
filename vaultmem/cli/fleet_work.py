"""Commands with `--fleet FILE`, and their results as text and as JSON."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from vaultmem.cli.output import ProgressLine, emit_json, print_line, print_styled, warn
from vaultmem.cli.shared import needing
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import RefusedError
from vaultmem.operations.declaration import Arg, ArgumentForm
from vaultmem.operations.vault_data import (
    fleet_compacted_json,
    fleet_curated_json,
    fleet_judged_json,
    fleet_stats_json,
)

if TYPE_CHECKING:
    from vaultmem.core.packs.receipt import Expectation
    from vaultmem.services.fleet.clone import VaultSource, VaultStats
    from vaultmem.services.fleet.jobs import JobResults
    from vaultmem.services.fleet.pool import Pool
    from vaultmem.services.packs.build import AskPack, PackAnswer
    from vaultmem.services.search.run_query import Query, QueryResult, Show
    from vaultmem.services.search.vault_set import VaultSet

#: The prefix of a cluster's address.
_RAY = "ray:"

#: Timeout in seconds for the vaults of one query.
_QUESTION = 60.0

#: Maximum number of vaults printed without a response; JSON has all.
_MAX_LISTED_VAULTS = 20


FILE_HELP = "A line NAME REMOTE [BRANCH] for each vault; or a folder of bare repositories."
FLEET_HELP = f"{FILE_HELP} Or ray:ADDRESS, a cluster's."


class Job(NamedTuple):
    """The vaults of a fleet for a job, and its options."""

    fleet: Annotated[str, Arg(FLEET_HELP, takes=ArgumentForm.WORD, metavar="FLEET")]
    vault: Annotated[
        tuple[str, ...], Arg("Vault of the fleet (repeatable).  [default: all]", metavar="NAME")
    ] = ()
    seconds: Annotated[
        float, Arg("Timeout for each vault, in seconds.", flags=("--timeout",), metavar="N")
    ] = 120.0
    again: Annotated[
        bool, Arg("Start again, without the results of the last run.", flags=("--restart",))
    ] = False


@contextlib.contextmanager
def open_fleet(fleet: str, folder: str = "") -> Iterator[Pool]:
    """Open the vaults of a file or folder, or a cluster's fleet, while the context is open.

    Raises:
        RefusedError: the file is malformed.
        VaultError: there is no such file or fleet, or the extra `fleet` is not installed.
    """
    from vaultmem.services.fleet.pool import LocalPool

    if fleet.startswith(_RAY):
        with needing("fleet", "--fleet"):
            from vaultmem.ray_fleet.ray_pool import RayPool
        pool: Pool = RayPool(fleet.removeprefix(_RAY))
    else:
        pool = LocalPool(read_fleet(fleet), find_folder(folder))
    with contextlib.closing(pool):
        yield pool


def read_fleet(fleet: str) -> list[VaultSource]:
    """Return the vaults that a file or folder lists."""
    from vaultmem.services.fleet.clone import read_sources

    return read_sources(Path(fleet).expanduser())


def find_folder(folder: str = "") -> Path:
    """Return the folder of the clones, by default one in the state folder."""
    from vaultmem.environment import current_environment
    from vaultmem.vault import find_user_folders

    if folder:
        return Path(folder).expanduser().absolute()
    return find_user_folders(current_environment()).state / "fleet"


def run_job(
    job: Job,
    as_json: bool,
    find: Callable[..., Any],
    make_json: Callable[[Any], object],
    print_found: Callable[[Any], None],
) -> Any:
    """Run a job over its vaults, print the result and return it.

    Results of an interrupted run are reused. Ctrl-C prints that they are kept.
    """
    from vaultmem.services.fleet.jobs import JobOptions
    from vaultmem.storage.value_store import JobResultCache

    options = JobOptions(
        JobResultCache(find_folder(), time.time()), job.seconds, job.again, ProgressLine
    )
    with open_fleet(job.fleet) as pool:
        try:
            results = find(pool, job.vault, options)
        except KeyboardInterrupt:
            warn("stopped; what vaults did is kept, and the same command goes on with the rest")
            raise
    if as_json:
        emit_json(make_json(results))
    else:
        print_found(results)
        warn_missing(results.missing, results.stale_reasons)
    return results


def reject_with_fleet(**options: object) -> None:
    """Reject options that only work on one vault.

    Raises:
        RefusedError: one is given.
    """
    for name, value in options.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise RefusedError(f"{option}: is for one vault; leave it out with --fleet")


def recall_fleet(
    fleet: str, vaults: Sequence[str], query: Query, show: Show
) -> tuple[QueryResult, dict[str, str]]:
    """Return the hits of a query in a fleet, and why some vaults are missing."""
    with open_fleet(fleet) as pool:
        answer, missing = pool.recall(vaults or None, query, seconds=_QUESTION)
    no_vault = cast("VaultSet", None)  # Hits have their texts; no vault is read.
    return answer._replace(shown=show(no_vault, answer) or ()), missing


def pack_fleet(
    fleet: str, vaults: Sequence[str], options: AskPack
) -> tuple[PackAnswer, dict[str, str]]:
    """Return a pack of a fleet, and why some vaults are missing."""
    with open_fleet(fleet) as pool:
        return pool.pack(vaults or None, options, seconds=_QUESTION)


def stats_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print each vault's counts and commit."""
    with open_fleet(fleet) as pool:
        names = [vault] if vault else None
        unread = pool.refresh(names).missing
        stats = pool.stats(names)
    unread = {name: why for name, why in unread.items() if not stats.results[name].problem}
    missing = {**unread, **stats.missing}
    if as_json:
        emit_json(fleet_stats_json(stats.results, missing))
        return
    _print_stats(stats.results)
    warn_missing(missing)


def assert_fleet(fleet: str, vault: str, expectation: Expectation, as_json: bool) -> bool | None:
    """Print the vaults with unexpected packs; return whether all are fine, None if unknown."""
    from vaultmem.services.fleet.jobs import judge_all

    judge = partial(judge_all, expected=expectation)
    results = run_job(_make_job(fleet, vault), as_json, judge, fleet_judged_json, _print_judged)
    if any(reasons for _, reasons in results.items()):
        return False
    return None if results.missing else True


def curate_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print the proposals of `curate` for each vault."""
    from vaultmem.services.fleet.jobs import curate_all

    run_job(_make_job(fleet, vault), as_json, curate_all, fleet_curated_json, _print_proposals)


def compact_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print the steps of `compact` for each vault."""
    from vaultmem.services.fleet.jobs import compact_all

    job = _make_job(fleet, vault)
    run_job(job, as_json, compact_all, fleet_compacted_json, _print_compactions)


def _make_job(fleet: str, vault: str) -> Job:
    return Job(fleet, (vault,) if vault else ())


def warn_missing(missing: Mapping[str, str], behind: Mapping[str, str] | None = None) -> None:
    """Print the vaults that are missing from a result, or whose clones are out of date."""
    for name, why in list(missing.items())[:_MAX_LISTED_VAULTS]:
        warn(f"{name}: not asked: {why}")
    if (more := len(missing) - _MAX_LISTED_VAULTS) > 0:
        warn(f"and {pluralize(more, 'more vault')} not asked")
    if behind:
        names = ", ".join(list(behind)[:_MAX_LISTED_VAULTS])
        warn(f"as their clones were, for their remotes were not read: {names}")


def _print_judged(results: JobResults) -> None:
    """Print the vaults with unexpected packs, and the count of the others."""
    verdicts = dict(results.items())
    bad = {name: reasons for name, reasons in verdicts.items() if reasons}
    width = max(map(len, bad), default=0)
    for name, reasons in bad.items():
        print_styled(f"{name:<{width}}", "red", f"  {one_line('; '.join(reasons))}")
    print_line(f"{len(verdicts) - len(bad):,} of {pluralize(len(verdicts), 'vault')} as expected")


def _print_proposals(results: JobResults) -> None:
    """Print the proposals by vault, then in total."""
    sums: Counter[str] = Counter()
    vaults: Counter[str] = Counter()
    rows = []
    for name, proposals in results.items():
        counts = Counter(str(each["action"]).replace("_", " ") for each in proposals)
        sums.update(counts)
        vaults.update(counts.keys())
        if counts:
            rows.append((name, _describe_counts(counts)))
    print_table(("vault", "proposals"), rows)
    for action, count in sums.most_common():
        print_styled(
            f"{action:<20}", "bold", f" {count:>7,} in {pluralize(vaults[action], 'vault')}"
        )
    if sums:
        print_line("Nothing was changed; `vaultmem curate` in a vault shows each, with reasons.")
    else:
        print_line("Nothing to do: these vaults are healthy.")


def _print_compactions(results: JobResults) -> None:
    """Print the compaction steps by vault, then in total."""
    rows = []
    before = left = 0
    exempt: Counter[str] = Counter()
    for name, plan in results.items():
        steps = plan["steps"]
        exempt.update(plan["exempt"])
        counts = Counter(str(each["step"]) for each in steps)
        tokens = [sum(each[key] for each in steps) for key in ("tokens", "tokens_left")]
        before, left = before + tokens[0], left + tokens[1]
        if steps:
            rows.append((name, _describe_counts(counts), f"{tokens[0]:,} to {tokens[1]:,} tokens"))
    print_table(("vault", "steps", ""), rows)
    for reason, count in exempt.most_common():
        print_styled("stays  ", "dim", f"{pluralize(count, 'note')}: {reason}")
    if rows:
        print_line(f"Nothing was changed; {before:,} tokens would become {left:,}.")
    else:
        print_line("Nothing is due.")


def _print_stats(stats: Mapping[str, VaultStats]) -> None:
    rows = [
        (
            *(name, f"{each.notes:,}", f"{each.tokens:,}"),
            f"{(each.clone_bytes + each.index_bytes) / 1e6:.1f} MB",
            *(each.commit[:7] or "-", f"{each.age:,.0f} s" if each.age >= 0 else "-"),
            one_line(each.problem),
        )
        for name, each in stats.items()
    ]
    print_table(("vault", "notes", "tokens", "disk", "commit", "heard of", ""), rows)
    notes = sum(each.notes for each in stats.values())
    print_line(f"{pluralize(notes, 'note')} of {pluralize(len(stats), 'vault')}")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heads in aligned columns."""
    if not rows:
        return
    clean_rows = [tuple(map(one_line, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*clean_rows, strict=True)]
    for number, row in enumerate(clean_rows):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        (print_line if number else partial(print_styled, style="dim"))(line.rstrip())


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
