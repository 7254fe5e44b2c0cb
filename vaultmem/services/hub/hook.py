"""The hook by which git asks the door of a hub about each push."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from vaultmem.storage.atomic import write_atomically

_NAME = "pre-receive"
_MODULE = "vaultmem.cli.pre_receive"


def write_hook(folder: Path) -> None:
    """Write the hook if it is not there as this vaultmem has it."""
    if find_hook(folder):
        write_atomically(folder / _NAME, _make_text(), mode=0o700)


def find_hook(folder: Path) -> str:
    """Return what is wrong with the hook in a folder, "" if nothing is."""
    file = folder / _NAME
    if not file.is_file():
        return "the hook is missing: git takes in each push as it comes"
    if not os.access(file, os.X_OK):
        return "the hook cannot be executed: git takes in each push as it comes"
    return "" if file.read_bytes() == _make_text() else "the hook is not this vaultmem's"


def _make_text() -> bytes:
    python = shlex.quote(sys.executable)
    # -P: git starts it in the repository.
    return f"#!/bin/sh\n# Written by vaultmem.\nexec {python} -P -m {_MODULE}\n".encode()
