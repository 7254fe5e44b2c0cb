"""Take what is said again into a note: what it adds as new items, who said it, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.edit_properties import (
    add_to_list,
    find_eol,
    remove_property,
    set_property,
)
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.sections import Section

#: Names that `confirmed_by` keeps, the newest ones.
MAX_CONFIRMATIONS = 12


class Saying(NamedTuple):
    """That somebody says something again: an agent ("" for the person), its session, and when."""

    agent: str
    session: str
    at: datetime
    tags: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    pinned: bool = False

    @property
    def who(self) -> str:
        """The author as `confirmed_by` names it."""
        name = self.agent or "human"
        return f"{name}, session {self.session}" if self.session else name


def confirm_note(note: Note, section: Section, added: Sequence[str], said: Saying) -> str:
    """Return the note's text with the new sentences at the end of a section, and its provenance.

    Nothing that is there changes but properties. A note without properties gets none, and one
    that was stale is active again: it has just been said.
    """
    is_own = said.agent == note.agent and (said.agent or note.source in {"", "human"})
    signature = "" if is_own else f" *({said.who}, {said.at.date().isoformat()})*"
    text = _append(note.text, section.end, added, signature)
    if not note.matter.body:
        return text
    for name, new in (("tags", said.tags), ("refs", said.refs)):
        text = add_to_list(text, note, name, new)
    if not (is_own and said.session == note.session):
        text = add_to_list(text, note, "confirmed_by", (said.who,), MAX_CONFIRMATIONS)
    if said.pinned and not note.pinned:
        text = set_property(text, "pinned", True)
    if note.state is State.STALE:
        text = set_property(text, "state", State.ACTIVE.value)
        text = remove_property(text, "state_reason")
    return set_property(text, "updated", said.at.replace(microsecond=0))


def _append(text: str, end: int, added: Sequence[str], signature: str) -> str:
    """Return the text with items before `end`, behind what stands there."""
    if not added:
        return text
    eol = find_eol(text)
    at = len(text[:end].rstrip())
    last = text[:at].rpartition("\n")[2].lstrip()
    gap = eol if last.startswith(("- ", "* ", "+ ")) else eol * 2
    mark = last[:2] if last.startswith(("- ", "* ", "+ ")) else "- "
    items = [f"{mark}{' '.join(each.split()).lstrip('-*+ ')}{signature}" for each in added]
    rest = text[at:]
    return text[:at] + gap + eol.join(items) + (rest if rest.strip("\r\n") or rest else eol)
