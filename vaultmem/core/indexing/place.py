"""A note's and a section's record as bytes, as a stored field of the index."""

from __future__ import annotations

import marshal
from typing import Any

from vaultmem.core.notes.record import NoteRecord, SectionRecord

#: The fields of a note that its bytes decide, in the order of `NoteRecord`: all but the first and
#: the last.
NOTE_FIELDS = tuple(f for f in NoteRecord._fields if f not in {"document", "changed"})
SECTION_FIELDS = tuple(f for f in SectionRecord._fields if f != "document")

#: Changes when the records do.
PLACE_FORMAT = " ".join((*NOTE_FIELDS, *SECTION_FIELDS))

#: Of marshal: the last version without references, which every Python reads and writes.
_VERSION = 2


def list_note(record: NoteRecord) -> tuple[Any, ...]:
    """Return the values of `NOTE_FIELDS`."""
    return tuple(getattr(record, name) for name in NOTE_FIELDS)


def encode_place(note: tuple[Any, ...], section: Any) -> bytes:
    """Return a section that has `SECTION_FIELDS` as bytes, behind what `list_note` gives."""
    return marshal.dumps((*note, *(getattr(section, name) for name in SECTION_FIELDS)), _VERSION)


def decode_place(place: bytes, document: int, changed: float) -> tuple[NoteRecord, SectionRecord]:
    """Return the records of a section; `changed` is in seconds since the epoch.

    The bytes are of our own index: `marshal` is not made for any others.
    """
    values = marshal.loads(place)  # noqa: S302 - from the index, a private file like its pickles.
    many = len(NOTE_FIELDS)
    note = NoteRecord._make((document, *values[:many], changed))
    return note, SectionRecord._make((document, *values[many:]))
