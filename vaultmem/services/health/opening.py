"""Open a vault whose settings cannot be read: enough to say so, and what else is known."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vaultmem.config import Config
from vaultmem.storage.journal import Author
from vaultmem.storage.receipts import ReceiptStore
from vaultmem.storage.trust import TrustStore
from vaultmem.vault import Vault, _find_root, _private_folder, _user_folder


def open_without_settings(path: str | Path | None = None, agent: str = "") -> Vault:
    """Open the vault that `open_vault` would find, with the defaults for all settings.

    What `ignore` names is not known then, so it must not be brought up to date.

    Raises:
        VaultError: as `open_vault`, but for vaultmem.yaml.
    """
    root = _find_root(path)
    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return Vault(
        root,
        Config(),
        _private_folder(_user_folder("state") / "vaults" / key),
        TrustStore(_user_folder("config") / "trust" / f"{key}.json"),
        ReceiptStore(_user_folder("data") / "receipts" / key),
        Author(agent or os.environ.get("VAULTMEM_AGENT", ""), "", ""),
    )
