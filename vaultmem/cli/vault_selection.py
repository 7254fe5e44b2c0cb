"""The vaults that a command asks: one with what goes with it, several that are named, or all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vaultmem.cli.opening import CommandContext, extract_vaults, has_named, open_other
from vaultmem.cli.output import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.core.search.query import NoteFilter
    from vaultmem.vault import UserFolders, Vault


def split_vault(vault: str, address: str) -> tuple[str, str]:
    """Return the vault that an address `NAME:path` names, or that was given, and the path.

    A colon is no more than a part of the path where what stands before it is no vault.
    """
    from vaultmem.services.vaults.companions import find_addressed

    if vault or has_named():
        return vault, address
    return find_addressed(_find_folders(), address)


def _find_folders() -> UserFolders:
    from vaultmem.environment import current_environment
    from vaultmem.vault import find_user_folders

    return find_user_folders(current_environment())


def open_several(here: CommandContext, vaults: list[str], every: bool, alone: bool) -> list[Vault]:
    """Open a vault to be read, in sync, and the others that are named, or go with it.

    Those that go with it (`companions` in vaultmem.yaml) are left out where a commit is looked
    at, which they do not have (`alone`).
    """
    from vaultmem.services.vaults import companions
    from vaultmem.storage.user_files import read_vaults

    named = list(dict.fromkeys([*extract_vaults(), *vaults]))
    named += read_vaults(_find_folders().config).values() if every else []
    opened = here._replace(vault=named[0] if named else "").open_synced(reads=True)
    opened = replace(opened, opener=open_other)
    if every or len(named) > 1:
        own = companions.label_vaults(opened.folders, [opened.root])[opened.root]
        found, told = companions.open_others(replace(opened, name=own), named[1:])
    elif alone or opened.ref:
        return [opened]
    else:
        found, told = companions.add_companions(opened)
    for line in told:
        warn(f"note: {line}")
    return found


def warn_unmatched(vaults: Sequence[Vault], wanted: NoteFilter) -> None:
    """Say which tags and contexts no note has, where a filter let nothing through."""
    from vaultmem.services.views.resolve_names import describe_unmatched

    if len(vaults) == 1:
        for line in describe_unmatched(vaults[0], wanted):
            warn(f"note: {line}")
