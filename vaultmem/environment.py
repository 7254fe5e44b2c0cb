"""Environment variables for opening a vault; only front ends read them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from vaultmem.config import Config, find_around
from vaultmem.core.clients.agents import SESSION_VARIABLES, VARIABLES, find_agent
from vaultmem.core.sessions.session import map_session_id
from vaultmem.storage.lock import WRITER
from vaultmem.storage.user_files import find_user_folder
from vaultmem.storage.watch_socket import has_terminal
from vaultmem.vault import Vault, VaultSettings, find_user_folders, open_vault

#: While this thread works for another process: its environment, whether it has a terminal, and its
#: folder ("" for this process's). None for this process.
_given: ContextVar[tuple[Mapping[str, str], bool, str] | None]
_given = ContextVar("environment", default=None)


def current_environment() -> Mapping[str, str]:
    """Return the caller's environment."""
    caller = _given.get()
    return os.environ if caller is None else caller[0]


def is_at_terminal() -> bool:
    """Return whether the caller has a terminal."""
    caller = _given.get()
    return has_terminal() if caller is None else caller[1]


def current_folder() -> str:
    """Return the caller's current folder."""
    caller = _given.get()
    return (caller and caller[2]) or os.getcwd()


def _find_here() -> Path | None:
    """Return the caller's current folder, None if it was removed."""
    try:
        return Path(current_folder())
    except OSError:
        return None


def has_screen() -> bool:
    """Return whether a browser can be opened for the caller."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform != "linux" or any(current_environment().get(name) for name in variables)


@contextmanager
def on_behalf(
    environment: Mapping[str, str], at_terminal: bool = False, folder: str = ""
) -> Iterator[None]:
    """Use another process's environment while the context is open, in this thread only."""
    token = _given.set((environment, at_terminal, folder))
    try:
        yield
    finally:
        _given.reset(token)


def open_named_vault(
    path: str | Path | None = None,
    *,
    agent: str = "",
    session: str = "",
    ref: str = "",
    config: Config | None = None,
    for_owner: bool = False,
    patience: float = WRITER,
) -> Vault:
    """Open a vault as `open_vault` does; read missing arguments from the environment.

    With `for_owner`, the vault works for its owner, whichever process started it.

    Raises:
        VaultError: as `open_vault` does.
    """
    variables = choose_own(current_environment()) if for_owner else None
    settings = read_settings(agent, session, ref, variables)
    settings["config"], settings["patience"] = config, patience
    settings["here"] = None if for_owner else _find_here()
    settings["scope"] = scope_to_project
    return open_vault(find_named_vault(path), **settings)


def scope_to_project(vault: Vault) -> Vault:
    """Return the vault limited to the notes of its caller's project and global notes."""
    from vaultmem.services.projects.scope import view_project  # Most commands do not need it.

    return view_project(vault)


def find_named_vault(path: str | Path | None = None) -> str | Path | None:
    """Return a vault's folder from its path, its name in the list, or the environment.

    Without a name, return None for the vault around the current folder. Outside any vault, return
    the only one in the list, None if the list is empty.

    Raises:
        NoVaultError: outside any vault, the list has several vaults, or a missing one.
    """
    from vaultmem.storage.user_files import find_named, find_only

    name_or_path = path or current_environment().get("VAULTMEM_VAULT")
    config = find_user_folder("config", current_environment())
    if isinstance(name_or_path, str) and name_or_path:
        return find_named(name_or_path, config)
    if name_or_path or find_around(Path(current_folder()).resolve()):
        return name_or_path or None
    return find_only(config) or None


def read_settings(
    agent: str = "", session: str = "", ref: str = "", variables: Mapping[str, str] | None = None
) -> VaultSettings:
    """Return the arguments for `open_vault` from the environment and the given values.

    `variables` replaces the caller's environment. Agents are recognized by the variables that they
    set for their commands. Without such variables, the caller is a person if at a terminal. With
    `variables`, the agent is named by the arguments, or the caller is the owner.
    """
    environment = dict(current_environment() if variables is None else variables)
    return {
        "agent": agent or environment.get("VAULTMEM_AGENT", "") or find_agent(environment),
        "session": session or find_session(environment),
        "by_person": variables is not None or is_at_terminal(),
        "ref": ref or environment.get("VAULTMEM_REF", ""),
        "keeps_receipts": bool(environment.get("VAULTMEM_RECEIPTS")),
        "tokenizer": environment.get("VAULTMEM_TOKENIZER", ""),
        "folders": find_user_folders(environment),
        "environment": environment,
    }


def find_session(environment: Mapping[str, str]) -> str:
    """Return the session that an environment names, $VAULTMEM_SESSION_ID first, or ""."""
    if own := environment.get("VAULTMEM_SESSION_ID", "").strip():
        return own
    ids = (environment.get(name, "").strip() for name in SESSION_VARIABLES)
    return next((map_session_id(each) for each in ids if each), "")


def choose_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that agents set."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}
