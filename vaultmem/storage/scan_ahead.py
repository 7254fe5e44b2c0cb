"""A look at the vault that a child process takes while the command itself is still loaded.

Looking at 10,000 files takes as long as loading what then works on them, and most often nothing
has changed. So a command that will look forks before it loads anything; the child answers with
the scan's signature alone. Where there is no answer, the command looks for itself.

A server begins to watch the folder before it is looked at, so that nothing saved in between is
missed: its child is held until then.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import NamedTuple, NoReturn


class _Ahead(NamedTuple):
    """Where a child looks, where its answer comes from, what it waits for, and its process id."""

    root: str
    answer: int
    gate: int
    child: int


#: One, or none any more.
_begun: list[_Ahead] = []
_lock = threading.Lock()


def begin_scan(root: str, held: bool = False) -> None:
    """Begin to look at a vault (its real path); `take_signature` waits for what was seen.

    Nothing may run beside this process's main thread: a fork has only that. What is `held` begins
    when `release_scan` is called, and never if the answer is wanted before.
    """
    if not hasattr(os, "fork"):
        return
    try:
        reading, writing = os.pipe()
        gate, opener = os.pipe()
        child = os.fork()
    except OSError:
        return
    if not child:
        os.close(opener)
        _scan(root, gate, writing)
    os.close(gate)
    os.close(writing)
    _begun.append(_Ahead(root, reading, opener, child))
    if not held:
        release_scan()


def release_scan() -> None:
    """Let a look begin that is held, if there is one."""
    with _lock, contextlib.suppress(BrokenPipeError):  # The child was ended.
        for ahead in _begun:
            os.write(ahead.gate, b".")


def take_signature(root: str) -> str:
    """Return the signature of the scan that was begun here, once; empty if there was none."""
    with _lock:
        if not _begun:
            return ""
        ahead = _begun.pop()
        os.close(ahead.gate)
    with open(ahead.answer, "rb") as answer:
        signature = answer.read().decode("ascii")
    with contextlib.suppress(ChildProcessError):
        os.waitpid(ahead.child, 0)
    return signature if ahead.root == root else ""


def _scan(root: str, gate: int, writing: int) -> NoReturn:
    """Answer, and end without any of what the parent process would do at its end."""
    import signal
    from pathlib import Path

    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # Whoever waits for the parent's output must not wait for this.
            os.dup2(nothing, stream)
        from vaultmem.storage.scan import scan_vault

        if os.read(gate, 1):
            os.write(writing, scan_vault(Path(root)).signature().encode("ascii"))
    finally:
        os._exit(0)
