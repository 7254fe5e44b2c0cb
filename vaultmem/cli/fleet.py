"""Commands that work on many vaults by their remotes, with those of a fleet itself."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import typer

from vaultmem.answers.fleet import fleet_status_json
from vaultmem.cli.fleet_options import OPTIONS, STARTING_OPTIONS, Fleet, takes_fleet
from vaultmem.cli.fleet_serving import serve
from vaultmem.cli.fleet_work import (
    assert_,
    bisect,
    compact,
    contradictions,
    curate,
    duplicates,
    pack,
    recall_,
    stats,
)
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.shared import give_options
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.services.pools.status import PoolStatus, ShardStatus

#: Seconds for which the vaults of a fleet that stays are waited for.
_STARTING = 10.0

#: Vaults with a problem that are named; JSON has all.
_NAMED = 20


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_describe)
    add_commands(app, status, start, stop, serve, recall_, pack, stats, assert_, bisect)
    add_commands(app, duplicates, contradictions, curate, compact)
    parent.add_typer(app, name="fleet")


def _describe() -> None:
    """Ask and look after many vaults, by their remotes.

    Each is cloned to this machine's disk and follows its remote, which stays the truth: the clones
    can be deleted at any time.
    """


@takes_fleet
def status(fleet: Fleet) -> None:
    """Show how a fleet is, and which vaults are not there.

    Examples:
      vaultmem fleet status --remotes fleet.txt
      vaultmem fleet status --address auto
    """
    from vaultmem.services.pools.status import find_status

    with fleet.open() as pool:
        found = find_status(pool)
    _show_status(found, fleet.as_json)


@give_options(Fleet, {k: each for k, each in STARTING_OPTIONS.items() if k != "engine"})
def start(fleet: Fleet) -> None:
    """Start a fleet in a cluster of Ray's, or change its vaults.

    It stays when the command has ended. Its machines need the same vaultmem, and reach the remotes;
    the folder is one on each of them.

    Examples:
      vaultmem fleet start --address auto --remotes fleet.txt
    """
    if not fleet.address:
        raise RefusedError("which cluster? `ray start --head` starts one; name it with --address")
    fleet.require_remotes()
    with closing(fleet.open_ray(stays=True)) as pool:
        found = pool.shards.wait_ready(_STARTING)
    _show_status(found, fleet.as_json)


@give_options(Fleet, {name: OPTIONS[name] for name in ("address", "as_json")})
def stop(fleet: Fleet) -> None:
    """End the fleet of a cluster; its folders stay.

    Examples:
      vaultmem fleet stop --address auto
    """
    if not fleet.address:
        raise RefusedError("which cluster? name it with --address")
    with closing(fleet.open_ray()) as pool:
        found = pool.shards.status()
        pool.shards.stop()
    if fleet.as_json:
        emit_json(fleet_status_json(found))
    else:
        say(f"The fleet of {count_things(found.vaults, 'vault')} has ended.")


def _show_status(found: PoolStatus, as_json: bool) -> None:
    if as_json:
        emit_json(fleet_status_json(found))
        return
    shards = count_things(len(found.shards), "shard")
    facts = [f"{count_things(found.vaults, 'vault')}, {found.ready:,} ready", shards]
    facts += [f"{len(found.copied):,} with a second copy"] if found.copied else []
    facts += [f"{count_things(found.lost, 'shard')} lost"] if found.lost else []
    say("; ".join(facts))
    width = max([len("shard"), *(len(each.name) for each in found.shards)])
    say(
        f"\n{'shard':<{width}}  {'state':<8} {'ready':>11} {'backlog':>7} {'stale':>6} "
        f"{'restarts':>8} {'memory':>8} {'disk':>8}"
    )
    for each in found.shards:
        _say_shard(each, width)
    if found.problems:
        say()
    for name, why in list(found.problems.items())[:_NAMED]:
        say_painted(name, "yellow", f": {one_line(why)}")
    if (more := len(found.problems) - _NAMED) > 0:
        say(f"and {count_things(more, 'more vault')}")


def _say_shard(shard: ShardStatus, width: int) -> None:
    ready = f"{shard.ready:,}/{shard.vaults:,}"
    say_painted(
        f"{shard.name:<{width}}",
        "bold",
        f"  {shard.state:<8} {ready:>11} {shard.backlog:>7,} {shard.stale:>5,.0f}s "
        f"{shard.restarts:>8,} {_tell_size(shard.memory):>8} {_tell_size(shard.disk):>8}",
    )
    if shard.problem:
        say(f"{'':<{width}}  {one_line(shard.problem)}")


def _tell_size(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size else "-"
