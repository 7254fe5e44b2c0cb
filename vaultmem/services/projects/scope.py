"""The notes that a query can find inside a project: its own notes and global ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from vaultmem.core.project import match_project
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.projects.folder_facts import read_facts
from vaultmem.services.projects.project_table import find_project, read_projects
from vaultmem.vault import Vault

#: The word of `--project` for the notes of all projects.
ALL_PROJECTS = "all"


def view_projects(vaults: Sequence[Vault], project: str = "") -> list[Vault]:
    """Return vaults without the notes of other projects.

    `project` is the name of the project; by default, it is that of the folder in which the first
    vault's caller works. Outside every project, and for "all", all notes are shown. A vault that
    does not list the caller's project shows only global notes: another vault lists the project, or
    the folder is a repository without memories yet.

    Raises:
        NoteNotFoundError: there is no project of that name.
        VaultError: a table of projects cannot be read.
    """
    if project == ALL_PROJECTS:
        return [_view(each, None) for each in vaults]
    if project:
        _check_name(vaults, project)
        return [_view(each, project) for each in vaults]
    return list(map(_view, vaults, _find_names(vaults)))


def view_project(vault: Vault, project: str = "") -> Vault:
    """Return one vault as `view_projects` does."""
    return view_projects([vault], project)[0]


def view_for_file(vault: Vault, folder: Path) -> Vault:
    """Return a vault for a generated file in a folder.

    It shows notes of the folder's project, and global ones. A file outside every project can be
    read from any of them, so it gets only global notes. In git, notes get the dates of a commit
    made now, so that committing the file does not change its content.

    Raises:
        VaultError: the table of projects cannot be read.
    """
    viewed_vault = _view(vault, find_name(vault, folder))
    if vault.head() is None:
        return viewed_vault
    return replace(viewed_vault, view=viewed_vault.view.date_by_commit(vault.now()))


def find_name(vault: Vault, folder: Path | None) -> str:
    """Return the name of the project that a folder belongs to, "" if there is none.

    Raises:
        VaultError: the table of projects cannot be read.
    """
    project = find_project(vault, folder)
    return project.name if project else ""


def _find_names(vaults: Sequence[Vault]) -> list[str | None]:
    """Return each vault's name for the caller's project; None for all notes.

    It is "" in a vault that does not list the project, and in a repository that none lists.
    """
    everything: list[str | None] = [None] * len(vaults)
    folder = vaults[0].here
    tables = [read_projects(each) for each in vaults] if folder else []
    if folder is None or not any(each.projects for each in tables):
        return everything
    facts_by_vault = [read_facts(each, folder) for each in vaults]
    pairs = zip(tables, facts_by_vault, strict=True)
    projects = [match_project(table, facts) if facts else None for table, facts in pairs]
    is_repository = facts_by_vault[0] is not None and facts_by_vault[0].has_git
    if not any(projects) and not is_repository:
        return everything
    return [each.name if each else "" for each in projects]


def _view(vault: Vault, project: str | None) -> Vault:
    if vault.view.project == project:
        return vault
    return replace(vault, view=vault.view.of_project(project))


def _check_name(vaults: Iterable[Vault], project: str) -> None:
    names = [name for each in vaults for name in list_names(each)]
    if project.casefold() not in {name.casefold() for name in names}:
        hint = "; run `vaultmem projects` to list them" if names else "; there is none yet"
        raise NoteNotFoundError(
            f"{project}: no such project{suggest_similar(project, names, hint)}"
        )


def list_names(vault: Vault) -> list[str]:
    """Return the names of the projects that the table lists, or that a note names."""
    names = [*read_projects(vault).names, *vault.view.of_project(None).projects()]
    return list(dict.fromkeys(names))
