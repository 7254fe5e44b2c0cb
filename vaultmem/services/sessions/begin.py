"""Start, resume and fork sessions, after recovering those whose process has ended."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.edit_properties import remove_property
from vaultmem.core.sessions.session import (
    Session,
    SessionFacts,
    SessionLink,
    SessionRelation,
    Workspace,
    check_session_id,
    make_session_id,
    map_session_id,
    session_path,
)
from vaultmem.core.sessions.session_note import new_session_text
from vaultmem.core.text.paths import fold_name
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import write
from vaultmem.services.projects.project_table import place_in_project
from vaultmem.services.sessions.edit_session import act_in, check_text, edit_session, reopen
from vaultmem.services.sessions.find_session import (
    find_unsettled,
    get_session,
    is_kept,
    list_here,
    read_session,
)
from vaultmem.services.sessions.identify import (
    TERMINAL_VARIABLE,
    choose_session_id,
    find_place,
    find_workspace,
    identify_session,
    is_environments,
)
from vaultmem.services.sessions.windows import begin_window
from vaultmem.services.views.open_view import current_view, find_branch, get_branch_name
from vaultmem.services.views.resolve_names import names_in
from vaultmem.services.views.update_index import sync_once, sync_vault
from vaultmem.storage.lock import find_owner
from vaultmem.storage.session_table import ActiveSession, ActiveSessions
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.services.sessions.close import RecoveryResult
else:  # Slow import. Type hints that are evaluated at run time get a tuple.
    RecoveryResult = tuple


class NewSession(NamedTuple):
    """Options for a new session. Empty fields are filled in by `start_session`.

    `pid` is the process that owns the session, by default the vault's.
    """

    id: str = ""
    goal: str = ""
    continues: tuple[str, ...] = ()
    forked_from: str = ""
    related: tuple[str, ...] = ()
    workspace: Path | None = None
    pid: int | None = None
    started: datetime | None = None


class StartResult(NamedTuple):
    """A session that is open now. `restore` is the session to restore, or "".

    `is_new` is False if the session was already open. `recovered` lists the sessions recovered
    first.
    """

    session: Session
    is_new: bool
    restore: str = ""
    recovered: tuple[RecoveryResult, ...] = ()


def start_session(
    vault: Vault,
    new: NewSession | None = None,
    pick_up: bool = True,
) -> StartResult:
    """Start a session: write its note and make it this agent's active session in the workspace.

    With `pick_up`, continue the last session of this agent and workspace with a pending restore. If
    the id is already open, return that session. Reopen a session whose process has ended. Also
    reopen an ended session if its id comes from the environment or vault, not from `new`.

    Raises:
        RefusedError: the id is unsafe or has ended, or sessions are not kept on this ref.
        NoteNotFoundError: a session that it follows does not exist.
    """
    find_branch(vault)  # Fail early if the ref is a tag or a commit.
    new = new or NewSession()
    workspace = find_workspace(new.workspace or vault.here)
    place = find_place(vault, new.workspace)
    if new.goal:
        check_text(vault, new.goal)
    sync_vault(vault) if vault.notices.stale else sync_once(vault)
    with vault.lock():
        recoveries = _recover(vault)
        session = _choose_id(vault, new)
        if is_kept(vault, session):
            record = ActiveSessions(vault.state_folder).find(session)
            is_left = record is not None and record.recovered
            may_reopen = is_left or not new.id or session in {each.session for each in recoveries}
            result = _reuse_open(vault, session, workspace, new.pid, may_reopen)
            return result._replace(recovered=recoveries)
        edges = [*_list_edges(vault, new)]
        pending = _find_pending(vault, place) if pick_up and not new.forked_from else None
        if pending is not None and pending.id not in {edge.session for edge in edges}:
            edges.insert(0, SessionLink(SessionRelation.CONTINUES, pending.id))
        _create(vault, session, new, workspace, tuple(edges))
        if pending is not None:
            clear_pending(vault, pending.id, session)
        new_session = read_session(vault, session_path(session))
        return StartResult(new_session, True, pending.id if pending else "", recoveries)


def resume_session(
    vault: Vault,
    name: str = "",
    workspace: Path | None = None,
    pid: int | None = None,
) -> StartResult:
    """Reopen a session in a new context window.

    Without a name, use the current session. If there is none, use the one with a pending restore,
    else the last one of this agent and workspace. The index must be up to date.

    Raises:
        NoteNotFoundError: there is no such session.
    """
    find_branch(vault)
    place = find_workspace(workspace or vault.here)
    with vault.lock():
        recoveries = _recover(vault)
        facts = get_session(vault, _choose_resumed(vault, name, workspace)).facts
        _renew_session(vault, facts.id, place, pid)

        def change(note: Note) -> str:
            text = note.text if facts.is_open else reopen(note.text)
            return remove_property(text, "pending_restore_at")

        edit_session(vault, facts.id, change, closed_too=True)
        session = begin_window(vault, facts.id)
        return StartResult(session, not facts.is_open, facts.id, recoveries)


def fork_session(vault: Vault, name: str, new: NewSession | None = None) -> StartResult:
    """Start a session that branches off another one. Its goal is copied unless given.

    Raises:
        NoteNotFoundError: there is no such session.
    """
    source = get_session(vault, name).facts
    new = (new or NewSession())._replace(forked_from=source.id)
    if not new.goal:
        new = new._replace(goal=source.goal)
    if not new.id:  # The environment still names the session that is forked.
        session_id = choose_session_id(vault.environment)[0]
        if not session_id or is_kept(vault, session_id):
            new = new._replace(id=_make_id(vault, new))
    return start_session(vault, new, False)._replace(restore=source.id)


def _recover(vault: Vault) -> tuple[RecoveryResult, ...]:
    if not find_unsettled(vault):
        return ()  # The usual case. The import below is slow.
    from vaultmem.services.sessions.close import recover_sessions

    # Recovery reads the folder many times.
    writer = replace(vault, postpones_index=False)
    return tuple(recover_sessions(writer))


def clear_pending(vault: Vault, session: str, by: str) -> None:
    """Remove the pending-restore mark from a session that session `by` restored."""
    edit_session(
        vault,
        session,
        lambda note: remove_property(note.text, "pending_restore_at"),
        closed_too=True,
        by=by,
    )


def _choose_id(vault: Vault, new: NewSession) -> str:
    if new.id:
        return check_session_id(new.id)
    if not is_environments(vault):
        return check_session_id(vault.author.session)
    session_id, _ = choose_session_id(vault.environment)
    terminal = vault.environment.get(TERMINAL_VARIABLE, "").strip()
    if not session_id and terminal:
        terminal_id = map_session_id(terminal)
        session_id = "" if is_kept(vault, terminal_id) else terminal_id
    return session_id or _make_id(vault, new)


def _make_id(vault: Vault, new: NewSession) -> str:
    started = new.started or vault.local_time()
    ids = (make_session_id(started, os.urandom(2).hex()) for _ in count())
    return next(each for each in ids if not is_kept(vault, each))


def _reuse_open(
    vault: Vault, session: str, workspace: Path, pid: int | None, may_reopen: bool
) -> StartResult:
    """Return a session that already has a note, and reopen it if `may_reopen`."""
    existing_session = read_session(vault, session_path(session))
    if not existing_session.facts.is_open:
        if may_reopen:
            return resume_session(vault, session, workspace, pid)
        raise RefusedError(
            f"{session}: it has ended ({existing_session.facts.status}); "
            f"`vaultmem session resume {session}` opens it again, "
            "and without its id another one begins"
        )
    _renew_session(vault, session, workspace, pid)
    return StartResult(existing_session, False)


def _list_edges(vault: Vault, new: NewSession) -> list[SessionLink]:
    pairs = [
        *((SessionRelation.CONTINUES, each) for each in new.continues),
        *((SessionRelation.FORKED_FROM, each) for each in (new.forked_from,) if each),
        *((SessionRelation.RELATED, each) for each in new.related),
    ]
    return [SessionLink(relation, get_session(vault, name).facts.id) for relation, name in pairs]


def _create(
    vault: Vault, session: str, new: NewSession, workspace: Path, edges: tuple[SessionLink, ...]
) -> None:
    path = session_path(session)
    if fold_name(path) in names_in(current_view(vault), path.parent):
        raise RefusedError(
            f"{session}: another session has this name in other case; choose another"
        )
    started = new.started or vault.local_time()
    # Record the owner first. A note without an owner would stay open forever after a crash here.
    _renew_session(vault, session, workspace, new.pid)
    writer = act_in(vault, session)

    def plan(change: Change) -> None:
        project = place_in_project(change, None, new.workspace or vault.here, opened=True)
        head = (session, new.goal, vault.author.agent, started, workspace.name)
        change.put(path, new_session_text(*head, edges, project).encode("utf-8"))
        change.leave(Event("write", "", writer.author, intent="observe"))

    try:
        write(writer, plan)
    except VaultError:
        if not is_kept(vault, session):
            ActiveSessions(vault.state_folder).drop(session)
        raise


def _renew_session(vault: Vault, session: str, workspace: Path, pid: int | None) -> None:
    owner = find_owner(vault.pid if pid is None else pid)
    processes = (owner,) if owner else ()
    place, ref = str(workspace), get_branch_name(vault)
    record = ActiveSession(session, vault.author.agent, place, vault.now(), processes, ref=ref)
    ActiveSessions(vault.state_folder).put(record)


def _find_pending(vault: Vault, place: Workspace) -> SessionFacts | None:
    """Return the session of this agent in a place with the newest pending restore."""
    candidates = [each for each in list_here(vault, place) if each.pending]
    return max(candidates, key=lambda each: (each.pending, each.started, each.id), default=None)


def _choose_resumed(vault: Vault, name: str, workspace: Path | None) -> str:
    session_id = name or identify_session(vault, workspace=workspace).session
    if session_id:
        return session_id
    place = find_place(vault, workspace)
    pending = _find_pending(vault, place)
    last = pending or next(iter(list_here(vault, place)), None)
    if last is None:
        raise NoteNotFoundError("no session: there is none of this agent and workspace to resume")
    return last.id
