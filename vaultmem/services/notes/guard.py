"""What of a note an agent does not set by rewriting its text: who wrote it, and where it stands."""

from __future__ import annotations

from pathlib import PurePosixPath

from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.errors import RefusedError

#: The state changes on record, a pin is the owner's, and the others say whose words these are.
GUARDED = ("state", "pinned", "source", "agent", "session")


def check_rewrite(path: PurePosixPath, before: Note | None, text: str) -> None:
    """Allow an agent's new text of a note, `before` being the note that it replaces, if any.

    Raises:
        RefusedError: the text sets one of the guarded properties, or is none.
    """
    try:
        after = parse_note(path, text.encode("utf-8"))
    except (UnreadableNoteError, UnicodeEncodeError) as error:
        raise RefusedError(f"{path}: {error}") from None
    for name in GUARDED:
        old = before.matter.get(name) if before is not None else None
        new = after.matter.get(name)
        if (old and old.value) != (new and new.value):
            raise RefusedError(
                f'{path}: "{name}" is not set by rewriting a note; leave it as it is'
            )
