"""Quarantine notes with text that tries to instruct an agent, and describe where it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.edit_properties import quarantine_unread, set_property, write_state
from vaultmem.core.notes.encoding import decode_text, open_to_edit
from vaultmem.core.notes.note import parse_readable_note
from vaultmem.core.secrets.suspicious import PROPERTY, SuspiciousFinding, find_suspicious
from vaultmem.errors import RefusedError


def find_new(data: bytes, before: bytes | None) -> Sequence[SuspiciousFinding]:
    """Return the suspicious places of a note that it did not have before; none in quarantine.

    Text that was in quarantine before is new: only the owner releases it.
    """
    found = find_suspicious(decode_text(data).text)
    if not found or is_quarantined(data):
        return ()
    if before is None or is_quarantined(before):
        return found
    known = {each.rule for each in find_suspicious(decode_text(before).text)}
    return [each for each in found if each.rule not in known]


def is_quarantined(data: bytes) -> bool:
    """Tell whether the bytes of a note say that it is quarantined."""
    note = parse_readable_note("note.md", data)
    return note is not None and note.state is NoteState.QUARANTINED


def quarantine(path: PurePosixPath, data: bytes, found: Sequence[SuspiciousFinding]) -> bytes:
    """Return the bytes of a note in quarantine, with the names of the rules and the reason.

    Raises:
        RefusedError: the note is pinned.
    """
    note = parse_readable_note(path, data)
    if note is None:
        return data
    if note.pinned:
        raise RefusedError(
            f"{path}: pinned, and the text {describe_places(found)}; write it to another note"
        )
    text, as_bytes = open_to_edit(data)
    if note.problem:
        return as_bytes(quarantine_unread(text))
    text = write_state(text, NoteState.QUARANTINED, f"the text {describe_places(found)}")
    rules = tuple(dict.fromkeys(each.rule for each in found))
    return as_bytes(set_property(text, PROPERTY, rules))


def describe_found(
    path: PurePosixPath | str, found: Sequence[SuspiciousFinding], *, is_held: bool
) -> str:
    """Return what to report of suspicious text, and what is done about it."""
    if is_held:
        held = f"{path}: quarantined, it {describe_places(found)}"
        return f"{held}; the owner decides in `vaultmem review`"
    return f"{path}: {describe_places(found)}; it is written as it is"


def describe_places(found: Sequence[SuspiciousFinding]) -> str:
    """Return the first line that tries to instruct an agent, its rule, and how many more."""
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"tries to instruct an agent (line {first.line}: {first.rule}{more})"
