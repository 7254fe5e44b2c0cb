"""Commands that ask or look after all vaults of a fleet, a few at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.answers import fleet as answers
from vaultmem.cli import fleet as group
from vaultmem.cli.fleet_options import OPTIONS, Fleet
from vaultmem.cli.fleet_text import (
    say_alike,
    say_believers,
    say_compactions,
    say_contradictions,
    say_judged,
    say_proposals,
    say_stats,
)
from vaultmem.cli.judging import (
    CANNOT_JUDGE,
    BudgetOption,
    FindsOption,
    NotOption,
    QueryArgument,
    SaysOption,
)
from vaultmem.cli.options import BudgetOption as PackBudgetOption
from vaultmem.cli.output import ProgressLine, emit_json, say, warn
from vaultmem.cli.quick_typer import add_commands
from vaultmem.cli.shared import give_options
from vaultmem.core.counting import count_things

if TYPE_CHECKING:
    from vaultmem.services.fleetwork.over_all import Terms
    from vaultmem.services.pools.pool import Pool

#: Vaults that did not answer, as many as are named; JSON has all.
_NAMED = 20

#: Seconds that a vault may take, where none are given.
_SECONDS = 120.0


class OverAll:
    """Which vaults of which fleet a command works on, and what it takes of earlier work."""

    _field_defaults: Mapping[str, Any] = {
        **Fleet._field_defaults,
        "vault": [],
        "seconds": _SECONDS,
        "again": False,
    }

    def __init__(
        self, vault: list[str], seconds: float = _SECONDS, again: bool = False, **fleet: Any
    ) -> None:
        self.fleet = Fleet(**fleet)
        self.as_json = self.fleet.as_json
        self.vaults = vault
        self.seconds, self._again = seconds, again

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Pool, Terms]]:
        """Open the pool for the time of a `with`, and what was done before.

        Where Ctrl-C stops it, it is said that what is done stays.
        """
        import time

        from vaultmem.services.fleetwork.over_all import Terms
        from vaultmem.storage.kept_work import KeptWork

        with self.fleet.open() as pool, KeptWork(self.fleet.find_folder(), time.time()) as kept:
            try:
                yield pool, Terms(kept, self.seconds, self._again, tell=ProgressLine)
            except KeyboardInterrupt:
                warn("stopped; what vaults did is kept, and the same command goes on with the rest")
                raise


_VAULT = Annotated[
    list[str],
    typer.Option(
        "--vault",
        metavar="NAME",
        help="A vault of the fleet (repeatable); else all.",
        show_default=False,
    ),
]
_PATIENCE = Annotated[
    float,
    typer.Option(
        "--seconds",
        metavar="N",
        help="Seconds that a vault may take; else 120.",
        show_default=False,
    ),
]
_AGAIN = Annotated[bool, typer.Option("--again", help="Begin anew, not with what was done before.")]
_WORK = {**OPTIONS, "vault": _VAULT, "seconds": _PATIENCE, "again": _AGAIN}
_takes_work = give_options(OverAll, _WORK)
_takes_pool = give_options(OverAll, {n: o for n, o in _WORK.items() if n != "again"})

LimitOption = Annotated[
    int, typer.Option("-n", "--limit", metavar="N", help="How many are printed; JSON has all.")
]


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    group.register(parent)
    app = parent.registered_groups[-1].typer_instance
    if app is not None:
        add_commands(app, recall_, pack, stats, assert_, bisect)
        add_commands(app, duplicates, contradictions, curate, compact)


@_takes_pool
def recall_(
    over: OverAll,
    query: QueryArgument,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", help="Notes at most; else 10.")
    ] = 10,
) -> None:
    """Find what all vaults know of a question, best first.

    Examples:
      vaultmem fleet recall "how are refunds handled?" --remotes fleet.txt
    """
    from vaultmem.cli.hit_text import say_hit
    from vaultmem.services.finding.ask import Ask, tell_how_sure

    with over.fleet.open() as pool:
        asked = Ask(" ".join(query), limit)
        answer, missing = pool.recall(over.vaults or None, asked, seconds=over.seconds)
    if over.as_json:
        emit_json(answers.fleet_recall_json(answer, missing))
        return
    for line in tell_how_sure(answer):
        say(line)
    for number, (hit, _) in enumerate(answer.shown, 1):
        say_hit(number, hit, False)
    if not answer.hits:
        say("No note matches.")
    _warn_missing(missing)


@_takes_pool
def pack(over: OverAll, query: QueryArgument, budget: PackBudgetOption = 0) -> None:
    """Print what an agent needs to know, of all vaults.

    Examples:
      vaultmem fleet pack "refunds" --remotes fleet.txt --vault pier --vault crew
    """
    from vaultmem.services.finding.ask_pack import AskPack

    with over.fleet.open() as pool:
        asked = AskPack(" ".join(query), budget or None)
        answer, missing = pool.pack(over.vaults or None, asked, seconds=over.seconds)
    if over.as_json:
        emit_json(answers.fleet_pack_json(answer, missing))
        return
    say(answer.pack.text.rstrip("\n"))
    _warn_missing(missing)


@_takes_pool
def stats(over: OverAll) -> None:
    """Show what each vault holds, and at which commit it is.

    Examples:
      vaultmem fleet stats --remotes fleet.txt
    """
    with over.fleet.open() as pool:
        pool.refresh(over.vaults or None)
        found = pool.stats(over.vaults or None)
    if over.as_json:
        emit_json(answers.fleet_stats_json(found.results, found.missing))
        return
    say_stats(found.results)
    _warn_missing(found.missing)


@_takes_work
def assert_(
    over: OverAll,
    query: QueryArgument,
    finds: FindsOption = [],  # noqa: B006
    says: SaysOption = [],  # noqa: B006
    negated: NotOption = False,
    budget: BudgetOption = 0,
) -> None:
    """Test what each vault's pack says.

    The exit code is 0 if all packs are as expected, 1 if one is not, 125 if one cannot be told.

    Examples:
      vaultmem fleet assert "refunds" --says "through the queue" --remotes fleet.txt
    """
    from vaultmem.core.packs.expectation import expect
    from vaultmem.services.fleetwork.look_after import judge_all

    expected = expect(" ".join(query), finds, says, negated, budget)
    with over.open() as (pool, terms):
        done = judge_all(pool, over.vaults, terms, expected)
        judged = dict(done.items())
    if over.as_json:
        emit_json(answers.fleet_judged_json(judged, done))
    else:
        say_judged(judged)
        _warn_missing(done.missing, done.behind)
    if code := 1 if any(judged.values()) else CANNOT_JUDGE if done.missing else 0:
        raise typer.Exit(code)


@_takes_work
def bisect(
    over: OverAll,
    query: QueryArgument,
    finds: FindsOption = [],  # noqa: B006
    says: SaysOption = [],  # noqa: B006
    budget: BudgetOption = 0,
) -> None:
    """Show who says something, since when, and who was told first.

    A vault says it since the commit from which on a note of it has always said it, or another note
    from which that came.

    Examples:
      vaultmem fleet bisect "refunds" --says "through the queue" --remotes fleet.txt
    """
    from vaultmem.core.packs.expectation import expect
    from vaultmem.services.fleetwork.beliefs import find_believers

    expected = expect(" ".join(query), finds, says, False, budget)
    with over.open() as (pool, terms):
        found = find_believers(pool, over.vaults, terms, expected)
    if over.as_json:
        emit_json(answers.believers_json(found))
        return
    say_believers(found)
    _warn_missing(found.missing, found.behind)


@_takes_work
def duplicates(over: OverAll, limit: LimitOption = 20) -> None:
    """Show what notes of several vaults say alike.

    By the rules of `similar` and `curate`; what one vault says twice is left to its own `dedup`.

    Examples:
      vaultmem fleet duplicates --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.alike import compare_all

    with over.open() as (pool, terms):
        found = compare_all(pool, over.vaults, terms)
    if over.as_json:
        emit_json(answers.duplicates_json(found))
        return
    say_alike(found, limit)
    _warn_missing(found.missing, found.behind)


@_takes_work
def contradictions(over: OverAll, limit: LimitOption = 20) -> None:
    """Show in what notes of several vaults contradict each other.

    The older note stands first. Who is right is for the vaults' owners to decide.

    Examples:
      vaultmem fleet contradictions --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.alike import compare_all

    with over.open() as (pool, terms):
        found = compare_all(pool, over.vaults, terms)
    if over.as_json:
        emit_json(answers.contradictions_json(found))
        return
    say_contradictions(found, limit)
    _warn_missing(found.missing, found.behind)


@_takes_work
def curate(over: OverAll) -> None:
    """Show what `curate` would propose in each vault.

    Examples:
      vaultmem fleet curate --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.look_after import curate_all

    with over.open() as (pool, terms):
        done = curate_all(pool, over.vaults, terms)
        found = dict(done.items())
    if over.as_json:
        emit_json(answers.fleet_curated_json(found, done))
        return
    say_proposals(found)
    _warn_missing(done.missing, done.behind)


@_takes_work
def compact(over: OverAll) -> None:
    """Show what `compact` would shorten in each vault.

    Examples:
      vaultmem fleet compact --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.look_after import compact_all

    with over.open() as (pool, terms):
        done = compact_all(pool, over.vaults, terms)
        found = dict(done.items())
    if over.as_json:
        emit_json(answers.fleet_compacted_json(found, done))
        return
    say_compactions(found)
    _warn_missing(done.missing, done.behind)


def _warn_missing(missing: Mapping[str, str], behind: Mapping[str, str] | None = None) -> None:
    """Name the vaults that have no part in an answer, or not as their remotes are."""
    for name, why in list(missing.items())[:_NAMED]:
        warn(f"{name}: not asked: {why}")
    if (more := len(missing) - _NAMED) > 0:
        warn(f"and {count_things(more, 'more vault')} not asked")
    if behind:
        some = ", ".join(list(behind)[:_NAMED])
        warn(f"as their clones were, for their remotes were not read: {some}")
