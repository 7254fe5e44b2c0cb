"""Change a note as whoever asks may: its properties, one place of its text, or all of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.core.lifecycle import State, parse_kind
from vaultmem.core.notes.agent_changes import GUARDED
from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.notes.note import Note
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.writing.edit_notes import check_rewrite, check_text, edit_note
from vaultmem.vault import Vault

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Update(NamedTuple):
    """What a note is to become: `properties` as JSON has them, each by name, None to remove one.

    `text` replaces all of it, and `new_text` the one place of its body where `old_text` stands.
    """

    properties: Mapping[str, Any] = _NOTHING
    text: str | None = None
    old_text: str = ""
    new_text: str | None = None


def update_note(vault: Vault, path: PurePosixPath, update: Update) -> str:
    """Change a note, every other byte as somebody wrote it; return its new blob id.

    Raises:
        ChangedError: it is not the version that the vault expects.
        NoteNotFoundError: there is no such note, or the text to replace is not in it.
        RefusedError: that is not to be changed so, or not by an agent.
    """

    def edit(note: Note) -> str:
        refuse_hidden(vault, note)
        text = note.text if update.text is None else _rewrite(vault, note, update.text)
        if update.new_text is not None:
            text = _rewrite(vault, note, _replace(note, update.old_text, update.new_text))
        for name, value in update.properties.items():
            text = _set(vault, path, text, name, value)
        return text

    return edit_note(vault, path, edit)


def refuse_hidden(vault: Vault, note: Note) -> None:
    """Leave to people what an agent is not shown, or cannot be taken at its word.

    Raises:
        RefusedError: it is.
    """
    if note.problem:
        vault.require_person(f"{note.path}: {note.problem}; a person mends it")
    if note.state == State.QUARANTINED:
        vault.require_person(f"{note.path}: quarantined, so only a person changes it")


def _rewrite(vault: Vault, note: Note, text: str) -> str:
    check_text(note.path, text)
    if not vault.is_person:
        check_rewrite(note.path, note, text)
    return text


def _replace(note: Note, old: str, new: str) -> str:
    """Return a note's text with one place of its body replaced."""
    head, body = note.text[: note.matter.end], note.text[note.matter.end :]
    count = body.count(old) if old else 0
    if count == 0:
        raise NoteNotFoundError(f"{note.path}: old_text is not in its body; read it again")
    if count > 1:
        raise RefusedError(f"{note.path}: old_text is there {count} times; give more around it")
    return head + body.replace(old, new)


def _set(vault: Vault, path: PurePosixPath, text: str, name: str, value: Any) -> str:
    """Return a text with a property set or removed that is whoever asks's to set."""
    if name == "state":
        raise RefusedError(f"{path}: a state changes on record, with its reason, not as a property")
    if name in GUARDED and (name, value) != ("pinned", True):
        vault.require_person(f'{path}: "{name}" stays as it is, and only a person sets it')
    if value is None:
        return remove_property(text, name)
    if name == "kind":
        value = parse_kind(str(value)).value
    if name == "confidence":
        value = _read_share(path, value)
    return set_property(text, name, tuple(value) if isinstance(value, list) else value)


def _read_share(path: PurePosixPath, value: Any) -> float:
    """Return a confidence, which some clients write as a text."""
    try:
        share = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise RefusedError(f"{path}: confidence is a number from 0 to 1")
    return share
