"""The environment's variables for opening a vault, for front ends, never for the library."""

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

#: What this thread goes by while it works for another process, whether that has a terminal, and
#: its folder ("" for this one's); None for this one's own.
_given: ContextVar[tuple[Mapping[str, str], bool, str] | None]
_given = ContextVar("environment", default=None)


def current_environment() -> Mapping[str, str]:
    """Return the environment of whoever gives the command."""
    given = _given.get()
    return os.environ if given is None else given[0]


def is_at_terminal() -> bool:
    """Tell whether whoever gives the command has a terminal."""
    given = _given.get()
    return has_terminal() if given is None else given[1]


def current_folder() -> str:
    """Return the folder that whoever gives the command stands in."""
    given = _given.get()
    return (given and given[2]) or os.getcwd()


def _find_here() -> Path | None:
    """Return the folder that the caller works in, None if it was removed."""
    try:
        return Path(current_folder())
    except OSError:
        return None


def has_screen() -> bool:
    """Tell whether a browser can be opened for whoever gives the command."""
    named = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform != "linux" or any(current_environment().get(name) for name in named)


@contextmanager
def on_behalf(
    environment: Mapping[str, str], at_terminal: bool = False, folder: str = ""
) -> Iterator[None]:
    """Go by another process's environment for the time of a `with`, in this thread alone."""
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
    """Open a vault as `open_vault` does; what is not given, the environment says.

    What goes on by itself works for the vault's owner (`for_owner`), whoever started it.

    Raises:
        VaultError: as `open_vault` does.
    """
    given = choose_own(current_environment()) if for_owner else None
    settings = read_settings(agent, session, ref, given)
    settings["config"], settings["patience"] = config, patience
    settings["here"] = None if for_owner else _find_here()
    settings["scope"] = scope_to_project
    return open_vault(find_named_vault(path), **settings)


def scope_to_project(vault: Vault) -> Vault:
    """Return a vault with the notes of its caller's project and global ones."""
    from vaultmem.services.projects.scope import view_project  # Most commands need it never.

    return view_project(vault)


def find_named_vault(path: str | Path | None = None) -> str | Path | None:
    """Return the folder of a vault: named by it, by its name in the list, or by the environment.

    Where nothing names one, it is None for the vault around the current folder. Outside any vault
    it is the only one on the list, and None where the list is empty.

    Raises:
        NoVaultError: outside any vault, the list has several, or one that is not there.
    """
    from vaultmem.storage.user_files import find_named, find_only

    named = path or current_environment().get("VAULTMEM_VAULT")
    config = find_user_folder("config", current_environment())
    if isinstance(named, str) and named:
        return find_named(named, config)
    if named or find_around(Path(current_folder()).resolve()):
        return named or None
    return find_only(config) or None


def read_settings(
    agent: str = "", session: str = "", ref: str = "", given: Mapping[str, str] | None = None
) -> VaultSettings:
    """Return what the environment says of opening a vault, but for what is given.

    It is that of whoever gives the command, unless another one is `given`. An agent is known by
    the variables that it sets for its commands. Who has none of these is a person if at a terminal;
    with what is `given` it is said who calls, or it is the owner.
    """
    environment = dict(current_environment() if given is None else given)
    return {
        "agent": agent or environment.get("VAULTMEM_AGENT", "") or find_agent(environment),
        "session": session or find_session(environment),
        "by_person": given is not None or is_at_terminal(),
        "ref": ref or environment.get("VAULTMEM_REF", ""),
        "keeps_receipts": bool(environment.get("VAULTMEM_RECEIPTS")),
        "tokenizer": environment.get("VAULTMEM_TOKENIZER", ""),
        "folders": find_user_folders(environment),
        "environment": environment,
    }


def find_session(environment: Mapping[str, str]) -> str:
    """Return the session that an environment names: $VAULTMEM_SESSION_ID, else an agent's."""
    if own := environment.get("VAULTMEM_SESSION_ID", "").strip():
        return own
    named = (environment.get(name, "").strip() for name in SESSION_VARIABLES)
    return next((map_session_id(each) for each in named if each), "")


def choose_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what an agent says of itself in it."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}
