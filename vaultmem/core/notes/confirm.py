"""Take what is said again into a note: who said it, when, and in which other words."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.edit_properties import (
    add_to_list,
    drop_from_list,
    list_items,
    set_property,
    write_state,
)
from vaultmem.core.notes.note import Note

#: Names that `confirmed_by` keeps, the newest ones.
MAX_CONFIRMATIONS = 12

#: Other wordings that `also_said` keeps; none is dropped for another.
_MAX_WORDINGS = 12


class Saying(NamedTuple):
    """That somebody says something again: an agent ("" for the person), its session, and when.

    `wording` is what was said where it is not the note's own text to the letter.
    """

    agent: str
    session: str
    at: datetime
    tags: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    pinned: bool = False
    wording: str = ""

    @property
    def who(self) -> str:
        """The author as `confirmed_by` names it."""
        name = self.agent or "human"
        return f"{name}, session {self.session}" if self.session else name

    @property
    def said(self) -> tuple[str, ...]:
        """The other wording as `also_said` keeps it; none where there is none."""
        return (f"{self.who}: {self.wording}",) if self.wording else ()


class Confirmation(NamedTuple):
    """Who said a note's text again, and in which words where not to the letter."""

    who: str
    wording: str = ""


def has_room(note: Note, wording: str) -> bool:
    """Tell whether a note can keep who said it again, and how.

    A note without properties gets none, so it cannot.
    """
    kept = list_items(note, "also_said")
    return bool(note.matter.body) and (not wording or len(kept) < _MAX_WORDINGS)


def confirm_note(note: Note, said: Saying) -> str:
    """Return the note's text with who said it again; nothing changes but properties.

    A note without properties gets none, and one that was stale is active again: it has just been
    said.
    """
    if not note.matter.body:
        return note.text
    is_own = said.agent == note.agent and (said.agent or note.source in {"", "human"})
    text = note.text
    for name, new in (("tags", said.tags), ("refs", said.refs), ("also_said", said.said)):
        text = add_to_list(text, note, name, new)
    if not (is_own and said.session == note.session):
        text = add_to_list(text, note, "confirmed_by", (said.who,), MAX_CONFIRMATIONS)
    if said.pinned and not note.pinned:
        text = set_property(text, "pinned", True)
    if note.state is State.STALE:
        text = write_state(text, State.ACTIVE)
    return set_property(text, "updated", said.at.replace(microsecond=0))


def find_confirmation(note: Note) -> Confirmation | None:
    """Return a note's last confirmation, if it has any."""
    names, wordings = list_items(note, "confirmed_by"), list_items(note, "also_said")
    who = names[-1] if names else wordings[-1].partition(": ")[0] if wordings else ""
    own = [each for each in wordings if each.startswith(f"{who}: ")]
    return Confirmation(who, own[-1].removeprefix(f"{who}: ") if own else "") if who else None


def drop_confirmation(note: Note, last: Confirmation) -> str:
    """Return the note's text without its last confirmation and that one's words."""
    text = drop_from_list(note.text, note, "confirmed_by", last.who)
    return drop_from_list(text, note, "also_said", f"{last.who}: {last.wording}")
