"""Commands about single notes: remember, get, list, edit, forget, pin, unpin, tag."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.options import (
    AgentOption,
    ContextOption,
    JsonOption,
    KindOption,
    SessionOption,
    StateOption,
    TagOption,
    VaultOption,
    make_filter,
    open_here,
    open_synced,
)
from vaultmem.cli.output import emit_json, say, say_painted, say_raw
from vaultmem.cli.plain import PlainCommand
from vaultmem.core.plain_text import one_line

if TYPE_CHECKING:
    from vaultmem.core.record import NoteRecord

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The note: its path, or its name if that is enough.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("remember", cls=PlainCommand)(remember_)
    app.command("get", cls=PlainCommand)(get)
    app.command("list", cls=PlainCommand)(list_)
    app.command("edit", cls=PlainCommand)(edit)
    app.command("forget", cls=PlainCommand)(forget)
    app.command("pin", cls=PlainCommand)(pin)
    app.command("unpin", cls=PlainCommand)(unpin)
    app.command("tag", cls=PlainCommand)(tag_)


def remember_(
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="What to remember; - reads standard input.")
    ],
    title: Annotated[str, typer.Option("--title", help="Its title; else its first line.")] = "",
    context: Annotated[
        str, typer.Option("--context", metavar="NAME", help="What it is about: its folder.")
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="What it records.")
    ] = "semantic_fact",
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="The state it starts in.")
    ] = "",
    tag: Annotated[
        list[str], typer.Option("--tag", metavar="TAG", help="A tag (repeatable).")
    ] = [],  # noqa: B006
    pin: Annotated[bool, typer.Option("--pin", help="Show it in every pack.")] = False,
    confidence: Annotated[
        float | None, typer.Option("--confidence", metavar="0..1", help="How sure you are.")
    ] = None,
    ref: Annotated[
        list[str],
        typer.Option("--ref", metavar="REF", help="A file, URL or commit it rests on."),
    ] = [],  # noqa: B006
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write a new note; it is on disk and searchable when this returns."""
    from vaultmem.core.lifecycle import parse_kind, parse_state
    from vaultmem.services.remember import Memory, remember

    memory = Memory(
        text=_read_stdin() if text == ["-"] else " ".join(text),
        title=title,
        context=context,
        kind=parse_kind(kind),
        state=parse_state(state) if state else None,
        tags=tuple(tag),
        pinned=pin,
        confidence=confidence,
        refs=tuple(ref),
    )
    done = remember(open_here(vault, agent, session), memory)
    if as_json:
        emit_json(done)
    else:
        say_painted("remembered  ", "green", f"{done.path}  ({done.state})")


def get(path: PathArgument, vault: VaultOption = "", as_json: JsonOption = False) -> None:
    """Print a note, or one section of it (PATH#Heading)."""
    from vaultmem.core.values import as_json as property_json
    from vaultmem.services.read import get_note

    found = get_note(open_synced(vault), path)
    note = found.note
    text = note.section_text(found.section) + "\n" if found.section else note.text
    if not as_json:
        say_raw(text)
        return
    emit_json(
        {
            "path": str(note.path),
            "blob": note.blob,
            "title": note.title,
            "kind": note.kind,
            "state": note.state,
            "pinned": note.pinned,
            "tags": note.tags,
            "properties": {prop.name: property_json(prop) for prop in note.matter.properties},
            "heading": found.section.heading if found.section else None,
            "text": text,
            "warnings": note.warnings,
        }
    )


def list_(
    kind: KindOption = [],  # noqa: B006
    state: StateOption = [],  # noqa: B006
    tag: TagOption = [],  # noqa: B006
    context: ContextOption = "",
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned notes.")] = False,
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the notes, in every state unless --state says otherwise."""
    from vaultmem.services.read import list_notes

    wanted = make_filter(kind, state, tag, context, pinned or None, any_state=True)
    records = list_notes(open_synced(vault), wanted)
    if as_json:
        emit_json({"notes": [_record_json(record) for record in records]})
        return
    width = min(max((len(one_line(record.path)) for record in records), default=0), 60)
    for record in records:
        pin_mark = " pinned" if record.pinned else ""
        facts = f"{record.kind}  {record.state}{pin_mark}"
        say(f"{one_line(record.path):<{width}}  {facts:<32}  {one_line(record.title)}".rstrip())
    say(f"{len(records):,} notes")


def edit(path: PathArgument, vault: VaultOption = "", agent: AgentOption = "") -> None:
    """Open a note in $VISUAL or $EDITOR, and check it again afterwards."""
    from vaultmem.cli.editor import open_editor
    from vaultmem.services.read import read_note, resolve_address
    from vaultmem.services.sync import sync_paths

    opened = open_synced(vault, agent)
    found, _ = resolve_address(opened, path)
    before = read_note(opened, found)
    open_editor(opened.root / found)
    sync_paths(opened, [found])
    after = read_note(opened, found)
    if after.blob == before.blob:
        say(f"{found}: unchanged")
        return
    say_painted("edited  ", "green", str(found))
    for warning in after.warnings:
        say_painted(f"  {found}", "yellow", f": {warning}")


def forget(
    paths: Annotated[list[str], typer.Argument(metavar="[PATH...]", help="The notes.")] = [],  # noqa: B006
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="All notes with a tag.")] = "",
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="All notes unchanged for 90d, 12w, 1y."),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it, also for several.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    vault: VaultOption = "",
    agent: AgentOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove notes; more than one only with --yes. Git still has what was committed."""
    from vaultmem.cli.ages import parse_age
    from vaultmem.services.forget import forget_notes, select_notes

    opened = open_synced(vault, agent)
    age = parse_age(older_than) if older_than else None
    chosen = select_notes(opened, paths, tag, age)
    really = not dry_run and (yes or len(chosen.notes) == 1)
    shown = [record.path for record in chosen.notes]
    if really:
        forget_notes(opened, chosen.notes)
    if as_json:
        emit_json({"forgotten" if really else "would_forget": shown, "kept_pinned": chosen.kept})
        return
    for path in shown:
        say_painted("forgot  " if really else "would forget  ", "yellow", path)
    for path in chosen.kept:
        say(f"kept, pinned  {path}")
    if not really and shown:
        say(f"Nothing was removed; add --yes to forget {len(shown)} notes.")
    elif not shown:
        say("No note is like that.")


def pin(
    path: PathArgument,
    vault: VaultOption = "",
    agent: AgentOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show a note in every pack, and protect it from machines."""
    _set_pinned(path, True, vault, agent, as_json)


def unpin(
    path: PathArgument,
    vault: VaultOption = "",
    agent: AgentOption = "",
    as_json: JsonOption = False,
) -> None:
    """Stop showing a note in every pack."""
    _set_pinned(path, False, vault, agent, as_json)


def tag_(
    path: PathArgument,
    add: Annotated[list[str], typer.Argument(metavar="[TAG...]", help="Tags to add.")] = [],  # noqa: B006
    remove: Annotated[
        list[str], typer.Option("--remove", metavar="TAG", help="A tag to remove (repeatable).")
    ] = [],  # noqa: B006
    vault: VaultOption = "",
    agent: AgentOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add tags to a note, or remove them."""
    from vaultmem.services.edit import change_tags
    from vaultmem.services.read import read_note, resolve_address

    opened = open_synced(vault, agent)
    found, _ = resolve_address(opened, path)
    blob = change_tags(opened, found, tuple(add), tuple(remove))
    tags = read_note(opened, found).tags
    if as_json:
        emit_json({"path": str(found), "blob": blob, "tags": tags})
    else:
        say_painted("tagged  ", "green", f"{found}  {' '.join('#' + tag for tag in tags)}")


def _set_pinned(path: str, pinned: bool, vault: str, agent: str, as_json: bool) -> None:
    from vaultmem.core.paths import PINNED_FILES
    from vaultmem.errors import RefusedError
    from vaultmem.services.edit import set_note_property
    from vaultmem.services.read import resolve_address

    opened = open_synced(vault, agent)
    found, _ = resolve_address(opened, path)
    if str(found) in PINNED_FILES and not pinned:
        raise RefusedError(f"{found}: it is pinned by its name; rename it to unpin it")
    blob = set_note_property(opened, found, "pinned", True if pinned else None)
    if as_json:
        emit_json({"path": str(found), "blob": blob, "pinned": pinned})
    else:
        say_painted("pinned  " if pinned else "unpinned  ", "green", str(found))


def _read_stdin() -> str:
    from vaultmem.errors import RefusedError

    data = sys.stdin.buffer.read(2 * 1024 * 1024)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(f"standard input is not UTF-8 (byte {error.start})") from None


def _record_json(record: NoteRecord) -> dict[str, Any]:
    return {
        "path": record.path,
        "blob": record.blob,
        "title": record.title,
        "kind": record.kind,
        "state": record.state,
        "pinned": record.pinned,
        "context": record.context,
        "tags": record.tags,
        "created": record.created or None,
        "updated": record.updated or None,
        "confidence": record.confidence,
        "source": record.source or None,
        "agent": record.agent or None,
        "session": record.session or None,
        "tokens": record.tokens,
        "warnings": record.warnings,
    }
