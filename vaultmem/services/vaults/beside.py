"""Which vaults a question is asked together, by name; those that cannot be asked are told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from vaultmem.config import CONFIG_NAME
from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError, name_failure
from vaultmem.services.reading.sync import sync_once
from vaultmem.storage.vault_list import find_named, read_vaults
from vaultmem.vault import UserFolders, Vault

#: Asks for all vaults of the list.
EVERY = "all"


def open_others(vault: Vault, paths: Iterable[str]) -> tuple[list[Vault], list[str]]:
    """Return a vault and others at some paths, to be searched together, and messages about them.

    A vault that cannot be opened or read is left out, with a message.
    """
    told: list[str] = []
    ready = {vault.root: vault}
    for path in paths:
        try:
            opened = vault.opener(path) if vault.opener else None
            if opened is None or opened.root in ready:
                continue
            sync_once(opened)
            opened.index.snapshot()
        except (VaultError, OSError) as error:
            told.append(f"{_shorten(path)}: passed over: {name_failure(error)}")
            continue
        if opened.notices.stale:
            told.append(f"{_shorten(path)}: {opened.notices.stale}")
        ready[opened.root] = opened
    _, *others = ready.values()
    names = name_vaults(vault.folders, [each.root for each in others])
    return [vault, *(replace(each, name=names[each.root]) for each in others)], told


def name_vaults(folders: UserFolders, roots: Iterable[Path]) -> dict[Path, str]:
    """Return what each vault is called: its name in the list, else its path.

    Either is what a command takes, before a note's path or as `--vault`.
    """
    listed = {path: name for name, path in read_vaults(folders.config, anyway=True).items()}
    return {root: listed.get(str(root)) or _shorten(str(root)) for root in roots}


def add_others(
    vault: Vault, names: Sequence[str], alone: bool = False
) -> tuple[list[Vault], list[str]]:
    """Return a vault with those that are named, else with its companions, and messages about them.

    It stays `alone` where a commit is looked at, which companions do not have.
    """
    if names:
        return add_named(vault, names)
    return ([vault], []) if alone else add_companions(vault)


def add_companions(vault: Vault) -> tuple[list[Vault], list[str]]:
    """Return a vault with those that `with` of its vaultmem.yaml names, and messages about them.

    Those alone count that it named when it was trusted on this machine: whoever else may write that
    file must not have another memory read out. Where a commit is looked at, they have none like it.
    """
    if not vault.config.with_vaults or vault.opener is None or vault.view.sources:
        return [vault], []
    if not vault.trust.is_trusted():
        return [vault], [
            f'"with" of {CONFIG_NAME} names {len(vault.config.with_vaults)} more; passed over, for '
            "this vault is not trusted on this machine: if it is yours, run `vaultmem trust`"
        ]
    agreed = _find_agreed(vault)
    told = [
        f'{name}: named by "with" of {CONFIG_NAME} since this vault was trusted; passed over: if '
        "you want it asked too, run `vaultmem trust`"
        for name in find_companions(vault)
        if name not in agreed
    ]
    vaults, more = open_others(vault, agreed.values())
    return vaults, told + more


def add_named(vault: Vault, names: Sequence[str]) -> tuple[list[Vault], list[str]]:
    """Return a vault with others by the names of `list_askable`, and messages about them.

    Raises:
        RefusedError: whoever asks may ask no other.
        NoteNotFoundError: a name is none of these.
    """
    known = list_askable(vault)
    for name in names:
        if name != EVERY and name not in known:
            raise NoteNotFoundError(f"{name}: no vault of that name; {_tell_names(known)}")
    chosen = known.values() if EVERY in names else [known[name] for name in names]
    return open_others(vault, chosen)


def list_askable(vault: Vault) -> dict[str, str]:
    """Return the vaults that whoever asks one may ask as well, by name: companions, and the list.

    Raises:
        RefusedError: there are none: it is not trusted, or asked from elsewhere.
    """
    if vault.opener is None:
        raise RefusedError("no other vault is asked from here; only on the machine itself")
    if not vault.trust.is_trusted():
        raise RefusedError(
            "this vault is not trusted on this machine, so no other is asked beside it; "
            "its owner says so with `vaultmem trust`"
        )
    return {**read_vaults(vault.folders.config), **_find_agreed(vault)}


def see_other(vault: Vault, name: str) -> Vault:
    """Return another vault to be looked at, by the name that `list_askable` has.

    Raises:
        RefusedError: whoever asks may ask no other.
        NoteNotFoundError: there is none of that name.
    """
    known = list_askable(vault)
    if name not in known or vault.opener is None:
        raise NoteNotFoundError(f"{name}: no vault of that name; {_tell_names(known)}")
    opened = replace(vault.opener(known[name]), name=name)
    sync_once(opened)
    return opened


def open_addressed(vault: Vault, address: str) -> tuple[Vault, str]:
    """Return the vault that an address `NAME:path` names, and the path; else what was given."""
    name, mark, path = address.partition(":")
    if not mark or vault.opener is None or not vault.trust.is_trusted():
        return vault, address
    if name not in list_askable(vault):
        return vault, address
    return see_other(vault, name), path


def find_companions(vault: Vault) -> dict[str, str]:
    """Return the folders of the vaults that `with` names, by what they are called."""
    listed = read_vaults(vault.folders.config, anyway=True)
    named = (os.path.expanduser(listed.get(each, each)) for each in vault.config.with_vaults)
    roots = [Path(os.path.realpath(vault.root / path)) for path in named]
    return {name: str(root) for root, name in name_vaults(vault.folders, roots).items()}


def _find_agreed(vault: Vault) -> dict[str, str]:
    """Return those of its companions that the vault's owner agreed to on this machine."""
    agreed = vault.trust.companions() if vault.config.with_vaults else set()
    return {name: path for name, path in find_companions(vault).items() if path in agreed}


def find_addressed(folders: UserFolders, address: str) -> tuple[str, str]:
    """Return the folder of the vault that stands before a note's path, and the path; "" if none."""
    name, mark, path = address.partition(":")
    root = os.path.expanduser(find_named(name, folders.config))
    if not (mark and name and path and os.path.isfile(os.path.join(root, CONFIG_NAME))):
        return "", address
    return root, path


def _tell_names(known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f"there are {names}" if names else "`vaultmem vaults add PATH` lists one"


def _shorten(path: str) -> str:
    """Return a path as one would type it."""
    home = os.path.expanduser("~")
    short = f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path
    return escape_bytes(short)
