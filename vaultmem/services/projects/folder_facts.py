"""Git's facts about a code folder, cached by repository.

The code repository is untrusted, so git runs in it without its hooks and filters.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.config import CONFIG_NAME
from vaultmem.core.project import FolderFacts, normalise_remote
from vaultmem.core.text.paths import is_text
from vaultmem.errors import VaultError
from vaultmem.storage.git.head import common_folder, find_git_folder

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner
    from vaultmem.vault import Vault

#: Prefix of the state database's keys for facts.
FACTS_KEY = "code repository"


def read_facts(vault: Vault, folder: Path) -> FolderFacts | None:
    """Return the facts that identify a folder's project; None if it cannot have one.

    These have none: a folder of this or another vault, the home folder, the root of the file
    system, folders for temporary files, and repositories in which git refuses to work.
    """
    try:
        path = folder.resolve()
        repository = find_git_folder(path)
    except OSError:
        return None
    top = repository[0] if repository else path
    if not is_text(str(top)) or _is_excluded(top) or _is_vault(vault, path, top):
        return None
    if repository is None:
        is_temporary = path.is_relative_to(Path(tempfile.gettempdir()).resolve())
        return None if is_temporary else FolderFacts(str(path), folder_name=path.name)
    return _read_repository(vault, top, common_folder(repository[1]))


def _is_excluded(top: Path) -> bool:
    return top in {Path.home().resolve(), Path(top.anchor), Path(tempfile.gettempdir()).resolve()}


def _is_vault(vault: Vault, path: Path, top: Path) -> bool:
    """Return whether a folder belongs to a vault that is not part of a larger repository."""
    if (top / CONFIG_NAME).is_file():  # Another vault, perhaps.
        return True
    return path.is_relative_to(vault.root) and top.is_relative_to(vault.root)


def _read_repository(vault: Vault, top: Path, common: Path) -> FolderFacts | None:
    main = common.parent if common.name == ".git" else common
    name = main.name.removesuffix(".git")
    key, stamp = f"{FACTS_KEY} {common}", _make_stamp(common)
    cached_facts: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        cached_facts = json.loads(vault.state.get(key) or "{}")
    if cached_facts.get("stamp") != stamp:
        from vaultmem.storage.git.repository import open_repository

        try:
            git = open_repository(top)
        except VaultError:
            return None
        if git is None:
            return None
        cached_facts = _ask_git(git, common, str(cached_facts.get("root", ""))) | {"stamp": stamp}
        if cached_facts["root"]:  # An unborn or shallow history can still change.
            with contextlib.suppress(VaultError):
                vault.state.keep(key, json.dumps(cached_facts))
    return FolderFacts(str(top), True, cached_facts["root"], tuple(cached_facts["remotes"]), name)


def _ask_git(git: GitRunner, common: Path, known_root: str) -> dict[str, Any]:
    """Return root commit and remotes; a known root is not searched again."""
    from vaultmem.storage.git.repository import find_oldest_root, has_commit, list_remote_urls

    is_shallow = (common / "shallow").exists()
    root = known_root if known_root and has_commit(git, known_root) else ""
    root = root or ("" if is_shallow else find_oldest_root(git))
    remotes = map(normalise_remote, list_remote_urls(git))
    return {"root": root, "remotes": list(dict.fromkeys(filter(None, remotes)))}


def _make_stamp(common: Path) -> list[int]:
    """Return values that change if the repository is replaced, or its remotes change."""
    try:
        folder, config = common.stat(), (common / "config").stat()
    except OSError:
        return []
    return [folder.st_dev, folder.st_ino, config.st_ino, config.st_size, config.st_mtime_ns]
