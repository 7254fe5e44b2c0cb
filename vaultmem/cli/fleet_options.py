"""Which vaults a command for many works on, and where they are kept."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import ProgressLine, warn
from vaultmem.cli.shared import give_options, needing
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.fleet.pool import RayPool
    from vaultmem.services.fleetwork.over_all import Terms
    from vaultmem.services.pools.pool import Pool
    from vaultmem.services.pools.source import Source

_ENGINES = ("local", "ray")

#: Seconds for which all vaults of a pool that ends with its command are waited for.
_LONGEST = 600.0


class Fleet(NamedTuple):
    """Which vaults a command works on, where they are kept, and what it takes of earlier work.

    What a command has no option for is as it is here.
    """

    remotes: str = ""
    folder: str = ""
    shards: int = 0
    engine: str = ""
    address: str = ""
    resource: str = "CPU"
    as_json: bool = False
    vaults: list[str] = []  # noqa: RUF012
    seconds: float = 120.0
    again: bool = False

    @contextlib.contextmanager
    def open(self) -> Iterator[Pool]:
        """Open the pool for the time of a `with`; one of Ray's on this machine is waited for.

        Raises:
            RefusedError: no vaults are named, or what names them says something else.
        """
        engine = self.engine or ("ray" if self.address else "local")
        if engine not in _ENGINES or (engine == "local" and self.address):
            raise typer.BadParameter(f'"{engine}" is not an engine that is here; use ray or local')
        if engine == "local" or not self.address:
            self.require_remotes()
        pool = self.open_ray() if engine == "ray" else self._open_local()
        with contextlib.closing(pool):
            yield pool

    @contextlib.contextmanager
    def open_to_work(self) -> Iterator[tuple[Pool, Terms]]:
        """Open the pool for the time of a `with`, and what was done before.

        Where Ctrl-C stops it, it is said that what is done stays.
        """
        from vaultmem.services.fleetwork.over_all import Terms
        from vaultmem.storage.kept_work import KeptWork

        with self.open() as pool, KeptWork(self.find_folder(), time.time()) as kept:
            try:
                yield pool, Terms(kept, self.seconds, self.again, tell=ProgressLine)
            except KeyboardInterrupt:
                warn("stopped; what vaults did is kept, and the same command goes on with the rest")
                raise

    def open_ray(self, stays: bool = False) -> RayPool:
        """Open a pool of Ray's: the fleet at the address, else one of this machine.

        Raises:
            VaultError: the extra `fleet` is not installed, or there is no such cluster or fleet.
        """
        with needing("fleet", "fleet"):
            from vaultmem.fleet.plan import Plan
            from vaultmem.fleet.pool import RayPool
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
        """Return the folder of the clones."""
        from vaultmem.environment import current_environment
        from vaultmem.vault import find_user_folders

        if self.folder:
            return Path(self.folder).expanduser().absolute()
        return find_user_folders(current_environment()).state / "fleet"


OPTIONS = {
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
    "as_json": JsonOption,
}

_RESOURCE = Annotated[
    str,
    typer.Option(
        "--resource",
        metavar="NAME",
        help="What of a machine limits its shards, one unit each: CPU, or a name of yours.",
    ),
]

#: Those of who starts a fleet.
STARTING_OPTIONS = {**OPTIONS, "resource": _RESOURCE}

#: Gives a command the options of a fleet; what they say is its first argument, a `Fleet`.
takes_fleet = give_options(Fleet, OPTIONS)

_VAULTS = Annotated[
    list[str],
    typer.Option(
        "--vault",
        metavar="NAME",
        help="A vault of the fleet (repeatable); else all.",
        show_default=False,
    ),
]
_SECONDS = Annotated[
    float,
    typer.Option(
        "--seconds",
        metavar="N",
        help="Seconds that a vault may take; else 120.",
        show_default=False,
    ),
]
_AGAIN = Annotated[bool, typer.Option("--again", help="Begin anew, not with what was done before.")]

#: Those of who asks all vaults of a fleet, and of whose work over them is kept.
_ASKING = {**OPTIONS, "vaults": _VAULTS, "seconds": _SECONDS}
takes_vaults = give_options(Fleet, _ASKING)
takes_work = give_options(Fleet, {**_ASKING, "again": _AGAIN})
