"""Commands for a fleet, and comparisons of its vaults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from vaultmem.cli import fleet_work as work
from vaultmem.cli.assert_commands import Contains, ContainsNote, PackBudget
from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import ONLY_HERE, HostOption, JsonOption, PortOption
from vaultmem.cli.output import emit_json, print_line, print_styled
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.serve_commands import NamesOption, ProxyOption, find_served, print_places, serving
from vaultmem.cli.shared import needing, offers, takes
from vaultmem.core.text.display import one_line, pluralize, truncate_line
from vaultmem.operations.declaration import Arg, ArgumentForm
from vaultmem.operations.vault_data import contradictions_json, duplicates_json, mentions_json

if TYPE_CHECKING:
    from vaultmem.services.fleet.clone import NodeStatus, PoolStatus
    from vaultmem.services.fleet.jobs import (
        DifferingStatements,
        FleetComparison,
        FleetNote,
        Mentions,
    )

#: Maximum number of problems printed; JSON has all.
_MAX_LISTED_PROBLEMS = 20

_FileArgument = Annotated[str, typer.Argument(metavar="FILE", help=work.FILE_HELP)]
_FleetArgument = Annotated[str, typer.Argument(metavar="FLEET", help=work.FLEET_HELP)]
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


class _Statement(NamedTuple):
    """A statement to find in vaults; its absence has no first commit."""

    job: work.Job
    query: Annotated[
        str,
        Arg(
            "Query: each vault's pack for it is read.",
            takes=ArgumentForm.WORDS,
            metavar="QUERY",
        ),
    ]
    finds: ContainsNote = ()
    says: Contains = ()
    budget: PackBudget = 0


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
        pool_status = pool.status()
    _show_status(pool_status, as_json)


def start(
    file: _FileArgument,
    address: _AddressOption,
    folder: _FolderOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start a fleet in a Ray cluster, or change its vaults.

    The fleet goes on when the command has ended. Each machine of the cluster needs the same
    version of vaultmem and access to the remotes. --folder names a folder of each machine.

    Examples:
      vaultmem fleet start fleet.txt --address auto
    """
    with needing("fleet", "fleet"):
        from vaultmem.ray_fleet.ray_pool import start_fleet
    pool = start_fleet(address, work.read_fleet(file), str(work.find_folder(folder)))
    try:
        pool.refresh()
        pool_status = pool.status()
    finally:
        pool.close()
    _show_status(pool_status, as_json)


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


@offers(_Statement)
@takes("as_json")
def bisect(context: CommandContext, request: _Statement) -> None:
    """Show which vaults state something, and since when.

    For each vault, it finds the first commit since which one of its notes has always stated it.

    Examples:
      vaultmem fleet bisect fleet.txt "refunds" --contains "through the queue"
    """
    from vaultmem.core.packs.receipt import expect
    from vaultmem.services.fleet.jobs import find_believers

    expectation = expect(request.query, request.finds, request.says, False, request.budget)
    work.run_job(
        request.job,
        context.as_json,
        partial(find_believers, expected=expectation),
        mentions_json,
        _print_mentions,
    )


@offers(work.Job)
@takes("as_json")
def duplicates(context: CommandContext, job: work.Job, limit: _LimitOption = 20) -> None:
    """Show duplicates across vaults.

    By the rules of `similar` and `curate`; for duplicates within one vault, run `dedup` there.

    Examples:
      vaultmem fleet duplicates fleet.txt
    """
    from vaultmem.services.fleet.jobs import compare_all

    show = partial(_print_duplicates, limit=limit)
    work.run_job(job, context.as_json, compare_all, duplicates_json, show)


@offers(work.Job)
@takes("as_json")
def contradictions(context: CommandContext, job: work.Job, limit: _LimitOption = 20) -> None:
    """Show contradictions across vaults.

    The older note comes first. The owners of the vaults decide which is right.

    Examples:
      vaultmem fleet contradictions fleet.txt
    """
    from vaultmem.services.fleet.jobs import compare_all

    show = partial(_print_contradictions, limit=limit)
    work.run_job(job, context.as_json, compare_all, contradictions_json, show)


def _show_status(pool_status: PoolStatus, as_json: bool) -> None:
    if as_json:
        emit_json(pool_status._asdict())
        return
    nodes = pluralize(len(pool_status.nodes), "node")
    print_line(f"{pluralize(pool_status.vaults, 'vault')}, {pool_status.ready:,} ready; {nodes}")
    width = max([len("node"), *(len(each.name) for each in pool_status.nodes)])
    print_line(f"\n{'node':<{width}}  {'ready':>7} {'stale':>6} {'memory':>8} {'disk':>8}  host")
    for each in pool_status.nodes:
        _print_node(each, width)
    if pool_status.problems:
        print_line()
    for name, why in list(pool_status.problems.items())[:_MAX_LISTED_PROBLEMS]:
        print_styled(name, "yellow", f": {one_line(why)}")
    if (more := len(pool_status.problems) - _MAX_LISTED_PROBLEMS) > 0:
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


# Results over all vaults.


def _print_mentions(mentions: Mentions) -> None:
    """Print the vaults that state something, earliest first."""
    rows = [
        (_describe_time(each.at), name, each.who, each.session or "-", each.path, each.source)
        for name, each in mentions.believers
    ]
    work.print_table(("since", "vault", "who", "session", "note", "source"), rows)
    total = pluralize(len(rows) + len(mentions.others), "vault")
    if not rows:
        print_line(f"No vault of {total} has it.")
        return
    name, first = mentions.believers[0]
    print_line(f"{len(rows):,} of {total} have it; {name} was the first:")
    print_line(f"  {truncate_line(first.says, 76)}")
    parts = [first.event, first.commit[:7], one_line(first.subject)]
    print_styled(f"  {'  '.join(filter(None, parts))}", "dim")


def _print_duplicates(comparison: FleetComparison, limit: int) -> None:
    """Print statements that several vaults have, then those that are nearly the same."""
    for group in comparison.same[:limit]:
        print_styled("same  ", "dim", truncate_line(group[0].title, 70))
        _print_sides(group)
    for pair in comparison.near[: max(0, limit - len(comparison.same))]:
        print_styled("near  ", "dim", f"{pair.similarity:.0%} alike, and no difference is known")
        _print_sides((pair.older, pair.newer))
    summary = f"{pluralize(len(comparison.same), 'statement')} in several vaults"
    summary += f", {pluralize(len(comparison.near), 'pair')} nearly the same"
    _print_sum(comparison, summary, len(comparison.same) + len(comparison.near) - limit)


def _print_contradictions(comparison: FleetComparison, limit: int) -> None:
    """Print the contradictions."""
    for pair in comparison.contradicting[:limit]:
        is_update = any(kind == "update" for kind, _, _ in pair.differences)
        print_styled("update  " if is_update else "contradicts  ", "yellow", _describe_values(pair))
        _print_sides((pair.older, pair.newer), titled=True)
    summary = pluralize(len(comparison.contradicting), "contradiction")
    _print_sum(comparison, summary, len(comparison.contradicting) - limit)


def _describe_values(pair: DifferingStatements) -> str:
    values = [
        f"{'' if kind == 'update' else f'{kind}: '}{older or 'nothing'}, then {newer or 'nothing'}"
        for kind, older, newer in pair.differences
        if kind != "wording"
    ]
    return truncate_line("; ".join(values), 150)


def _print_sides(sides: Sequence[FleetNote], titled: bool = False) -> None:
    for each in sides[:8]:
        parts = [_describe_time(each.written)[:10], f"{each.vault}:{one_line(each.path)}"]
        parts += [each.agent] if each.agent else []
        parts += [f'"{truncate_line(each.title, 70)}"'] if titled else []
        print_line(f"  {'  '.join(parts)}")
    if (more := len(sides) - 8) > 0:
        print_line(f"  and {pluralize(more, 'more note')}")


def _print_sum(comparison: FleetComparison, summary: str, more: int) -> None:
    if more > 0:
        print_line(f"{more:,} more are not shown; -n N shows as many, --json all.")
    print_line(
        f"{summary}; {pluralize(comparison.notes, 'note')} of "
        f"{pluralize(comparison.vaults, 'vault')}."
    )


def _describe_time(at: float) -> str:
    return datetime.fromtimestamp(at).isoformat(" ", "minutes")
