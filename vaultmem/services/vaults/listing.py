"""Keep the user's list of vaults: a name for each, and how it is at a glance."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import NamedTuple

from vaultmem.config import CONFIG_NAME, find_root
from vaultmem.errors import ConflictError, NoVaultError, RefusedError, VaultError, name_failure
from vaultmem.services.watching.lease import find_watcher
from vaultmem.storage.vault_list import is_vault_name, read_vaults, write_vaults
from vaultmem.vault import UserFolders, Vault, open_vault


class ListedVault(NamedTuple):
    """A vault of the list, as it was when it was last read; `problem` says why it is not there.

    `notes` is None where it was never read; `doubtful` counts files that were not read fully.
    """

    name: str
    path: str
    problem: str = ""
    notes: int | None = None
    doubtful: int = 0
    branch: str = ""
    trusted: bool = False
    watched: bool = False


def list_vaults(folders: UserFolders) -> list[ListedVault]:
    """Return the vaults of the list; none is brought up to date for that.

    Raises:
        VaultError: the list cannot be read.
    """
    return [_look_at(name, path, folders) for name, path in read_vaults(folders.config).items()]


def add_vault(folders: UserFolders, path: str, name: str = "") -> ListedVault:
    """Put a vault on the list, under its folder's name where no other is given.

    Raises:
        NoVaultError: there is none at the path.
        RefusedError: the name is none that the list can have.
        ConflictError: the name is another's, or the vault is listed already.
    """
    root = find_root(path or None)
    if not (root / CONFIG_NAME).is_file():
        raise NoVaultError(f"{root}: no {CONFIG_NAME}; make it a vault with `vaultmem init {path}`")
    chosen = name or _suggest_name(root)
    if not is_vault_name(chosen):
        raise RefusedError(
            f'"{chosen}" cannot be a name: letters, digits, "-", "." and "_", 40 at most; '
            "give another with --name"
        )
    listed = read_vaults(folders.config)
    for known, place in listed.items():
        if place == str(root) and known != chosen:
            raise ConflictError(
                f'{root}: listed already, as "{known}"; `vaultmem vaults remove {known}` first'
            )
        if known.casefold() == chosen.casefold() and place != str(root):
            raise ConflictError(f'"{known}" is {place}; give another name with --name')
    write_vaults(folders.config, {**listed, chosen: str(root)})
    return _look_at(chosen, str(root), folders)


def register_vault(folders: UserFolders, root: Path) -> str:
    """Put a vault on the list if it is not there; return its name.

    Where its folder's name is another vault's, it gets a number.

    Raises:
        VaultError: the list cannot be read or written.
    """
    listed = read_vaults(folders.config)
    if known := next((name for name, path in listed.items() if path == str(root)), ""):
        return known
    wanted = _suggest_name(root)
    wanted = wanted if is_vault_name(wanted) else "vault"
    taken = {name.casefold() for name in listed}
    numbered = (f"{wanted[:36]}-{n}" for n in itertools.count(2))
    names = itertools.chain([wanted], numbered)
    name = next(each for each in names if each.casefold() not in taken)
    write_vaults(folders.config, {**listed, name: str(root)})
    return name


def remove_vault(folders: UserFolders, named: str) -> ListedVault:
    """Take a vault, given by name or path, off the list; the vault itself stays as it is.

    Raises:
        NoVaultError: the list has no such vault.
    """
    listed = read_vaults(folders.config)
    place = os.path.realpath(os.path.expanduser(named))
    name = named if named in listed else next((n for n, p in listed.items() if p == place), "")
    if not name:
        raise NoVaultError(f"{named}: not on the list; `vaultmem vaults` shows it")
    path = listed.pop(name)
    write_vaults(folders.config, listed)
    return ListedVault(name, path)


def _suggest_name(root: Path) -> str:
    return re.sub(r"[^\w.-]+", "-", root.name).strip("-._")[:40]


def _look_at(name: str, path: str, folders: UserFolders) -> ListedVault:
    """Return how a vault is, by what is known of it."""
    found = ListedVault(name, path)
    if not os.path.isfile(os.path.join(path, CONFIG_NAME)):
        return found._replace(problem=f"no {CONFIG_NAME} there")
    try:
        vault = open_vault(path, folders=folders)
        try:
            return _describe(found, vault)
        finally:
            vault.close()
    except (VaultError, OSError) as error:
        return found._replace(problem=str(name_failure(error)))


def _describe(found: ListedVault, vault: Vault) -> ListedVault:
    head = vault.head()
    known = bool(vault.state.get("view"))
    return found._replace(
        notes=vault.view.totals()[0] if known else None,
        doubtful=len({path for path, _ in vault.manifest.problems()}) if known else 0,
        branch=head.branch if head else "",
        trusted=vault.trust.is_trusted(),
        watched=find_watcher(vault) is not None,
    )
