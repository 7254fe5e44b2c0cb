"""Find the code repositories on this machine that can contain cited code."""

from __future__ import annotations

import contextlib
import json
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.project import FolderFacts, match_project
from vaultmem.services.projects.folder_facts import FACTS_KEY, read_facts
from vaultmem.services.projects.project_table import read_projects
from vaultmem.storage.git.code_files import CodeRepository, find_repository

if TYPE_CHECKING:
    from vaultmem.core.anchors import Anchor
    from vaultmem.vault import Vault


class Checkouts:
    """The repositories on this machine that a vault knows, opened on demand."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._by_project: dict[str, CodeRepository | None] = {}
        self._own: list[tuple[CodeRepository, tuple[str, ...]]] | None = None

    def find_places(self, anchor: Anchor, project: str) -> list[tuple[CodeRepository, str]]:
        """Return the repositories that can contain an anchor's file, with its path in each.

        `project` is the note's project, "" for a global note.
        """
        if project := anchor.project or project:
            repository = self._find_checkout(project)
            return [(repository, anchor.path)] if repository and _is_inside(anchor.path) else []
        places = [
            (repository, path)
            for repository, prefixes in self._list_own()
            for prefix in prefixes
            if _is_inside(path := posixpath.normpath(f"{prefix}{anchor.path}"))
        ]
        existing = (place for place in places if (place[0].top / place[1]).is_file())
        first = next(existing, None)
        return [first] if first else places

    def _find_checkout(self, project: str) -> CodeRepository | None:
        if project not in self._by_project:
            self._by_project[project] = find_checkout(self._vault, project)
        return self._by_project[project]

    def _list_own(self) -> list[tuple[CodeRepository, tuple[str, ...]]]:
        """Return the vault's own repository and the one in its configuration."""
        if self._own is None:
            vault = self._vault
            folders = [vault.root.resolve()]
            if code_folder := vault.config.code_repository:
                folders.append((vault.root / Path(code_folder).expanduser()).resolve())
            repositories = [(find_repository(each), each) for each in folders]
            self._own = [
                (repository, _list_prefixes(repository.top, folder))
                for repository, folder in repositories
                if repository
            ]
        return self._own


def find_checkout(vault: Vault, project: str) -> CodeRepository | None:
    """Return a project's repository on this machine, preferably the caller's, or None."""
    name, table = project.casefold(), read_projects(vault)
    facts = read_facts(vault, vault.here) if vault.here else None
    own = match_project(table, facts) if facts else None
    if facts and own and own.name.casefold() == name:
        return find_repository(Path(facts.path))
    repositories = (
        find_repository(common.parent)
        for common, known_facts in _list_known(vault)
        if common.name == ".git" and (match := match_project(table, known_facts))
        if match.name.casefold() == name
    )
    return next(filter(None, repositories), None)


def _list_known(vault: Vault) -> Iterator[tuple[Path, FolderFacts]]:
    """Yield the known git folders on this machine, with their stored facts."""
    rows = vault.state.query(f"SELECT key, value FROM meta WHERE key LIKE '{FACTS_KEY} %'")
    for key, value in rows:
        with contextlib.suppress(ValueError, KeyError):
            facts = json.loads(value)
            common = Path(str(key).removeprefix(f"{FACTS_KEY} "))
            yield common, FolderFacts("", True, facts["root"], tuple(facts["remotes"]))


def _list_prefixes(top: Path, folder: Path) -> tuple[str, ...]:
    inside = folder.relative_to(top).as_posix()
    return ("",) if inside == "." else (f"{inside}/", "")


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return ".." not in parts and ".git" not in parts and path not in {"", "."}
