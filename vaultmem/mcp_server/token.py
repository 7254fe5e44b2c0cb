"""The token that a server over HTTP asks for."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from vaultmem.errors import RefusedError

#: A shorter token could be guessed.
_LEAST = 16


def read_token(file: Path) -> str:
    """Return the token in a file that only its owner can read; it is made if it is not there.

    Raises:
        RefusedError: others can read the file, or its token is shorter than 16 characters.
    """
    try:
        with open(file, "x", encoding="ascii", opener=_private) as new:
            new.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    if file.stat().st_mode & 0o077:
        raise RefusedError(f"{file}: others can read it; run `chmod 600 {file}`")
    token = file.read_text(encoding="ascii").strip()
    if len(token) < _LEAST:
        raise RefusedError(f"{file}: a token needs {_LEAST} characters or more")
    return token


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
