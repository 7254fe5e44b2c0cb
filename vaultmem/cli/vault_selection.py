"""The vaults of a query: one with its companions, several named ones, or all."""

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
    """Return the vault and the path of an address `NAME:path`.

    If the text before the colon is not a vault, the colon is a part of the path. A vault given by
    an option takes precedence.
    """
    from vaultmem.services.vaults.companions import find_addressed

    if vault or has_named():
        return vault, address
    return find_addressed(_find_folders(), address)


def _find_folders() -> UserFolders:
    from vaultmem.environment import current_environment
    from vaultmem.vault import find_user_folders

    return find_user_folders(current_environment())


def open_several(
    context: CommandContext, vaults: list[str], every: bool, alone: bool
) -> list[Vault]:
    """Open an indexed vault for reading, with the other named vaults or its companions.

    Companions (vaultmem.yaml) are omitted if a commit is viewed, which they do not have (`alone`).
    """
    from vaultmem.services.vaults import companions
    from vaultmem.storage.user_files import read_vaults

    vault_names = list(dict.fromkeys([*extract_vaults(), *vaults]))
    vault_names += read_vaults(_find_folders().config).values() if every else []
    vault = context._replace(vault=vault_names[0] if vault_names else "").open_synced(reads=True)
    vault = replace(vault, opener=open_other)
    if every or len(vault_names) > 1:
        own = companions.label_vaults(vault.folders, [vault.root])[vault.root]
        opened_vaults, notices = companions.open_others(replace(vault, name=own), vault_names[1:])
    elif alone or vault.ref:
        return [vault]
    else:
        opened_vaults, notices = companions.add_companions(vault)
    for line in notices:
        warn(f"note: {line}")
    return opened_vaults


def warn_unmatched(vaults: Sequence[Vault], note_filter: NoteFilter) -> None:
    """Warn about tags and contexts of a filter that no note has."""
    from vaultmem.services.views.resolve_names import describe_unmatched

    if len(vaults) == 1:
        for line in describe_unmatched(vaults[0], note_filter):
            warn(f"note: {line}")
