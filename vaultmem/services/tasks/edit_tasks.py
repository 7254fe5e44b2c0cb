"""Add tasks, list them, and change their status or next step."""

from __future__ import annotations

from pathlib import PurePosixPath

from vaultmem.core.lifecycle import Kind
from vaultmem.core.notes.edit_properties import PropertyValue, format_note, set_property
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.titles import make_name
from vaultmem.core.projects import PROPERTY as PROJECT
from vaultmem.core.suggest import ask_meant
from vaultmem.core.tasks.task import FOLDER, Task, TaskStatus, parse_task
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.projects.projects import ensure_project
from vaultmem.services.projects.scope import view_project
from vaultmem.services.reading.look import look_now
from vaultmem.services.reading.names import find_free_name
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.writing.edit_notes import check_text, edit_note, write_note
from vaultmem.vault import Vault


def add_task(vault: Vault, title: str, next_step: str = "", text: str = "") -> Task:
    """Write a task as a note of its own; it is open.

    Raises:
        RefusedError: it has no title, or looks like a credential.
    """
    title = " ".join(title.split())
    if not title:
        raise RefusedError("a task needs a title")
    path = find_free_name(look_now(vault), PurePosixPath(FOLDER), make_name(title))
    session, project = vault.author.session, ensure_project(vault, vault.here)
    properties: dict[str, PropertyValue | None] = {
        "kind": Kind.WORKING_CONTEXT.value,
        "status": TaskStatus.OPEN.value,
        "next": " ".join(next_step.split()) or None,
        "created": vault.local_time(),
        "agent": vault.author.agent or None,
        "sessions": (f"[[sessions/{session}]]",) if session else None,
        PROJECT: project.name if project else None,
    }
    made = format_note(properties, "\n".join([f"# {title}", "", text]))
    write_note(vault, path, made.rstrip("\n") + "\n")
    return read_task(vault, path)


def change_task(
    vault: Vault, name: str, status: TaskStatus | None = None, next_step: str | None = None
) -> Task:
    """Say how a task stands or what is next; the session that says so is noted with it.

    Raises:
        NoteNotFoundError: there is no such task.
        RefusedError: the next step looks like a credential.
    """
    task = find_task(vault, name)
    path = PurePosixPath(task.path)

    def change(note: Note) -> str:
        text = note.text
        if status is not None:
            text = set_property(text, "status", status.value)
        if next_step is not None:
            text = set_property(text, "next", " ".join(next_step.split()))
        text = _add_session(text, parse_task(note), vault.author.session)
        if text != note.text:
            text = set_property(text, "updated", vault.local_time())
        check_text(path, text)
        return text

    edit_note(vault, path, change)
    return read_task(vault, path)


def find_task(vault: Vault, name: str = "") -> Task:
    """Return the task of an id, or of the only one that begins so; without, the last one open.

    Without a name, tasks of other projects than the caller's do not count. The vault must be in
    sync.

    Raises:
        NoteNotFoundError: there is none, or several begin so.
    """
    bare = name.removeprefix(f"{FOLDER}/").removesuffix(".md")
    tasks = list_tasks(vault if bare else view_project(vault))
    if not bare:
        if not (left := [task for task in tasks if not task.is_over]):
            raise NoteNotFoundError("no task is open; add one with `vaultmem task add TITLE`")
        return left[0]
    found = [task for task in tasks if task.id == bare]
    found = found or [task for task in tasks if task.id.startswith(bare)]
    if len(found) > 1:
        known = ", ".join(task.id for task in found[:5])
        raise NoteNotFoundError(f"{name}: several tasks begin so: {known}")
    if not found:
        known_by = {each: task.id for task in tasks for each in (task.title, task.id)}
        lists = "; `vaultmem task list` lists them" if tasks else ", nor any other"
        raise NoteNotFoundError(f"{name}: there is no such task{ask_meant(bare, known_by, lists)}")
    return found[0]


def list_tasks(vault: Vault, over_too: bool = True) -> list[Task]:
    """Return the tasks, the last changed first; the vault must be in sync.

    An agent is shown none that is quarantined.
    """
    seen = look_now(vault)
    tasks = []
    shown = "" if vault.is_person else " AND d.state <> 'quarantined'"
    for record in seen.view.records(f"d.path LIKE '{FOLDER}/%'{shown}"):
        try:
            task = read_task(seen, PurePosixPath(record.path))
        except (NoteNotFoundError, RefusedError):
            continue
        if over_too or not task.is_over:
            tasks.append(task)
    return sorted(tasks, key=lambda task: (task.updated or task.created, task.id), reverse=True)


def read_task(vault: Vault, path: PurePosixPath) -> Task:
    """Return the task that a note tells of."""
    return parse_task(read_note(look_now(vault), path))


def _add_session(text: str, task: Task, session: str) -> str:
    if not session or session in task.sessions:
        return text
    links = tuple(f"[[sessions/{each}]]" for each in (*task.sessions, session))
    return set_property(text, "sessions", links)
