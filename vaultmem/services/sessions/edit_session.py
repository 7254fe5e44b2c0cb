"""Edit a session's note while it is open: append turns, decisions, files and preferences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.curation.memory_file import MEMORY
from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.sessions.session import Session, SessionStatus
from vaultmem.core.sessions.session_note import (
    DECISIONS,
    DETAILS,
    QUESTIONS,
    SUMMARY,
    append_to_section,
    as_item,
    as_paragraphs,
    parse_session,
)
from vaultmem.core.sessions.turns import TranscriptLine, join_turns
from vaultmem.core.text.paths import LEARNED, is_text
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import scan_note_text
from vaultmem.services.changes.write import replace_text, write
from vaultmem.services.search.link_walk import NewLinks
from vaultmem.services.sessions.find_session import find_path, open_transcripts
from vaultmem.services.similarity.known import reject_quarantined
from vaultmem.services.similarity.similar import SimilarityQuery
from vaultmem.services.views.open_view import current_view
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.lock import find_owner
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.new_memory import Memory
    from vaultmem.core.preferences import PreferenceSentence
    from vaultmem.core.sessions.session import SessionFacts
    from vaultmem.services.memory.remember import PreferenceProposal, RememberResult


def act_in(vault: Vault, session: str, agent: str | None = None) -> Vault:
    """Return the vault with a session as its author, sharing storage.

    `agent` replaces the vault's agent.
    """
    author = vault.author if agent is None else vault.author._replace(agent=agent)
    return replace(vault, author=author._replace(session=session))


def edit_session(
    vault: Vault,
    session: str,
    change: Callable[[Note], str],
    closed_too: bool = False,
    agent: str | None = None,
    by: str = "",
) -> Session:
    """Replace the text of a session's note by `change(note)`, and return the new session.

    If another process saves the note meanwhile, `change` is applied to its text. A recovered
    session is reopened by a write. `agent` is the writing agent, by default the vault's. `by` is
    the writing session, by default this one. On a branch that is not checked out, the edit is a
    commit.

    Raises:
        NoteNotFoundError: there is no such session.
        RefusedError: the session has ended, or its note is full.
    """
    return edit_as_event(vault, session, change, None, closed_too, agent, by)[0]


def edit_as_event(
    vault: Vault,
    session: str,
    change: Callable[[Note], str],
    format_event: Callable[[Session], Event] | None,
    closed_too: bool = False,
    agent: str | None = None,
    by: str = "",
) -> tuple[Session, CommitReport]:
    """Edit a session as `edit_session` does. On a branch, commit with `format_event(session)`."""
    from vaultmem.services.changes.edit_notes import edit_as

    path = find_path(vault, session)
    active = ActiveSessions(vault.state_folder)
    contents: list[bytes] = []

    def edit(note: Note) -> str:
        text = note.text
        if note.problem:
            raise RefusedError(f"{path}: {note.problem}; fix it in an editor first")
        status = parse_session(note).facts.status
        if status != SessionStatus.OPEN and not closed_too:
            record = active.find(path.stem)
            if record is None or not record.recovered:
                raise RefusedError(
                    f"{path.stem}: it has ended ({status}); "
                    f"`vaultmem session resume {path.stem}` opens it again"
                )
            text = reopen(text)
            note = parse_note(path, text.encode("utf-8"))
        contents[:] = [change(note).encode("utf-8")]
        if len(contents[0]) > MAX_FILE_BYTES:
            raise RefusedError(
                f"{path.stem}: its note is full; close it and begin another that continues it"
            )
        return contents[0].decode("utf-8")

    writer = act_in(vault, by or path.stem, agent)
    plain_event = Event("write", "", writer.author, intent="refine")

    def name(data: bytes) -> Event:
        return format_event(parse_session(parse_note(path, data))) if format_event else plain_event

    with vault.lock():
        report = edit_as(writer, path, edit, name).report
        if not closed_too:
            with vault.leaving_to_next():
                _refresh_owner(vault, active, path.stem)
    return parse_session(parse_note(path, contents[0])), report


def reopen(text: str) -> str:
    """Return a session note's text with the status open."""
    text = set_property(text, "status", SessionStatus.OPEN.value)
    return remove_property(text, "ended")


def add_detail(vault: Vault, session: str, text: str, now: datetime | None = None) -> Session:
    """Add a line to a session's details, with the time, and the date if it is not the start date.

    Raises:
        RefusedError: the text is empty or looks like a credential; as for `edit_session`.
    """
    at, detail = now or vault.local_time(), check_text(vault, text)

    def change(note: Note) -> str:
        is_later = parse_session(note).facts.started[:10] != at.date().isoformat()
        day = f"{at:%Y-%m-%d} " if is_later else ""
        return append_to_section(note.text, DETAILS, as_item(f"{day}{at:%H:%M} {detail}"))

    return edit_session(vault, session, change)


def add_question(vault: Vault, session: str, text: str) -> Session:
    """Add an open question to a session; raises as `add_detail` does."""
    item = as_item(check_text(vault, text))
    return edit_session(vault, session, lambda note: append_to_section(note.text, QUESTIONS, item))


def summarize(vault: Vault, session: str, text: str) -> Session:
    """Add a paragraph to a session's summary; raises as `add_detail` does."""
    paragraph = as_paragraphs(check_text(vault, text))
    return edit_session(
        vault, session, lambda note: append_to_section(note.text, SUMMARY, paragraph)
    )


def check_text(vault: Vault, text: str) -> str:
    """Return the text if it may be written into a session.

    Raises:
        RefusedError: it is empty, not UTF-8 text, or looks like a credential.
    """
    if not text.strip():
        raise RefusedError("there is nothing to write: the text is empty")
    if "\0" in text or not is_text(text):
        raise RefusedError("the text is not UTF-8, or has NUL characters; nothing was written")
    for leak in scan_note_text(vault, "", text):
        raise RefusedError(
            f"line {leak.line} of the text looks like a credential ({leak.rule}); "
            "write where it is kept, not the value"
        )
    return text


def _refresh_owner(vault: Vault, active: ActiveSessions, session: str) -> None:
    """Record the current process as owner of a session whose processes have ended."""
    record = active.find(session)
    if record is not None and (record.recovered or record.is_gone):
        owner = find_owner(vault.pid)
        active.put(
            record._replace(recovered=False, at=vault.now(), processes=(owner,) if owner else ())
        )


# Record decisions as notes that the session links.


class RecordedDecision(NamedTuple):
    """A decision's note and the session that links it."""

    memory: RememberResult
    session: Session


def decide(vault: Vault, session: str, memory: Memory) -> RecordedDecision:
    """Write a decision as a note and link it from the session.

    If a note with the same statement exists, link that note. If this is interrupted, closing the
    session adds the link.

    Raises:
        RefusedError: as for `remember` and `edit_session`; then nothing was written.
    """
    from vaultmem.services.memory.new_note import choose_title
    from vaultmem.services.memory.remember import remember

    path = find_path(vault, session)
    with vault.lock():
        edit_session(
            vault, path.stem, lambda note: note.text
        )  # Rejects before anything is written.
        result = remember(act_in(vault, path.stem), memory._replace(kind=NoteKind.DECISION))
        title = choose_title(memory)  # The note may be an older duplicate.
        return RecordedDecision(result, link_decision(vault, path.stem, result.path, title))


def link_decision(
    vault: Vault, session: str, path: str, title: str, agent: str | None = None
) -> Session:
    """Add a link to a decision's note, with its title, to a session's decisions section."""
    links = NewLinks(current_view(vault))

    def change(note: Note) -> str:
        item = as_item(f"{links.in_body(path, str(note.path))}: {title}")
        return append_to_section(note.text, DECISIONS, item)

    return edit_session(vault, session, change, closed_too=True, agent=agent)


def find_unlinked(vault: Vault, session: Session) -> list[tuple[str, str]]:
    """Return path and title of the decisions that a session wrote but does not link.

    The index must be up to date.
    """
    condition = "d.session <> '' AND d.session = ? AND d.kind = 'decision'"
    linked_names = {PurePosixPath(decision.target).name for decision in session.decisions}
    return [
        (record.path, record.title)
        for record in current_view(vault).view.records(condition, (session.facts.id,))
        if PurePosixPath(record.path).stem not in linked_names
    ]


# Store what a session learned in MEMORY.md, or in a note if MEMORY.md is full.


class LearnResult(NamedTuple):
    """A learned line and its note. `in_memory` is true if the note is MEMORY.md."""

    text: str
    path: str
    in_memory: bool


class _FullError(Exception):
    """MEMORY.md has no room left."""


def memory_budget(vault: Vault) -> int:
    """Return the maximum tokens of MEMORY.md: the share of a pack for pinned notes."""
    return int(vault.config.budget * vault.config.pinned_share)


def learn(vault: Vault, session: Session, text: str) -> LearnResult:
    """Add a line to MEMORY.md under "Learned", with a link to the session.

    Text of a project's session is remembered as a note instead, because every project is shown
    MEMORY.md. So is text similar to a quarantined note, or if MEMORY.md is invalid or would exceed
    its budget. An existing line is not added again.

    Raises:
        RefusedError: as for `remember`.
    """
    writer = act_in(vault, session.facts.id, session.facts.agent or None)
    line = " ".join(text.split())
    item = as_item(f"{line} ([[{session.facts.id}]])")
    budget = memory_budget(vault)

    def change(note: Note) -> str:
        if any(each.startswith(as_item(line)) for each in note.text.splitlines()):
            return note.text
        new_text = append_to_section(note.text, LEARNED, item)
        if note.problem or count_tokens(new_text) > budget:
            raise _FullError
        return new_text

    def plan(draft: Change) -> None:
        draft.leave(Event("write", "", writer.author, intent="refine"))
        try:
            note = draft.read(MEMORY)
        except NoteNotFoundError:
            draft.put(MEMORY, change(parse_note(MEMORY, b"# Memory\n")).encode("utf-8"))
            return
        replace_text(draft, note, change)

    try:
        if (
            not session.facts.project
            and reject_quarantined(current_view(vault), SimilarityQuery(line)) is None
        ):
            write(writer, plan)
            return LearnResult(line, str(MEMORY), True)
    except (_FullError, RefusedError):
        pass
    from vaultmem.core.new_memory import Memory
    from vaultmem.services.memory.remember import remember

    project = session.facts.project or None
    result = remember(writer, Memory(text, cites=(session.facts.path,), project=project))
    return LearnResult(line, result.path, False)


# Propose the preferences that the user stated in the transcript.


def propose_preferences(writer: Vault, facts: SessionFacts) -> tuple[PreferenceProposal, ...]:
    """Propose the preferences in the user's turns since the last call.

    `writer` writes in the session, so the session's next commit contains them. Turns of agents and
    tool results are ignored.
    """
    key = f"wishes {facts.id}"
    tally = open_transcripts(writer).tally(facts.id)
    looked_at = int(writer.state.get(key) or 0)
    if tally.turns <= looked_at:
        return ()
    wishes = list(_find_spoken(writer, facts.id, looked_at))
    proposals: tuple[PreferenceProposal, ...] = ()
    if wishes:
        try:
            proposals = _put(writer, wishes, facts.path)
        except RefusedError:  # A session ends even if its proposals fail.
            return ()
    writer.state.put(key, str(tally.turns))
    return proposals


def _put(
    writer: Vault, wishes: list[PreferenceSentence], source: str
) -> tuple[PreferenceProposal, ...]:
    from vaultmem.services.memory.remember import propose_standing_preferences

    def plan(change: Change) -> tuple[PreferenceProposal, ...]:
        change.leave(Event("write", "", writer.author, intent="observe"))
        return propose_standing_preferences(change, wishes, source)

    return write(writer, plan).value


def _find_spoken(vault: Vault, session: str, looked_at: int) -> Iterator[PreferenceSentence]:
    from vaultmem.core.preferences import SpeakerRole, find_standing

    transcript_lines = open_transcripts(vault).read_back(session)
    new_lines = takewhile(
        lambda line: isinstance(line, TranscriptLine) and line.number > looked_at, transcript_lines
    )
    lines = [line for line in new_lines if isinstance(line, TranscriptLine) and line.role == "user"]
    for _, turn in join_turns(reversed(lines)):
        yield from find_standing(turn.text, SpeakerRole.OWNER)
