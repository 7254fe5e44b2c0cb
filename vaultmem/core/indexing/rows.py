"""Convert a note to the plain values that the state database and the index store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.notes.record import NOTE_FIELDS, SectionRecord

if TYPE_CHECKING:
    from vaultmem.core.indexing.section_texts import AnalysedNote
    from vaultmem.core.notes.link_syntax import Link
    from vaultmem.core.notes.sections import Section


class NoteRows(NamedTuple):
    """Rows of a note, without its document number.

    `values` are the record's `NOTE_FIELDS`, lists as JSON. `ordinals` has the section of each
    indexed text. `sections` is from `encode_sections`, `links` from `encode_links` of the links in
    the text. `properties` are the links in properties, each with its number and the fields of
    `Link`; they come first. `facts` are `NoteFacts`.
    """

    path: str
    blob: str
    values: tuple[Any, ...]
    ordinals: list[int]
    sections: str
    aliases: list[str]
    properties: list[tuple[Any, ...]]
    links: str
    facts: tuple[int, int, int, bytes]


def list_rows(note: AnalysedNote) -> NoteRows:
    """Return a note's rows."""
    record = note.record
    return NoteRows(
        path=record.path,
        blob=record.blob,
        values=tuple([_as_stored(getattr(record, name)) for name in NOTE_FIELDS]),
        ordinals=note.ordinals,
        sections=encode_sections(note.sections),
        aliases=list(dict.fromkeys(note.aliases)),
        properties=[
            (number, link.kind.value, *link[1:])
            for number, link in enumerate(note.links)
            if link.property
        ],
        links=encode_links([link for link in note.links if not link.property]),
        facts=(*note.facts,),
    )


def _as_stored(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value) if value else "[]"
    return value


def encode_links(links: Sequence[Link]) -> str:
    """Return links of a note's text as JSON, "" if there are none.

    Each has the number of its kind and flags, path, subpath, text, start, end and line.
    """
    if not links:
        return ""
    kinds = {kind: number << 2 for number, kind in enumerate(type(links[0].kind))}
    rows = [(kinds[each.kind] | each.is_embed << 1 | each.is_hidden, *each[1:7]) for each in links]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def decode_links(encoded: str) -> list[Link]:
    """Return the links from `encode_links`."""
    from vaultmem.core.notes.link_syntax import Link, LinkKind

    kinds = tuple(LinkKind)
    links = []
    for flags, path, subpath, text, start, end, line in json.loads(encoded):
        place = (start, end, line, bool(flags & 2), "", bool(flags & 1))
        links.append(Link(kinds[flags >> 2], path, subpath, text, *place))
    return links


def encode_sections(sections: Sequence[Section]) -> str:
    """Return sections as lines: the number of headings, the headings, then a line for each section.

    A section's line has the numbers of its heading and parent headings, and start, end and line. So
    one section can be read without the others.
    """
    names: dict[str, int] = {}
    rows = []
    for heading, parents, start, end, line in (each[1:] for each in sections):
        parent_numbers = ",".join([str(names.setdefault(name, len(names))) for name in parents])
        rows.append(
            f"{names.setdefault(heading, len(names))} {parent_numbers} {start} {end} {line}"
        )
    return "\n".join([str(len(names)), *names, *rows])


def decode_sections(
    text: str, document: int, ordinals: Iterable[int] | None = None
) -> list[SectionRecord]:
    """Return the sections from `encode_sections` with these ordinals, by default all."""
    lines = text.split("\n")
    first = int(lines[0]) + 1
    sections = []
    for ordinal in range(len(lines) - first) if ordinals is None else ordinals:
        heading, parent_numbers, *place = lines[first + ordinal].split(" ")
        parents = tuple([lines[1 + int(name)] for name in parent_numbers.split(",") if name])
        start, end, line = map(int, place)
        name = lines[1 + int(heading)]
        sections.append(SectionRecord(document, ordinal, name, parents, start, end, line))
    return sections
