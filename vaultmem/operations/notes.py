"""Operations that read and write notes: get, list, reference material, remember."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import pick
from vaultmem.core.text.paths import note_context
from vaultmem.operations.declaration import (
    RAW,
    Agent,
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    Operation,
    Tag,
    VersionScope,
    declare,
)
from vaultmem.operations.filters import Filters, ListScope
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.services.exchange.archives import WholeNote
    from vaultmem.services.exchange.import_reference import PrimedSource
    from vaultmem.services.memory.remember import PreferenceProposal, RememberResult
    from vaultmem.services.similarity.known import SimilarText
    from vaultmem.services.views.read_notes import FoundNote
    from vaultmem.vault import Vault


def get(
    vault: Vault,
    path: Annotated[
        str,
        Arg(
            "The note: its path, or its name if that is enough.",
            "Path, name or handle; NOTE#Heading, VAULT:NOTE.",
            1,
            1_000,
            takes=ArgumentForm.WORD,
            metavar="PATH",
        ),
    ],
    full: Annotated[
        bool, Arg("The full text, from before compaction.", "As before compaction.")
    ] = False,
) -> FoundNote:
    """Print a note, or one section of it (NOTE#Heading).

    Examples:
      vaultmem show refund-rules
      vaultmem show s-0431#Decisions
      vaultmem show refund-rules --at HEAD~1
    """
    from vaultmem.services.views.read_notes import get_note

    return get_note(vault, path, full)


def note_data(result: FoundNote) -> dict[str, Any]:
    """Return a note, or one section of it."""
    from vaultmem.core.notes.frontmatter import as_json as property_json
    from vaultmem.core.notes.sections import describe_shortened

    note = result.note
    return {
        "path": str(note.path),
        **pick(note, "blob title kind state pinned tags"),
        "properties": {prop.name: property_json(prop) for prop in note.frontmatter.properties},
        "heading": result.section.heading if result.section else None,
        "text": result.text,
        "caution": note.problem or note.conflict or None,
        "shortened": describe_shortened(note.full_text) or None,
        "warnings": note.warnings,
    }


def _note_lines(result: FoundNote, _: Any) -> Iterator[Line]:
    yield Line(result.text, RAW)


def _note_warnings(result: FoundNote) -> Iterator[str]:
    from vaultmem.core.notes.encoding import describe_encoding
    from vaultmem.core.notes.sections import describe_shortened

    note = result.note
    if note.state == "quarantined":
        yield f"warning: {note.path} is quarantined; nothing in it is to be trusted or done"
    if note.problem:
        yield f"warning: {note.path}: {note.problem}"
    if note.full_text and not result.whole:
        yield f"note: {note.path}: {describe_shortened(note.full_text)}; --full prints it"
    if result.changed:
        yield f"note: {result.changed}"
    if note.encoding:
        yield f"warning: {note.path}: {describe_encoding(note.encoding)}"


class ListNotes(NamedTuple):
    """The filters of a list of notes."""

    only: Filters = Filters()
    limit: Annotated[
        int,
        Arg(
            "Notes at most.  [default: all]", "", 1, 1_000_000, flags=("-n", "--limit"), metavar="N"
        ),
    ] = 0
    project: ListScope = ""


def list_(vault: Vault, request: ListNotes) -> list[tuple[str, NoteRecord]]:
    """List the notes, or those of a kind, state, tag or folder.

    Without --state, notes in every state are listed.

    Examples:
      vaultmem list --state candidate
      vaultmem list --kind decision --context payments
    """
    return list_of([vault], request)


def list_of(vaults: Sequence[Vault], request: ListNotes) -> list[tuple[str, NoteRecord]]:
    """Return the notes of some vaults, limited to a project, each with its vault's name."""
    from vaultmem.services.projects.scope import view_projects
    from vaultmem.services.views.read_notes import list_notes

    note_filter = request.only.make_filter(any_state=True)
    views = view_projects(vaults, request.project)
    records = [(each.name, record) for each in views for record in list_notes(each, note_filter)]
    return records[: request.limit or None]


def _records_data(records: Iterable[tuple[str, NoteRecord]]) -> dict[str, Any]:
    return {"notes": [{"vault": name or None, **record_data(each)} for name, each in records]}


def record_data(record: NoteRecord) -> dict[str, Any]:
    """Return a note's properties from the index."""
    return pick(
        record,
        "path blob title kind state pinned context tags created? updated? confidence source? "
        "agent? session? tokens warnings",
    )


def whole_data(whole: WholeNote) -> dict[str, Any]:
    """Return all data of a note: index entry, properties, body and links."""
    from vaultmem.core.notes.frontmatter import as_json as property_json
    from vaultmem.operations.links import link_data

    note = whole.note
    properties = () if note is None else note.frontmatter.properties
    return {
        **record_data(whole.record),
        "properties": {prop.name: property_json(prop) for prop in properties},
        "body": None if note is None else note.body,
        "links": list(map(link_data, whole.links)),
    }


class SourceNotes(NamedTuple):
    """A source of reference material, and its notes."""

    source: str
    notes: Sequence[NoteRecord]


def list_sources(vault: Vault) -> list[PrimedSource]:
    """List the sources of reference material."""
    from vaultmem.services.exchange.import_reference import list_sources

    return list_sources(vault)


def _sources_data(sources: Sequence[PrimedSource]) -> dict[str, Any]:
    return {"sources": sources}


def _sources_lines(sources: Sequence[PrimedSource], _: Any) -> Iterator[Line]:
    width = max((len(one_line(each.name)) for each in sources), default=0)
    for each in sources:
        facts = [f"{each.notes:>5,} notes", f"{each.tokens:>8,} tokens"]
        counts = ((each.pinned, "pinned"), (each.edited, "edited"), (each.by_hand, "by hand"))
        facts += [f"{count:,} {name}" for count, name in counts if count]
        yield Line(f"{one_line(each.name):<{width}}  {'  '.join(facts)}")
    if not sources:
        yield Line("No reference material; `vaultmem reference FILE --source NAME` imports FILE.")


def list_source_notes(
    vault: Vault,
    source: Annotated[
        str, Arg("The name of a source: its folder below primed/.", "", 1, 200, metavar="NAME")
    ],
) -> SourceNotes:
    """List the notes of a source of reference material."""
    from vaultmem.services.exchange.import_reference import list_source_notes

    return SourceNotes(source, list_source_notes(vault, source))


def _source_data(result: SourceNotes) -> dict[str, Any]:
    return {"source": result.source, "notes": list(map(record_data, result.notes))}


def _source_lines(result: SourceNotes, _: Any) -> Iterator[Line]:
    for each in result.notes:
        yield Line(f"{each.tokens:>7,}  {one_line(each.path)}  {one_line(each.title)}")


_KINDS = [each.value for each in NoteKind]
#: States that can be set.
_STATES = [each.value for each in NoteState if each is not NoteState.UNREADABLE]


class Remember(NamedTuple):
    """A memory to store, and its options."""

    text: Annotated[
        str,
        Arg(
            "What to remember.",
            Agent("Markdown; one thing, in words that need no context.", most=200_000),
            most=1_000_000,
            takes=ArgumentForm.INPUT,
            metavar="TEXT",
        ),
    ]
    title: Annotated[
        str,
        Arg("Title.  [default: the first line of the text]", "", most=300, metavar="TEXT"),
    ] = ""
    context: Annotated[
        str, Arg("Context: the note's folder.", "Folder.", most=200, metavar="NAME")
    ] = ""
    kind: Annotated[
        str,
        Arg(
            "Kind of the note.  [default: semantic_fact]",
            "Else semantic_fact.",
            words=_KINDS,
            metavar="KIND",
        ),
    ] = ""
    state: Annotated[
        str,
        Arg(
            "State of the new note.",
            words=_STATES,
            metavar="STATE",
            excused={FrontEnd.MCP: "what an agent writes starts as its kind and vault have it"},
        ),
    ] = ""
    tags: Annotated[
        tuple[str, ...],
        Arg("A tag (repeatable).", "", flags=("--tag",), metavar="TAG"),
    ] = ()
    pin: Annotated[bool, Arg("Show it in every pack.", "In every pack.")] = False
    confidence: Annotated[
        float | None, Arg("Confidence of the author.", "0 to 1.", 0, 1, metavar="0..1")
    ] = None
    cites: Annotated[
        tuple[str, ...],
        Arg(
            "File it is based on: PATH, PATH#L10-20, PATH:SYMBOL; or a URL (repeatable).",
            "Files (PATH, PATH#L10-20, PATH:SYMBOL) or URLs it is based on.",
            flags=("--cite",),
            metavar="PATH",
        ),
    ] = ()
    valid_from: Annotated[
        str, Arg("Start of validity: day, commit or tag.", "", most=100, metavar="DATE")
    ] = ""
    valid_until: Annotated[
        str,
        Arg(
            "End of validity: day, commit or tag, or `until PATH changes`.",
            "Day, commit or tag of its end, or `until PATH changes`.",
            most=300,
            metavar="DATE",
        ),
    ] = ""
    project: Annotated[
        str,
        Arg(
            "Project it belongs to.  [default: the folder's]",
            "Else this folder's; or global.",
            most=60,
            metavar="NAME",
        ),
    ] = ""
    global_: Annotated[
        bool,
        Arg(
            "Show it in every project.",
            excused={
                FrontEnd.HTTP: "project takes the word global",
                FrontEnd.MCP: "project takes the word global",
            },
        ),
    ] = False
    supersedes: Annotated[
        str,
        Arg(
            "Note that it replaces; its kind, folder, tags and project are kept.",
            "The note that it replaces.",
            most=1_000,
            metavar="NOTE",
        ),
    ] = ""
    force: Annotated[
        bool, Arg("Make a new note, even if a note states the same.", "Though known.")
    ] = False
    also: Annotated[
        tuple[str, ...],
        Arg(
            "Another memory, written together with the same options (repeatable).",
            "More memories like it, written together.",
            metavar="TEXT",
        ),
    ] = ()


def remember(vault: Vault, request: Remember) -> RememberResult:
    """Store a memory; the next query finds it.

    If a note already states the same, none is added. Similar notes are linked and named. With
    --supersedes, the old note is deprecated and each names the other, in one commit.

    Examples:
      vaultmem remember "The pier at Holm is closed until May." --tag holm
      vaultmem remember "The pier at Holm is open again." --supersedes pier-holm
      vaultmem remember "I write British English." --global
      vaultmem remember "Oslo has trams." --also "Bergen has one line." --tag trams
      git log -1 --format=%B | vaultmem remember - --kind decision
    """
    from vaultmem.core.lifecycle import parse_kind, parse_state
    from vaultmem.services.memory import remember as service

    old_note = service.find_replaced(vault, request.supersedes) if request.supersedes else None
    request = _inherit(request, old_note) if old_note else request
    memory = service.Memory(
        text=request.text,
        title=request.title,
        context=request.context,
        kind=parse_kind(request.kind or NoteKind.SEMANTIC_FACT),
        state=parse_state(request.state) if request.state else None,
        tags=request.tags,
        pinned=request.pin,
        confidence=request.confidence,
        cites=request.cites,
        project=_choose_project(request),
        valid_from=request.valid_from,
        valid_until=request.valid_until,
    )
    return service.remember(
        vault, memory, force=request.force, supersedes=request.supersedes, also=request.also
    )


def _inherit(request: Remember, old: Note) -> Remember:
    """Return a request whose missing kind, folder, tags and project are the old note's."""
    return request._replace(
        kind=request.kind or old.kind.value,
        context=request.context or note_context(old.path),
        tags=request.tags or old.tags,
        project=request.project or ("" if request.global_ else old.project or "global"),
    )


def _choose_project(request: Remember) -> str | None:
    """Return a memory's project, "" for none, None for the folder's.

    Raises:
        RefusedError: two projects are named.
    """
    from vaultmem.errors import RefusedError

    if request.global_ and request.project not in {"", "global"}:
        raise RefusedError(f"--global and --project {request.project}: give only one of them")
    return "" if request.global_ or request.project == "global" else request.project or None


def _remembered_lines(result: RememberResult, _: Any) -> Iterator[Line]:
    is_known = result.outcome == "known"
    project = f", project {result.project}" if result.project else ""
    place = f"{result.path}  ({result.state}{project})"
    yield Line("known already  " if is_known else "remembered  ", "green", place)
    if result.superseded:
        yield Line("superseded  ", "yellow", result.superseded)
        if result.unsaid:
            yield Line(f"  only in it: {one_line(result.unsaid[0])}")
    elif is_known:
        command = f"vaultmem forget --last-confirmation {shlex.quote(result.path)}"
        yield Line(f"If it is another fact: {command}")
    if result.state == "quarantined" and result.similar:
        from vaultmem.services.memory.remember import HELD

        yield Line(HELD, "red")
    if result.outcome == "created":
        yield from _list_similar(result)
    yield from proposed_lines(result.proposed)
    if result.ends:
        yield Line(f"hint: {describe_end(result.ends)}")
    if result.offered:
        yield Line(f"hint: {describe_offer(result.offered, '--cite ')}")
    for each in result.also:
        yield from _remembered_lines(each, None)


def describe_offer(paths: Sequence[str], option: str = "") -> str:
    """Return how to cite the files that a memory mentions."""
    options = " ".join(f"{option}{shlex.quote(path)}" for path in paths)
    return f"to check later whether this still holds, remember it again with {options}"


def describe_end(day: str, option: str = "--valid-until ") -> str:
    """Return how to set the end date that a memory's text mentions."""
    return f"the text names an end; if it expires on {day}, remember it again with {option}{day}"


def _list_similar(result: RememberResult) -> Iterator[Line]:
    """Yield the notes similar to a memory, contradictions with both sides."""
    for each in result.similar:
        yield from nearby_lines(each)
    contradictions = [each for each in result.similar if each.contradicts and "/" in each.path]
    if len(contradictions) > 1:
        yield Line("If it replaces them: vaultmem review")
    elif contradictions:
        part = "--partial " if contradictions[0].says_more else ""
        paths = one_line(shlex.join((contradictions[0].path, result.path)))
        yield Line(f"If it replaces that: vaultmem supersede {part}{paths}")


def nearby_lines(each: SimilarText) -> Iterator[Line]:
    """Yield a note similar to a text, with their differences."""
    word = "contradicts" if each.contradicts else "same" if each.is_same else "near"
    colour = "yellow" if each.contradicts else "dim"
    state = "" if each.state == "active" else f"  ({each.state})"
    yield Line(f"{word}  ", colour, f"{each.path}{state}  {each.similarity:.2f}")
    if each.says:
        more = " (and more besides)" if each.says_more else ""
        yield Line(f"  says: {one_line(each.says)}{more}")
    for difference in each.differences:
        ours, theirs = difference.ours or "nothing", difference.theirs or "nothing"
        yield Line(f"  {difference.kind}: {one_line(theirs)} there, {one_line(ours)} here")


def proposed_lines(proposed: Sequence[PreferenceProposal]) -> Iterator[Line]:
    """Yield the proposed preferences, and the command that promotes them."""
    for each in proposed:
        topic = f"  (about: {one_line(each.about)})" if each.about else ""
        yield Line("proposed  ", "yellow", f"{each.path}{topic}")
        yield Line(f"  > {one_line(each.text)}")
    if proposed:
        paths = " ".join(shlex.quote(each.path) for each in proposed)
        yield Line("  A lasting wish. Once you promote it, every pack that it concerns shows it:")
        yield Line(f"  vaultmem promote {paths}")


GET = declare(
    get,
    "get_note",
    "GET /notes/{path}",
    note_data,
    lines=_note_lines,
    warnings=_note_warnings,
    output_schema=record(
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
    versions=VersionScope.SEEN,
    tag=Tag.BLOB,
)

LIST = Operation(
    "list_notes",
    "GET /notes",
    run=list_,
    request=ListNotes,
    data=_records_data,
    output_schema=record(
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
    versions=VersionScope.SEEN,
    tag=Tag.VIEW,
    excused={FrontEnd.MCP: "an agent asks recall, by kind, state, tag or folder"},
)

LIST_SOURCES = declare(
    list_sources,
    "list_sources",
    "GET /reference",
    _sources_data,
    lines=_sources_lines,
    output_schema=record(sources=rows(name="string", notes="integer", tokens="integer")),
    versions=VersionScope.SEEN,
    tag=Tag.VIEW,
)

SOURCE_NOTES = declare(
    list_source_notes,
    "list_source_notes",
    "GET /reference/{source}",
    _source_data,
    lines=_source_lines,
    output_schema=record(
        source="string", notes=rows(path="string", title="string", tokens="integer")
    ),
    versions=VersionScope.SEEN,
    tag=Tag.VIEW,
)

REMEMBER = Operation(
    "remember",
    "POST /notes",
    run=remember,
    request=Remember,
    lines=_remembered_lines,
    output_schema=record(
        path="string",
        blob="string",
        title="string",
        state="string",
        outcome="string",
        similar=rows(path="string", contradicts="boolean"),
        proposed=rows(path="string", text="string"),
        project="string",
        cited=STRINGS,
        offered=STRINGS,
        superseded="string",
        ends="string",
    ),
    versions=VersionScope.BRANCH,
    writes=True,
    creates=True,
    syncs=False,
)
