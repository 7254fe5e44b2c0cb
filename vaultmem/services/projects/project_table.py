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
    """Return the table of the vault's projects: the folder's, or that of the branch it works on.

    Raises:
        UnreadableTableError: the table cannot be read; says which line, and what to do.
    """
    return parse_table(_decode(_read(vault)))


def find_project(vault: Vault, folder: Path | None) -> Project | None:
    """Return the project of a folder, None if it has none (yet); nothing is written.

    Without a folder there is none: whoever asks works in no folder that is known.

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
    """Return the project of a folder; one that is not in the table yet is added.

    A folder without git is added only where a session is `opened` in it. The table is committed
    with the next event of its author, and on a branch at once. None as for `find_project`.

    Raises:
        UnreadableTableError, VaultError: as for `read_projects` and `write`.
    """
    facts = read_facts(vault, folder) if folder else None
    if facts is None:
        return None
    found = match_project(read_projects(vault), facts)
    if (found and learn(found, facts) == found) or not (found or facts.has_git or opened):
        return found

    # A query finds its project too, and does not wait for what only writing imports.
    from vaultmem.services.changes.parts import Event
    from vaultmem.services.changes.write import write

    def plan(change: Change) -> Project | None:
        change.leave(Event("write", "", vault.author, intent="observe"))
        return _put_project(change, facts, opened)

    return write(vault, plan).value


def place_in_project(
    change: Change, name: str | None, folder: Path | None, *, opened: bool = False
) -> str:
    """Return the name of the project that a new note belongs to, "" for a global note.

    That is the project of a `name`, "" for none, or with None that of the folder, as for
    `ensure_project`. A project that is not in the table yet is added within the write.

    Raises:
        RefusedError: no project can have this name.
        UnreadableTableError: as for `read_projects`.
    """
    if name == "":
        return ""
    facts = read_facts(change.seen, folder) if folder else None
    if name is not None:
        return _choose_project_name(change, name, facts).name
    found = _put_project(change, facts, opened) if facts else None
    return found.name if found else ""


def _put_project(change: Change, facts: FolderFacts, opened: bool) -> Project | None:
    """Return the project of a folder, added to the table within a write where it is new."""
    text = read_table(change)
    table = parse_table(text)
    found = match_project(table, facts)
    if found is None:
        if not (facts.has_git or opened):
            return None
        made = make_project(table, facts)
        put_table(change, add_entry(text, made))
        return made
    learned = learn(found, facts)
    if learned != found:
        put_table(change, change_entry(text, found.name, learned))
    return learned


def _choose_project_name(change: Change, name: str, facts: FolderFacts | None) -> Project:
    """Return the project of a name; a new one gets the folder, unless that has one already."""
    text = read_table(change)
    table = parse_table(text)
    found = table.get(name)
    if found is not None:
        return found
    made = Project(check_name(name))
    if facts and match_project(table, facts) is None:
        made = make_project(table, facts, made.name)
    put_table(change, add_entry(text, made))
    return made


def read_table(change: Change) -> str:
    """Return the table's text within a write, as the write leaves it; "" if there is none."""
    step = change.steps.get(TABLE_NAME)
    return _decode(step.data or b"" if step else _read(change.seen))


def put_table(change: Change, text: str) -> None:
    """Give the table another text within a write."""
    data = text.encode("utf-8")
    before = _read(change.seen)
    if TABLE_NAME in change.steps or before is not None:
        change.replace(_PATH, data, blob_id(before or b""))
    else:
        change.put(_PATH, data)


def _read(vault: Vault) -> bytes | None:
    """Return the table's bytes as they are now where the vault works, None if there is none."""
    seen = vault
    if vault.ref:
        from vaultmem.services.views.open_view import at_ref, current_view

        seen = current_view(at_ref(vault, vault.ref))
    try:
        if not vault.ref or seen.view.has_work_tree:
            return read_file(vault.root, _PATH)
        name = f"{seen.view.sources[0].commit}:{seen.history.prefix}{TABLE_NAME}"
        return seen.history.objects.read(name)[1]
    except NoteNotFoundError:
        return None
    except UnsafeFileError as error:
        raise UnreadableTableError(f"{error}; put a regular file there, or remove it") from error


def _decode(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableTableError(f"{TABLE_NAME}: not UTF-8; save it as UTF-8") from None
