"""The person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from vaultmem.errors import VaultError


def open_editor(file: Path) -> None:
    """Open a file in $VISUAL or $EDITOR and wait until it is closed.

    Raises:
        VaultError: no editor is set, or it ended with an error.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise VaultError("no editor is set; set EDITOR, or open the file yourself")
    try:
        status = subprocess.run([*shlex.split(command), os.fspath(file)], check=False).returncode
    except (OSError, ValueError) as error:
        raise VaultError(f"{command}: the editor did not start ({error})") from error
    if status != 0:
        raise VaultError(f"{command}: the editor ended with {status}; the note is as it left it")
