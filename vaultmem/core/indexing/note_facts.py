"""The facts that the index keeps of a note for each of its sections, besides their terms."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from zlib import crc32

from vaultmem.core.lifecycle import NoteState

#: The states in the order of their numbers in the index.
STATES = tuple(NoteState)


class NoteFacts(NamedTuple):
    """What ranks all sections of a note.

    `state` is the number of its state, `created` and `updated` are in seconds since the epoch, 0
    where the note does not say; `labels` are numbers of the note's session (odd) and tags (even),
    as 32 bit machine numbers.
    """

    state: int
    created: int
    updated: int
    labels: bytes


def describe_note(
    state: NoteState, created: str, updated: str, session: str, tags: Iterable[str]
) -> NoteFacts:
    """Return what ranks all sections of a note."""
    return NoteFacts(
        state=STATES.index(state),
        created=date_note(created),
        updated=date_note(updated),
        labels=label_note(session, tags),
    )


def date_note(text: str) -> int:
    """Return a date or timestamp in whole seconds since the epoch; 0 where it is none.

    Without an offset it is read as UTC, so that it is the same number on every machine.
    """
    if not text:
        return 0
    with contextlib.suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return min(max(int(at.timestamp()), 0), 0xFFFFFFFF)
    return 0


def label_note(session: str, tags: Iterable[str]) -> bytes:
    """Return the numbers of a note's session and tags: what it may share with its neighbours."""
    labels = {crc32(tag.casefold().encode()) & ~1 for tag in tags}
    if session:
        labels.add(crc32(session.encode()) | 1)
    return array("I", sorted(labels)).tobytes()
