"""Rename a project, or move notes to another one; each is one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.counting import count_things
from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.projects import (
    PROPERTY,
    Project,
    change_entry,
    check_name,
    join_projects,
    parse_table,
    remove_entry,
)
from vaultmem.core.suggest import ask_meant
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.projects.projects import put_table, read_table
from vaultmem.services.reading.look import look_now
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import replace_text, write

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.projects import ProjectTable
    from vaultmem.services.writing.change import Change
    from vaultmem.services.writing.commit import CommitReport
    from vaultmem.vault import Vault


class MovedNotes(NamedTuple):
    """Notes that were given another project ("" for none), and the commit."""

    project: str
    paths: tuple[str, ...]
    report: CommitReport


def rename_project(vault: Vault, old: str, new: str) -> MovedNotes:
    """Give a project another name, in the table and in its notes, in one commit.

    The name of another project joins the two, where they are not two repositories. The vault must
    be in sync.

    Raises:
        NoteNotFoundError: there is no project `old`.
        RefusedError: no project can have the new name, or a note cannot be edited.
    """
    check_name(new)

    def plan(change: Change) -> tuple[str, ...]:
        text = read_table(change)
        table = parse_table(text)
        project, there = get_project(table, old), table.get(new)
        if there is None or there == project:
            put_table(change, change_entry(text, project.name, replace(project, name=new)))
        else:
            joined = join_projects(project, there)
            text = change_entry(remove_entry(text, project.name), there.name, joined)
            put_table(change, text)
        name = there.name if there and there != project else new
        records = change.seen.view.records(f"d.{PROPERTY} = ?", (project.name,))
        paths = tuple(sorted(each.path for each in records))
        for path in paths:
            _set_project(change, path, name)
        change.commit(_make_event(vault, f"projects: {project.name} is now {name}"))
        return paths

    done = write(vault, plan)
    return MovedNotes(new, done.value, done.report)


def move_notes(vault: Vault, notes: Iterable[str], name: str) -> MovedNotes:
    """Give notes the project of a name, "" to make them global, in one commit.

    The vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such note or project.
        RefusedError: a note cannot be edited.
    """
    seen = look_now(vault)
    paths = tuple(dict.fromkeys(str(resolve_address(seen, each)[0]) for each in notes))

    def plan(change: Change) -> tuple[str, ...]:
        project = get_project(parse_table(read_table(change)), name).name if name else ""
        moved = tuple(path for path in paths if _set_project(change, path, project))
        if moved:
            where = f"in {project}" if project else "global"
            told = f"projects: {count_things(len(moved), 'note')} now {where}"
            change.commit(_make_event(vault, told))
        return moved

    done = write(vault, plan)
    return MovedNotes(name, done.value, done.report)


def get_project(table: ProjectTable, name: str) -> Project:
    """Return the project of a name.

    Raises:
        NoteNotFoundError: there is none.
    """
    found = table.get(name)
    if found is None:
        near = ask_meant(name, table.names, "; `vaultmem projects` lists them")
        raise NoteNotFoundError(f"{name}: there is no such project{near}")
    return found


def put_in_projects(change: Change, wanted: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Give notes their projects, as pairs of path and name; yield the paths that change."""
    for path, name in wanted:
        if _set_project(change, path, name):
            yield path


def _set_project(change: Change, path: str, name: str) -> bool:
    """Set a note's project, or remove it where `name` is empty; return whether it changes."""

    def edit(note: Note) -> str:
        if name:
            return set_property(note.text, PROPERTY, name)
        return remove_property(note.text, PROPERTY)

    replace_text(change, change.read(PurePosixPath(path)), edit)
    return path in change.steps


def _make_event(vault: Vault, subject: str) -> Event:
    return Event("projects", subject, vault.author, intent="refine")
