"""Texts kept by the digest of their bytes, in the user's own data folder: written once."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path, PurePosixPath

from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.storage.files import create_file

_DIGEST = re.compile(r"[0-9a-f]{64}")


class ArtifactStore:
    """The artifacts of one vault; the newest `limit` are kept."""

    def __init__(self, folder: Path, limit: int = 1_000) -> None:
        self._folder = folder
        self._limit = limit

    def keep(self, text: str) -> str:
        """Keep a text, and return the SHA-256 digest of its UTF-8 bytes."""
        data = text.encode("utf-8")
        digest = hashlib.sha256(data).hexdigest()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(ConflictError):
            create_file(self._folder, PurePosixPath(f"{digest}.md"), data)
        self._drop_oldest()
        return digest

    def read(self, digest: str) -> str:
        """Return the text of a digest, or of the only one that begins so.

        Raises:
            NoteNotFoundError: none is kept.
            RefusedError: it is no digest, or the file was changed.
        """
        if not re.fullmatch(r"[0-9a-f]{6,64}", digest):
            raise RefusedError(f'"{digest}" is no digest; give 6 to 64 hexadecimal digits')
        found = sorted(self._folder.glob(f"{digest}*.md"))
        if len(found) != 1 or not _DIGEST.fullmatch(found[0].stem):
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
