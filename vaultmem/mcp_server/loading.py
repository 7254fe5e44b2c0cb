"""The SDK and what serves by it, imported when somebody needs it: that takes most of a second."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()


def load_server() -> None:
    """Import what serves agents.

    By one thread at a time: of modules that import each other, a second one can find one half made.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    with _LOCK:
        from vaultmem.mcp_server import lines, resources, server  # noqa: F401
