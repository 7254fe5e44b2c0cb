"""Read sessions: one by its name, the facts of all, or those that lack an end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.notes.note import UnreadableNoteError, parse_note
from vaultmem.core.paths import parse_note_path
from vaultmem.core.sessions.session import plain_id, session_path
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.reading.texts import read_text
from vaultmem.storage.session_table import ActiveSession, ActiveSessions, SessionTable
from vaultmem.storage.transcripts import Transcripts
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Session, SessionFacts


def find_unsettled(vault: Vault) -> list[ActiveSession]:
    """Return the sessions that count as open here and are not: nothing is changed.

    Their process is gone, or their note has an end. The vault must be in sync.
    """
    records = [r for r in ActiveSessions(vault.state_folder).all() if not r.recovered]
    if not records:
        return []
    table = open_table(vault)
    ended = {r.id for r in records if (facts := table.find(r.id)) and not facts.is_open}
    return [record for record in records if record.id in ended or record.is_gone]


def find_dead(vault: Vault) -> list[ActiveSession]:
    """Return the sessions whose process is gone and whose note has no end."""
    table = open_table(vault)
    return [
        record
        for record in find_unsettled(vault)
        if record.is_gone and (facts := table.find(record.id)) and facts.is_open
    ]


def get_session(vault: Vault, name: str) -> Session:
    """Return the session of an id, or of the only one that begins so, as the vault looks at it.

    Raises:
        NoteNotFoundError: there is none, or several begin like that.
        RefusedError: the name is unsafe, or sessions are not kept where the vault's ref is and that
            is not just looked at.
    """
    if vault.view.is_work_tree:
        refuse_branch(vault)
    return read_session(vault, _find_path(vault, name))


def read_session(vault: Vault, path: PurePosixPath) -> Session:
    """Return the session that a note tells of, now or in the commit that is looked at."""
    return parse_session(read_note(vault, path))


def find_path(vault: Vault, name: str) -> PurePosixPath:
    """Return the note of a session of the folder, found as `get_session` finds it."""
    refuse_branch(vault)
    return _find_path(vault, name)


def _find_path(vault: Vault, name: str) -> PurePosixPath:
    session = plain_id(name)
    path = parse_note_path(str(session_path(session)))
    file = vault.root / path
    with suppress(OSError):  # No system has a name that long.
        if file.is_file() and not file.is_symlink():
            return path
    if not vault.lag:
        sync_vault(vault)
    everything = list_facts(vault)
    found = [each for each in everything if each.id == session]
    found = found or [each for each in everything if each.id.startswith(session)]
    if len(found) == 1:
        return PurePosixPath(found[0].path)
    if found:
        names = ", ".join(sorted(each.id for each in found)[:5])
        raise NoteNotFoundError(f"{session}: could be {names}; name one")
    raise NoteNotFoundError(f"{session}: there is no such session; see `vaultmem session list`")


def list_facts(vault: Vault) -> list[SessionFacts]:
    """Return the facts of all sessions, the last started first; the vault must be in sync."""
    return sorted(open_table(vault).all(), key=lambda each: (each.started, each.id), reverse=True)


def list_here(vault: Vault, workspace: Path) -> list[SessionFacts]:
    """Return the sessions of this agent in a workspace of this name, the last started first.

    The vault must be in sync.
    """
    return [
        each
        for each in list_facts(vault)
        if each.agent == vault.author.agent and each.workspace in {"", workspace.name}
    ]


def open_table(vault: Vault) -> SessionTable:
    """Return the table of the sessions' facts; the vault must be in sync.

    Only notes that changed since they were last asked for are read.
    """
    table = SessionTable(vault.state)
    fresh: list[tuple[int, SessionFacts]] = []
    for document, path, blob in table.unknown():
        text = read_text(vault, path, blob)
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


def refuse_branch(vault: Vault) -> None:
    """Make sure that the vault's ref is what is checked out.

    Raises:
        RefusedError: it is another branch; sessions are notes of the folder.
    """
    if branch := find_branch(vault):
        raise RefusedError(
            f"{branch}: not checked out, and sessions are kept in the folder; "
            "leave --ref and $VAULTMEM_REF out, or switch to it"
        )
