"""Commands that work on many vaults by their remotes: fleet status."""

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
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.services.pools.pool import Pool
    from vaultmem.services.pools.status import PoolStatus, ShardStatus

#: Vaults with a problem that are named; JSON has all.
_NAMED = 20


class Fleet(NamedTuple):
    """Which vaults a command works on, and where they are kept."""

    remotes: str = ""
    folder: str = ""
    shards: int = 0
    as_json: bool = False

    @contextlib.contextmanager
    def open(self) -> Iterator[Pool]:
        """Open the pool for the time of a `with`.

        Raises:
            RefusedError: no remotes are named, or what names them says something else.
        """
        from vaultmem.services.pools.pool import LocalPool
        from vaultmem.services.pools.source import read_sources

        if not self.remotes:
            raise RefusedError("which vaults? name a file of their remotes with --remotes FILE")
        sources = read_sources(Path(self.remotes).expanduser())
        pool = LocalPool(sources, self.find_folder(), max(1, self.shards))
        try:
            yield pool
        finally:
            pool.close()

    def find_folder(self) -> Path:
        """Return the folder of the clones."""
        from vaultmem.environment import current_environment
        from vaultmem.vault import find_user_folders

        if self.folder:
            return Path(self.folder).expanduser()
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
            "--shards", metavar="N", help="Shards that share the vaults.", show_default=False
        ),
    ],
    "as_json": JsonOption,
}

#: Gives a command the options of a fleet; what they say is its first argument, a `Fleet`.
takes_fleet = give_options(Fleet, _OPTIONS)


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_describe)
    add_commands(app, status)
    parent.add_typer(app, name="fleet")


def _describe() -> None:
    """Ask and look after many vaults, by their remotes.

    Each is cloned to this machine's disk and follows its remote, which stays the truth: the clones
    can be deleted at any time.
    """


@takes_fleet
def status(fleet: Fleet) -> None:
    """Show how a fleet is: its shards, and the vaults that are not there.

    Examples:
      vaultmem fleet status --remotes fleet.txt
    """
    from vaultmem.services.pools.status import find_local_status

    with fleet.open() as pool:
        found = find_local_status(pool)
    if fleet.as_json:
        emit_json(fleet_status_json(found))
    else:
        _say_status(found)


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
