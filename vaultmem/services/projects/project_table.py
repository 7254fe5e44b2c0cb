"""The project of a folder, found in the vault's table or added to it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.project import (
    TABLE_NAME,
    Project,
    ProjectTable,
    UnreadableTableError,
    add_entry,
    change_entry,
    check_name,
    learn,
    make_project,
    match_project,
    parse_table,
)
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.projects.folder_facts import read_facts
from vaultmem.storage.files import UnsafeFileError, read_file

if TYPE_CHECKING:
    from vaultmem.core.project import FolderFacts
    from vaultmem.services.changes.change import Change
    from vaultmem.vault import Vault

_PATH = PurePosixPath(TABLE_NAME)


def read_projects(vault: Vault) -> ProjectTable:
    """Return the table of the vault's projects, from the work tree or the branch it works on.

    Raises:
        UnreadableTableError: the table cannot be read; with the line and a remedy.
    """
    return parse_table(_decode(_read(vault)))


def find_project(vault: Vault, folder: Path | None) -> Project | None:
    """Return the project of a folder, None if it has none (yet); nothing is written.

    Without a folder, return None: the caller's folder is unknown.

    Raises:
        UnreadableTableError: as for `read_projects`.
    """
    if folder is None:
        return None
    table = read_projects(vault)
    if not table.projects:
        return None
    facts = read_facts(vault, folder)
    return match_project(table, facts) if facts else None


def ensure_project(vault: Vault, folder: Path | None, *, opened: bool = False) -> Project | None:
    """Return the project of a folder; add it to the table if it is new.

    A folder without git is added only if a session is `opened` in it. The table is committed with
    the next event of its author, on a branch at once. Return None as `find_project` does.

    Raises:
        UnreadableTableError, VaultError: as for `read_projects` and `write`.
    """
    facts = read_facts(vault, folder) if folder else None
    if facts is None:
        return None
    project = match_project(read_projects(vault), facts)
    if (project and learn(project, facts) == project) or not (project or facts.has_git or opened):
        return project

    # Queries find projects too, and need none of the imports for writing.
    from vaultmem.services.changes.commit_parts import Event
    from vaultmem.services.changes.write import write

    def plan(change: Change) -> Project | None:
        change.leave(Event("write", "", vault.author, intent="observe"))
        return _put_project(change, facts, opened)

    return write(vault, plan).value


def place_in_project(
    change: Change, name: str | None, folder: Path | None, *, opened: bool = False
) -> str:
    """Return the project's name for a new note, "" for a global note.

    `name` is a project, "" for none, or None for the project of `folder`, as for `ensure_project`.
    A new project is added to the table within the write.

    Raises:
        RefusedError: no project can have this name.
        UnreadableTableError: as for `read_projects`.
    """
    if name == "":
        return ""
    facts = read_facts(change.seen, folder) if folder else None
    if name is not None:
        return _choose_project_name(change, name, facts).name
    project = _put_project(change, facts, opened) if facts else None
    return project.name if project else ""


def _put_project(change: Change, facts: FolderFacts, opened: bool) -> Project | None:
    """Return the project of a folder; add it to the table within a write if it is new."""
    text = read_table(change)
    table = parse_table(text)
    project = match_project(table, facts)
    if project is None:
        if not (facts.has_git or opened):
            return None
        new_project = make_project(table, facts)
        put_table(change, add_entry(text, new_project))
        return new_project
    updated_project = learn(project, facts)
    if updated_project != project:
        put_table(change, change_entry(text, project.name, updated_project))
    return updated_project


def _choose_project_name(change: Change, name: str, facts: FolderFacts | None) -> Project:
    """Return the project of a name; a new one gets the folder, unless the folder has a project."""
    text = read_table(change)
    table = parse_table(text)
    project = table.get(name)
    if project is not None:
        return project
    new_project = Project(check_name(name))
    if facts and match_project(table, facts) is None:
        new_project = make_project(table, facts, new_project.name)
    put_table(change, add_entry(text, new_project))
    return new_project


def read_table(change: Change) -> str:
    """Return the table's text within a write, with its changes; "" if there is none."""
    step = change.steps.get(TABLE_NAME)
    return _decode(step.data or b"" if step else _read(change.seen))


def put_table(change: Change, text: str) -> None:
    """Replace the table's text within a write."""
    data = text.encode("utf-8")
    before = _read(change.seen)
    if TABLE_NAME in change.steps or before is not None:
        change.replace(_PATH, data, blob_id(before or b""))
    else:
        change.put(_PATH, data)


def _read(vault: Vault) -> bytes | None:
    """Return the table's current bytes in the work tree or branch, None if there is none."""
    viewed_vault = vault
    if vault.ref:
        from vaultmem.services.views.open_view import at_ref, current_view

        viewed_vault = current_view(at_ref(vault, vault.ref))
    try:
        if not vault.ref or viewed_vault.view.has_work_tree:
            return read_file(vault.root, _PATH)
        name = f"{viewed_vault.view.sources[0].commit}:{viewed_vault.history.prefix}{TABLE_NAME}"
        return viewed_vault.history.objects.read(name)[1]
    except NoteNotFoundError:
        return None
    except UnsafeFileError as error:
        raise UnreadableTableError(f"{error}; put a regular file there, or remove it") from error


def _decode(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableTableError(f"{TABLE_NAME}: not UTF-8; save it as UTF-8") from None
