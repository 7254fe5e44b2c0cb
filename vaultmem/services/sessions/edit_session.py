"""Write into a session's note while it lasts: by position and by appending, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.paths import is_text
from vaultmem.core.sessions.section_edit import append_to_section, as_item, as_paragraphs
from vaultmem.core.sessions.session import Session, Status
from vaultmem.core.sessions.session_note import DETAILS, QUESTIONS, SUMMARY, parse_session
from vaultmem.errors import RefusedError
from vaultmem.services.sessions.read import find_path
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.leaks import look_for_leaks
from vaultmem.services.writing.parts import Event
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.processes import find_owner
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault


def act_in(vault: Vault, session: str, agent: str | None = None) -> Vault:
    """Return the same vault, its storage shared, for writing in a session.

    `agent` writes, else whom the vault names.
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
    """Replace the text of a session's note by `change(note)`, and return it as it is then.

    A save by somebody else in between is kept: the change is made again on their text. A session
    that was closed because its process seemed gone, and writes again, is open again. `agent` is
    who writes, else whom the vault names; `by` is the session that writes, else this one. On a
    branch that is not checked out, this is a commit.

    Raises:
        NoteNotFoundError: there is no such session.
        RefusedError: it has ended, or the note is full.
    """
    return edit_as_event(vault, session, change, None, closed_too, agent, by)[0]


def edit_as_event(
    vault: Vault,
    session: str,
    change: Callable[[Note], str],
    name_event: Callable[[Session], Event] | None,
    closed_too: bool = False,
    agent: str | None = None,
    by: str = "",
) -> tuple[Session, CommitReport]:
    """Edit a session as `edit_session` does; on a branch, as the event of what it is then."""
    from vaultmem.services.writing.edit_notes import edit_as

    path = find_path(vault, session)
    active = ActiveSessions(vault.state_folder)
    written: list[bytes] = []

    def edit(note: Note) -> str:
        text = note.text
        if note.problem:
            raise RefusedError(f"{path}: {note.problem}; mend it in an editor first")
        status = parse_session(note).facts.status
        if status != Status.OPEN and not closed_too:
            record = active.find(path.stem)
            if record is None or not record.recovered:
                raise RefusedError(
                    f"{path.stem}: it has ended ({status}); "
                    f"`vaultmem session resume {path.stem}` opens it again"
                )
            text = reopen(text)
            note = parse_note(path, text.encode("utf-8"))
        written[:] = [change(note).encode("utf-8")]
        if len(written[0]) > MAX_FILE_BYTES:
            raise RefusedError(
                f"{path.stem}: its note is full; close it and begin another that continues it"
            )
        return written[0].decode("utf-8")

    writer = act_in(vault, by or path.stem, agent)
    plain = Event("write", "", writer.author, intent="refine")

    def name(data: bytes) -> Event:
        return name_event(parse_session(parse_note(path, data))) if name_event else plain

    with vault.lock():
        report = edit_as(writer, path, edit, name).report
        if not closed_too:
            with vault.leaving_to_next():
                _refresh_owner(vault, active, path.stem)
    return parse_session(parse_note(path, written[0])), report


def reopen(text: str) -> str:
    """Return a session note's text as that of an open session."""
    text = set_property(text, "status", Status.OPEN.value)
    return remove_property(text, "ended")


def add_detail(vault: Vault, session: str, text: str, now: datetime | None = None) -> Session:
    """Add a line to a session's details, with the time, and the day unless it began on it.

    Raises:
        RefusedError: it is empty, or looks like a credential; as for `edit_session`.
    """
    at, told = now or vault.local_time(), check_text(vault, text)

    def change(note: Note) -> str:
        is_later = parse_session(note).facts.started[:10] != at.date().isoformat()
        day = f"{at:%Y-%m-%d} " if is_later else ""
        return append_to_section(note.text, DETAILS, as_item(f"{day}{at:%H:%M} {told}"))

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
    """Return a text that may be written into a session.

    Raises:
        RefusedError: it is empty, no text, or looks like a credential.
    """
    if not text.strip():
        raise RefusedError("there is nothing to write: the text is empty")
    if "\0" in text or not is_text(text):
        raise RefusedError("the text is not UTF-8, or has NUL characters; nothing was written")
    for found in look_for_leaks(vault, "", text):
        raise RefusedError(
            f"line {found.line} of the text looks like a credential ({found.rule}); "
            "write where it is kept, not the value"
        )
    return text


def _refresh_owner(vault: Vault, active: ActiveSessions, session: str) -> None:
    """Where a session's processes seem gone and it is written to, remember whose it is now."""
    record = active.find(session)
    if record is not None and (record.recovered or record.is_gone):
        owner = find_owner(vault.pid)
        active.put(
            record._replace(recovered=False, at=vault.now(), processes=(owner,) if owner else ())
        )
