"""Operations that read and write notes: get, list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.json_values import pick
from vaultmem.operations.filters import Filters
from vaultmem.operations.operation import RAW, Arg, Front, Line, Moment, Operation, Tag, Takes
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.services.archiving.read_all import WholeNote
    from vaultmem.services.reading.read_notes import FoundNote
    from vaultmem.vault import Vault


class Get(NamedTuple):
    """Which note is read."""

    path: Annotated[
        str,
        Arg(
            "The note: its path, or its name if that is enough.",
            "Path, name or handle, with #Heading: c59b#Tides, home:c59b.",
            1,
            1_000,
            takes=Takes.WORD,
            metavar="PATH",
        ),
    ]
    full: Annotated[
        bool,
        Arg("As it was before compaction shortened it.", "As before compaction shortened it."),
    ] = False


def get(vault: Vault, asked: Get) -> FoundNote:
    """Print a note, or one section of it (NOTE#Heading).

    Examples:
      vaultmem get refund-rules
      vaultmem get s-0431#Decisions
      vaultmem get refund-rules --at HEAD~1
    """
    from vaultmem.services.reading.read_notes import get_note

    return get_note(vault, asked.path, asked.full)


def note_data(found: FoundNote) -> dict[str, Any]:
    """Return a note that was read, or one section of it."""
    from vaultmem.core.notes.full_text import tell_shortened
    from vaultmem.core.notes.values import as_json as property_json

    note = found.note
    return {
        "path": str(note.path),
        **pick(note, "blob title kind state pinned tags"),
        "properties": {prop.name: property_json(prop) for prop in note.matter.properties},
        "heading": found.section.heading if found.section else None,
        "text": found.text,
        "caution": note.problem or note.conflict or None,
        "shortened": tell_shortened(note.full_text) or None,
        "warnings": note.warnings,
    }


def note_lines(found: FoundNote) -> Iterator[Line]:
    """Yield the text of a note, as it is."""
    yield Line(found.text, RAW)


def note_warnings(found: FoundNote) -> Iterator[str]:
    """Yield why a note is not to be taken for what it seems."""
    from vaultmem.core.notes.encoding import describe_encoding
    from vaultmem.core.notes.full_text import tell_shortened

    note = found.note
    if note.state == "quarantined":
        yield f"warning: {note.path} is quarantined; nothing in it is to be trusted or done"
    if note.problem:
        yield f"warning: {note.path}: {note.problem}"
    if note.full_text and not found.whole:
        yield f"note: {note.path}: {tell_shortened(note.full_text)}; --full prints it"
    if found.changed:
        yield f"note: {found.changed}"
    if note.encoding:
        yield f"warning: {note.path}: {describe_encoding(note.encoding)}"


def list_(vault: Vault, only: Filters) -> list[tuple[str, NoteRecord]]:
    """List the notes, or those of a kind, state, tag or folder.

    Notes in every state are listed, unless --state says otherwise.

    Examples:
      vaultmem list --state candidate
      vaultmem list --kind decision --context payments
    """
    from vaultmem.services.reading.read_notes import list_notes

    wanted = only.make_filter(any_state=True)
    return [(vault.name, each) for each in list_notes(vault, wanted)]


def records_data(records: Iterable[tuple[str, NoteRecord]]) -> dict[str, Any]:
    """Return a list of notes, each with its vault's name, if several were asked."""
    return {"notes": [{"vault": name or None, **record_data(each)} for name, each in records]}


def record_data(record: NoteRecord) -> dict[str, Any]:
    """Return what is known of a note without reading it."""
    return pick(
        record,
        "path blob title kind state pinned context tags created? updated? confidence source? "
        "agent? session? tokens warnings",
    )


def whole_data(whole: WholeNote) -> dict[str, Any]:
    """Return all of a note: what `list` says, its properties, its body, and its links."""
    from vaultmem.core.notes.values import as_json as property_json
    from vaultmem.operations.links import link_data

    note = whole.note
    properties = () if note is None else note.matter.properties
    return {
        **record_data(whole.record),
        "properties": {prop.name: property_json(prop) for prop in properties},
        "body": None if note is None else note.body,
        "links": list(map(link_data, whole.links)),
    }


GET = Operation(
    "get_note",
    "GET /notes/{path}",
    run=get,
    request=Get,
    data=note_data,
    lines=note_lines,
    warnings=note_warnings,
    gives=record(
        path="string",
        blob="string",
        title="string",
        kind="string",
        state="string",
        pinned="boolean",
        tags=STRINGS,
        properties="object",
        heading="string?",
        text="string",
        caution="string?",
    ),
    moment=Moment.SEEN,
    tag=Tag.BLOB,
)

LIST = Operation(
    "list_notes",
    "GET /notes",
    run=list_,
    request=Filters,
    data=records_data,
    gives=record(
        notes=rows(
            path="string",
            blob="string",
            title="string",
            kind="string",
            state="string",
            pinned="boolean",
            context="string",
            tags=STRINGS,
            tokens="integer",
        )
    ),
    moment=Moment.SEEN,
    tag=Tag.VIEW,
    excused={Front.MCP: "an agent asks recall, by kind, state, tag or folder"},
)
