"""Find sessions by name, list, search and count them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.note import UnreadableNoteError, parse_note
from vaultmem.core.search.query import Hit, NoteFilter, parse_query
from vaultmem.core.sessions.session import (
    FOLDER,
    ChainLink,
    Session,
    SessionFacts,
    SessionRelation,
    SessionStatus,
    find_followers,
    plain_id,
    session_path,
    walk_chain,
)
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.core.text.paths import parse_note_path
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.search.recall import recall
from vaultmem.services.usage import list_machines
from vaultmem.services.views.open_view import at_ref, current_view, find_branch, get_branch_name
from vaultmem.services.views.read_notes import read_note
from vaultmem.services.views.resolve_names import describe_several
from vaultmem.services.views.texts import read_text
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.session_table import ActiveSession, ActiveSessions, SessionTable, Transcripts
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Workspace


#: Prefix of the state key for the transcript path that the client reported at its start.
EXPECTED = "transcript of"


def find_unsettled(vault: Vault) -> list[ActiveSession]:
    """Return the active sessions that need recovery, without changing anything.

    Either their process has ended, or their note has an end. The index must be up to date.
    """
    records = [r for r in ActiveSessions(vault.state_folder).all() if not r.recovered]
    if not records:
        return []
    folder = at_ref(vault, "")
    table, branch = open_table(folder), get_branch_name(folder)
    ended_ids = {
        r.id
        for r in records
        if r.ref in {"", branch} and (facts := table.find(r.id)) and not facts.is_open
    }
    return [record for record in records if record.id in ended_ids or record.is_gone]


def find_dead(vault: Vault) -> list[ActiveSession]:
    """Return the sessions whose process has ended but whose note has no end, on any branch."""
    folder = at_ref(vault, "")
    dead_records = [record for record in find_unsettled(folder) if record.is_gone]
    pairs = ((record, find_home(folder, record)[1]) for record in dead_records)
    return [record for record, session in pairs if session and session.facts.is_open]


def find_home(folder: Vault, record: ActiveSession) -> tuple[Vault, Session | None]:
    """Return the vault view (folder or branch) in which a session is open, and the session."""
    session = _read(folder, record)
    if record.ref in {"", get_branch_name(folder)} or (session and session.facts.is_open):
        return folder, session
    branch_vault = at_ref(folder, record.ref)
    with contextlib.suppress(VaultError):  # The branch may be deleted, or checked out elsewhere.
        branch_session = _read(branch_vault, record) if find_branch(branch_vault) else None
        if branch_session is not None and branch_session.facts.is_open:
            return branch_vault, branch_session
    return folder, session


def _read(vault: Vault, record: ActiveSession) -> Session | None:
    try:
        return read_session(vault, session_path(record.id))
    except (NoteNotFoundError, RefusedError):
        return None


def get_session(vault: Vault, name: str) -> Session:
    """Return the session with an id or a unique prefix of it.

    Raises:
        NoteNotFoundError: there is no such session, or the prefix is not unique.
        RefusedError: the name is unsafe.
    """
    return read_session(vault, find_path(vault, name))


def read_session(vault: Vault, path: PurePosixPath) -> Session:
    """Return the session that a note contains now."""
    return parse_session(read_note(current_view(vault), path))


def is_kept(vault: Vault, session: str) -> bool:
    """Return whether the note path of a session id exists."""
    try:
        path = parse_note_path(str(session_path(session)))
        viewed_vault = current_view(vault)
        if viewed_vault.view.is_work_tree:
            return (vault.root / path).exists()
        return bool(viewed_vault.view.records("d.path = ?", [str(path)]))
    except (RefusedError, OSError):  # An invalid or too long name.
        return False


def find_path(vault: Vault, name: str) -> PurePosixPath:
    """Return the note path of a session, found as `get_session` finds it."""
    session = plain_id(name)
    path = parse_note_path(str(session_path(session)))
    viewed_vault = current_view(vault)
    if is_kept(viewed_vault, session) and not (
        viewed_vault.view.is_work_tree and (vault.root / path).is_symlink()
    ):
        return path
    if not vault.notices.stale:
        sync_vault(vault)
    all_facts = list_facts(viewed_vault)
    matches = [each for each in all_facts if each.id == session]
    matches = matches or [each for each in all_facts if each.id.startswith(session)]
    if len(matches) == 1:
        return PurePosixPath(matches[0].path)
    if matches:
        raise NoteNotFoundError(describe_several(vault, session, [each.path for each in matches]))
    record = ActiveSessions(vault.state_folder).find(session)
    if record is not None and record.ref not in {"", get_branch_name(viewed_vault)}:
        raise NoteNotFoundError(f"{session}: it is kept on {record.ref}; name that with --ref")
    known_ids = [each.id for each in list_facts(viewed_vault.scoped())]
    suggestion = suggest_similar(session, known_ids, "; see `vaultmem session list`")
    raise NoteNotFoundError(f"{session}: there is no such session{suggestion}")


def is_meant_here(vault: Vault, record: ActiveSession) -> bool:
    """Return whether a session belongs to the vault's current branch or folder."""
    return record.ref in {"", get_branch_name(vault)} or (
        current_view(vault).view.is_work_tree and is_kept(vault, record.id)
    )


def list_facts(vault: Vault) -> list[SessionFacts]:
    """Return the facts of all sessions, newest first. The index must be up to date."""
    return sorted(open_table(vault).all(), key=lambda each: (each.started, each.id), reverse=True)


def list_here(vault: Vault, place: Workspace) -> list[SessionFacts]:
    """Return the sessions of this agent that worked in a place, newest first.

    Sessions without a place are included, unless the place's project has sessions. The index must
    be up to date.
    """
    own = [each for each in list_facts(vault) if each.agent == vault.author.agent]
    matches = [each for each in own if place.has(each)]
    if place.project and matches:
        return matches
    return [each for each in own if each in matches or not (each.workspace or each.project)]


def open_table(vault: Vault) -> SessionTable:
    """Return the table of session facts, after reading notes that changed since the last call.

    The index must be up to date.
    """
    viewed_vault = current_view(vault)
    table = SessionTable(vault.state, viewed_vault.view)
    rows: list[tuple[int, SessionFacts]] = []
    for document, path, blob in table.unknown():
        text = read_text(viewed_vault, path, blob)
        if text is None:
            continue
        try:
            note = parse_note(PurePosixPath(path), text.encode("utf-8"))
        except UnreadableNoteError:
            continue
        rows.append((document, parse_session(note).facts))
    if rows:
        table.put(rows)
    return table


def open_transcripts(vault: Vault) -> Transcripts:
    """Return the transcripts of the vault's sessions."""
    return Transcripts(vault.root, vault.config.transcript_max_mb * 1024 * 1024)


# Find the machine of each session that is open on another machine.


def add_machines(vault: Vault, facts: Iterable[SessionFacts]) -> list[SessionFacts]:
    """Return the sessions; those open on another machine get its name and their last heartbeat."""
    sessions = list(facts)
    active = ActiveSessions(vault.state_folder)
    remote_ids = {each.id for each in sessions if each.is_open and active.find(each.id) is None}
    if not remote_ids:
        return sessions
    signs = sorted(
        (at, machine.name, name)
        for machine in list_machines(vault)
        for name, at in machine.sessions.items()
        if name in remote_ids
    )
    last = {name: (at, machine) for at, machine, name in signs}
    return [_name(each, *last[each.id]) if each.id in last else each for each in sessions]


def add_machine(vault: Vault, session: Session) -> Session:
    """Return a session with its machine, as `add_machines` does."""
    return session._replace(facts=add_machines(vault, [session.facts])[0])


def _name(facts: SessionFacts, at: float, machine: str) -> SessionFacts:
    last_seen = datetime.fromtimestamp(int(at)).isoformat()
    return facts._replace(machine=machine, seen=last_seen)


# Search, link and count sessions.

#: Sections to retrieve for each session in the limit.
_SECTIONS = 4

_END_STATUSES = frozenset(SessionStatus)


class FoundSession(NamedTuple):
    """A session that matches a query, with the matching sections of its note, best first."""

    facts: SessionFacts
    hits: tuple[Hit, ...]


class SessionChain(NamedTuple):
    """A session, its earlier sessions, and its direct followers."""

    session: SessionFacts
    earlier: tuple[ChainLink, ...]
    followers: tuple[tuple[SessionRelation, SessionFacts], ...]


class SessionStats(NamedTuple):
    """Counts over all sessions. `bytes` is the size of the transcripts on this machine."""

    sessions: int
    statuses: dict[str, int]
    agents: dict[str, int]
    workspaces: dict[str, int]
    decisions: int
    questions: int
    touched: int
    turns: int
    tokens: int
    bytes: int
    first: str
    last: str


def list_sessions(
    vault: Vault, status: str = "", agent: str = "", limit: int = 0
) -> list[SessionFacts]:
    """Return sessions, newest first. A limit of 0 means no limit. The index must be up to date.

    Raises:
        RefusedError: no session can have that status.
    """
    end_status = status.strip().lower()
    if end_status and end_status not in _END_STATUSES:
        raise RefusedError(f'unknown status "{status}"; use {", ".join(SessionStatus)}')
    sessions = [
        each
        for each in list_facts(vault)
        if end_status in {"", each.status} and agent in {"", each.agent}
    ]
    return add_machines(vault, sessions[: limit or None])


def search_sessions(vault: Vault, query: str, limit: int = 10) -> list[FoundSession]:
    """Return the sessions that match a query, best first. The index must be up to date.

    Raises:
        RefusedError: the query is too long, or the limit under 1.
    """
    note_filter = NoteFilter(context=FOLDER)
    by_path: dict[str, list[Hit]] = {}
    for hit in recall(current_view(vault), parse_query(query, limit * _SECTIONS, note_filter)):
        by_path.setdefault(hit.record.path, []).append(hit)
    table = open_table(vault)
    pairs = ((table.at_path(path), tuple(each)) for path, each in [*by_path.items()][:limit])
    return [FoundSession(facts, hits) for facts, hits in pairs if facts is not None]


def follow_chain(vault: Vault, name: str, depth: int = 10) -> SessionChain:
    """Return the sessions before and directly after a session. The index must be up to date.

    Raises:
        NoteNotFoundError: there is no such session.
        RefusedError: the depth is under 1.
    """
    if depth < 1:
        raise RefusedError(f"a chain of {depth} sessions cannot be followed; ask for 1 or more")
    table = open_table(vault)
    start = table.find(plain_id(name)) or get_session(vault, name).facts
    followers = find_followers(start.id, table.naming(start.id))
    return SessionChain(start, tuple(walk_chain(start, table.find, depth)), tuple(followers))


def count_sessions(vault: Vault) -> SessionStats:
    """Return counts over all sessions. The index must be up to date."""
    sessions = list_facts(vault)
    transcripts = open_transcripts(vault)
    started = sorted(each.started for each in sessions if each.started)
    return SessionStats(
        sessions=len(sessions),
        statuses=_count([each.status for each in sessions]),
        agents=_count([each.agent for each in sessions]),
        workspaces=_count([each.workspace for each in sessions]),
        decisions=sum(each.decisions for each in sessions),
        questions=sum(each.questions for each in sessions),
        touched=sum(each.touched for each in sessions),
        turns=sum(each.turns for each in sessions),
        tokens=sum(each.tokens for each in sessions),
        bytes=sum(transcripts.size(each.id) for each in sessions),
        first=started[0] if started else "",
        last=started[-1] if started else "",
    )


def _count(values: Sequence[str]) -> dict[str, int]:
    counts = Counter(filter(None, values))
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
