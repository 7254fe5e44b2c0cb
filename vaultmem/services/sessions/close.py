"""Close a session: its note gets an end, and what it wrote becomes a commit of its own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.sessions.section_edit import append_to_section, as_paragraphs
from vaultmem.core.sessions.session import Session, Status
from vaultmem.core.sessions.session_note import SUMMARY
from vaultmem.errors import PendingError, RefusedError, VaultError, naming_faults
from vaultmem.services.notes.propose import Proposed
from vaultmem.services.reading.look import find_branch, go_to
from vaultmem.services.sessions.decide import find_unlinked, link_decision
from vaultmem.services.sessions.edit_session import act_in, check_text, edit_as_event
from vaultmem.services.sessions.learn import Learned, learn
from vaultmem.services.sessions.read import find_home, get_session
from vaultmem.services.sessions.windows import read_tally, write_windows
from vaultmem.services.sessions.wishes import propose_said
from vaultmem.services.writing.commit import UNCOMMITTED, CommitReport, commit_event
from vaultmem.services.writing.ownership import Pending, find_pending
from vaultmem.services.writing.parts import Event, make_close
from vaultmem.storage.journal import Author
from vaultmem.storage.processes import Process, find_process, is_gone
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault

_LOG = logging.getLogger("vaultmem.sessions")


class Closed(NamedTuple):
    """A session that has ended, its commits, where what was learned stands, and what is proposed.

    `proposed` are the user's standing wishes that wait for the owner's word.
    """

    session: Session
    report: CommitReport
    learned: tuple[Learned, ...] = ()
    proposed: tuple[Proposed, ...] = ()


def parse_end(text: str) -> Status:
    """Return the status that a session can end with.

    Raises:
        RefusedError: it is none.
    """
    ends = [status for status in Status if status is not Status.OPEN]
    if text.strip().lower() not in ends:
        raise RefusedError(f'unknown end "{text}"; use {", ".join(ends)}')
    return Status(text.strip().lower())


def close_session(
    vault: Vault,
    name: str,
    status: Status = Status.OK,
    summary: str = "",
    learned: Sequence[str] = (),
    now: datetime | None = None,
) -> Closed:
    """End a session and commit what it wrote as `session-close`; the commit is its agent's.

    What was learned goes to MEMORY.md as far as that has room, else to notes. Interrupted, the
    same call goes on; a session that has ended so already stays as it is.

    Raises:
        RefusedError: it has ended otherwise, or something looks like a credential.
        PendingError: git cannot take a commit now; the session has ended, the event waits.
    """
    for text in (*filter(None, [summary]), *learned):
        check_text(vault, text)
    with vault.lock():
        session = get_session(vault, name)
        facts = session.facts
        done: tuple[Learned, ...] = ()
        proposed: tuple[Proposed, ...] = ()
        if facts.is_open:
            done = tuple(learn(vault, session, text) for text in learned)
            for path, title in find_unlinked(vault, session):
                link_decision(vault, facts.id, path, title)
            proposed = propose_said(act_in(vault, facts.id, facts.agent or None), facts)
            session, report = _end(vault, session, status, summary, now or vault.local_time())
            if report.commit:  # On a branch that is not checked out, nothing waits for another.
                ActiveSessions(vault.state_folder).drop(facts.id)
                return Closed(session, report, done, proposed)
        elif facts.status != status:
            raise RefusedError(
                f"{facts.id}: it has ended already ({facts.status}); "
                f"`vaultmem session resume {facts.id}` opens it again"
            )
        report = commit_close(vault, session, summary)
    return Closed(session, report, done, proposed)


def close_of_process(vault: Vault) -> None:
    """Close the open sessions of the process that the vault is served to (`vault.pid`), as it ends.

    A session that another process is in as well stays open. A session that cannot be closed is
    left to recovery, with a warning. The vault must be in sync.
    """
    served = None if vault.pid is None else find_process(vault.pid)

    def is_served(process: Process) -> bool:
        return process == served if served else process.pid == vault.pid  # Gone by now.

    for record in ActiveSessions(vault.state_folder).all():
        own = list(filter(is_served, record.processes))
        others = [each for each in record.processes if each not in own]
        if own and not record.recovered and all(map(is_gone, others)):
            try:
                home, session = find_home(go_to(vault, ""), record)
                if session is not None:
                    close_left(home, record.id)
            except VaultError as error:
                _LOG.warning("%s: not closed: %s", record.id, error)


def close_left(vault: Vault, name: str) -> None:
    """Close a session that its client left in order without closing it, if it is open.

    The agent did not end it itself, so what is written into it later opens it again.

    Raises:
        NoteNotFoundError, RefusedError: as for `close_session`.
    """
    facts = get_session(vault, name).facts
    if not facts.is_open:
        return
    active = ActiveSessions(vault.state_folder)
    record = active.find(facts.id)
    with contextlib.suppress(PendingError):  # It has ended, and its event waits.
        close_session(vault, facts.id)
    if record is not None:
        active.put(record._replace(recovered=True))


def commit_close(vault: Vault, session: Session, summary: str = "") -> CommitReport:
    """Commit a session that has ended, with all that it wrote, and forget that it was open here.

    Raises:
        RefusedError, PendingError: as for `commit_event`.
    """
    facts = session.facts
    active = ActiveSessions(vault.state_folder)
    report = CommitReport()
    if vault.head() is not None and not find_branch(vault):
        author = find_author(vault, session)
        with naming_faults(UNCOMMITTED):
            paths = find_own(find_pending(vault), session, author)
        event = make_close(session, author, summary)
        try:
            report = commit_event(vault, event._replace(only=paths))
        except PendingError:  # The event waits by itself.
            active.drop(facts.id)
            raise
    with vault.leaving_to_next():
        active.drop(facts.id)
    if vault.config.sync_remote:
        from vaultmem.services.syncing.unasked import sync_later  # Much to import, for some.

        sync_later(vault)
    return report


def find_author(vault: Vault, session: Session) -> Author:
    """Return who a session's commits are by: its agent."""
    return Author(session.facts.agent or vault.author.agent, session.facts.id)


def find_own(pending: Pending, session: Session, author: Author) -> tuple[str, ...]:
    """Return the session's note, and what it wrote that no commit has."""
    return tuple(dict.fromkeys([session.facts.path, *pending.written_by(author)]))


def _end(
    vault: Vault, session: Session, status: Status, summary: str, now: datetime
) -> tuple[Session, CommitReport]:
    facts, author = session.facts, find_author(vault, session)
    tally = read_tally(vault, facts.id)

    def change(note: Note) -> str:
        text = note.text
        if summary:
            text = append_to_section(text, SUMMARY, as_paragraphs(summary))
        text = write_windows(parse_note(note.path, text.encode("utf-8")), tally, begin=False)
        text = set_property(text, "status", status.value)
        return set_property(text, "ended", now.replace(microsecond=0))

    def name_event(ended: Session) -> Event:
        return make_close(ended, author, summary)

    return edit_as_event(vault, facts.id, change, name_event, agent=author.agent)
