"""Whose the refs of machines are: the first who made one moves it from then on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from vaultmem.errors import FaultError, VaultError
from vaultmem.services.hub.folder import Hub
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.lock import hold_lock

FILE_NAME = "claims.json"
VERSION = 1


def read_claims(hub: Hub, vault: str) -> dict[str, str]:
    """Return whose each ref of a vault is, by name.

    Raises:
        VaultError: the file cannot be read.
    """
    return _read(hub).get(vault, {})


def keep_claims(hub: Hub, vault: str, made: Mapping[str, str], dropped: Iterable[str] = ()) -> None:
    """Keep whose these refs are, and forget others; one that is somebody's stays theirs."""
    gone = set(dropped)
    with hold_lock(hub.lock):
        whole = _read(hub)
        known = whole.get(vault, {})
        whole[vault] = {k: v for k, v in (dict(made) | known).items() if k not in gone}
        if whole[vault] == known:
            return
        try:
            text = json.dumps({"version": VERSION, "claims": whole}, indent=1)
            write_atomically(hub.folder / FILE_NAME, text.encode() + b"\n", mode=0o600)
        except OSError as error:
            raise FaultError(f"{FILE_NAME}: could not be written ({error.strerror})") from error


def _read(hub: Hub) -> dict[str, dict[str, str]]:
    file = hub.folder / FILE_NAME
    try:
        whole = json.loads(file.read_text(encoding="utf-8"))
        if whole["version"] > VERSION:
            raise VaultError(f"{FILE_NAME}: a newer vaultmem wrote it; update vaultmem")
        return {str(vault): dict(known) for vault, known in whole["claims"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = getattr(error, "strerror", "") or error
        raise VaultError(
            f"{FILE_NAME}: cannot be read ({why}); restore it, or remove it"
        ) from error
