"""Why hooks stayed silent: lines of JSON in the state folder, for whoever asks later."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from vaultmem.storage.leases import open_file

TROUBLE_FILE = "hook-trouble.jsonl"

#: A file that has grown past this (bytes) begins anew.
_LARGE = 256 * 1024


def keep_trouble(state_folder: Path, event: str, error: str) -> None:
    """Add a line; whatever hinders that is nobody's trouble."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"at": now, "event": event, "error": error[:1_000]}) + "\n"
    file = state_folder / TROUBLE_FILE
    with contextlib.suppress(OSError):
        if file.exists() and file.stat().st_size > _LARGE:
            os.replace(file, file.with_suffix(".old"))
        with open(file, "a", encoding="ascii", opener=_open) as out:
            out.write(line)


def _open(path: str, flags: int) -> int:
    return open_file(Path(path), flags)
