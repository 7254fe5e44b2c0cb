"""The facts of a note that the index stores for each of its sections, other than terms."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from zlib import crc32

from vaultmem.core.lifecycle import NoteState

#: The states, in the order of their numbers in the index.
STATES = tuple(NoteState)


class NoteFacts(NamedTuple):
    """The facts for ranking that all sections of a note share.

    `state` is the number of its state. `created` and `updated` are in seconds since the epoch, 0 if
    unknown. `labels` are numbers of the note's session (odd) and tags (even), as 32-bit integers in
    machine order.
    """

    state: int
    created: int
    updated: int
    labels: bytes


def describe_note(
    state: NoteState, created: str, updated: str, session: str, tags: Iterable[str]
) -> NoteFacts:
    """Return a note's facts for ranking."""
    return NoteFacts(
        state=STATES.index(state),
        created=date_note(created),
        updated=date_note(updated),
        labels=label_note(session, tags),
    )


def date_note(text: str) -> int:
    """Return a date or timestamp in whole seconds since the epoch, or 0 if it is neither.

    Without an offset it is read as UTC, so the number is the same on every machine.
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
    """Return the numbers of a note's session and tags, which neighbours can share."""
    labels = {crc32(tag.casefold().encode()) & ~1 for tag in tags}
    if session:
        labels.add(crc32(session.encode()) | 1)
    return array("I", sorted(labels)).tobytes()
