"""What the environment says of opening a vault: read for the front ends, never by the library."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from vaultmem.config import Config
from vaultmem.storage.user_folders import find_user_folder
from vaultmem.vault import Vault, VaultSettings, find_user_folders, open_vault

#: What this thread goes by while it works for another process; None for this one's own.
_given: ContextVar[Mapping[str, str] | None] = ContextVar("environment", default=None)


def current_environment() -> Mapping[str, str]:
    """Return the environment of whoever gives the command."""
    given = _given.get()
    return os.environ if given is None else given


@contextmanager
def on_behalf(environment: Mapping[str, str]) -> Iterator[None]:
    """Go by another environment for the time of a `with`, in this thread alone."""
    token = _given.set(environment)
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
) -> Vault:
    """Open a vault as `open_vault` does; what is not given, the environment says.

    Raises:
        VaultError: as `open_vault` does.
    """
    settings = read_settings(agent, session, ref)
    settings["config"] = config
    named = path or current_environment().get("VAULTMEM_VAULT")
    return open_vault(_find_named(named) if isinstance(named, str) else named, **settings)


def _find_named(named: str) -> str:
    """Return the folder of a vault that is named by it, or by its name in the user's list."""
    from vaultmem.storage.vault_list import find_named

    return find_named(named, find_user_folder("config", current_environment()))


def read_settings(
    agent: str = "", session: str = "", ref: str = "", given: Mapping[str, str] | None = None
) -> VaultSettings:
    """Return what the environment says of opening a vault, but for what is given.

    It is that of whoever gives the command, unless another one is `given`.
    """
    environment = dict(current_environment() if given is None else given)
    return {
        "agent": agent or environment.get("VAULTMEM_AGENT", ""),
        "session": session or environment.get("VAULTMEM_SESSION_ID", ""),
        "ref": ref or environment.get("VAULTMEM_REF", ""),
        "keeps_receipts": bool(environment.get("VAULTMEM_RECEIPTS")),
        "tokenizer": environment.get("VAULTMEM_TOKENIZER", ""),
        "folders": find_user_folders(environment),
        "environment": environment,
    }
