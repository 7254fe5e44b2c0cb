"""A note that is on its way to another name: written down first, so that a rerun can finish."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.json_values import as_named
from vaultmem.errors import ConflictError, VaultError
from vaultmem.storage.atomic import sync_folder, write_atomically
from vaultmem.storage.files import read_file

_NAME = "rename.json"


class Intent(NamedTuple):
    """Which note gets which name; `blob` is what it held when that was decided."""

    old: str
    new: str
    blob: str


def write_intent(folder: Path, intent: Intent) -> None:
    """Write it whole and durably into the state folder."""
    write_atomically(folder / _NAME, json.dumps(as_named(intent)).encode())


def read_intent(folder: Path) -> Intent | None:
    """Return what is under way, None if nothing is; a damaged one counts as nothing."""
    try:
        content = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        return Intent(str(content["old"]), str(content["new"]), str(content["blob"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drop_intent(folder: Path) -> None:
    """Say that nothing is under way."""
    (folder / _NAME).unlink(missing_ok=True)


def finish_case(root: Path, old: PurePosixPath, new: PurePosixPath) -> None:
    """Drop the old of two names of one file, which an interrupted `change_case` may leave."""
    names = [path.name in os.listdir(root / path.parent) for path in (old, new)]
    if all(names) and old != new and _is_same_file(root, old, new):
        os.unlink(root / old)


def _is_same_file(root: Path, old: PurePosixPath, new: PurePosixPath) -> bool:
    try:
        return (root / new).samefile(root / old)
    except OSError:
        return False


def change_case(root: Path, old: PurePosixPath, new: PurePosixPath, expected: str) -> None:
    """Give a file a name that differs in case or Unicode form alone, in one step where it can.

    Raises:
        ConflictError: another file has that name, or the file has other bytes by now.
        VaultError: the disk did not take it.
    """
    if blob_id(read_file(root, old)) != expected:
        raise ConflictError(f"{old}: somebody changed it meanwhile; read it again")
    try:
        if _is_same_file(root, old, new):
            os.rename(root / old, root / new)
        else:
            os.link(root / old, root / new, follow_symlinks=False)
            os.unlink(root / old)
        for folder in {old.parent, new.parent}:
            with contextlib.suppress(OSError):
                sync_folder(root / folder)
    except FileExistsError:
        raise ConflictError(f"{new}: a note of that name exists; choose another") from None
    except OSError as error:
        raise VaultError(f"{old}: could not be renamed: {error.strerror}") from error
