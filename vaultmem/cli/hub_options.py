"""Which hub a command works on, and the record of what it did there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.errors import NoVaultError

if TYPE_CHECKING:
    from vaultmem.services.hub.folder import Hub

HubOption = Annotated[
    str,
    typer.Option(
        "--hub", metavar="DIR", help="The hub's folder; else $VAULTMEM_HUB, or the one around here."
    ),
]


def find_hub(named: str, changes: bool = True) -> Hub:
    """Open the hub that is named, or the one around the folder of whoever gives the command.

    Who only looks (without `changes`) mends nothing.

    Raises:
        NoVaultError: there is none.
    """
    from vaultmem.environment import current_environment, current_folder
    from vaultmem.services.hub.folder import CONFIG_NAME, open_hub, read_hub

    folder = named or current_environment().get("VAULTMEM_HUB", "")
    if not folder:
        here = Path(current_folder())
        around = (each for each in (here, *here.parents) if (each / CONFIG_NAME).is_file())
        found = next(around, None)
        if found is None:
            raise NoVaultError(f"{here}: no hub here or above; name its folder with --hub DIR")
        folder = str(found)
    path = Path(folder).expanduser()
    return open_hub(path) if changes else read_hub(path)


def record_here(hub: Hub, what: str, vaults: Iterable[str], details: dict[str, Any]) -> None:
    """Put on record what was done at the hub's own machine."""
    from vaultmem.services.hub.audit import Entry, record

    entry = Entry(time.time(), "", "", "terminal", what, tuple(vaults), "done", details)
    record(hub, entry)
