"""Act as the machine that looks after a vault, so that git tells its work from a person's."""

from __future__ import annotations

import copy

from vaultmem.errors import RefusedError
from vaultmem.services.finding.look import find_branch
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault

#: Who git names where no agent gave the command.
MACHINE = "vaultmem"


def act_as_machine(vault: Vault) -> Vault:
    """Return the same vault, its storage shared, for writing as the agent, else as vaultmem."""
    if not vault.is_person:
        return vault
    other = copy.copy(vault)
    other.share_storage(vault)
    other.author = Author(MACHINE)
    return other


def refuse_branch(vault: Vault) -> None:
    """Look after what is checked out, and nothing else.

    Raises:
        RefusedError: the vault's ref is another branch.
    """
    if branch := find_branch(vault):
        raise RefusedError(f"{branch}: not checked out; `vaultmem switch {branch}` first")
