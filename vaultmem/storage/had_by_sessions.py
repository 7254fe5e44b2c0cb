"""What hooks have told a session so far, so that it is not told again: a file for each session.

Nothing depends on it: where it cannot be read or written, a session is told once more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from vaultmem.storage.leases import open_file

FOLDER = "had"

#: Sessions that are kept, and bytes of one: what is beyond that is told again.
_MOST, _LARGE = 100, 256 * 1024


def read_had(state_folder: Path, session: str) -> frozenset[str]:
    """Return the names of what a session has had."""
    if not session:
        return frozenset()
    try:
        text = (state_folder / FOLDER / session).read_text("ascii")
    except (OSError, ValueError):
        return frozenset()
    return frozenset(text.split()) if len(text) < _LARGE else frozenset()


def add_had(state_folder: Path, session: str, names: Iterable[str]) -> None:
    """Note down what a session was told; one that was told very much begins anew."""
    file = state_folder / FOLDER / session
    with contextlib.suppress(OSError):
        if not session:
            return
        file.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_TRUNC if file.exists() and file.stat().st_size >= _LARGE else os.O_APPEND
        descriptor = open_file(file, os.O_WRONLY | os.O_CREAT | flags)
        try:
            os.write(descriptor, "".join(f"{name}\n" for name in names).encode("ascii"))
        finally:
            os.close(descriptor)


def forget_had(state_folder: Path, session: str) -> None:
    """Forget what a session has had, whose context is empty now; and the oldest sessions."""
    folder = state_folder / FOLDER
    with contextlib.suppress(OSError):
        if session:
            (folder / session).unlink(missing_ok=True)
        files = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime)
        for file in files[:-_MOST]:
            file.unlink(missing_ok=True)
