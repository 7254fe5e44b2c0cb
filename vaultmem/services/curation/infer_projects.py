"""Propose projects for notes without one, by the sessions that wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.project import add_entry, make_project, match_project, parse_table
from vaultmem.core.text.paths import PINNED_FILES
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import write
from vaultmem.services.projects.edit_projects import put_in_projects
from vaultmem.services.projects.folder_facts import read_facts
from vaultmem.services.projects.project_table import put_table, read_table
from vaultmem.services.sessions.edit_tasks import list_tasks
from vaultmem.services.sessions.find_session import EXPECTED, list_facts
from vaultmem.services.sessions.import_turns import read_source
from vaultmem.storage.session_table import ActiveSessions

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import SessionFacts
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.vault import Vault

#: Kinds that stay global, without a project.
_GLOBAL = frozenset({NoteKind.POLICY_RULE, NoteKind.PREFERENCE})


class ProjectProposal(NamedTuple):
    """A note without a project, the project of the session that wrote it, and that session."""

    path: str
    project: str
    session: str


class Inference(NamedTuple):
    """Proposals by path, the names of new projects, and the commit (None for a dry run)."""

    proposals: tuple[ProjectProposal, ...]
    new_projects: tuple[str, ...]
    report: CommitReport | None = None


def infer_projects(vault: Vault, apply: bool = False) -> Inference:
    """Propose a project for each note whose session has a known project; `apply` writes them.

    A session's project comes from its note, from its start folder, or from its transcript on this
    machine. A folder name is not enough. The index must be up to date.
    """
    if not apply:
        return _propose(Change(vault))

    def plan(change: Change) -> Inference:
        inference = _propose(change)
        if inference.proposals:
            list(
                put_in_projects(change, ((each.path, each.project) for each in inference.proposals))
            )
            change.commit(Event("projects", "projects: inferred", vault.author, intent="refine"))
        return inference

    result = write(vault, plan)
    return result.value._replace(report=result.report)


def _propose(change: Change) -> Inference:
    """Return the proposals; within a write, new projects are added to the table."""
    vault = change.seen
    text = old_text = read_table(change)
    projects: dict[str, str] = {}
    proposals: list[ProjectProposal] = []
    for facts in list_facts(vault):
        name = facts.project
        if not name and (folder := _find_folder(vault, facts)):
            folder_facts = read_facts(vault, folder)
            table = parse_table(text)
            if folder_facts and folder_facts.has_git:
                existing = match_project(table, folder_facts)
                project = existing or make_project(table, folder_facts)
                text = text if existing else add_entry(text, project)
                name = project.name
        if name:
            projects[facts.id] = name
        if name and not facts.project:
            proposals.append(ProjectProposal(facts.path, name, facts.id))
    for path, session in _list_written(vault):
        if name := projects.get(session, ""):
            proposals.append(ProjectProposal(path, name, session))
    if text != old_text:
        put_table(change, text)
    old_names = parse_table(old_text).names
    new_names = tuple(name for name in parse_table(text).names if name not in old_names)
    return Inference(tuple(sorted(proposals)), new_names)


def _list_written(vault: Vault) -> Iterator[tuple[str, str]]:
    """Yield path and session of notes and tasks without a project."""
    condition = "d.project = '' AND d.session <> '' AND d.path NOT GLOB 'sessions/*'"
    for record in vault.view.records(condition):
        if record.kind not in _GLOBAL and record.path not in PINNED_FILES:
            yield record.path, record.session
    task_paths = {
        each.path for each in vault.view.records("d.project = '' AND d.path GLOB 'tasks/*'")
    }
    for task in list_tasks(vault):
        if len(task.sessions) == 1 and task.path in task_paths:
            yield task.path, task.sessions[0]


def _find_folder(vault: Vault, facts: SessionFacts) -> Path | None:
    """Return a session's folder if it is known and exists on this machine, else None."""
    record = ActiveSessions(vault.state_folder).find(facts.id)
    if record is not None and Path(record.workspace).is_dir():
        return Path(record.workspace)
    transcript = Path(vault.state.get(f"{EXPECTED} {facts.id}") or "/")
    folder = read_source(transcript).folder if transcript.is_file() else ""
    return Path(folder) if folder and Path(folder).is_dir() else None
