"""Identify the current session when a command does not name one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.clients.agents import SESSION_VARIABLES
from vaultmem.core.sessions.session import (
    Workspace,
    check_session_id,
    map_session_id,
    plain_id,
)
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.projects.project_table import find_project
from vaultmem.services.sessions.find_session import find_path, is_kept, is_meant_here, list_here
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.lock import find_client, find_process
from vaultmem.storage.session_table import ActiveSession, ActiveSessions
from vaultmem.vault import Vault

OWN_VARIABLE = "VAULTMEM_SESSION_ID"

#: Id of the terminal. It counts only if a session was started with this id.
TERMINAL_VARIABLE = "TERM_SESSION_ID"


class SessionCandidate(NamedTuple):
    """A possible source of the session id: its raw value ("" if unset), the id, and a remark."""

    source: str
    value: str
    session: str
    remark: str = ""


class SessionIdentity(NamedTuple):
    """The current session ("" if none), the source that named it, and all sources."""

    session: str
    source: str
    candidates: tuple[SessionCandidate, ...]


def identify_session(
    vault: Vault,
    explicit: str = "",
    workspace: Path | None = None,
) -> SessionIdentity:
    """Return the current session, from the first source that names one.

    Sources in order: `explicit`, $VAULTMEM_SESSION_ID, the agents' variables, this agent's open
    session in the workspace (by default the current folder's), and $TERM_SESSION_ID. For a server
    (`vault.pid`), the open session is its own or its client's.

    Raises:
        RefusedError: $VAULTMEM_SESSION_ID cannot be an id.
    """
    candidates = tuple(_list_candidates(vault, explicit, workspace))
    won = next((each for each in candidates if each.session), None)
    return SessionIdentity(won.session if won else "", won.source if won else "", candidates)


def require_session(
    vault: Vault,
    explicit: str = "",
    workspace: Path | None = None,
    or_last: bool = False,
) -> str:
    """Return the id of the current session.

    If there is none and `or_last`, return the last session of this agent and workspace. This needs
    an up-to-date index.

    Raises:
        NoteNotFoundError: no session is named, or it does not exist.
    """
    candidate = identify_session(vault, explicit, workspace)
    if not candidate.session:
        sessions = list_here(vault, find_place(vault, workspace)) if or_last else []
        # Prefer a session with work over one that only asked a question.
        if last := next((each for each in sessions if each.has_work), next(iter(sessions), None)):
            return last.id
        raise NoteNotFoundError(
            "no session: none is named and none is open here; name one with --session, "
            "or begin one with `vaultmem session start`"
        )
    try:
        return find_path(vault, candidate.session).stem
    except NoteNotFoundError as error:
        if not candidate.source.startswith("$"):
            raise
        raise NoteNotFoundError(
            f"{candidate.session} (from {candidate.source}): there is no such session; "
            "begin it with `vaultmem session start`"
        ) from error


def find_workspace(folder: Path | None = None) -> Path:
    """Return the git work tree around a folder (by default the current one), else the folder."""
    path = (folder or Path.cwd()).resolve()
    repository = find_git_folder(path)
    return repository[0] if repository else path


def find_place(vault: Vault, folder: Path | None = None) -> Workspace:
    """Return the work tree name and the project of a folder (by default the caller's).

    Raises:
        UnreadableTableError: the vault's table of projects cannot be read.
    """
    project = find_project(vault, folder or vault.here)
    return Workspace(find_workspace(folder or vault.here).name, project.name if project else "")


def find_begun_in(vault: Vault, session: str, folder: Path | None = None) -> Path:
    """Return a session's folder: `folder`, else where it was started, else the caller's."""
    record = ActiveSessions(vault.state_folder).find(session)
    if folder is None and record is not None and os.path.isdir(record.workspace):
        return Path(record.workspace)
    return folder or find_workspace(vault.here)


def choose_session_id(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the id that the environment gives a new session, and its source, or two "".

    Raises:
        RefusedError: $VAULTMEM_SESSION_ID cannot be an id.
    """
    if own := environment.get(OWN_VARIABLE, "").strip():
        return check_session_id(own), f"${OWN_VARIABLE}"
    for name in SESSION_VARIABLES:
        if value := environment.get(name, "").strip():
            return map_session_id(value), f"${name}"
    return "", ""


def _list_candidates(
    vault: Vault, explicit: str, workspace: Path | None
) -> Iterator[SessionCandidate]:
    own = vault.environment.get(OWN_VARIABLE, "").strip()
    # A session given to `open_vault` is explicit, unless it came from the environment.
    session = explicit or (vault.author.session if not is_environments(vault) else "")
    yield SessionCandidate("--session", session, plain_id(session))
    yield SessionCandidate(f"${OWN_VARIABLE}", own, _check_own(vault, own) if own else "")
    for name in SESSION_VARIABLES:
        yield _from_variable(vault, name)
    yield _from_file(vault, find_workspace(workspace or vault.here))
    last = _from_variable(vault, TERMINAL_VARIABLE)
    if last.session and not is_kept(vault, last.session):
        last = SessionCandidate(last.source, last.value, "", "no session was begun under this name")
    yield last


def is_environments(vault: Vault) -> bool:
    """Return whether the session of the vault's author comes from the environment."""
    raw_values = map(vault.environment.get, (OWN_VARIABLE, *SESSION_VARIABLES))
    values = [value.strip() for value in raw_values if value and value.strip()]
    return vault.author.session in {"", *values, *map(map_session_id, values)}


def _from_variable(vault: Vault, name: str) -> SessionCandidate:
    value = vault.environment.get(name, "").strip()
    session = map_session_id(value) if value else ""
    remark = f"short for {value}" if session != value else ""
    return SessionCandidate(f"${name}", value, session, remark)


def _from_file(vault: Vault, workspace: Path) -> SessionCandidate:
    active = ActiveSessions(vault.state_folder)
    open_sessions = [
        each for each in active.list_open(str(workspace)) if is_meant_here(vault, each)
    ]
    own_sessions = [each for each in open_sessions if each.agent == vault.author.agent]
    session = next(
        iter(own_sessions if vault.pid is None else _choose_own(vault.pid, own_sessions)), None
    )
    agent_name = f"agent {vault.author.agent}" if vault.author.agent else "no agent"
    source = f"active session of {agent_name} in {workspace}"
    if session is not None:
        return SessionCandidate(source, session.id, session.id, f"in {active.file_of(session.id)}")
    agents = ", ".join(dict.fromkeys(record.agent or "nobody" for record in open_sessions))
    return SessionCandidate(
        source, "", "", f"open here: of {agents}; see --agent" if agents else ""
    )


def _choose_own(pid: int, records: Sequence[ActiveSession]) -> Iterator[ActiveSession]:
    """Yield the open sessions of a server, then those of its client.

    Sessions of another server are excluded, even if its agent has the same name.
    """
    if (server := find_process(pid)) is None:  # Processes are unknown here.
        yield from records
        return
    yield from (each for each in records if server in each.processes)
    if records and (client := find_client(pid)) is not None:
        yield from (each for each in records if client in each.processes)


def _check_own(vault: Vault, text: str) -> str:
    """Return the id in $VAULTMEM_SESSION_ID. The names of existing notes are always valid."""
    session = plain_id(text)
    return session if is_kept(vault, session) else check_session_id(session)
