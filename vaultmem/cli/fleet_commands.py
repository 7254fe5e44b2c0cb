"""Commands of a fleet itself, and those that compare its vaults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from vaultmem.cli import fleet_work as work
from vaultmem.cli.assert_commands import EXPECTING, PackAssertion
from vaultmem.cli.options import ONLY_HERE, HostOption, JsonOption, PortOption
from vaultmem.cli.output import emit_json, print_line, print_styled
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.serve_commands import NamesOption, ProxyOption, find_served, print_places, serving
from vaultmem.cli.shared import give_options, needing
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.operations.vault_data import believers_json, contradictions_json, duplicates_json

if TYPE_CHECKING:
    from vaultmem.services.fleet.clone import NodeStatus, PoolStatus

#: Vaults with a problem that are named; JSON has all.
_NAMED = 20

_FILE_HELP = "A line NAME REMOTE [BRANCH] for each vault; or a folder of bare repositories."
_FileArgument = Annotated[str, typer.Argument(metavar="FILE", help=_FILE_HELP)]
_FleetArgument = Annotated[
    str, typer.Argument(metavar="FLEET", help=f"{_FILE_HELP} Or ray:ADDRESS, a cluster's.")
]
_AddressOption = Annotated[
    str,
    typer.Option(
        "--address", metavar="ADDRESS", help="Ray cluster: HOST:PORT, or auto for this one."
    ),
]
_FolderOption = Annotated[
    str,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="Folder for the clones.  [default: in the state folder]",
        show_default=False,
    ),
]
_LimitOption = Annotated[
    int, typer.Option("-n", "--limit", metavar="N", help="Results to print; JSON has all.")
]


class _Job(NamedTuple):
    """What is asked of a job over a fleet."""

    fleet: str
    vault: list[str] = []  # noqa: RUF012
    seconds: float = work.JOB_SECONDS
    again: bool = False
    as_json: bool = False


_takes_job = give_options(
    _Job,
    {
        "fleet": _FleetArgument,
        "vault": Annotated[
            list[str],
            typer.Option(
                "--vault", metavar="NAME", help="Vault of the fleet (repeatable).  [default: all]"
            ),
        ],
        "seconds": Annotated[
            float,
            typer.Option("--timeout", metavar="N", help="Timeout for each vault, in seconds."),
        ],
        "again": Annotated[
            bool,
            typer.Option("--restart", help="Start again, without the results of the last run."),
        ],
        "as_json": JsonOption,
    },
)

#: What is asked of who says something: what nobody says has no beginning.
_SAYING = {name: EXPECTING[name] for name in ("finds", "says", "budget")} | {
    "query": Annotated[
        list[str],
        typer.Argument(metavar="QUERY", help="Query: each vault's pack for it is read."),
    ]
}


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_describe)
    add_commands(app, status, start, stop, serve, bisect, duplicates, contradictions)
    parent.add_typer(app, name="fleet")


def _describe() -> None:
    """Serve and compare many vaults, by their remotes.

    Each is cloned to this machine's disk and follows its remote, which stays the truth: the clones
    can be deleted at any time. `recall`, `pack`, `stats`, `assert`, `curate` and `compact` ask a
    fleet with `--fleet FILE`.
    """


def status(fleet: _FleetArgument, folder: _FolderOption = "", as_json: JsonOption = False) -> None:
    """Show the state of a fleet, and which vaults are missing.

    Examples:
      vaultmem fleet status fleet.txt
      vaultmem fleet status ray:auto
    """
    with work.open_fleet(fleet, folder) as pool:
        found = pool.status()
    _show_status(found, as_json)


def start(
    file: _FileArgument,
    address: _AddressOption,
    folder: _FolderOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start a fleet in a Ray cluster, or change its vaults.

    It stays when the command has ended. Its machines need the same vaultmem, and reach the remotes;
    the folder is one on each of them.

    Examples:
      vaultmem fleet start fleet.txt --address auto
    """
    with needing("fleet", "fleet"):
        from vaultmem.ray_fleet.ray_pool import start_fleet
    pool = start_fleet(address, work.read_fleet(file), str(work.find_folder(folder)))
    try:
        pool.refresh()
        found = pool.status()
    finally:
        pool.close()
    _show_status(found, as_json)


def stop(address: _AddressOption) -> None:
    """End the fleet of a cluster; its folders stay.

    Examples:
      vaultmem fleet stop --address auto
    """
    with needing("fleet", "fleet"):
        from vaultmem.ray_fleet.ray_pool import RayPool
    pool = RayPool(address)
    try:
        count = len(pool.names)
        pool.stop()
    finally:
        pool.close()
    print_line(f"The fleet of {pluralize(count, 'vault')} has ended.")


def serve(
    fleet: _FleetArgument,
    hub: Annotated[
        str,
        typer.Option(
            "--hub",
            metavar="DIR",
            help="Folder of a hub (`vaultmem hub init`), for access and the audit log.",
        ),
    ],
    folder: _FolderOption = "",
    port: PortOption = 8379,
    host: HostOption = ONLY_HERE,
    name: NamesOption = [],  # noqa: B006
    proxy: ProxyOption = False,
) -> None:
    """Serve many vaults, each to the owners of its tokens.

    They get pages, API and MCP. Tokens are a hub's (`vaultmem hub grant`), over the names of these
    vaults. A write is in its remote before it is confirmed. /metrics is for Prometheus,
    with a token for all.

    Examples:
      vaultmem fleet serve fleet.txt --hub ~/door
      vaultmem fleet serve ray:auto --hub /srv --allowed-host m.org --trust-proxy
    """
    from vaultmem.services.hub.hub_folder import open_hub

    served = find_served("fleet serve", port, host, name, proxy)
    opened = open_hub(Path(hub).expanduser())
    with work.open_fleet(fleet, folder) as pool, serving(opened, served, lambda: pool) as address:
        print_places(pluralize(len(pool.names), "vault"), address)


@give_options(PackAssertion, _SAYING)
@_takes_job
def bisect(job: _Job, asked: PackAssertion) -> None:
    """Show which vaults state something, and since when.

    For each vault, it finds the first commit since which one of its notes has always stated it.

    Examples:
      vaultmem fleet bisect fleet.txt "refunds" --contains "through the queue"
    """
    from vaultmem.services.fleet.jobs import find_believers

    find = partial(find_believers, expected=asked.expect())
    _run_job(job, find, believers_json, work.print_mentions)


@_takes_job
def duplicates(job: _Job, limit: _LimitOption = 20) -> None:
    """Show duplicates across vaults.

    By the rules of `similar` and `curate`; for duplicates within one vault, run `dedup` there.

    Examples:
      vaultmem fleet duplicates fleet.txt
    """
    from vaultmem.services.fleet.jobs import compare_all

    _run_job(job, compare_all, duplicates_json, partial(work.print_duplicates, limit=limit))


@_takes_job
def contradictions(job: _Job, limit: _LimitOption = 20) -> None:
    """Show contradictions across vaults.

    The older note comes first. The owners of the vaults decide which is right.

    Examples:
      vaultmem fleet contradictions fleet.txt
    """
    from vaultmem.services.fleet.jobs import compare_all

    say_found = partial(work.print_contradictions, limit=limit)
    _run_job(job, compare_all, contradictions_json, say_found)


def _run_job(
    job: _Job,
    find: Callable[..., Any],
    to_json: Callable[[Any], object],
    say_found: Callable[[Any], None],
) -> None:
    """Print what is found over all vaults."""
    with work.open_job(job.fleet, job.seconds, job.again) as (pool, options):
        found = find(pool, job.vault, options)
    if job.as_json:
        emit_json(to_json(found))
        return
    say_found(found)
    work.warn_missing(found.missing, found.behind)


def _show_status(found: PoolStatus, as_json: bool) -> None:
    if as_json:
        emit_json(found._asdict())
        return
    nodes = pluralize(len(found.nodes), "node")
    print_line(f"{pluralize(found.vaults, 'vault')}, {found.ready:,} ready; {nodes}")
    width = max([len("node"), *(len(each.name) for each in found.nodes)])
    print_line(f"\n{'node':<{width}}  {'ready':>7} {'stale':>6} {'memory':>8} {'disk':>8}  host")
    for each in found.nodes:
        _print_node(each, width)
    if found.problems:
        print_line()
    for name, why in list(found.problems.items())[:_NAMED]:
        print_styled(name, "yellow", f": {one_line(why)}")
    if (more := len(found.problems) - _NAMED) > 0:
        print_line(f"and {pluralize(more, 'more vault')}")


def _print_node(node: NodeStatus, width: int) -> None:
    print_styled(
        f"{node.name:<{width}}",
        "bold",
        f"  {node.ready:>7,} {node.stale:>5,.0f}s {_format_size(node.memory):>8} "
        f"{_format_size(node.disk):>8}  {one_line(node.problem or node.host)}",
    )


def _format_size(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size else "-"
