"""List the projects of a vault, with how many notes each has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.projects import Project
from vaultmem.core.sessions.session import FOLDER
from vaultmem.services.projects.projects import find_project, read_projects
from vaultmem.services.reading.look import look_now

if TYPE_CHECKING:
    from vaultmem.vault import Vault


class ListedProject(NamedTuple):
    """A project with its numbers of notes and of sessions.

    `is_here` tells that the caller works in it, and `is_listed` that the table has it.
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
    table, here = read_projects(vault), find_project(vault, vault.here)
    notes: Counter[str] = Counter()
    sessions: Counter[str] = Counter()
    for record in look_now(vault).view.records():
        counter = sessions if record.path.startswith(f"{FOLDER}/") else notes
        counter[record.project] += 1
    others = sorted({*notes, *sessions} - {"", *table.names})
    listed = [
        *((each, True) for each in table.projects),
        *((Project(name), False) for name in others),
    ]
    found = tuple(
        ListedProject(each, notes[each.name], sessions[each.name], each == here, is_listed)
        for each, is_listed in listed
    )
    return ProjectList(found, notes[""])
