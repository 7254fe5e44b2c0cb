"""Receipts of packs, and texts by the digest of their bytes, in the user's own data folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from vaultmem.errors import ConflictError, FaultError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.files import create_file
from vaultmem.storage.places import NAMELESS, Names, find_files, make_place

_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class ReceiptStore:
    """The receipts of one vault, wherever it was; the folder is made with the first.

    `names` are those of its repository.
    """

    def __init__(self, folder: Path, names: Names = NAMELESS) -> None:
        self._folder = folder
        self._names = names

    def write(self, name: str, text: str) -> Path:
        """Keep a receipt under its id; it is durable when this returns.

        Raises:
            VaultError: the disk did not take it.
        """
        file = self._folder / f"{name}.json"
        try:
            make_place(self._folder, self._names)
            write_atomically(file, text.encode("utf-8"), mode=0o600)
        except OSError as error:
            raise FaultError(f"{file}: the receipt was not written: {error.strerror}") from error
        return file

    def read(self, name: str, *, in_files: bool = True) -> str:
        """Return the receipt of an id, or of the only one that begins so, or `in_files` of a path.

        Raises:
            NoteNotFoundError: there is none, or several begin like that.
            VaultError: the file cannot be read.
        """
        file = self._find(name, in_files)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"{file}: cannot be read ({error})") from error

    def files(self) -> Iterator[Path]:
        """Yield the file of each receipt, the newest first: an id begins with its time."""
        found = find_files(self._folder, self._names, "[!.]*.json")
        named = {file.name: file for file in reversed(found)}  # A copy is the same receipt.
        yield from (named[name] for name in sorted(named, reverse=True))

    def _find(self, name: str, in_files: bool) -> Path:
        if in_files and (os.sep in name or name.endswith(".json")):
            file = Path(name).expanduser()
            if file.is_file():
                return file
        found = []
        if _ID.fullmatch(name):
            own = self._folder / f"{name}.json"
            if own.is_file():  # A pack over two work trees has one of the same id in each.
                return own
            found = find_files(self._folder, self._names, f"{name}*.json")
        exact = [file for file in found if file.stem == name]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            raise NoteNotFoundError(f"{name}: {len(found)} receipts begin like that; name one")
        raise NoteNotFoundError(f"{name}: there is no such receipt; see `vaultmem replay`")


_DIGEST = re.compile(r"[0-9a-f]{64}")


class ArtifactStore:
    """The artifacts of one vault, wherever it was; the newest `limit` of each place are kept."""

    def __init__(self, folder: Path, names: Names = NAMELESS, limit: int = 1_000) -> None:
        self._folder = folder
        self._names = names
        self._limit = limit

    def keep(self, text: str) -> str:
        """Keep a text, and return the SHA-256 digest of its UTF-8 bytes."""
        data = text.encode("utf-8")
        digest = hashlib.sha256(data).hexdigest()
        make_place(self._folder, self._names)
        with contextlib.suppress(ConflictError):
            create_file(self._folder, PurePosixPath(f"{digest}.md"), data)
        self._drop_oldest()
        return digest

    def files(self) -> list[Path]:
        """Return the file of each text of this vault, wherever it was."""
        return sorted(find_files(self._folder, self._names, "*.md"))

    def read(self, digest: str) -> str:
        """Return the text of a digest, or of the only one that begins so.

        Raises:
            NoteNotFoundError: none is kept.
            RefusedError: it is no digest, or the file was changed.
        """
        if not re.fullmatch(r"[0-9a-f]{6,64}", digest):
            raise RefusedError(f'"{digest}" is not a digest; give 6 to 64 hexadecimal digits')
        found = find_files(self._folder, self._names, f"{digest}*.md")
        if len({file.name for file in found}) != 1 or not _DIGEST.fullmatch(found[0].stem):
            raise NoteNotFoundError(f"{digest}: no artifact of that digest is kept here")
        data = found[0].read_bytes()
        if hashlib.sha256(data).hexdigest() != found[0].stem:
            raise RefusedError(f"{found[0]}: its bytes are not those of its digest; remove it")
        return data.decode("utf-8")

    def _drop_oldest(self) -> None:
        files = [file for file in self._folder.glob("*.md") if _DIGEST.fullmatch(file.stem)]
        if len(files) <= self._limit:
            return
        aged = []
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # Another process drops as well.
                aged.append((file.stat().st_mtime, file))
        for _, file in sorted(aged, reverse=True)[self._limit :]:
            file.unlink(missing_ok=True)
