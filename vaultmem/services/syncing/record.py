"""What is remembered of syncs: the last one, where the person has synced to, what was rescued."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import NamedTuple

from vaultmem.core.json_values import as_named
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.remotes import Remote
from vaultmem.vault import Vault

_FILE = "sync.json"


class LastSync(NamedTuple):
    """The last sync, and when one last came to its end, in seconds since the epoch.

    `agreed` says to which address the person has synced by hand; `rescue` is the ref at the remote
    that has what could not go to its branch, `evidence` the commit of this machine's ref there,
    `refused_at` when the remote last refused that ref (0: it takes it).
    """

    remote: str = ""
    at: float = 0.0
    outcome: str = ""
    told: str = ""
    good_at: float = 0.0
    agreed: str = ""
    rescue: str = ""
    evidence: str = ""
    refused_at: float = 0.0


def read_record(vault: Vault) -> LastSync:
    """Return what is remembered; nothing, where it is lost."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        told = json.loads((vault.state_folder / _FILE).read_text(encoding="utf-8"))
        return LastSync(**{name: told[name] for name in LastSync._fields if name in told})
    return LastSync()


def keep_record(vault: Vault, record: LastSync) -> None:
    """Remember a sync; it is not worth waiting for the disk."""
    data = json.dumps(as_named(record)).encode()
    write_atomically(vault.state_folder / _FILE, data, durable=False)


def name_address(remote: Remote) -> str:
    """Return a digest of where commits go: an address may hold what lets somebody sign in."""
    return hashlib.sha256(f"{remote.url}\n{remote.push_url}".encode()).hexdigest()
