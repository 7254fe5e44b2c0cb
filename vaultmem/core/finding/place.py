"""A note's and a section's record as one text, for the index to keep beside the section."""

from __future__ import annotations

import json
from typing import Any

from vaultmem.core.notes.record import NoteRecord, SectionRecord

#: The fields of a note that its bytes decide, in the order of `NoteRecord`: all but the first and
#: the last.
NOTE_FIELDS = tuple(f for f in NoteRecord._fields if f not in {"document", "changed"})
SECTION_FIELDS = tuple(f for f in SectionRecord._fields if f != "document")

#: Changes when the records do.
PLACE_FORMAT = " ".join((*NOTE_FIELDS, *SECTION_FIELDS))


def encode_note(note: Any) -> str:
    """Return the first part of the text of all sections of a note that has `NOTE_FIELDS`."""
    values = [getattr(note, name) for name in NOTE_FIELDS]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))[:-1]


def encode_section(note: str, section: Any) -> str:
    """Return the text of a section that has `SECTION_FIELDS`, behind that of its note."""
    values = [getattr(section, name) for name in SECTION_FIELDS]
    return note + "," + json.dumps(values, ensure_ascii=False, separators=(",", ":"))[1:]


def decode_place(text: bytes, document: int, changed: float) -> tuple[NoteRecord, SectionRecord]:
    """Return the records of a section; `changed` is in seconds since the epoch."""
    values: list[Any] = [tuple(v) if type(v) is list else v for v in json.loads(text.decode())]
    many = len(NOTE_FIELDS)
    note = NoteRecord(document, *values[:many], changed)  # type: ignore[call-arg]
    return note, SectionRecord(document, *values[many:])
