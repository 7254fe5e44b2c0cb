"""Commands that work on many vaults by their remotes: fleet status, fleet start, fleet stop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from vaultmem.answers.fleet import fleet_status_json
from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.shared import give_options
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.fleet.pool import RayPool
    from vaultmem.services.pools.pool import Pool
    from vaultmem.services.pools.source import Source
    from vaultmem.services.pools.status import PoolStatus, ShardStatus

ENGINES = ("local", "ray")

#: Seconds for which vaults are waited for: all of a pool that ends with its command, and the first
#: of a fleet that stays.
_LONGEST = 600.0
_STARTING = 10.0

#: Vaults with a problem that are named; JSON has all.
_NAMED = 20


class Fleet(NamedTuple):
    """Which vaults a command works on, and where they are kept."""

    remotes: str = ""
    folder: str = ""
    shards: int = 0
    engine: str = ""
    address: str = ""
    resource: str = "CPU"
    as_json: bool = False

    @contextlib.contextmanager
    def open(self) -> Iterator[Pool]:
        """Open the pool for the time of a `with`; one of Ray's on this machine is waited for.

        Raises:
            RefusedError: no vaults are named, or what names them says something else.
        """
        engine = self.engine or ("ray" if self.address else "local")
        if engine not in ENGINES or (engine == "local" and self.address):
            raise typer.BadParameter(f'"{engine}" is not an engine that is here; use ray or local')
        if engine == "local" or not self.address:
            self.require_remotes()
        pool = self.open_ray() if engine == "ray" else self._open_local()
        try:
            yield pool
        finally:
            pool.close()

    def open_ray(self, stays: bool = False) -> RayPool:
        """Open a pool of Ray's: the fleet at the address, else one of this machine.

        Raises:
            VaultError: the extra `fleet` is not installed, or there is no such cluster or fleet.
        """
        try:
            from vaultmem.fleet.plan import Plan
            from vaultmem.fleet.pool import RayPool
        except ModuleNotFoundError as error:
            from vaultmem.storage.missing import tell_missing

            raise VaultError(f"fleet: {tell_missing(error.name, 'fleet')}") from None
        plan = Plan(str(self.find_folder()), resource=self.resource, most=self.shards)
        sources = self._read_sources() if self.remotes else None
        pool = RayPool(plan, sources, self.address, stays)
        if not self.address:
            pool.shards.wait_ready(_LONGEST)
        return pool

    def _open_local(self) -> Pool:
        from vaultmem.services.pools.pool import LocalPool

        return LocalPool(self._read_sources(), self.find_folder(), max(1, self.shards))

    def require_remotes(self) -> None:
        """Raise RefusedError where no vaults are named."""
        if not self.remotes:
            raise RefusedError("which vaults? name a file of their remotes with --remotes FILE")

    def _read_sources(self) -> list[Source]:
        from vaultmem.services.pools.source import read_sources

        return read_sources(Path(self.remotes).expanduser())

    def find_folder(self) -> Path:
        """Return where clones are kept, and what is made of them."""
        from vaultmem.environment import current_environment
        from vaultmem.vault import find_user_folders

        if self.folder:
            return Path(self.folder).expanduser().absolute()
        return find_user_folders(current_environment()).state / "fleet"


_OPTIONS = {
    "remotes": Annotated[
        str,
        typer.Option(
            "--remotes",
            metavar="FILE",
            help="A line NAME REMOTE [BRANCH] for each vault; or a folder of bare repositories.",
            show_default=False,
        ),
    ],
    "folder": Annotated[
        str,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Where clones are kept, which can be deleted; else in the state folder.",
            show_default=False,
        ),
    ],
    "shards": Annotated[
        int,
        typer.Option(
            "--shards",
            metavar="N",
            help="Shards that share the vaults: with Ray on each machine, else as many as it has "
            "room for.",
            show_default=False,
        ),
    ],
    "engine": Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="local (this process), or ray (processes on this machine; the extra `fleet`).",
            show_default=False,
        ),
    ],
    "address": Annotated[
        str,
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="Use the fleet of a cluster of Ray's: HOST:PORT, or auto for the one here.",
            show_default=False,
        ),
    ],
    "resource": Annotated[
        str,
        typer.Option(
            "--resource",
            metavar="NAME",
            help="What of a machine limits its shards, one unit each: CPU, or a name of yours.",
        ),
    ],
    "as_json": JsonOption,
}

#: Gives a command the options of a fleet; what they say is its first argument, a `Fleet`.
takes_fleet = give_options(Fleet, {k: v for k, v in _OPTIONS.items() if k != "resource"})


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_describe)
    add_commands(app, status, start, stop)
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
    if fleet.as_json:
        emit_json(fleet_status_json(found))
    else:
        _say_status(found)


@give_options(Fleet, {name: _OPTIONS[name] for name in _OPTIONS if name != "engine"})
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
    pool = fleet.open_ray(stays=True)
    try:
        found = pool.shards.wait_ready(_STARTING)
    finally:
        pool.close()
    if fleet.as_json:
        emit_json(fleet_status_json(found))
    else:
        _say_status(found)


@give_options(Fleet, {name: _OPTIONS[name] for name in ("address", "as_json")})
def stop(fleet: Fleet) -> None:
    """End the fleet of a cluster; its folders stay.

    Examples:
      vaultmem fleet stop --address auto
    """
    if not fleet.address:
        raise RefusedError("which cluster? name it with --address")
    pool = fleet.open_ray()
    try:
        found = pool.shards.status()
        pool.shards.stop()
    finally:
        pool.close()
    if fleet.as_json:
        emit_json(fleet_status_json(found))
    else:
        say(f"The fleet of {count_things(found.vaults, 'vault')} has ended.")


def _say_status(found: PoolStatus) -> None:
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
