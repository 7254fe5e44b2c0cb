"""The owner's word on what may instruct: kept in the user's own folder, never in the vault.

Not a cache: it records promotions by the person, or by an agent that vaultmem.yaml allows. What
a promotion vouches for is the note's text; when that changes, the trust is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from vaultmem.errors import FaultError, VaultError
from vaultmem.storage.atomic import make_private_folder, write_atomically


class TrustStore:
    """One JSON file for each vault: `trusted`, and the digest of each promoted note's text."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def is_trusted(self) -> bool:
        """Tell whether the owner has said that this vault may instruct at all."""
        return self._read()[0]

    def notes(self) -> dict[str, str]:
        """Return path and text digest of each note that was promoted by somebody trusted."""
        trusted, notes = self._read()
        return notes if trusted else {}

    def record(self, notes: Mapping[str, str]) -> None:
        """Trust the vault, and these notes (path to text digest) besides those already trusted."""
        _, known = self._read()
        self._write({**known, **notes})

    def _read(self) -> tuple[bool, dict[str, str]]:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            return bool(content["trusted"]), dict(content["notes"])
        except FileNotFoundError:
            return False, {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise VaultError(f"{self._file}: cannot be read ({error}); remove it") from error

    def _write(self, notes: dict[str, str]) -> None:
        content = {"trusted": True, "notes": notes}
        try:
            make_private_folder(self._file.parent)
            write_atomically(self._file, json.dumps(content, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise FaultError(f"{self._file}: could not be written: {error.strerror}") from error
