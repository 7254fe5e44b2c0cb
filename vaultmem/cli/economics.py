"""Commands about what memory shows and costs: recent, stats."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.options import FleetOption
from vaultmem.cli.output import say
from vaultmem.cli.shared import Here, make_command, offers, print_answer, takes
from vaultmem.operations.usage import RECENT, STATS, StatsRequest

recent = make_command(RECENT, "recent")


@offers(STATS)
@takes("vault", "as_json")
def stats(
    here: Here,
    asked: StatsRequest,
    plot: Annotated[
        bool, typer.Option("--plot", help="Plot the size of packs against that of the vault.")
    ] = False,
    fleet: FleetOption = "",
) -> None:
    """Print what a vault's recalls and packs cost, or what a fleet's vaults hold."""
    if fleet:
        from vaultmem.cli.fleet_work import refuse_with_fleet, stats_fleet

        refuse_with_fleet(session=asked.session, plot=plot)
        stats_fleet(fleet, here.vault, here.as_json)
        return
    opened = here.open_synced(reads=True)
    print_answer(STATS, here, asked, STATS.run(opened, asked))
    if plot and not here.as_json:
        from vaultmem.core.plot import plot_lines
        from vaultmem.services.economics import read_pack_sizes

        packs, flat = read_pack_sizes(opened, asked.session)
        say()
        shape = plot_lines(
            [(".", flat), ("o", packs)],
            "tokens in the vault",
            "tokens sent: o a pack, . flat memory",
        )
        say(shape or "No pack was counted yet.")
