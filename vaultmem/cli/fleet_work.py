"""Commands that ask or look after all vaults of a fleet, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from vaultmem.answers import fleet as answers
from vaultmem.cli.fleet_options import Fleet, takes_vaults, takes_work
from vaultmem.cli.fleet_text import (
    say_alike,
    say_believers,
    say_compactions,
    say_contradictions,
    say_judged,
    say_proposals,
    say_stats,
)
from vaultmem.cli.judging import CANNOT_JUDGE, EXPECTING, Asked, QueryArgument
from vaultmem.cli.options import BudgetOption
from vaultmem.cli.output import emit_json, say, warn
from vaultmem.cli.shared import give_options
from vaultmem.core.counting import count_things

if TYPE_CHECKING:
    from vaultmem.services.fleetwork.beliefs import Believers
    from vaultmem.services.fleetwork.compared import Compared
    from vaultmem.services.fleetwork.over_all import Gathered

#: What has vaults that are `missing`, and some that are `behind`.
_Found = TypeVar("_Found", "Believers", "Compared")

#: Vaults that did not answer, as many as are named; JSON has all.
_NAMED = 20

_SearchArgument = Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")]
_LimitOption = Annotated[
    int, typer.Option("-n", "--limit", metavar="N", help="How many are printed; JSON has all.")
]

#: What is asked of who says something: where nobody does, nobody was told either.
_SAYING = {name: each for name, each in EXPECTING.items() if name != "negated"} | {
    "query": Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY", help="What it is about: each vault's pack for this is read."
        ),
    ]
}


@takes_vaults
def recall_(
    fleet: Fleet,
    query: _SearchArgument,
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

    with fleet.open() as pool:
        asked = Ask(" ".join(query), limit)
        answer, missing = pool.recall(fleet.vaults or None, asked, seconds=fleet.seconds)
    if fleet.as_json:
        emit_json(answers.fleet_recall_json(answer, missing))
        return
    for line in tell_how_sure(answer):
        say(line)
    for number, (hit, _) in enumerate(answer.shown, 1):
        say_hit(number, hit, False)
    if not answer.hits:
        say("No note matches.")
    _warn_missing(missing)


@takes_vaults
def pack(fleet: Fleet, query: QueryArgument, budget: BudgetOption = 0) -> None:
    """Print what an agent needs to know, of all vaults.

    Examples:
      vaultmem fleet pack "refunds" --remotes fleet.txt --vault pier --vault crew
    """
    from vaultmem.services.finding.ask_pack import AskPack

    with fleet.open() as pool:
        asked = AskPack(" ".join(query), budget or None)
        answer, missing = pool.pack(fleet.vaults or None, asked, seconds=fleet.seconds)
    if fleet.as_json:
        emit_json(answers.fleet_pack_json(answer, missing))
        return
    say(answer.pack.text.rstrip("\n"))
    _warn_missing(missing)


@takes_vaults
def stats(fleet: Fleet) -> None:
    """Show what each vault holds, and at which commit it is.

    Examples:
      vaultmem fleet stats --remotes fleet.txt
    """
    with fleet.open() as pool:
        pool.refresh(fleet.vaults or None)
        found = pool.stats(fleet.vaults or None)
    if fleet.as_json:
        emit_json(answers.fleet_stats_json(found.results, found.missing))
        return
    say_stats(found.results)
    _warn_missing(found.missing)


@takes_work
@give_options(Asked, EXPECTING)
def assert_(asked: Asked, fleet: Fleet) -> None:
    """Test what each vault's pack says.

    The exit code is 0 if all packs are as expected, 1 if one is not, 125 if one cannot be told.

    Examples:
      vaultmem fleet assert "refunds" --says "through the queue" --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.look_after import judge_all

    judge = partial(judge_all, expected=asked.expect())
    judged, done = _do_each(fleet, judge, answers.fleet_judged_json, say_judged)
    if code := 1 if any(judged.values()) else CANNOT_JUDGE if done.missing else 0:
        raise typer.Exit(code)


@takes_work
@give_options(Asked, _SAYING)
def bisect(asked: Asked, fleet: Fleet) -> None:
    """Show who says something, since when, and who was told first.

    A vault says it since the commit from which on a note of it has always said it, or another note
    from which that came.

    Examples:
      vaultmem fleet bisect "refunds" --says "through the queue" --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.beliefs import find_believers

    find = partial(find_believers, expected=asked.expect())
    _find_over(fleet, find, answers.believers_json, say_believers)


@takes_work
def duplicates(fleet: Fleet, limit: _LimitOption = 20) -> None:
    """Show what notes of several vaults say alike.

    By the rules of `similar` and `curate`; what one vault says twice is left to its own `dedup`.

    Examples:
      vaultmem fleet duplicates --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.alike import compare_all

    _find_over(fleet, compare_all, answers.duplicates_json, partial(say_alike, limit=limit))


@takes_work
def contradictions(fleet: Fleet, limit: _LimitOption = 20) -> None:
    """Show in what notes of several vaults contradict each other.

    The older note stands first. Who is right is for the vaults' owners to decide.

    Examples:
      vaultmem fleet contradictions --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.alike import compare_all

    say_found = partial(say_contradictions, limit=limit)
    _find_over(fleet, compare_all, answers.contradictions_json, say_found)


@takes_work
def curate(fleet: Fleet) -> None:
    """Show what `curate` would propose in each vault.

    Examples:
      vaultmem fleet curate --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.look_after import curate_all

    _do_each(fleet, curate_all, answers.fleet_curated_json, say_proposals)


@takes_work
def compact(fleet: Fleet) -> None:
    """Show what `compact` would shorten in each vault.

    Examples:
      vaultmem fleet compact --remotes fleet.txt
    """
    from vaultmem.services.fleetwork.look_after import compact_all

    _do_each(fleet, compact_all, answers.fleet_compacted_json, say_compactions)


def _find_over(
    fleet: Fleet,
    find: Callable[..., _Found],
    to_json: Callable[[_Found], object],
    say_found: Callable[[_Found], None],
) -> None:
    """Print what is found over all vaults."""
    with fleet.open_to_work() as (pool, terms):
        found = find(pool, fleet.vaults, terms)
    if fleet.as_json:
        emit_json(to_json(found))
        return
    say_found(found)
    _warn_missing(found.missing, found.behind)


def _do_each(
    fleet: Fleet,
    work: Callable[..., Gathered],
    to_json: Callable[[dict[str, Any], Gathered], object],
    say_found: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, Any], Gathered]:
    """Do a work with each vault, print what it made of them, and return that."""
    with fleet.open_to_work() as (pool, terms):
        done = work(pool, fleet.vaults, terms)
        found = dict(done.items())
    if fleet.as_json:
        emit_json(to_json(found, done))
    else:
        say_found(found)
        _warn_missing(done.missing, done.behind)
    return found, done


def _warn_missing(missing: Mapping[str, str], behind: Mapping[str, str] | None = None) -> None:
    """Name the vaults that have no part in an answer, or not as their remotes are."""
    for name, why in list(missing.items())[:_NAMED]:
        warn(f"{name}: not asked: {why}")
    if (more := len(missing) - _NAMED) > 0:
        warn(f"and {count_things(more, 'more vault')} not asked")
    if behind:
        some = ", ".join(list(behind)[:_NAMED])
        warn(f"as their clones were, for their remotes were not read: {some}")
