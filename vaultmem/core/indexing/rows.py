"""A note as the plain values that the state database and the index store of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.notes.record import SectionRecord

if TYPE_CHECKING:
    from vaultmem.core.indexing.analysis import AnalysedNote
    from vaultmem.core.links.link import Link
    from vaultmem.core.notes.sections import Section


class NoteRows(NamedTuple):
    """Rows without the number of the document that the note becomes.

    `values` are those of the record's `NOTE_FIELDS`, lists as JSON; `sections` is what
    `encode_sections` gives of its `many` sections, `links` what `encode_links` gives of the links
    in its text. `properties` are the links in properties, each with its number and the fields of
    `Link`; they come first. `facts` are `NoteFacts`.
    """

    path: str
    blob: str
    values: tuple[Any, ...]
    many: int
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
        values=tuple(map(_as_stored, record[1:-1])),
        many=len(note.sections),
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
    """Return links of a note's text as JSON, empty if there are none.

    Each has the number of its kind and flags, path, subpath, text, start, end and line.
    """
    if not links:
        return ""
    kinds = {kind: number << 2 for number, kind in enumerate(type(links[0].kind))}
    rows = [(kinds[each.kind] | each.is_embed << 1 | each.is_hidden, *each[1:7]) for each in links]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def decode_links(encoded: str) -> list[Link]:
    """Return the links of `encode_links`."""
    from vaultmem.core.links.link import Link, LinkKind

    kinds = tuple(LinkKind)
    found = []
    for flags, path, subpath, text, start, end, line in json.loads(encoded):
        place = (start, end, line, bool(flags & 2), "", bool(flags & 1))
        found.append(Link(kinds[flags >> 2], path, subpath, text, *place))
    return found


def encode_sections(sections: Sequence[Section]) -> str:
    """Return sections as JSON: all headings, then heading, parents, start, end, line of each.

    Headings are named by their places in the list, since most are the parents of others.
    """
    names: dict[str, int] = {}
    rows = [
        (
            names.setdefault(each.heading, len(names)),
            [names.setdefault(name, len(names)) for name in each.parents],
            each.start,
            each.end,
            each.line,
        )
        for each in sections
    ]
    return json.dumps(([*names], rows), ensure_ascii=False, separators=(",", ":"))


def decode_sections(
    text: str, document: int, ordinals: Collection[int] | None = None
) -> list[SectionRecord]:
    """Return those of the sections of `encode_sections` that are asked for, by default all."""
    names, rows = json.loads(text)
    return [
        SectionRecord(
            document, ordinal, names[heading], tuple([names[n] for n in parents]), start, end, line
        )
        for ordinal, (heading, parents, start, end, line) in enumerate(rows)
        if ordinals is None or ordinal in ordinals
    ]
