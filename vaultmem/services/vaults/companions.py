"""The vaults of a query: companions by name, the user's list, and a pool of open vaults."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vaultmem.config import CONFIG_NAME, find_root
from vaultmem.core.text.display import escape_bytes
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    NoVaultError,
    RefusedError,
    VaultError,
    wrap_os_error,
)
from vaultmem.services.views.update_index import read_nonblocking, sync_once
from vaultmem.services.watching.lease import find_watcher
from vaultmem.services.watching.sync_hints import ChangeHints
from vaultmem.storage.lock import READER
from vaultmem.storage.user_files import find_named, is_vault_name, read_vaults, write_vaults
from vaultmem.vault import UserFolders, Vault, open_vault

#: Selects all vaults of the list.
ALL_VAULTS = "all"


def open_others(vault: Vault, paths: Iterable[str]) -> tuple[list[Vault], list[str]]:
    """Return a vault and others by path, to be searched together, and messages about them.

    A vault that cannot be opened or read is left out, with a message.
    """
    messages: list[str] = []
    vaults = {vault.root: vault}
    for path in paths:
        try:
            other_vault = vault.opener(path) if vault.opener else None
            if other_vault is None or other_vault.root in vaults:
                continue
            sync_once(other_vault)
            other_vault.index.snapshot()
        except (VaultError, OSError) as error:
            messages.append(f"{_shorten(path)}: passed over: {wrap_os_error(error)}")
            continue
        if other_vault.notices.stale:
            messages.append(f"{_shorten(path)}: {other_vault.notices.stale}")
        vaults[other_vault.root] = other_vault
    _, *others = vaults.values()
    names = label_vaults(vault.folders, [each.root for each in others])
    return [vault, *(replace(each, name=names[each.root]) for each in others)], messages


def label_vaults(folders: UserFolders, roots: Iterable[Path]) -> dict[Path, str]:
    """Return the display name of each vault: its name in the list, else its path.

    Commands accept either, before a note's path or as `--vault`.
    """
    names = {path: name for name, path in read_vaults(folders.config, anyway=True).items()}
    return {root: names.get(str(root)) or _shorten(str(root)) for root in roots}


def add_others(
    vault: Vault, names: Sequence[str], alone: bool = False
) -> tuple[list[Vault], list[str]]:
    """Return a vault with the named ones, by default its companions, and messages about them.

    With `alone` (for a commit), companions are left out.
    """
    if names:
        return add_named(vault, names)
    return ([vault], []) if alone else add_companions(vault)


def add_companions(vault: Vault) -> tuple[list[Vault], list[str]]:
    """Return a vault with the `companions` of its vaultmem.yaml, and messages about them.

    Only companions named when the vault was trusted on this machine are used. So other writers of
    the file cannot expose another vault. Views of commits have none.
    """
    if not vault.config.companions or vault.opener is None or vault.view.sources:
        return [vault], []
    if not vault.trust.is_trusted():
        return [vault], [
            f'"companions" of {CONFIG_NAME} names {len(vault.config.companions)} more; not asked: '
            "this vault is not trusted on this machine: if it is yours, run `vaultmem trust`"
        ]
    agreed_paths = _find_agreed(vault)
    messages = [
        f'{name}: named by "companions" of {CONFIG_NAME} since this vault was trusted; not asked; '
        "if you want it asked too, run `vaultmem trust`"
        for name in find_companions(vault)
        if name not in agreed_paths
    ]
    vaults, more = open_others(vault, agreed_paths.values())
    return vaults, messages + more


def add_named(vault: Vault, names: Sequence[str]) -> tuple[list[Vault], list[str]]:
    """Return a vault with others by the names of `list_askable`, and messages about them.

    Raises:
        RefusedError: the caller may search no other vault.
        NoteNotFoundError: there is no vault of that name.
    """
    paths_by_name = list_askable(vault)
    for name in names:
        if name != ALL_VAULTS and name not in paths_by_name:
            raise NoteNotFoundError(
                f"{name}: no vault of that name; {_format_names(paths_by_name)}"
            )
    paths = (
        paths_by_name.values() if ALL_VAULTS in names else [paths_by_name[name] for name in names]
    )
    return open_others(vault, paths)


def list_askable(vault: Vault) -> dict[str, str]:
    """Return other vaults the caller may search with this one, by name: companions, and the list.

    Raises:
        RefusedError: there are none: the vault is not trusted, or the caller is on another machine.
    """
    if vault.opener is None:
        raise RefusedError("no other vault is asked from here; only on the machine itself")
    if not vault.trust.is_trusted():
        raise RefusedError(
            "this vault is not trusted on this machine, so no other is searched "
            "with it; run `vaultmem trust` as its owner"
        )
    return {**read_vaults(vault.folders.config), **_find_agreed(vault)}


def open_other_vault(vault: Vault, name: str) -> Vault:
    """Open another vault by its name in `list_askable`.

    Raises:
        RefusedError: the caller may open no other vault.
        NoteNotFoundError: there is no vault of that name.
    """
    paths_by_name = list_askable(vault)
    if name not in paths_by_name or vault.opener is None:
        raise NoteNotFoundError(f"{name}: no vault of that name; {_format_names(paths_by_name)}")
    other_vault = replace(vault.opener(paths_by_name[name]), name=name)
    sync_once(other_vault)
    return other_vault


def open_addressed(vault: Vault, address: str) -> tuple[Vault, str]:
    """Return the vault and path of an address `NAME:path`; else the arguments."""
    name, mark, path = address.partition(":")
    if not mark or vault.opener is None or not vault.trust.is_trusted():
        return vault, address
    if name not in list_askable(vault):
        return vault, address
    return open_other_vault(vault, name), path


def find_companions(vault: Vault) -> dict[str, str]:
    """Return the folders of the vault's `companions`, by display name."""
    paths_by_name = read_vaults(vault.folders.config, anyway=True)
    paths = (os.path.expanduser(paths_by_name.get(each, each)) for each in vault.config.companions)
    roots = [Path(os.path.realpath(vault.root / path)) for path in paths]
    return {name: str(root) for root, name in label_vaults(vault.folders, roots).items()}


def _find_agreed(vault: Vault) -> dict[str, str]:
    """Return the companions that the vault's owner agreed to on this machine."""
    trusted_paths = vault.trust.companions() if vault.config.companions else set()
    return {name: path for name, path in find_companions(vault).items() if path in trusted_paths}


def find_addressed(folders: UserFolders, address: str) -> tuple[str, str]:
    """Return the folder of the vault in an address `NAME:path`, and the path; "" if none."""
    name, mark, path = address.partition(":")
    root = os.path.expanduser(find_named(name, folders.config))
    if not (mark and name and path and os.path.isfile(os.path.join(root, CONFIG_NAME))):
        return "", address
    return root, path


def _format_names(vault_names: Iterable[str]) -> str:
    names = ", ".join(vault_names)
    return f"there are {names}" if names else "`vaultmem vault add PATH` lists one"


def _shorten(path: str) -> str:
    """Return a path as a user would type it."""
    home = os.path.expanduser("~")
    short = f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path
    return escape_bytes(short)


# Vaults that stay open between queries, in a process that answers many.

#: Most vaults that stay open; each uses memory for its index and last queries.
MAX_OPEN_VAULTS = 24


class _Open(NamedTuple):
    """An open vault, hints of changes in its folder, and the inodes that identify it."""

    vault: Vault
    hints: ChangeHints
    identity: tuple[int, ...]


class VaultPool:
    """Open vaults besides the caller's own; for one thread, because of their databases."""

    def __init__(self, folders: UserFolders, most: int = MAX_OPEN_VAULTS) -> None:
        self._folders = folders
        self._most = most
        self._open: dict[Path, _Open] = {}

    def lend(self, vault: Vault) -> Vault:
        """Return a vault that uses the pool's open databases of its folder, in sync.

        Raises:
            VaultError: it cannot be read.
        """
        entry = self._open.pop(vault.root, None)
        if entry is not None and entry.identity != identify(entry.vault):
            _close(entry)  # Something was replaced.
            entry = None
        if entry is None:
            new_vault = open_vault(vault.root, folders=self._folders, patience=READER)
            entry = _Open(new_vault, ChangeHints(new_vault), ())
        vault = replace(vault, store=entry.vault.store, view=entry.vault.view, patience=READER)
        try:
            read_nonblocking(vault, entry.hints.sync)
        except BaseException:
            _close(entry)
            raise
        self._open[vault.root] = entry._replace(identity=identify(entry.vault))
        while len(self._open) > self._most:
            _close(self._open.pop(next(iter(self._open))))
        return vault

    def close(self) -> None:
        """Close all open vaults."""
        for each in self._open.values():
            _close(each)
        self._open.clear()


def _close(entry: _Open) -> None:
    entry.hints.stop()
    with contextlib.suppress(VaultError, OSError):
        entry.vault.close()


def identify(vault: Vault) -> tuple[int, ...]:
    """Return inodes of a vault's folder, repository, state and index, to notice replacements."""
    inodes = []
    index = vault.state_folder / "index"
    for path in (vault.root, vault.root / ".git", vault.state.path, index):
        try:
            inodes.append(os.stat(path).st_ino)
        except OSError:
            inodes.append(0)
    return tuple(inodes)


# The user's list of vaults, by name, with a summary of each.


class ListedVault(NamedTuple):
    """A listed vault with stored facts; `problem` is why it is missing.

    `notes`: None if it was never indexed; `doubtful` counts files that were not read fully.
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
    """Return the vaults of the list, without updating them.

    Raises:
        VaultError: the list cannot be read.
    """
    return [_inspect(name, path, folders) for name, path in read_vaults(folders.config).items()]


def add_vault(folders: UserFolders, path: str, name: str = "") -> ListedVault:
    """Add a vault to the list, by default under its folder's name.

    Raises:
        NoVaultError: there is no vault at the path.
        RefusedError: the name is invalid.
        ConflictError: another vault has the name, or the vault is listed already.
    """
    root = find_root(path or None)
    if not (root / CONFIG_NAME).is_file():
        command = shlex.join(("vaultmem", "init", path or "."))
        raise NoVaultError(f"{root}: no {CONFIG_NAME}; make it a vault with `{command}`")
    chosen_name = name or _suggest_name(root)
    if not is_vault_name(chosen_name):
        raise RefusedError(
            f'"{chosen_name}" cannot be a name: letters, digits, "-", "." and "_", 40 at most; '
            "give another with --name"
        )
    paths_by_name = read_vaults(folders.config)
    for listed_name, place in paths_by_name.items():
        if place == str(root) and listed_name != chosen_name:
            raise ConflictError(
                f'{root}: listed already, as "{listed_name}"; '
                f"`vaultmem vault remove {listed_name}` first"
            )
        if listed_name.casefold() == chosen_name.casefold() and place != str(root):
            raise ConflictError(f'"{listed_name}" is {place}; give another name with --name')
    write_vaults(folders.config, {**paths_by_name, chosen_name: str(root)})
    return _inspect(chosen_name, str(root), folders)


def register_vault(folders: UserFolders, root: Path) -> str:
    """Add a vault to the list if it is missing; return its name.

    If another vault has its folder's name, add a number.

    Raises:
        VaultError: the list cannot be read or written.
    """
    paths_by_name = read_vaults(folders.config)
    if listed_name := next((name for name, path in paths_by_name.items() if path == str(root)), ""):
        return listed_name
    base_name = _suggest_name(root)
    base_name = base_name if is_vault_name(base_name) else "vault"
    existing_names = {name.casefold() for name in paths_by_name}
    numbered_names = (f"{base_name[:36]}-{n}" for n in itertools.count(2))
    names = itertools.chain([base_name], numbered_names)
    name = next(each for each in names if each.casefold() not in existing_names)
    write_vaults(folders.config, {**paths_by_name, name: str(root)})
    return name


def remove_vault(folders: UserFolders, vault_name: str) -> ListedVault:
    """Remove a vault, given by name or path, from the list; the vault itself stays.

    Raises:
        NoVaultError: the list has no such vault.
    """
    paths_by_name = read_vaults(folders.config)
    place = os.path.realpath(os.path.expanduser(vault_name))
    name = (
        vault_name
        if vault_name in paths_by_name
        else next((n for n, p in paths_by_name.items() if p == place), "")
    )
    if not name:
        raise NoVaultError(f"{vault_name}: not on the list; `vaultmem vault list` shows it")
    path = paths_by_name.pop(name)
    write_vaults(folders.config, paths_by_name)
    return ListedVault(name, path)


def _suggest_name(root: Path) -> str:
    return re.sub(r"[^\w.-]+", "-", root.name).strip("-._")[:40]


def _inspect(name: str, path: str, folders: UserFolders) -> ListedVault:
    """Return the stored facts of a vault."""
    entry = ListedVault(name, path)
    if not os.path.isfile(os.path.join(path, CONFIG_NAME)):
        return entry._replace(problem=f"no {CONFIG_NAME} there")
    try:
        vault = open_vault(path, folders=folders)
        try:
            return _describe(entry, vault)
        finally:
            vault.close()
    except (VaultError, OSError) as error:
        return entry._replace(problem=str(wrap_os_error(error)))


def _describe(entry: ListedVault, vault: Vault) -> ListedVault:
    head = vault.head()
    is_indexed = bool(vault.state.get("view"))
    return entry._replace(
        notes=vault.view.totals()[0] if is_indexed else None,
        doubtful=len({path for path, _ in vault.manifest.problems()}) if is_indexed else 0,
        branch=head.branch if head else "",
        trusted=vault.trust.is_trusted(),
        watched=find_watcher(vault) is not None,
    )
