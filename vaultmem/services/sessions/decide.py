"""Write a decision as a note of its own, linked from the session that made it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import Kind
from vaultmem.core.sessions.section_edit import append_to_section, as_item
from vaultmem.core.sessions.session_note import DECISIONS
from vaultmem.services.finding.links import NewLinks
from vaultmem.services.reading.look import look_now
from vaultmem.services.sessions.edit_session import act_in, edit_session
from vaultmem.services.sessions.read import find_path
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.sessions.session import Session
    from vaultmem.services.notes.memory import Memory
    from vaultmem.services.notes.remember import Remembered


class Decided(NamedTuple):
    """A decision's note, and the session that links it."""

    memory: Remembered
    session: Session


def decide(vault: Vault, session: str, memory: Memory) -> Decided:
    """Write a decision as a note, and link it from the session.

    A note that says the same already is linked instead. If this is interrupted between the two,
    the link is made when the session is closed.

    Raises:
        RefusedError: as for `remember` and `edit_session`; then nothing was written.
    """
    from vaultmem.services.notes.memory import choose_title
    from vaultmem.services.notes.remember import remember

    path = find_path(vault, session)
    with vault.lock():
        edit_session(
            vault, path.stem, lambda note: note.text
        )  # Refuses before anything is written.
        decided = remember(act_in(vault, path.stem), memory._replace(kind=Kind.DECISION))
        title = choose_title(memory)  # The note may be an older one that says the same.
        return Decided(decided, link_decision(vault, path.stem, decided.path, title))


def link_decision(
    vault: Vault, session: str, path: str, title: str, agent: str | None = None
) -> Session:
    """Link a decision's note from a session's section of decisions, with its title."""
    links = NewLinks(look_now(vault))

    def change(note: Note) -> str:
        item = as_item(f"{links.in_body(path, str(note.path))}: {title}")
        return append_to_section(note.text, DECISIONS, item)

    return edit_session(vault, session, change, closed_too=True, agent=agent)


def find_unlinked(vault: Vault, session: Session) -> list[tuple[str, str]]:
    """Return path and title of the decisions that a session wrote and does not link.

    The vault must be in sync.
    """
    where = "d.session <> '' AND d.session = ? AND d.kind = 'decision'"
    linked = {PurePosixPath(decision.target).name for decision in session.decisions}
    return [
        (record.path, record.title)
        for record in look_now(vault).view.records(where, (session.facts.id,))
        if PurePosixPath(record.path).stem not in linked
    ]
