"""The hook by which git asks the door of a hub about each push."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from vaultmem.storage.atomic import write_atomically


def write_hook(folder: Path) -> None:
    """Write the hook if it is not there as this vaultmem has it."""
    python = shlex.quote(sys.executable)
    # -P: git starts it in the repository.
    text = f"#!/bin/sh\n# Written by vaultmem.\nexec {python} -P -m vaultmem.cli.pre_receive\n"
    file, data = folder / "pre-receive", text.encode()
    if not (file.is_file() and file.read_bytes() == data and os.access(file, os.X_OK)):
        write_atomically(file, data, mode=0o700)
