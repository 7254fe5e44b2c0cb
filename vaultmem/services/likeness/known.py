"""Decide whether a memory is known already, and which note may take it in; say what is near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import OWNER_KINDS, Kind, State
from vaultmem.core.notes.confirm import Saying, confirm_note
from vaultmem.core.paths import PINNED_FILES, note_context
from vaultmem.core.similarity.compare import (
    KnownText,
    Likeness,
    compare_texts,
    equal_weight,
    is_brief,
)
from vaultmem.core.similarity.differences import Difference
from vaultmem.errors import RefusedError
from vaultmem.services.likeness.similar import (
    Asked,
    SimilarNote,
    find_similar,
    match_note,
    says_same,
)
from vaultmem.services.reading.sync import sync_vault
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.notes.sections import Section


#: States in which a note takes in what is said again.
_OPEN_STATES = frozenset({State.CANDIDATE, State.ACTIVE, State.STALE})

#: Of a text that holds what a quarantined note says among other things: how much of it that is.
_LEAST = 0.1

#: Notes that are named where a memory is like several.
_NEAR = 3


class NewMemory(NamedTuple):
    """What is to be remembered, as far as it decides where: an empty field was not given."""

    text: str
    title: str
    context: str
    kind: Kind
    state: State
    is_state_given: bool
    tags: tuple[str, ...]
    refs: tuple[str, ...]
    pinned: bool

    @property
    def asked(self) -> Asked:
        """The text as it is looked for."""
        return Asked(self.text, self.title, self.context)


class Known(NamedTuple):
    """What is known of a memory: the note that says the same, if one may take it in; near ones."""

    target: SimilarNote | None
    near: tuple[SimilarNote, ...]


def find_known(vault: Vault, new: NewMemory) -> Known:
    """Return what the vault knows of a memory, by its index; only a new index is filled first."""
    _fill_index(vault)
    found = find_similar(vault, new.asked)
    for each in found:
        if says_same(vault, each.likeness) and may_absorb(vault, each.note, each.likeness, new):
            return Known(each, tuple(other for other in found if other is not each)[:_NEAR])
    return Known(None, tuple(found[:_NEAR]))


def find_held(vault: Vault, asked: Asked) -> SimilarNote | None:
    """Return the quarantined note that says the same as a text, or nearly, if there is one.

    Another word is nearly the same; another number, or a "not", is not.
    """
    _fill_index(vault)
    if not vault.view.paths(f"d.state = '{State.QUARANTINED.value}'"):
        return None
    found = find_similar(vault, asked, _LEAST, quarantined=True)
    return next((each for each in found if _is_nearly_same(vault, asked, each)), None)


def _fill_index(vault: Vault) -> None:
    if not vault.state.get("view"):
        sync_vault(vault)


def _is_nearly_same(vault: Vault, asked: Asked, held: SimilarNote) -> bool:
    """Tell whether a text says what a note says, or that among other things."""
    if _is_same_but_for_words(vault, held.likeness):
        return True
    there = held.note.section_text(held.section)
    inside = compare_texts(there, KnownText(asked.text, asked.title), equal_weight)
    return not is_brief(there) and _is_same_but_for_words(vault, inside)


def _is_same_but_for_words(vault: Vault, likeness: Likeness) -> bool:
    only_words = all(each.kind == "word" for each in likeness.differences)
    return only_words and likeness.similarity >= vault.config.same_above


def refuse_held(vault: Vault, asked: Asked) -> SimilarNote | None:
    """Return the quarantined note that says nearly the same as a text.

    Raises:
        RefusedError: it says all of it.
    """
    held = find_held(vault, asked)
    if held and says_same(vault, held.likeness) and not held.likeness.added:
        raise RefusedError(
            f"{held.path} says that already, and is quarantined; a person who has read it "
            f"lets it out with `vaultmem state {held.path} candidate`"
        )
    return held


def absorb(vault: Vault, note: Note, new: NewMemory) -> str | None:
    """Return the note's text with the memory taken in; None if it does not say the same now."""
    section, likeness = match_note(note, new.asked)
    if not says_same(vault, likeness) or not may_absorb(vault, note, likeness, new):
        return None
    author = vault.author
    said = (new.tags, new.refs, new.pinned)
    saying = Saying(author.agent, author.session, vault.local_time(), *said)
    try:
        return add_saying(note, section, likeness, saying)
    except RefusedError:  # Its properties cannot be edited by position.
        return None


def add_saying(note: Note, section: Section, likeness: Likeness, said: Saying) -> str:
    """Return the note's text once it was said again; MEMORY.md and the like stay as they are."""
    if str(note.path) in PINNED_FILES:
        return note.text
    return confirm_note(note, section, likeness.added, said)


def may_absorb(vault: Vault, note: Note, likeness: Likeness, new: NewMemory) -> bool:
    """Tell whether a note may take in what it says, or nearly says, already.

    It has the same kind, context and authority, and its state is open.
    """
    path, adds = str(note.path), bool(likeness.added)
    if note.state not in _OPEN_STATES or note.problem or note.encoding:
        return False
    is_fact_of_decision = new.kind is Kind.SEMANTIC_FACT and note.kind is Kind.DECISION
    if note.kind is not new.kind and (adds or not is_fact_of_decision):
        return False
    if path.startswith("primed/") or (adds and path in PINNED_FILES):
        return False
    if note.kind in OWNER_KINDS and (adds or note.state is not new.state):
        return False  # Another text would end its trust; another state is another authority.
    if new.is_state_given and new.state is State.ACTIVE and note.state is State.CANDIDATE:
        return False
    if new.is_state_given and new.state not in _OPEN_STATES:
        return False
    if adds and note.pinned and not vault.is_person:
        return False  # What is pinned stands in every pack.
    if new.title and new.title != note.title and is_brief(new.text):
        return False  # "42" under one title is another fact than under another.
    return _is_same_context(vault, note_context(note.path), new.context)


def _is_same_context(vault: Vault, there: str, wanted: str) -> bool:
    """Tell whether two contexts do not rule each other out: one not given, equal, or inside."""
    wanted = wanted.strip("/")
    open_ones = {"", vault.config.context}
    if there in open_ones or wanted in open_ones:
        return True
    return f"{there}/".startswith(f"{wanted}/") or f"{wanted}/".startswith(f"{there}/")


def name_contradicted(near: Sequence[SimilarNote]) -> tuple[SimilarNote, ...]:
    """Return those that say another value of the same thing, and count still."""
    return tuple(
        each for each in near if each.likeness.is_contradiction and each.note.state in _OPEN_STATES
    )


def _without_words(similar: SimilarNote) -> SimilarNote:
    if similar.note.state is not State.QUARANTINED:
        return similar
    likeness = similar.likeness._replace(nearest="", differences=())
    return similar._replace(note=similar.note._replace(title=""), likeness=likeness)


class Nearby(NamedTuple):
    """A note that is like a text: how much (0 to 1), what it says, and what it says differently."""

    path: str
    title: str
    state: str
    similarity: float
    says: str
    differences: tuple[Difference, ...]
    is_same: bool
    contradicts: bool


def describe_similar(vault: Vault, found: Sequence[SimilarNote]) -> tuple[Nearby, ...]:
    """Return what is to be shown of each note, in the same order; of quarantined ones no word."""
    contradicted = name_contradicted(found)
    found = [_without_words(each) for each in found]
    return tuple(
        Nearby(
            each.path,
            each.note.title,
            each.note.state.value,
            round(each.likeness.similarity, 3),
            each.likeness.nearest,
            each.likeness.differences,
            says_same(vault, each.likeness),
            each in contradicted,
        )
        for each in found
    )
