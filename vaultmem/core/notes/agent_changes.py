"""Confirm a note that is stated again, and check an agent's changes of notes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from vaultmem.core.anchors import CITES
from vaultmem.core.lifecycle import (
    OWNER_KINDS,
    NoteState,
    StateChanger,
    check_transition,
    is_more_restricted,
    most_restricted,
)
from vaultmem.core.notes.edit_properties import (
    add_to_list,
    drop_from_list,
    list_items,
    set_property,
    write_state,
)
from vaultmem.core.notes.note import Note
from vaultmem.core.text.display import fold_lookalikes
from vaultmem.core.text.paths import PINNED_FILES, fold
from vaultmem.errors import RefusedError

#: Most names in `confirmed_by`; the newest ones stay.
MAX_CONFIRMATIONS = 12

#: Most wordings in `also_said`; none is removed for a new one.
_MAX_WORDINGS = 12


class Attestation(NamedTuple):
    """A repeated statement: its agent ("" for the owner), session and time.

    `wording` is the new text, "" if it equals the note's own text.
    """

    agent: str
    session: str
    at: datetime
    tags: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    pinned: bool = False
    wording: str = ""

    @property
    def author(self) -> str:
        """The author as written in `confirmed_by`."""
        name = self.agent or "human"
        return f"{name}, session {self.session}" if self.session else name

    @property
    def quotation(self) -> tuple[str, ...]:
        """The wording as an item of `also_said`; empty without a wording."""
        return (f"{self.author}: {self.wording}",) if self.wording else ()


class Confirmation(NamedTuple):
    """The author of a repeated statement, and the wording if it differs from the note."""

    author: str
    wording: str = ""


def has_room(note: Note, wording: str) -> bool:
    """Return whether a note can store another confirmation with this wording.

    A note without properties cannot, because none are added.
    """
    wordings = list_items(note, "also_said")
    return bool(note.frontmatter.body) and (not wording or len(wordings) < _MAX_WORDINGS)


def confirm_note(note: Note, attestation: Attestation) -> str:
    """Return the note's text with a confirmation added to its properties.

    A note without properties is unchanged. A stale note becomes active.
    """
    if not note.frontmatter.body:
        return note.text
    is_own = attestation.agent == note.agent and (attestation.agent or note.source in {"", "human"})
    text = note.text
    for name, new in (
        ("tags", attestation.tags),
        (CITES, attestation.cites),
        ("also_said", attestation.quotation),
    ):
        text = add_to_list(text, note, name, new)
    if not (is_own and attestation.session == note.session):
        text = add_to_list(text, note, "confirmed_by", (attestation.author,), MAX_CONFIRMATIONS)
    if attestation.pinned and not note.pinned:
        text = set_property(text, "pinned", True)
    if note.state is NoteState.STALE:
        text = write_state(text, NoteState.ACTIVE)
    return set_property(text, "updated", attestation.at.replace(microsecond=0))


def find_confirmation(note: Note) -> Confirmation | None:
    """Return a note's last confirmation, or None."""
    names, wordings = list_items(note, "confirmed_by"), list_items(note, "also_said")
    author = names[-1] if names else wordings[-1].partition(": ")[0] if wordings else ""
    own = [each for each in wordings if each.startswith(f"{author}: ")]
    return (
        Confirmation(author, own[-1].removeprefix(f"{author}: ") if own else "") if author else None
    )


def drop_confirmation(note: Note, last: Confirmation) -> str:
    """Return the note's text without its last confirmation and its wording."""
    text = drop_from_list(note.text, note, "confirmed_by", last.author)
    return drop_from_list(text, note, "also_said", f"{last.author}: {last.wording}")


# Changes of a note that only the owner can make, however an agent's change arrives.

#: Properties about the author and time of a note; an agent leaves them unchanged.
_LABELS = ("source", "agent", "session", "created", "reviewed", "imported")
#: Properties about confirmations.
_CONFIRMATIONS = ("confirmed_by", "also_said")

#: Properties that an agent does not set: commands change `state` and `pinned`, and `full_text`
#: names a git blob.
GUARDED = ("state", "pinned", "full_text", *_LABELS, *_CONFIRMATIONS)

#: The owner's name in `confirmed_by`.
_OWNER = "human"

#: Files pinned by their names, without the first one, which agents' sessions create.
_OWNERS_FILES = frozenset(map(fold, PINNED_FILES[1:]))


class AgentChange(NamedTuple):
    """A note after a commit (None if absent); `sides` are its versions in the parents.

    `base` is the version in the parents' common ancestor, or in the only parent.
    """

    path: str
    base: Note | None
    sides: tuple[Note | None, ...]
    after: Note | None


class AgentRights(NamedTuple):
    """An agent's rights: whether it can promote policies, and the agent names it can write as."""

    may_instruct: bool
    is_own: Callable[[str], bool]


def find_guarded(before: Note | None, after: Note) -> Iterator[str]:
    """Yield the guarded properties that differ between two versions."""
    for name in GUARDED:
        if _value(before, name) != _value(after, name):
            yield name


def is_owners_file(path: str) -> bool:
    """Return whether a file is pinned by its name and only the owner can create it."""
    return fold(path) in _OWNERS_FILES


def find_released(change: AgentChange, successor: Note | None) -> str:
    """Return why an agent's change of a pin or quarantine is rejected, or "".

    `successor` is the same note under another path.
    """
    after = change.after or successor
    note = after if len(change.sides) > 1 else change.after
    if _was(change, _is_pinned) and not _is_pinned(note):
        return "is pinned, and only a person unpins, moves or removes it"
    if _was(change, _is_quarantined) and not _is_quarantined(after):
        return "is quarantined, and only a person releases it"
    return ""


def find_owner_kind(change: AgentChange, rights: AgentRights) -> str:
    """Return why an agent must not activate or change this policy, skill or preference.

    "" if allowed, and for notes of other kinds.
    """
    allowed = _merge(change, _active_owner_kind)
    new_kind = _active_owner_kind(change.after)
    if change.after is None or rights.may_instruct or new_kind in allowed:
        return ""
    if not new_kind and len(change.sides) > 1:
        return ""
    kind = new_kind or next(filter(None, allowed))
    return f"is a {kind}, which only a person makes active, or takes back"


def find_wrong_step(change: AgentChange, rights: AgentRights) -> str:
    """Return why an agent must not make this change of state, or "" if it is allowed."""
    if change.after is None or not any(change.sides):
        return ""
    allowed = _merge(change, _state)
    is_pinned = _was(change, _is_pinned)
    before, after = most_restricted(*allowed), change.after.state
    if after in allowed or (is_more_restricted(after, before) and not is_pinned):
        return ""
    mover = StateChanger(is_machine=True, may_instruct=rights.may_instruct)
    try:
        check_transition("", change.after.kind, before, after, is_pinned, mover)
    except RefusedError as error:
        return str(error).removeprefix(": ")
    return ""


def find_false_label(change: AgentChange, heirs: Sequence[Note], rights: AgentRights) -> str:
    """Return which property this agent must not set to its new value, or "".

    `heirs` are notes that the same commit removes or deprecates; their names may move to this one.
    """
    after = change.after
    if after is None:
        return ""
    versions = [note for note in (change.base, *change.sides) if note is not None]
    if versions:
        for name in _LABELS:
            if _value(after, name) not in [_value(note, name) for note in versions]:
                return f'has another "{name}"'
        full_text = _value(after, "full_text")
        texts = {None, *(_value(note, "full_text") for note in versions)}
        blobs = {note.blob[:12] for note in versions}
        if full_text not in texts and str(full_text).partition("@")[0] not in blobs:
            return 'has another "full_text"'
    elif _is_owner(after.source):
        return 'has the "source" of a person'
    elif after.agent and not _is_own(after.agent, rights):
        return f'has another agent, "{after.agent}"'
    elif _value(after, "reviewed") is not None:
        return 'has the "reviewed" of a person'
    allowed = {name for note in versions for name in _list_confirmations(note)}
    allowed |= {name for heir in heirs for name in _inherit(heir, after)}
    for name in _list_confirmations(after):
        if name not in allowed and not _is_own(name.partition(", session ")[0], rights):
            return f'is confirmed by "{name}"'
    return ""


def find_successor(note: Note, others: Iterable[Note]) -> Note | None:
    """Return the note among `others` that is this note under another path, or None."""
    for other in others:
        is_same = all(_value(note, name) == _value(other, name) for name in _LABELS)
        if is_same and (note.created or note.body == other.body):
            return other
    return None


def _list_confirmations(note: Note) -> list[str]:
    authors = (each.partition(": ")[0] for each in list_items(note, "also_said"))
    return [*list_items(note, "confirmed_by"), *authors]


def _inherit(heir: Note, note: Note) -> list[str]:
    """Return the names that `note` can take from `heir`; the owner's only if the text is equal."""
    names = [Attestation(heir.agent, heir.session, datetime.min).author, *_list_confirmations(heir)]
    if heir.visible_body.split() == note.visible_body.split():
        return names
    return [name for name in names if not _is_owner(name.partition(", session ")[0])]


def _is_own(name: str, rights: AgentRights) -> bool:
    return not _is_owner(name) and rights.is_own(name)


def _is_owner(name: str) -> bool:
    return fold_lookalikes(name) == _OWNER


def _value(note: Note | None, name: str) -> object:
    prop = note.frontmatter.get(name) if note is not None else None
    return prop and prop.value


T = TypeVar("T", bound=Hashable)


def _merge(change: AgentChange, read: Callable[[Note | None], T]) -> set[T]:
    """Return the possible values after a merge: the changed values, or the base value."""
    base = read(change.base)
    return {value for value in map(read, change.sides) if value != base} or {base}


def _was(change: AgentChange, read: Callable[[Note | None], bool]) -> bool:
    """Return whether a property of a note is always true after a merge of its sides."""
    return _merge(change, read) == {True}


def _is_pinned(note: Note | None) -> bool:
    return note is not None and note.pinned


def _is_quarantined(note: Note | None) -> bool:
    return note is not None and note.state is NoteState.QUARANTINED


def _active_owner_kind(note: Note | None) -> str:
    is_one = note is not None and note.kind in OWNER_KINDS and note.state is NoteState.ACTIVE
    return note.kind.value if note is not None and is_one else ""


def _state(note: Note | None) -> NoteState:
    return note.state if note is not None else NoteState.ACTIVE
