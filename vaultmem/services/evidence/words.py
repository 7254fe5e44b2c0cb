"""Decide whether words of the user's and of agents may leave this machine with `sync`."""

from __future__ import annotations

from vaultmem.errors import VaultError
from vaultmem.vault import Vault

#: The user's own setting of git, once for each remote that nobody else reads.
SETTING = "vaultmem.ownRemote"


def may_send_words(vault: Vault) -> bool:
    """Return whether all remotes of this clone are the user's own, by the user's setting of git.

    One that other people read is enough to say no: a ref with words might be pushed there later.
    What the repository's own settings say does not count, for they may come with it.
    """
    if vault.head() is None:
        return False
    git = vault.history.git
    remotes = {_read_address(line) for line in git.run("remote", "-v").splitlines()}
    try:
        own = git.run("config", "--global", "--get-all", SETTING, fine=(0, 1)).splitlines()
    except VaultError:
        return False
    return bool(remotes) and remotes <= set(own)


def _read_address(line: str) -> str:
    """Return the address in a line of `git remote -v`: `NAME<tab>ADDRESS (fetch)`."""
    return line.partition("\t")[2].rpartition(" (")[0]
