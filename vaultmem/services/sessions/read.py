"""Read sessions: one by its name, the facts of all, or those that lack an end."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.notes.note import UnreadableNoteError, parse_note
from vaultmem.core.paths import parse_note_path
from vaultmem.core.sessions.session import plain_id, session_path
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.core.suggest import ask_meant
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.reading.look import find_branch, go_to, look_now, name_branch
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.reading.texts import read_text
from vaultmem.storage.session_table import ActiveSession, ActiveSessions, SessionTable
from vaultmem.storage.transcripts import Transcripts
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Session, SessionFacts, Workspace

#: Where a session's transcript is, by the client's word at its start: a key of the state database.
EXPECTED = "transcript of"


def find_unsettled(vault: Vault) -> list[ActiveSession]:
    """Return the sessions that count as open here and are not: nothing is changed.

    Their process is gone, or their note has an end. The vault must be in sync.
    """
    records = [r for r in ActiveSessions(vault.state_folder).all() if not r.recovered]
    if not records:
        return []
    folder = go_to(vault, "")
    table, here = open_table(folder), name_branch(folder)
    ended = {
        r.id
        for r in records
        if r.ref in {"", here} and (facts := table.find(r.id)) and not facts.is_open
    }
    return [record for record in records if record.id in ended or record.is_gone]


def find_dead(vault: Vault) -> list[ActiveSession]:
    """Return the sessions whose process is gone and whose note has no end, on any branch."""
    folder = go_to(vault, "")
    gone = [record for record in find_unsettled(folder) if record.is_gone]
    found = ((record, find_home(folder, record)[1]) for record in gone)
    return [record for record, session in found if session and session.facts.is_open]


def find_home(folder: Vault, record: ActiveSession) -> tuple[Vault, Session | None]:
    """Return where a session is open, the folder or its own branch, and the session itself."""
    session = _read(folder, record)
    if record.ref in {"", name_branch(folder)} or (session and session.facts.is_open):
        return folder, session
    there = go_to(folder, record.ref)
    with contextlib.suppress(VaultError):  # The branch may be gone, or checked out elsewhere.
        found = _read(there, record) if find_branch(there) else None
        if found is not None and found.facts.is_open:
            return there, found
    return folder, session


def _read(vault: Vault, record: ActiveSession) -> Session | None:
    try:
        return read_session(vault, session_path(record.id))
    except (NoteNotFoundError, RefusedError):
        return None


def get_session(vault: Vault, name: str) -> Session:
    """Return the session of an id, or of the only one that begins so.

    Raises:
        NoteNotFoundError: there is none, or several begin like that.
        RefusedError: the name is unsafe.
    """
    return read_session(vault, find_path(vault, name))


def read_session(vault: Vault, path: PurePosixPath) -> Session:
    """Return the session that a note tells of, as it is now."""
    return parse_session(read_note(look_now(vault), path))


def is_kept(vault: Vault, session: str) -> bool:
    """Tell whether there is something where a session of this id has its note."""
    try:
        path = parse_note_path(str(session_path(session)))
        seen = look_now(vault)
        if seen.view.is_work_tree:
            return (vault.root / path).exists()
        return bool(seen.view.records("d.path = ?", [str(path)]))
    except (RefusedError, OSError):  # Not a name, or longer than any.
        return False


def find_path(vault: Vault, name: str) -> PurePosixPath:
    """Return the note of a session, found as `get_session` finds it."""
    session = plain_id(name)
    path = parse_note_path(str(session_path(session)))
    seen = look_now(vault)
    if is_kept(seen, session) and not (seen.view.is_work_tree and (vault.root / path).is_symlink()):
        return path
    if not vault.notices.stale:
        sync_vault(vault)
    everything = list_facts(seen)
    found = [each for each in everything if each.id == session]
    found = found or [each for each in everything if each.id.startswith(session)]
    if len(found) == 1:
        return PurePosixPath(found[0].path)
    if found:
        names = ", ".join(sorted(each.id for each in found)[:5])
        raise NoteNotFoundError(f"{session}: could be {names}; name one")
    record = ActiveSessions(vault.state_folder).find(session)
    if record is not None and record.ref not in {"", name_branch(seen)}:
        raise NoteNotFoundError(f"{session}: it is kept on {record.ref}; name that with --ref")
    near = ask_meant(session, [e.id for e in everything], "; see `vaultmem session list`")
    raise NoteNotFoundError(f"{session}: there is no such session{near}")


def is_meant_here(vault: Vault, record: ActiveSession) -> bool:
    """Tell whether a session is kept where the vault works: on its branch, or in the folder."""
    return record.ref in {"", name_branch(vault)} or (
        look_now(vault).view.is_work_tree and is_kept(vault, record.id)
    )


def list_facts(vault: Vault) -> list[SessionFacts]:
    """Return the facts of all sessions, the last started first; the vault must be in sync."""
    return sorted(open_table(vault).all(), key=lambda each: (each.started, each.id), reverse=True)


def list_here(vault: Vault, place: Workspace) -> list[SessionFacts]:
    """Return the sessions of this agent that worked in a place, the last started first.

    Those that name no place are among them, unless the project of the place has sessions. The vault
    must be in sync.
    """
    own = [each for each in list_facts(vault) if each.agent == vault.author.agent]
    here = [each for each in own if place.has(each)]
    if place.project and here:
        return here
    return [each for each in own if each in here or not (each.workspace or each.project)]


def open_table(vault: Vault) -> SessionTable:
    """Return the table of the sessions' facts; the vault must be in sync.

    Only notes that changed since they were last asked for are read.
    """
    seen = look_now(vault)
    table = SessionTable(vault.state, seen.view)
    fresh: list[tuple[int, SessionFacts]] = []
    for document, path, blob in table.unknown():
        text = read_text(seen, path, blob)
        if text is None:
            continue
        try:
            note = parse_note(PurePosixPath(path), text.encode("utf-8"))
        except UnreadableNoteError:
            continue
        fresh.append((document, parse_session(note).facts))
    if fresh:
        table.put(fresh)
    return table


def open_transcripts(vault: Vault) -> Transcripts:
    """Return the transcripts of the vault's sessions."""
    return Transcripts(vault.root, vault.config.transcript_mb * 1024 * 1024)
