"""What the environment says of opening a vault: read for the front ends, never by the library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vaultmem.config import Config
from vaultmem.vault import Vault, VaultSettings, find_user_folders, open_vault


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
    return open_vault(path or os.environ.get("VAULTMEM_VAULT"), **settings)


def read_settings(
    agent: str = "", session: str = "", ref: str = "", given: Mapping[str, str] | None = None
) -> VaultSettings:
    """Return what the environment says of opening a vault, but for what is given.

    It is this process's, unless another one's is `given`.
    """
    environment = dict(os.environ if given is None else given)
    return {
        "agent": agent or environment.get("VAULTMEM_AGENT", ""),
        "session": session or environment.get("VAULTMEM_SESSION_ID", ""),
        "ref": ref or environment.get("VAULTMEM_REF", ""),
        "keeps_receipts": bool(environment.get("VAULTMEM_RECEIPTS")),
        "tokenizer": environment.get("VAULTMEM_TOKENIZER", ""),
        "folders": find_user_folders(environment),
        "environment": environment,
    }
