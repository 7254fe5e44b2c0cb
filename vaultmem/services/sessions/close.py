"""Close a session: write its end, commit its work, and recover sessions without a process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from vaultmem.core.clients.auto_memory import choose_folder
from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.sessions.session import FOLDER, Session, SessionStatus, session_path
from vaultmem.core.sessions.session_note import (
    DETAILS,
    SUMMARY,
    append_to_section,
    as_item,
    as_paragraphs,
)
from vaultmem.core.sessions.turns import join_turns
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.transcripts.dead_ends import format_dead_end, sort_ends
from vaultmem.errors import PendingError, RefusedError, VaultError, wrapping_os_errors
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import UNCOMMITTED, CommitReport, commit_event
from vaultmem.services.changes.commit_parts import Event, make_close, name_session
from vaultmem.services.changes.ownership import PendingFiles, find_pending
from vaultmem.services.changes.write import write
from vaultmem.services.memory.remember import (
    DeadEndProposal,
    PreferenceProposal,
    propose_dead_ends,
)
from vaultmem.services.sessions.edit_session import (
    LearnResult,
    act_in,
    check_text,
    edit_as_event,
    find_unlinked,
    learn,
    link_decision,
    propose_preferences,
)
from vaultmem.services.sessions.find_session import (
    find_home,
    find_unsettled,
    get_session,
    open_transcripts,
)
from vaultmem.services.sessions.identify import find_begun_in, find_workspace
from vaultmem.services.sessions.windows import read_tally, write_windows
from vaultmem.services.views.open_view import at_ref, find_branch
from vaultmem.services.views.texts import read_text
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.journal import Author
from vaultmem.storage.lock import Process, find_process, is_gone
from vaultmem.storage.query_log import SignalStore
from vaultmem.storage.session_table import ActiveSession, ActiveSessions
from vaultmem.vault import Vault

_LOG = logging.getLogger("vaultmem.sessions")


class CloseResult(NamedTuple):
    """An ended session with its commit report, learned lines and proposals.

    `proposed` holds preferences that wait for the owner's approval. `dead_ends` holds failed
    attempts.
    """

    session: Session
    report: CommitReport
    learned: tuple[LearnResult, ...] = ()
    proposed: tuple[PreferenceProposal, ...] = ()
    dead_ends: tuple[DeadEndProposal, ...] = ()


def parse_end(text: str) -> SessionStatus:
    """Return the status that a session can end with.

    Raises:
        RefusedError: the text is not such a status.
    """
    ends = [status for status in SessionStatus if status is not SessionStatus.OPEN]
    if text.strip().lower() not in ends:
        raise RefusedError(f'unknown status "{text}"; use {", ".join(ends)}')
    return SessionStatus(text.strip().lower())


def close_session(
    vault: Vault,
    name: str,
    status: SessionStatus = SessionStatus.OK,
    summary: str = "",
    learned: Sequence[str] = (),
    now: datetime | None = None,
) -> CloseResult:
    """End a session and commit what it wrote as `session-close`, attributed to its agent.

    Learned lines go to MEMORY.md while they fit its budget, else to notes. After an interruption,
    the same call continues. A session that already has this status is not changed.

    Raises:
        RefusedError: it has another end status, or a text looks like a credential.
        PendingError: git cannot commit now; the session has ended and its event waits.
    """
    for text in (*filter(None, [summary]), *learned):
        check_text(vault, text)
    with vault.lock():
        session = get_session(vault, name)
        facts = session.facts
        learn_results: tuple[LearnResult, ...] = ()
        proposals: tuple[PreferenceProposal, ...] = ()
        dead_ends: tuple[DeadEndProposal, ...] = ()
        if facts.is_open:
            learn_results = tuple(learn(vault, session, text) for text in learned)
            for path, title in find_unlinked(vault, session):
                link_decision(vault, facts.id, path, title)
            proposals = propose_preferences(act_in(vault, facts.id, facts.agent or None), facts)
            dead_ends = _propose_dead_ends(vault, session)
            _replace_repeated(vault, session)
            with vault.leaving_to_next():
                _store_outcome(vault, session, status)
            session, report = _end(vault, session, status, summary, now or vault.local_time())
            if report.commit:  # The branch is not checked out, so the edit was the commit.
                ActiveSessions(vault.state_folder).drop(facts.id)
                return CloseResult(session, report, learn_results, proposals, dead_ends)
        elif facts.status != status:
            raise RefusedError(
                f"{facts.id}: it has ended already ({facts.status}); "
                f"`vaultmem session resume {facts.id}` opens it again"
            )
        report = commit_close(vault, session, summary)
    return CloseResult(session, report, learn_results, proposals, dead_ends)


def close_of_process(vault: Vault, interrupted: bool = False) -> None:
    """Close the open sessions of the process that the vault is served to (`vault.pid`).

    If `interrupted`, the sessions are recovered as `recover_sessions` does. Sessions shared with
    another live process stay open. If a session cannot be closed, log a warning and leave it to
    recovery. The index must be up to date.
    """
    client = None if vault.pid is None else find_process(vault.pid)

    def is_served(process: Process) -> bool:
        return process == client if client else process.pid == vault.pid  # The process has ended.

    for record in ActiveSessions(vault.state_folder).all():
        own = list(filter(is_served, record.processes))
        others = [each for each in record.processes if each not in own]
        if own and not record.recovered and all(map(is_gone, others)):
            try:
                home, session = find_home(at_ref(vault, ""), record)
                if session is not None and interrupted:
                    _recover_open(vault, home, record.id)
                elif session is not None:
                    close_left(home, record.id)
            except VaultError as error:
                _LOG.warning("%s: not closed: %s", record.id, error)


def close_left(vault: Vault, name: str) -> None:
    """Close a session that its client left without closing it, if it is open.

    The agent did not end the session, so a later write reopens it.

    Raises:
        NoteNotFoundError, RefusedError: as for `close_session`.
    """
    facts = get_session(vault, name).facts
    if not facts.is_open:
        return
    active = ActiveSessions(vault.state_folder)
    record = active.find(facts.id)
    with contextlib.suppress(PendingError):  # The session has ended; its event waits.
        close_session(vault, facts.id)
    if record is not None:
        active.put(record._replace(recovered=True))


def commit_close(vault: Vault, session: Session, summary: str = "") -> CommitReport:
    """Commit an ended session with its files, and remove it from the active sessions.

    Raises:
        RefusedError, PendingError: as for `commit_event`.
    """
    facts = session.facts
    active = ActiveSessions(vault.state_folder)
    report = CommitReport()
    if vault.head() is not None and not find_branch(vault):
        author = find_author(vault, session)
        with wrapping_os_errors(UNCOMMITTED):
            paths = find_own(find_pending(vault), session, author)
        event = make_close(session, author, summary)
        try:
            report = commit_event(vault, event._replace(only=paths))
        except PendingError:  # The event is queued.
            active.drop(facts.id)
            raise
    with vault.leaving_to_next():
        active.drop(facts.id)
    if vault.config.sync_remote:
        from vaultmem.services.syncing.sync_place import sync_later  # Slow import.

        sync_later(vault)
    return report


def find_author(vault: Vault, session: Session) -> Author:
    """Return the author of a session's commits: its agent."""
    return Author(session.facts.agent or vault.author.agent, session.facts.id)


def find_own(pending: PendingFiles, session: Session, author: Author) -> tuple[str, ...]:
    """Return the session's note and the uncommitted files that it wrote."""
    return tuple(dict.fromkeys([session.facts.path, *pending.written_by(author)]))


def _replace_repeated(vault: Vault, session: Session) -> None:
    """Deprecate notes that the session also wrote into its client's memory folder."""
    author = find_author(vault, session)
    if find_branch(vault) or not (vault.root / choose_folder(author.agent or "-")).is_dir():
        return
    from vaultmem.services.lifecycle.supersede import replace_repeated  # Slow import.

    sync_vault(vault)
    replace_repeated(act_in(vault, author.session, author.agent), author)


def _propose_dead_ends(vault: Vault, session: Session) -> tuple[DeadEndProposal, ...]:
    """Propose the dead ends found in the imported part of the session's transcript."""
    from vaultmem.services.sessions.import_turns import format_file, read_record

    facts, author = session.facts, find_author(vault, session)
    ends = read_record(vault, facts.id).trials.ends
    if not ends:
        return ()
    base = find_workspace(find_begun_in(vault, facts.id))

    def format_path(path: str) -> str:
        return format_file(base / path, base)

    dead_ends = [format_dead_end(each, format_path) for each in sort_ends(ends)]

    def plan(change: Change) -> tuple[DeadEndProposal, ...]:
        change.leave(Event("write", "", author, intent="observe"))
        return propose_dead_ends(change, dead_ends, facts.path, facts.project)

    try:
        return write(act_in(vault, facts.id, author.agent), plan).value
    except RefusedError:  # A session ends even if its proposals fail.
        return ()


#: Statuses that count as success or failure. A canceled session counts as neither.
_ENDED_WELL = {
    SessionStatus.OK: True,
    SessionStatus.ERROR: False,
    SessionStatus.INTERRUPTED: False,
}


def _store_outcome(vault: Vault, session: Session, status: SessionStatus) -> None:
    """Record which of the notes shown to a session it used, and how the session ended.

    A note counts as used if the session's notes or its agent's answers name or repeat it.
    """
    if status not in _ENDED_WELL:
        return
    from vaultmem.core.curation.dreaming import is_used
    from vaultmem.services.packs.receipts import list_receipts

    signals = SignalStore(vault.state, vault.state_folder)
    signals.fold(vault.view.totals()[1], vault.wait)
    records = {each.path: each for each in vault.view.records()}
    pack_paths = (
        section.path
        for receipt in list_receipts(vault, session=session.facts.id)
        for section in receipt.shown
        if not section.pinned
    )
    note_paths = {path for path in records if not path.startswith(f"{FOLDER}/")}
    shown_paths = {*signals.shown_to(session.facts.id), *pack_paths} & note_paths
    if not shown_paths:
        return

    def read(path: str) -> str:
        text = read_text(vault, path, records[path].blob) or ""
        return text[read_frontmatter(text).body :]

    lines = open_transcripts(vault).read(session.facts.id)
    texts = [turn.text for _, turn in join_turns(lines) if turn.role == "assistant"]
    own = {path for path in note_paths if records[path].session == session.facts.id}
    texts += map(read, own)
    paragraphs = [part for text in texts for part in text.split("\n\n") if part.strip()]
    used_paths = [path for path in shown_paths - own if is_used(path, read(path), paragraphs)]
    signals.put_outcome(session.facts.id, used_paths, _ENDED_WELL[status])


def _end(
    vault: Vault, session: Session, status: SessionStatus, summary: str, now: datetime
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

    def format_event(ended: Session) -> Event:
        return make_close(ended, author, summary)

    return edit_as_event(vault, facts.id, change, format_event, agent=author.agent)


# Recover sessions whose process has ended.

#: Seconds for which a recovered session can still be reopened by a write.
_FORGOTTEN = 30 * 86_400.0

_MAX_LISTED_FILES = 10


class RecoveryResult(NamedTuple):
    """A recovered session, and the paths (`left`) that it left uncommitted.

    `problem` is the reason why its commit waits. It is "" if the commit was made or there is no
    git.
    """

    session: str
    path: str
    status: str
    left: tuple[str, ...]
    report: CommitReport
    problem: str = ""


def recover_sessions(vault: Vault) -> list[RecoveryResult]:
    """Mark open sessions whose process has ended as interrupted, and commit what they left.

    Each session gets its own commit, `recover: GOAL`, and a pending restore. Interrupted closes are
    completed. A session of a branch that is not checked out is recovered on that branch. The index
    must be up to date.
    """
    if not find_unsettled(vault):
        return []
    vault = at_ref(vault, "")
    active = ActiveSessions(vault.state_folder)
    results = []
    with vault.lock():
        sync_vault(vault)
        pending = cache(lambda: find_pending(vault))  # Computed once for all sessions.
        for record in find_unsettled(vault):  # Another process may have recovered some.
            home, session = find_home(vault, record)
            if session is None:
                if record.is_gone:
                    active.drop(record.id)
            elif session.facts.is_open:
                results += [_recover(home, record, session, pending)] if record.is_gone else []
            elif vault.journal.find_author(session.facts.path, session.facts.blob) is None:
                active.drop(record.id)  # The owner closed it by hand, or it is committed.
            elif record.is_gone and session.facts.pending:
                # A recovery was interrupted at this point.
                results.append(
                    _commit_recovery(vault, session, _find_left(vault, session, pending))
                )
            else:
                results.append(_finish_close(vault, session))
        _forget_old(vault, active)
    return results


def _recover_open(vault: Vault, home: Vault, name: str) -> None:
    """Recover one session, unless it has ended meanwhile."""
    with vault.lock():
        session = get_session(home, name)
        record = ActiveSessions(vault.state_folder).find(session.facts.id)
        if record is not None and session.facts.is_open:
            _recover(home, record, session, lambda: find_pending(vault))


def _recover(
    vault: Vault, record: ActiveSession, session: Session, pending: Callable[[], PendingFiles]
) -> RecoveryResult:
    facts = session.facts
    author = find_author(vault, session)
    uncommitted_paths = _find_left(vault, session, pending)
    tally = read_tally(vault, facts.id)
    for path, title in find_unlinked(vault, session):
        link_decision(vault, facts.id, path, title, author.agent)
    with vault.leaving_to_next():
        _store_outcome(vault, session, SessionStatus.INTERRUPTED)
    numbers = ", ".join(str(process.pid) for process in record.processes)
    message = f"its process ({numbers}) was gone; {_describe(uncommitted_paths, tally.turns)}"

    def change(note: Note) -> str:
        text = append_to_section(
            note.text, DETAILS, as_item(f"{vault.local_time():%Y-%m-%d %H:%M} {message}")
        )
        text = write_windows(parse_note(note.path, text.encode("utf-8")), tally, begin=False)
        text = set_property(text, "status", SessionStatus.INTERRUPTED.value)
        text = set_property(text, "ended", _last_seen(vault, record))
        return set_property(text, "pending_restore_at", vault.local_time())

    def format_event(ended: Session) -> Event:
        return _make_event(ended, author, message)

    agent = author.agent
    session, report = edit_as_event(vault, facts.id, change, format_event, True, agent)
    if report.commit:  # The branch is not checked out, so the edit was the commit.
        ActiveSessions(vault.state_folder).mark_recovered(facts.id)
        return RecoveryResult(facts.id, facts.path, session.facts.status, uncommitted_paths, report)
    return _commit_recovery(vault, session, uncommitted_paths, message)


def _commit_recovery(
    vault: Vault, session: Session, uncommitted_paths: tuple[str, ...], message: str = ""
) -> RecoveryResult:
    """Commit what a session left, and mark the session as recovered."""
    facts, author = session.facts, find_author(vault, session)
    report, problem = CommitReport(), ""
    if _has_git(vault):
        event = _make_event(session, author, message)._replace(
            only=(facts.path, *uncommitted_paths)
        )
        try:
            report = commit_event(vault, event)
        except (PendingError, RefusedError) as error:
            problem = str(error)
    ActiveSessions(vault.state_folder).mark_recovered(facts.id)
    return RecoveryResult(facts.id, facts.path, facts.status, uncommitted_paths, report, problem)


def _make_event(session: Session, author: Author, message: str) -> Event:
    facts = session.facts
    body = tuple(filter(None, (f"session {facts.id}", f"status {facts.status}", message)))
    return Event("recover", name_session("recover", session), author, body, "observe")


def _find_left(
    vault: Vault, session: Session, pending: Callable[[], PendingFiles]
) -> tuple[str, ...]:
    """Return the uncommitted files that a session wrote, without its note."""
    if vault.ref or not _has_git(vault):  # Each write to a branch is a commit.
        return ()
    return find_own(pending(), session, find_author(vault, session))[1:]


def _finish_close(vault: Vault, session: Session) -> RecoveryResult:
    facts = session.facts
    try:
        report, problem = commit_close(vault, session), ""
    except (PendingError, RefusedError) as error:
        report, problem = CommitReport(), str(error)
    return RecoveryResult(facts.id, facts.path, facts.status, report.paths, report, problem)


def _describe(paths: tuple[str, ...], turns: int) -> str:
    """Return a sentence about the files that a session left."""
    names = ", ".join(map(one_line, paths[:_MAX_LISTED_FILES])) + (
        " ..." if len(paths) > _MAX_LISTED_FILES else ""
    )
    count = (
        f"{pluralize(len(paths), 'file')} not committed ({names})"
        if paths
        else "nothing else not committed"
    )
    turns_text = f", {pluralize(turns, 'turn')} in its transcript" if turns else ""
    return f"it left {count}{turns_text}"


def _last_seen(vault: Vault, record: ActiveSession) -> datetime:
    """Return the time of a session's last known activity."""
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
