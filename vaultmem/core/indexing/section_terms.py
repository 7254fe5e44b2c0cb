"""What the index keeps of a section: its terms, their order, and what ranks its note."""

from __future__ import annotations

import contextlib
from array import array
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from zlib import crc32

from vaultmem.core.finding.terms import SEPARATOR, list_compounds, number_terms, term_sequence
from vaultmem.core.lifecycle import State

#: The states in the order of their numbers in the index.
STATES = tuple(State)

#: The fields of a section, in the order in which `SectionTerms.sequence` has them.
FIELDS = ("title", "tags", "body")


class NoteFacts(NamedTuple):
    """What ranks all sections of a note: see `SectionTerms`."""

    state: int
    created: int
    updated: int
    labels: bytes


class SectionTerms(NamedTuple):
    """A section's terms.

    `counts` says for each field how often each term stands there, compounds included. `sequence`
    has the term numbers of title, tags and body in their order, compounds left out, as 32 bit
    machine numbers with `SEPARATOR` between the fields; `lengths` are the terms of each field
    there. `created` and `updated` are in seconds since the epoch, 0 where the note does not say;
    `labels` are numbers of the note's session (odd) and tags (even), as 32 bit machine numbers.
    `text` is what a hit shows, `place` the section's records (see `core.indexing.place`).
    """

    counts: dict[str, dict[str, int]]
    lengths: tuple[int, int, int]
    sequence: bytes
    state: int
    created: int
    updated: int
    labels: bytes
    text: str = ""
    place: bytes = b""

    @classmethod
    def of(
        cls, fields: tuple[str, str, str], facts: NoteFacts, text: str, place: bytes
    ) -> SectionTerms:
        """List the terms of the three fields of a section."""
        counts: dict[str, dict[str, int]] = {}
        numbers = array("I")
        lengths: list[int] = []
        for name, field in zip(FIELDS, fields, strict=True):
            terms = term_sequence(field)
            if numbers or lengths:
                numbers.append(SEPARATOR)
            numbers.extend(number_terms(terms))
            lengths.append(len(terms))
            terms.extend(list_compounds(field))
            counts[name] = Counter(terms)
        return cls(
            counts=counts,
            lengths=(lengths[0], lengths[1], lengths[2]),
            sequence=numbers.tobytes(),
            **facts._asdict(),
            text=text,
            place=place,
        )


def describe_note(
    state: State, created: str, updated: str, session: str, tags: Iterable[str]
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
