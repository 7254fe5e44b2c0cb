"""Keep what a session learned: in MEMORY.md while that has room, else in a note of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.paths import LEARNED
from vaultmem.core.sessions.section_edit import append_to_section, as_item
from vaultmem.core.token_count import count_tokens
from vaultmem.core.upkeep.memory_file import MEMORY
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.likeness.known import refuse_held
from vaultmem.services.likeness.similar import Asked
from vaultmem.services.reading.look import look_now
from vaultmem.services.sessions.edit_session import act_in
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import replace_text, write
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Session


class Learned(NamedTuple):
    """What was learned, and where it stands now; `in_memory` tells whether that is MEMORY.md."""

    text: str
    path: str
    in_memory: bool


class _FullError(Exception):
    """MEMORY.md has no room."""


def memory_budget(vault: Vault) -> int:
    """Return how many tokens MEMORY.md may have: what a pack can show of pinned notes."""
    return int(vault.config.budget * vault.config.pinned_share)


def learn(vault: Vault, session: Session, text: str) -> Learned:
    """Add a line to MEMORY.md under "Learned", with a link to the session.

    Where MEMORY.md would grow beyond its budget, or its properties cannot be read, the text is
    remembered as a note; so is what a quarantined note nearly says, and what a session of a project
    learned: every project is shown MEMORY.md. What is there already is not added again.

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
        changed = append_to_section(note.text, LEARNED, item)
        if note.problem or count_tokens(changed) > budget:
            raise _FullError
        return changed

    def plan(draft: Change) -> None:
        draft.leave(Event("write", "", writer.author, intent="refine"))
        try:
            note = draft.read(MEMORY)
        except NoteNotFoundError:
            draft.put(MEMORY, change(parse_note(MEMORY, b"# Memory\n")).encode("utf-8"))
            return
        replace_text(draft, note, change)

    try:
        if not session.facts.project and refuse_held(look_now(vault), Asked(line)) is None:
            write(writer, plan)
            return Learned(line, str(MEMORY), True)
    except (_FullError, RefusedError):
        pass
    from vaultmem.services.notes.memory import Memory
    from vaultmem.services.notes.remember import remember

    project = session.facts.project or None
    made = remember(writer, Memory(text, refs=(session.facts.path,), project=project))
    return Learned(line, made.path, False)
