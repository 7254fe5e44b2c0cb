"""The user's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from vaultmem.errors import VaultError


def _find_editor() -> list[str]:
    """Return the command of $VISUAL, $EDITOR or git's settings, or an empty list.

    A repository's own settings are not trusted, so they are ignored.
    """
    if editor := os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        return shlex.split(editor)
    if not os.isatty(0):
        return []
    own = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    words = ["git", "var", "GIT_EDITOR"]
    result = subprocess.run(words, cwd=os.sep, env=own, capture_output=True, text=True, check=False)
    command = result.stdout.strip()
    return ["sh", "-c", f'{command} "$@"', command] if command else []


def open_editor(file: Path) -> None:
    """Open a file in the user's editor and wait until it is closed.

    Raises:
        VaultError: no editor is set, or it ended with an error.
    """
    try:
        words = _find_editor()
        if not words:
            raise VaultError("no editor is set; set EDITOR, or open the file yourself")
        status = subprocess.run([*words, os.fspath(file)], check=False).returncode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise VaultError(
            f"the editor did not start ({reason}); set EDITOR to the command of your editor"
        ) from error
    if status != 0:
        raise VaultError(f"the editor ended with {status}; the note is as it left it")
