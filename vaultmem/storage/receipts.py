"""Receipts on disk: one JSON file each, in the user's own data folder.

No cache: they say what an agent saw, and nothing can make them again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.files import sync_folder

_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class ReceiptStore:
    """The receipts of one vault; the folder is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, text: str) -> Path:
        """Keep a receipt under its id; it is durable when this returns.

        Raises:
            VaultError: the disk did not take it.
        """
        file = self._folder / f"{name}.json"
        temporary = self._folder / f".{name}.{os.urandom(4).hex()}.tmp"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, file)
            sync_folder(self._folder)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise VaultError(f"{file}: the receipt was not written: {error.strerror}") from error
        return file

    def read(self, name: str) -> str:
        """Return the receipt of an id, or of the only one that begins so, or in a file.

        Raises:
            NoteNotFoundError: there is none, or several begin like that.
            VaultError: the file cannot be read.
        """
        file = self._find(name)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"{file}: cannot be read ({error})") from error

    def files(self) -> Iterator[Path]:
        """Yield the file of each receipt, the newest first: an id begins with its time."""
        yield from sorted(self._folder.glob("[!.]*.json"), reverse=True)

    def _find(self, name: str) -> Path:
        if os.sep in name or name.endswith(".json"):
            file = Path(name).expanduser()
            if file.is_file():
                return file
        found = list(self._folder.glob(f"{name}*.json")) if _ID.fullmatch(name) else []
        exact = [file for file in found if file.stem == name]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            raise NoteNotFoundError(f"{name}: {len(found)} receipts begin like that; name one")
        raise NoteNotFoundError(f"{name}: there is no such receipt; see `vaultmem receipts`")
