"""Find sessions whose process is gone, and bring to an end what they left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import NamedTuple

from vaultmem.core.counting import count_things
from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.safe_text import one_line
from vaultmem.core.sessions.section_edit import append_to_section, as_item
from vaultmem.core.sessions.session import Session, Status, session_path
from vaultmem.core.sessions.session_note import DETAILS
from vaultmem.errors import PendingError, RefusedError, VaultError
from vaultmem.services.reading.look import go_to
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.sessions.close import commit_close, find_author, find_own
from vaultmem.services.sessions.decide import find_unlinked, link_decision
from vaultmem.services.sessions.edit_session import edit_as_event
from vaultmem.services.sessions.read import find_home, find_unsettled
from vaultmem.services.sessions.windows import read_tally, write_windows
from vaultmem.services.writing.commit import CommitReport, commit_event
from vaultmem.services.writing.ownership import Pending, find_pending
from vaultmem.services.writing.parts import Event, name_session
from vaultmem.storage.journal import Author
from vaultmem.storage.session_table import ActiveSession, ActiveSessions
from vaultmem.vault import Vault

#: Seconds after which nobody asks any more whether a recovered session was alive after all.
_FORGOTTEN = 30 * 86_400.0

_NAMED = 10


class Recovered(NamedTuple):
    """A session that had died, or whose close was interrupted; `left` are paths it left.

    `problem` says why its commit has to wait, "" if it was made or there is no git.
    """

    session: str
    path: str
    status: str
    left: tuple[str, ...]
    report: CommitReport
    problem: str = ""


def recover_sessions(vault: Vault) -> list[Recovered]:
    """Mark sessions whose process is gone as canceled, with what they left, and commit that.

    Each gets a commit of its own, `recover: GOAL`; a close that was interrupted is
    completed. A session's restore is pending from then on.

    A session of a branch that is not checked out is recovered there. The vault must be in sync.
    """
    if not find_unsettled(vault):
        return []
    vault = go_to(vault, "")
    active = ActiveSessions(vault.state_folder)
    done = []
    with vault.lock():
        sync_vault(vault)
        pending = cache(lambda: find_pending(vault))  # One look serves all sessions.
        for record in find_unsettled(vault):  # Somebody else may have been faster.
            home, session = find_home(vault, record)
            if session is None:
                if record.is_gone:
                    active.drop(record.id)
            elif session.facts.is_open:
                done += [_recover(home, record, session, pending)] if record.is_gone else []
            elif vault.journal.find_author(session.facts.path, session.facts.blob) is None:
                active.drop(record.id)  # Closed by hand, or committed already.
            elif record.is_gone and session.facts.pending:
                # Interrupted right here.
                done.append(_commit_recovery(vault, session, _find_left(vault, session, pending)))
            else:
                done.append(_finish_close(vault, session))
        _forget_old(vault, active)
    return done


def _recover(
    vault: Vault, record: ActiveSession, session: Session, pending: Callable[[], Pending]
) -> Recovered:
    facts = session.facts
    author = find_author(vault, session)
    left = _find_left(vault, session, pending)
    tally = read_tally(vault, facts.id)
    for path, title in find_unlinked(vault, session):
        link_decision(vault, facts.id, path, title, author.agent)
    numbers = ", ".join(str(process.pid) for process in record.processes)
    told = f"its process ({numbers}) was gone; {_describe(left, tally.turns)}"

    def change(note: Note) -> str:
        text = append_to_section(
            note.text, DETAILS, as_item(f"{vault.local_time():%Y-%m-%d %H:%M} {told}")
        )
        text = write_windows(parse_note(note.path, text.encode("utf-8")), tally, begin=False)
        text = set_property(text, "status", Status.CANCELED.value)
        text = set_property(text, "ended", _last_seen(vault, record))
        return set_property(text, "pending_restore_at", vault.local_time())

    def name_event(ended: Session) -> Event:
        return _make_event(ended, author, told)

    agent = author.agent
    session, report = edit_as_event(vault, facts.id, change, name_event, True, agent)
    if report.commit:  # On a branch that is not checked out, this is the commit.
        ActiveSessions(vault.state_folder).mark_recovered(facts.id)
        return Recovered(facts.id, facts.path, session.facts.status, left, report)
    return _commit_recovery(vault, session, left, told)


def _commit_recovery(
    vault: Vault, session: Session, left: tuple[str, ...], told: str = ""
) -> Recovered:
    """Commit what a session left; after that, nobody asks for its process any more."""
    facts, author = session.facts, find_author(vault, session)
    report, problem = CommitReport(), ""
    if _has_git(vault):
        event = _make_event(session, author, told)._replace(only=(facts.path, *left))
        try:
            report = commit_event(vault, event)
        except (PendingError, RefusedError) as error:
            problem = str(error)
    ActiveSessions(vault.state_folder).mark_recovered(facts.id)
    return Recovered(facts.id, facts.path, facts.status, left, report, problem)


def _make_event(session: Session, author: Author, told: str) -> Event:
    facts = session.facts
    body = tuple(filter(None, (f"session {facts.id}", f"status {facts.status}", told)))
    return Event("recover", name_session("recover", session), author, body, "observe")


def _find_left(vault: Vault, session: Session, pending: Callable[[], Pending]) -> tuple[str, ...]:
    """Return what a session wrote besides its note, and no commit has."""
    if vault.ref or not _has_git(vault):  # On a branch, each write is a commit.
        return ()
    return find_own(pending(), session, find_author(vault, session))[1:]


def _finish_close(vault: Vault, session: Session) -> Recovered:
    facts = session.facts
    try:
        report, problem = commit_close(vault, session), ""
    except (PendingError, RefusedError) as error:
        report, problem = CommitReport(), str(error)
    return Recovered(facts.id, facts.path, facts.status, report.paths, report, problem)


def _describe(left: tuple[str, ...], turns: int) -> str:
    """Return in words what a session left."""
    named = ", ".join(map(one_line, left[:_NAMED])) + (" ..." if len(left) > _NAMED else "")
    count = (
        f"{count_things(len(left), 'file')} not committed ({named})"
        if left
        else "nothing else not committed"
    )
    said = f", {count_things(turns, 'turn')} in its transcript" if turns else ""
    return f"it left {count}{said}"


def _last_seen(vault: Vault, record: ActiveSession) -> datetime:
    """Return when a session last did something that is known of."""
    times = [record.at]
    for name in (session_path(record.id), f"transcripts/{record.id}.jsonl"):
        try:
            times.append((vault.root / name).stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times)).replace(microsecond=0)


def _has_git(vault: Vault) -> bool:
    try:
        return vault.head() is not None
    except VaultError:
        return False


def _forget_old(vault: Vault, active: ActiveSessions) -> None:
    for record in active.all():
        if record.recovered and vault.now() - record.at > _FORGOTTEN:
            active.drop(record.id)
