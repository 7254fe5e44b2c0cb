"""Open the vaults that a question is asked together, and tell of those that cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vaultmem.config import CONFIG_NAME
from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import VaultError, name_failure
from vaultmem.services.reading.behind import read_behind
from vaultmem.services.watching.lease import catch_up
from vaultmem.storage.vault_list import find_named, read_vaults
from vaultmem.vault import UserFolders, Vault

#: Opens the vault of a folder, or has it open already.
OpenVault = Callable[[str], Vault]


def name_vaults(folders: UserFolders, roots: Iterable[Path]) -> dict[Path, str]:
    """Return what each vault is called: its name in the list, else its path.

    Either is what a command takes, before a note's path or as `--vault`.
    """
    listed = {Path(path): name for name, path in read_vaults(folders.config, anyway=True).items()}
    return {root: listed.get(root) or _shorten(root) for root in roots}


def put_beside(vault: Vault, others: Sequence[Vault], folders: UserFolders) -> list[str]:
    """Have what a vault is asked be asked of others too; return what is to be said of that.

    One that cannot be read is passed over, and told.
    """
    told: list[str] = []
    ready: dict[Path, Vault] = {}
    for each in others:
        if each.root == vault.root or each.root in ready:
            continue
        try:
            read_behind(each, lambda each=each: catch_up(each))  # type: ignore[misc]
            each.index.snapshot()
        except (VaultError, OSError) as error:
            told.append(f"{_shorten(each.root)}: passed over: {name_failure(error)}")
            continue
        if each.lag:
            told.append(f"{_shorten(each.root)}: {each.lag}")
        ready[each.root] = each
    for root, name in name_vaults(folders, ready).items():
        ready[root].name = name
    vault.beside = tuple(ready.values())
    return told


def add_companions(vault: Vault, folders: UserFolders, open_one: OpenVault) -> list[str]:
    """Put beside a vault those that `with` of its vaultmem.yaml names; return what is to be said.

    They count only in a vault that is trusted on this machine: the repository of a stranger must
    not have another memory read out.
    """
    named = vault.config.with_vaults
    if not named:
        return []
    if not vault.trust.is_trusted():
        return [
            f'"with" of {CONFIG_NAME} names {len(named)} more; passed over, for this vault is not '
            "trusted on this machine: if it is yours, run `vaultmem trust`"
        ]
    listed = read_vaults(folders.config, anyway=True)
    paths = [os.path.expanduser(listed.get(each, each)) for each in named]
    others, told = open_each([os.path.join(vault.root, path) for path in paths], open_one)
    return told + put_beside(vault, others, folders)


def find_addressed(folders: UserFolders, address: str) -> tuple[str, str]:
    """Return the folder of the vault that stands before a note's path, and the path; "" if none."""
    name, mark, path = address.partition(":")
    root = os.path.expanduser(find_named(name, folders.config))
    if not (mark and name and path and os.path.isfile(os.path.join(root, CONFIG_NAME))):
        return "", address
    return root, path


def _shorten(root: Path) -> str:
    """Return a path as one would type it."""
    home = os.path.expanduser("~")
    path = str(root)
    return f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path


def open_each(paths: Iterable[str], open_one: OpenVault) -> tuple[list[Vault], list[str]]:
    """Return the vaults of folders, and what is to be said of those that cannot be opened."""
    opened, told = [], []
    for path in paths:
        try:
            opened.append(open_one(path))
        except (VaultError, OSError) as error:
            told.append(f"{escape_bytes(path)}: passed over: {name_failure(error)}")
    return opened, told
