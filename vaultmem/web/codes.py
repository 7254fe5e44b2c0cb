"""One-time codes: whoever can write into the vault's private folder may come in by a browser.

A code is made by a command, and taken by the server: all that both know is a file, which has the
codes' digests and until when they count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from pathlib import Path

from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.lock import hold_lock

#: Seconds for which a code may be used.
LIFETIME = 600.0

_NAME = "web-codes.json"


def make_code(folder: Path) -> str:
    """Return a code that lets one browser in, within ten minutes."""
    code = secrets.token_urlsafe(24)
    with hold_lock(folder / f"{_NAME}.lock"):
        _keep(folder, {**_read(folder), _digest(code): time.time() + LIFETIME})
    return code


def take_code(folder: Path, code: str) -> bool:
    """Tell whether a code counts; it does not count again."""
    with hold_lock(folder / f"{_NAME}.lock"):
        codes = _read(folder)
        if codes.pop(_digest(code), None) is None:
            return False
        _keep(folder, codes)
    return True


def _read(folder: Path) -> dict[str, float]:
    """Return the codes that count, by their digests, with the time at which they end."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        found = json.loads((folder / _NAME).read_text(encoding="ascii"))
        return {name: float(end) for name, end in found.items() if time.time() < float(end)}
    return {}


def _keep(folder: Path, codes: dict[str, float]) -> None:
    write_atomically(folder / _NAME, json.dumps(codes).encode(), mode=0o600, durable=False)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
