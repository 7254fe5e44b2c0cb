"""Rename a project, or move notes to another one; each is one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.project import (
    PROPERTY,
    Project,
    change_entry,
    check_name,
    join_projects,
    parse_table,
    remove_entry,
)
from vaultmem.core.sessions.session import FOLDER
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import replace_text, write
from vaultmem.services.projects.project_table import (
    find_project,
    put_table,
    read_projects,
    read_table,
)
from vaultmem.services.views.open_view import current_view
from vaultmem.services.views.read_notes import resolve_address

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.project import ProjectTable
    from vaultmem.services.changes.change import Change
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.vault import Vault


class MovedNotes(NamedTuple):
    """The notes moved to a project ("" for none), and the commit."""

    project: str
    paths: tuple[str, ...]
    report: CommitReport


def rename_project(vault: Vault, old: str, new: str) -> MovedNotes:
    """Rename a project in the table and in its notes, in one commit.

    If `new` is another project, they are joined, unless they are two repositories. The vault must
    be in sync.

    Raises:
        NoteNotFoundError: there is no project `old`.
        RefusedError: no project can have the new name, or a note cannot be edited.
    """
    check_name(new)

    def plan(change: Change) -> tuple[str, ...]:
        text = read_table(change)
        table = parse_table(text)
        project, target = get_project(table, old), table.get(new)
        if target is None or target == project:
            put_table(change, change_entry(text, project.name, replace(project, name=new)))
        else:
            joined = join_projects(project, target)
            text = change_entry(remove_entry(text, project.name), target.name, joined)
            put_table(change, text)
        name = target.name if target and target != project else new
        records = change.seen.view.records(f"d.{PROPERTY} = ?", (project.name,))
        paths = tuple(sorted(each.path for each in records))
        for path in paths:
            _set_project(change, path, name)
        change.commit(_make_event(vault, f"projects: {project.name} is now {name}"))
        return paths

    result = write(vault, plan)
    return MovedNotes(new, result.value, result.report)


def move_notes(vault: Vault, notes: Iterable[str], name: str) -> MovedNotes:
    """Move notes to a project, or make them global (""), in one commit.

    The vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such note or project.
        RefusedError: a note cannot be edited.
    """
    viewed_vault = current_view(vault)
    paths = tuple(dict.fromkeys(str(resolve_address(viewed_vault, each)[0]) for each in notes))

    def plan(change: Change) -> tuple[str, ...]:
        project = get_project(parse_table(read_table(change)), name).name if name else ""
        moved_paths = tuple(path for path in paths if _set_project(change, path, project))
        if moved_paths:
            place = f"in {project}" if project else "global"
            subject = f"projects: {pluralize(len(moved_paths), 'note')} now {place}"
            change.commit(_make_event(vault, subject))
        return moved_paths

    result = write(vault, plan)
    return MovedNotes(name, result.value, result.report)


def get_project(table: ProjectTable, name: str) -> Project:
    """Return the project of a name.

    Raises:
        NoteNotFoundError: there is none.
    """
    project = table.get(name)
    if project is None:
        suggestion = suggest_similar(name, table.names, "; `vaultmem projects` lists them")
        raise NoteNotFoundError(f"{name}: there is no such project{suggestion}")
    return project


def put_in_projects(change: Change, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Set the projects of notes, as pairs of path and name; yield the paths that change."""
    for path, name in pairs:
        if _set_project(change, path, name):
            yield path


def _set_project(change: Change, path: str, name: str) -> bool:
    """Set a note's project, or remove it if `name` is empty; return whether it changes."""

    def edit(note: Note) -> str:
        if name:
            return set_property(note.text, PROPERTY, name)
        return remove_property(note.text, PROPERTY)

    replace_text(change, change.read(PurePosixPath(path)), edit)
    return path in change.steps


def _make_event(vault: Vault, subject: str) -> Event:
    return Event("projects", subject, vault.author, intent="refine")


# List the projects of a vault, with the number of notes of each.


class ListedProject(NamedTuple):
    """A project with its numbers of notes and of sessions.

    `is_here`: the caller works in it. `is_listed`: the table has it.
    """

    project: Project
    notes: int
    sessions: int
    is_here: bool
    is_listed: bool


class ProjectList(NamedTuple):
    """All projects, and the number of global notes."""

    projects: tuple[ListedProject, ...]
    global_notes: int


def list_projects(vault: Vault) -> ProjectList:
    """Return the projects of the table, and then those that only notes name.

    The vault must be in sync.

    Raises:
        UnreadableTableError: the table cannot be read.
    """
    table, current_project = read_projects(vault), find_project(vault, vault.here)
    notes: Counter[str] = Counter()
    sessions: Counter[str] = Counter()
    for record in current_view(vault).view.records():
        counter = sessions if record.path.startswith(f"{FOLDER}/") else notes
        counter[record.project] += 1
    others = sorted({*notes, *sessions} - {"", *table.names})
    rows = [
        *((each, True) for each in table.projects),
        *((Project(name), False) for name in others),
    ]
    projects = tuple(
        ListedProject(
            each, notes[each.name], sessions[each.name], each == current_project, is_listed
        )
        for each, is_listed in rows
    )
    return ProjectList(projects, notes[""])
