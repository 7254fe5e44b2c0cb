"""What is on disk and in no commit yet, and who wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.changes import diff_trees
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.sync import sync_vault
from vaultmem.storage.commits import File, TreeEntry
from vaultmem.storage.files import MAX_FILE_BYTES, UnsafeFileError, read_file
from vaultmem.storage.journal import REMOVED, Author
from vaultmem.vault import Vault

#: Files besides the scan's that belong to a vault: written by `init`, hidden by their names.
_HIDDEN_FILES = (".gitignore", ".gitattributes")


class Whose(Enum):
    """Whose uncommitted bytes are meant, seen from the present author."""

    OTHERS = 1
    OTHERS_AND_EDITS = 2  # Also what the present author, a person, edited by hand.
    ANYBODY = 3


@dataclass(frozen=True, slots=True)
class Pending:
    """Files that differ from HEAD, by path, with their authors (None: a person by hand).

    `skipped` are files that no commit takes, with the reason.
    """

    files: dict[str, File]
    authors: dict[str, Author | None]
    skipped: dict[str, str]

    def of(self, paths: Iterable[str]) -> dict[str, File]:
        """Return those of the files that have these paths."""
        return {path: self.files[path] for path in sorted(paths) if path in self.files}


def find_pending(vault: Vault) -> Pending:
    """Compare what is on disk with HEAD; only files that may differ are read."""
    sync_vault(vault)
    tree = vault.history.tree(vault.history.head().commit)
    files: dict[str, File] = {}
    skipped: dict[str, str] = {}
    for path in _find_suspects(vault, tree):
        try:
            data = read_file(vault.root, PurePosixPath(path))
        except NoteNotFoundError:
            continue
        except UnsafeFileError as error:
            if "larger" in str(error):
                skipped[path] = f"larger than {MAX_FILE_BYTES // 1024 // 1024} MiB"
            continue
        blob = blob_id(data)
        vault.manifest.set_blob(path, blob)
        if path not in tree or blob != tree[path].blob:
            files[path] = (_mode_of(vault, tree, path), data)
    for path in tree.keys() - vault.manifest.blobs().keys() - set(_HIDDEN_FILES):
        if not (vault.root / path).is_symlink() and not (vault.root / path).exists():
            files[path] = None
    return Pending(
        files, {path: _author_of(vault, path, file) for path, file in files.items()}, skipped
    )


def is_pending(vault: Vault, path: str, blob: str, whose: Whose) -> bool:
    """Tell, without asking git, whether these bytes are in no commit and written by `whose`."""
    if vault.manifest.is_committed(path, blob):
        return False
    author = vault.journal.find_author(path, blob)
    if author is None and whose is Whose.OTHERS_AND_EDITS:
        return True
    return whose is Whose.ANYBODY or (author.agent if author else "") != vault.author.agent


def find_leaks(vault: Vault, files: Mapping[str, File]) -> dict[str, list[str]]:
    """Return, by path, where something looks like a credential and what like."""
    places: dict[str, list[str]] = {}
    for path, file in files.items():
        if file is None or vault.config.allows_secrets(path):
            continue
        for found in find_secrets(file[1].decode("utf-8", "replace")):
            places.setdefault(path, []).append(f"{path}:{found.line}: {found.rule}")
    return places


def _find_suspects(vault: Vault, tree: Mapping[str, TreeEntry]) -> list[str]:
    """Return the paths whose bytes are not known to be those of HEAD, ignored ones left out."""
    known = {path: file.blob for path, file in vault.manifest.files().items()}
    known |= {path: "" for path in _HIDDEN_FILES if (vault.root / path).is_file()}
    suspects = diff_trees({path: entry.blob for path, entry in tree.items()}, known).written
    ignored = vault.history.ignored([path for path in suspects if path not in tree])
    return [path for path in suspects if path not in ignored]


def _author_of(vault: Vault, path: str, file: File) -> Author | None:
    return vault.journal.find_author(path, REMOVED if file is None else blob_id(file[1]))


def _mode_of(vault: Vault, tree: Mapping[str, TreeEntry], path: str) -> str:
    if path in tree:
        return tree[path].mode
    return "100755" if (vault.root / path).stat().st_mode & 0o100 else "100644"
