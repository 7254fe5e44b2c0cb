"""A look at the vault that a child process takes while the command itself is still loaded.

Looking at 10,000 files takes as long as loading what then works on them, and most often nothing
has changed. So a command that will look forks before it loads anything; the child answers with
the scan's signature alone. Where there is no answer, the command looks for itself.
"""

from __future__ import annotations

import contextlib
import os
from typing import NoReturn

#: Where a child looks, where its answer comes from, and its process id: one, or none any more.
_begun: list[tuple[str, int, int]] = []


def begin_scan(root: str) -> None:
    """Begin to look at a vault (its real path); `take_signature` waits for what was seen.

    Nothing may run beside this process's main thread: a fork has only that.
    """
    if not hasattr(os, "fork"):
        return
    try:
        reading, writing = os.pipe()
        child = os.fork()
    except OSError:
        return
    if not child:
        _scan(root, writing)
    os.close(writing)
    _begun.append((root, reading, child))


def take_signature(root: str) -> str:
    """Return the signature of the scan that was begun here, once; empty if there was none."""
    try:
        begun, reading, child = _begun.pop()
    except IndexError:
        return ""
    with open(reading, "rb") as answer:
        signature = answer.read().decode("ascii")
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return signature if begun == root else ""


def _scan(root: str, writing: int) -> NoReturn:
    """Answer, and end without any of what the parent process would do at its end."""
    import signal
    from pathlib import Path

    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # Whoever waits for the parent's output must not wait for this.
            os.dup2(nothing, stream)
        from vaultmem.storage.scan import scan_vault

        os.write(writing, scan_vault(Path(root)).signature().encode("ascii"))
    finally:
        os._exit(0)
