"""The command that git runs to merge a note: `vaultmem merge-driver %O %A %B %P`.

It opens no vault. Whatever goes wrong, git finds our version as it was, and a conflict.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from vaultmem.cli.output import warn
from vaultmem.cli.quick_typer import PlainCommand
from vaultmem.errors import MergeConflictError, RefusedError, VaultError

#: Nobody wrote a note of this size; git's own markers would not help with one either.
_MAX_BYTES = 16 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the command to the application; it is git's, so `--help` does not show it."""
    # Git puts the path of a note last, and that may be `-f.md`.
    settings = {"ignore_unknown_options": True, "help_option_names": []}
    app.command("merge-driver", cls=PlainCommand, hidden=True, context_settings=settings)(
        merge_driver
    )


def merge_driver(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The common ancestor: %O.")],
    ours: Annotated[str, typer.Argument(metavar="OURS", help="Ours, and the result: %A.")],
    theirs: Annotated[str, typer.Argument(metavar="THEIRS", help="Theirs: %B.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The note's path: %P.")],
) -> None:
    """Merge three versions of a note into OURS; exit 8 if conflicts are marked in it."""
    from vaultmem.core.merging.note import merge_texts
    from vaultmem.storage.atomic import write_atomically

    try:
        merged = merge_texts(path, _read(base), _read(ours), _read(theirs))
        mode = os.stat(ours).st_mode & 0o777
        # No fsync: git reads it at once, and writes the note itself.
        write_atomically(Path(ours), merged.text.encode("utf-8"), mode=mode, durable=False)
    except OSError as error:
        warn(f"{path}: not merged: {error.strerror or error}")
        raise typer.Exit(1) from None
    except VaultError as error:
        warn(f"{path}: not merged: {error}")
        raise typer.Exit(1) from None
    if merged.conflicts:
        raise typer.Exit(MergeConflictError.exit_code)


def _read(name: str) -> str:
    """Return a file's text.

    Raises:
        RefusedError: it is no UTF-8 text, or too large.
        OSError: it cannot be read.
    """
    with open(name, "rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise RefusedError(f"a version is larger than {_MAX_BYTES // 1024**2} MiB")
    if b"\0" in data:
        raise RefusedError("a version contains NUL bytes, so it is not text")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"a version is not UTF-8 (byte {error.start})") from None
