"""Move the work tree from one commit to another without losing what anybody saves meanwhile.

Git's own checkout would run the repository's filters, and write over an editor's save. Here each
file changes places atomically and only where it still has the old commit's bytes. What is about
to happen is written down first; after a crash it is undone, unless HEAD has moved: then it is done.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.checkout import find_differences
from vaultmem.storage.commits import TreeEntry
from vaultmem.storage.files import create_file, read_file, remove_file, replace_file
from vaultmem.vault import Vault

_INTENT = "move.json"
_REGULAR = frozenset({"100644", "100755"})

#: For each path its entry before and behind; None where there is no such file.
Changes = Mapping[str, tuple[TreeEntry | None, TreeEntry | None]]


@dataclass(frozen=True, slots=True)
class _Intent:
    """What was about to happen: HEAD as it was, and the blobs of each path ("" for none)."""

    head: str
    blobs: dict[str, tuple[str, str]]


def find_moves(vault: Vault, old: str, new: str) -> Changes:
    """Return what differs between two trees or commits, by vault-relative path.

    Raises:
        RefusedError: it is not all regular files of the vault.
    """
    prefix = vault.history.prefix
    moves = {}
    for path, before, after in find_differences(vault.history, old, new):
        entries = [entry for entry in (before, after) if entry is not None]
        if not path.startswith(prefix) or any(e.mode not in _REGULAR for e in entries):
            raise RefusedError(
                f"{path}: not a file of the vault that vaultmem can change; use git itself for this"
            )
        moves[path.removeprefix(prefix)] = (before, after)
    return moves


def move_files(vault: Vault, moves: Changes, contents: Mapping[str, bytes]) -> None:
    """Bring the files to where `moves` says, or leave all as it was; `contents` is by blob id.

    Until `finish_move`, a crash means that it is undone by the next command.

    Raises:
        ConflictError: a file is not as committed; nothing was changed.
    """
    _check_unchanged(vault, moves)
    blobs = {p: (b.blob if b else "", a.blob if a else "") for p, (b, a) in moves.items()}
    content = {"head": _read_head(vault), "blobs": blobs}
    _write_durably(vault.state_folder / _INTENT, json.dumps(content))
    try:
        for path, (before, after) in moves.items():
            _move_file(vault, PurePosixPath(path), before, after, contents)
    except BaseException:
        undo_move(vault)
        raise


def finish_move(vault: Vault) -> None:
    """Say that HEAD has moved too, so that nothing is to be undone."""
    (vault.state_folder / _INTENT).unlink(missing_ok=True)


def undo_move(vault: Vault) -> None:
    """Undo a move that did not come about; one whose HEAD has moved is finished instead.

    A file that somebody changed since is left as it is.
    """
    with vault.lock():
        intent = _read_intent(vault)
        if intent is None:
            return
        if _read_head(vault) == intent.head:
            for path, (before, after) in intent.blobs.items():
                if before != after:
                    with contextlib.suppress(VaultError):
                        _put_back(vault, PurePosixPath(path), before, after)
            vault.history.settle_index()
        finish_move(vault)


def is_interrupted(vault: Vault) -> bool:
    """Tell whether a move was interrupted; no more than a look at one file."""
    return (vault.state_folder / _INTENT).exists()


def _check_unchanged(vault: Vault, moves: Changes) -> None:
    for path, (before, _) in moves.items():
        expected = before.blob if before else ""
        if _blob_at(vault, PurePosixPath(path)) != expected:
            raise ConflictError(
                f"{path}: the file is not as committed; commit it or move it away first"
            )


def _blob_at(vault: Vault, path: PurePosixPath) -> str:
    try:
        return blob_id(read_file(vault.root, path))
    except NoteNotFoundError:
        return ""


def _move_file(
    vault: Vault,
    path: PurePosixPath,
    before: TreeEntry | None,
    after: TreeEntry | None,
    contents: Mapping[str, bytes],
) -> None:
    if after is None:
        remove_file(vault.root, path, before.blob if before else "")
        _remove_empty_folders(vault.root, path.parent)
        return
    if before is None:
        create_file(vault.root, path, contents[after.blob])
    elif before.blob != after.blob:
        replace_file(vault.root, path, before.blob, contents[after.blob])
    if (before.mode if before else "100644") != after.mode:
        (vault.root / path).chmod(0o755 if after.mode == "100755" else 0o644)


def _put_back(vault: Vault, path: PurePosixPath, before: str, after: str) -> None:
    if _blob_at(vault, path) != after:
        return
    if not before:
        remove_file(vault.root, path, after)
        _remove_empty_folders(vault.root, path.parent)
        return
    data = vault.history.objects.read(before)[1]
    if after:
        replace_file(vault.root, path, after, data)
    else:
        create_file(vault.root, path, data)


def _remove_empty_folders(root: Path, folder: PurePosixPath) -> None:
    with contextlib.suppress(OSError):  # Not empty, or gone: as git leaves it.
        while folder.parts:
            (root / folder).rmdir()
            folder = folder.parent


def _read_head(vault: Vault) -> str:
    head = vault.history.head()
    return f"{head.branch} {head.commit}"


def _read_intent(vault: Vault) -> _Intent | None:
    try:
        content = json.loads((vault.state_folder / _INTENT).read_text(encoding="utf-8"))
        blobs = {path: (before, after) for path, (before, after) in content["blobs"].items()}
        return _Intent(content["head"], blobs)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VaultError(f"{vault.state_folder / _INTENT}: cannot be read ({error})") from error


def _write_durably(file: Path, text: str) -> None:
    spare = file.with_suffix(".tmp")
    with open(spare, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(spare, file)
