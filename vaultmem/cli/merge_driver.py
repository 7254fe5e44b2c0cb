"""The command that git runs to merge a note: `vaultmem merge-driver %O %A %B %P`.

It opens no vault. After an error, our version is unchanged and git has a conflict.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import warn
from vaultmem.cli.quick_typer import PlainCommand
from vaultmem.core.text.display import one_line
from vaultmem.errors import RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.core.notes.conflict import Speaker

#: Larger files are not notes that a person wrote; conflict markers would not help either.
_MAX_BYTES = 16 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the command to the application, hidden from `--help`, because git runs it."""
    # Git puts the note's path last, and the path can be `-f.md`.
    settings = {"ignore_unknown_options": True, "help_option_names": []}
    app.command("merge-driver", cls=PlainCommand, hidden=True, context_settings=settings)(
        merge_driver
    )


def merge_driver(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The common ancestor: %O.")],
    ours: Annotated[str, typer.Argument(metavar="OURS", help="Ours, and the result: %A.")],
    theirs: Annotated[str, typer.Argument(metavar="THEIRS", help="Theirs: %B.")],
    path: Annotated[str, typer.Argument(metavar="NAME", help="The note's path: %P.")],
) -> None:
    """Merge three versions of a note into OURS, for git.

    Values that could not stay are printed on standard error.

    Examples:
      vaultmem merge-driver %O %A %B %P
    """
    from vaultmem.core.merging.merge_note import is_note, merge_texts
    from vaultmem.storage.atomic import write_atomically

    try:
        texts = (_read(base), _read(ours), _read(theirs))
        merged = merge_texts(path, *texts)
        if merged.conflicts or merged.losses:
            if not is_note(path):
                raise RefusedError("both sides changed a line, and it is not a note")
            merged = merge_texts(path, *texts, *_find_sides(path))
        mode = os.stat(ours).st_mode & 0o777
        # No fsync: git reads the file at once, and writes the note itself.
        write_atomically(Path(ours), merged.text.encode("utf-8"), mode=mode, durable=False)
    except OSError as error:
        warn(f"{path}: not merged: {error.strerror or error}")
        raise typer.Exit(1) from None
    except VaultError as error:
        warn(f"{path}: not merged: {error}")
        raise typer.Exit(1) from None
    for conflict in merged.conflicts:
        warn(f"{path}: both sides changed {conflict.what}; ours stays, theirs follows it")
    for loss in merged.losses:
        warn(f"lost {path}: {loss.what}: {one_line(loss.value)}")


def _find_sides(path: str) -> tuple[str, Speaker]:
    """Return which side changed a note later ("": unknown), and the last author of theirs."""
    from vaultmem.core.notes.conflict import Speaker
    from vaultmem.environment import current_environment
    from vaultmem.storage.git.blame_file import find_last_change, find_theirs
    from vaultmem.storage.git.head import find_git_folder
    from vaultmem.storage.git.runner import GitRunner

    try:
        if (git_folders := find_git_folder(Path.cwd())) is None:
            return "", Speaker()
        git = GitRunner(*git_folders)
        commit, label, is_replayed = find_theirs(git_folders[1], current_environment())
        ours_at, _ = find_last_change(git, "HEAD", path)
        theirs_at, speaker = find_last_change(git, commit, path)
    except VaultError:
        return "", Speaker()
    speaker = speaker._replace(origin=label)
    if is_replayed:  # A replayed commit is later, and its parent keeps our version.
        return "theirs", speaker
    if ours_at == theirs_at or not commit:
        return "", speaker
    return ("ours" if ours_at > theirs_at else "theirs"), speaker


def _read(name: str) -> str:
    """Return a file's text.

    Raises:
        RefusedError: it is not UTF-8 text, or too large.
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
