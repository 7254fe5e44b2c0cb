"""Propose standing wishes as preferences: candidates that wait for the owner's word."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.paths import fold, parse_note_path
from vaultmem.core.preferences.standing import Speaker, Standing, find_standing
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.finding.links import NewLinks
from vaultmem.services.notes.memory import Memory, choose_title, compose_note, name_note
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.leaks import look_for_leaks
from vaultmem.vault import Vault

#: Where proposals are kept.
FOLDER = parse_note_path("notes/preferences")

#: Proposals from one memory or one session, at most.
_MOST = 20

#: How much of a wish a preference must say for it not to be proposed.
_SAID = 0.75


class Proposed(NamedTuple):
    """A standing wish that was proposed: its note, its words, and what it is about."""

    path: str
    text: str
    about: str


def propose_wishes(change: Change, text: str, source: str) -> tuple[Proposed, ...]:
    """Propose the standing wishes in a memory of the note `source`.

    Of what an agent wrote, only those that report what the user prefers.
    """
    speaker = Speaker.OWNER if change.seen.is_person else Speaker.AGENT
    return propose_standing(change, find_standing(text, speaker), source)


def propose_standing(
    change: Change, wishes: Iterable[Standing], source: str
) -> tuple[Proposed, ...]:
    """Add a candidate for each wish that no preference says yet, whatever became of that one."""
    wishes = list(wishes)[:_MOST]
    if not wishes:
        return ()
    seen = change.seen
    known = list(_read_preferences(seen))
    taken: set[str] = set()
    proposed = []
    for wish in wishes:
        if _is_barred(seen, wish, known):
            continue
        note = _make_candidate(seen, wish, source, taken)
        change.put(note.path, note.text.encode("utf-8"))
        taken.add(fold(note.path.name))
        known.append(note)
        proposed.append(Proposed(str(note.path), wish.text, wish.about))
    return tuple(proposed)


def _make_candidate(vault: Vault, wish: Standing, source: str, taken: set[str]) -> Note:
    link = NewLinks(vault).in_property(source, f"{FOLDER}/new.md")
    memory = Memory(wish.text, kind=Kind.PREFERENCE, refs=(link,), about=wish.about)
    title = choose_title(memory)
    path = name_note(vault, FOLDER, memory, title, frozenset(taken))
    text = compose_note(vault, path, memory, title, State.CANDIDATE)
    return parse_note(path, text.encode("utf-8"))


def _read_preferences(vault: Vault) -> Iterable[Note]:
    for record in vault.view.records(f"d.kind = '{Kind.PREFERENCE.value}'"):
        try:
            yield read_note(vault, PurePosixPath(record.path))
        except (NoteNotFoundError, RefusedError):
            continue


def _is_barred(vault: Vault, wish: Standing, known: Iterable[Note]) -> bool:
    """Tell whether a wish was proposed before, is quarantined, or looks like a credential."""
    from vaultmem.core.similarity.compare import KnownText, compare_texts
    from vaultmem.services.likeness.known import find_held
    from vaultmem.services.likeness.similar import Asked

    for note in known:  # A repeat in other words is a question asked twice, and no memory lost.
        if compare_texts(wish.text, KnownText(note.visible_body, note.title)).is_said(_SAID):
            return True
    return bool(find_held(vault, Asked(wish.text)) or look_for_leaks(vault, str(FOLDER), wish.text))
