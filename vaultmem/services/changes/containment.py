"""Quarantine notes with text that tries to instruct an agent, and describe that text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.edit_properties import quarantine_unread, set_property, write_state
from vaultmem.core.notes.encoding import decode_text, open_to_edit
from vaultmem.core.notes.note import parse_readable_note
from vaultmem.core.secrets.suspicious import PROPERTY, SuspiciousFinding, find_suspicious
from vaultmem.errors import RefusedError


def find_new(data: bytes, old_data: bytes | None) -> Sequence[SuspiciousFinding]:
    """Return a note's new suspicious places; none if it is in quarantine.

    Text that was in quarantine before counts as new: only the owner releases it.
    """
    findings = find_suspicious(decode_text(data).text)
    if not findings or is_quarantined(data):
        return ()
    if old_data is None or is_quarantined(old_data):
        return findings
    old_rules = {each.rule for each in find_suspicious(decode_text(old_data).text)}
    return [each for each in findings if each.rule not in old_rules]


def is_quarantined(data: bytes) -> bool:
    """Return whether a note's bytes have the state quarantined."""
    note = parse_readable_note("note.md", data)
    return note is not None and note.state is NoteState.QUARANTINED


def quarantine(path: PurePosixPath, data: bytes, findings: Sequence[SuspiciousFinding]) -> bytes:
    """Return a note's bytes in quarantine, with the rules' names and the reason.

    Raises:
        RefusedError: the note is pinned.
    """
    note = parse_readable_note(path, data)
    if note is None:
        return data
    if note.pinned:
        raise RefusedError(
            f"{path}: pinned, and the text {describe_places(findings)}; write it to another note"
        )
    text, as_bytes = open_to_edit(data)
    if note.problem:
        return as_bytes(quarantine_unread(text))
    text = write_state(text, NoteState.QUARANTINED, f"the text {describe_places(findings)}")
    rules = tuple(dict.fromkeys(each.rule for each in findings))
    return as_bytes(set_property(text, PROPERTY, rules))


def describe_found(
    path: PurePosixPath | str, findings: Sequence[SuspiciousFinding], *, is_held: bool
) -> str:
    """Return a message on suspicious text and on how it was handled."""
    if is_held:
        message = f"{path}: quarantined, it {describe_places(findings)}"
        return f"{message}; the owner decides in `vaultmem review`"
    return f"{path}: {describe_places(findings)}; it is written as it is"


def describe_places(findings: Sequence[SuspiciousFinding]) -> str:
    """Return the first line that tries to instruct an agent, its rule, and the number of others."""
    first = findings[0]
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"tries to instruct an agent (line {first.line}: {first.rule}{more})"
