"""Operations that edit one note: its tags, its pin, its properties, its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.errors import RefusedError
from vaultmem.operations.declaration import Agent, Arg, ArgumentForm, FrontEnd, Line, word, words
from vaultmem.operations.note_changes import NotePath, change
from vaultmem.operations.schemas import record

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from vaultmem.core.notes.note import Note
    from vaultmem.services.memory.new_note import NoteUpdate
    from vaultmem.vault import Vault

_EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
_EDITOR = {FrontEnd.SHELL: "`edit` opens the editor"}


class EditedNote(NamedTuple):
    """An edited note: its new blob id, the properties that were set, and its output.

    `warnings` are about the note, `cautions` about the tokens of pinned notes.
    """

    path: PurePosixPath
    blob: str
    facts: Mapping[str, Any] = _EMPTY_MAPPING
    verb: str = "edited"
    rest: str = ""
    warnings: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


def tag_(
    vault: Vault,
    path: NotePath,
    add: Annotated[tuple[str, ...], words("Tags to add.", metavar="[TAG...]")] = (),
    remove: Annotated[tuple[str, ...], Arg("A tag to remove (repeatable).", metavar="TAG")] = (),
) -> EditedNote:
    """Add tags to a note, or remove them.

    Examples:
      vaultmem tag rollback deploy/release
      vaultmem tag rollback --remove deploy/release
    """
    from vaultmem.services.changes.edit_notes import change_tags

    note_path = _find(vault, path).path
    blob, tags = change_tags(vault, note_path, tuple(add), tuple(remove))
    rest = f"  {' '.join('#' + tag for tag in tags)}"
    return EditedNote(note_path, blob, {"tags": tags}, "tagged", rest)


def pin(
    vault: Vault,
    path: Annotated[
        str, word("The note; without it, pinned notes are listed.", metavar="[PATH]")
    ] = "",
    remove: Annotated[bool, Arg("Unpin the note.")] = False,
) -> EditedNote:
    """Show a note in every pack, or list the pinned notes.

    Agents cannot change a pinned note. The list shows what each costs in every pack.

    Examples:
      vaultmem pin refund-rules
      vaultmem pin
      vaultmem pin --remove refund-rules
    """
    from vaultmem.core.text.paths import PINNED_FILES
    from vaultmem.operations.usage_stats import list_pinned, pinned_warnings
    from vaultmem.services.changes.edit_notes import set_note_property

    note = _find(vault, path)
    if str(note.path) in PINNED_FILES and remove:
        raise RefusedError(f"{note.path}: it is pinned by its name; rename it to unpin it")
    blob = set_note_property(vault, note.path, "pinned", None if remove else True)
    cautions = () if remove else tuple(pinned_warnings(list_pinned(vault)))
    verb = "pinned" if not remove else "unpinned" if note.pinned else "not pinned"
    return EditedNote(note.path, blob, {"pinned": not remove}, verb, cautions=cautions)


def _find(vault: Vault, address: str) -> Note:
    """Return a note from disk, if the caller may edit it."""
    from vaultmem.services.changes.edit_notes import reject_hidden
    from vaultmem.services.views.read_notes import read_as_written, resolve_address

    note = read_as_written(vault, resolve_address(vault, address)[0])
    reject_hidden(vault, note)
    return note


def update(
    vault: Vault,
    path: NotePath,
    properties: Annotated[
        Mapping[str, Any],
        Arg(
            "Property to set, without the editor; no value removes it (repeatable).",
            takes=ArgumentForm.VALUES,
            flags=("--set",),
            metavar="PROPERTY=VALUE",
            excused={FrontEnd.MCP: "property and value set one"},
        ),
    ] = _EMPTY_MAPPING,
    old_text: Annotated[
        str,
        Arg(
            "The text to replace; it must be there exactly once.",
            Agent(most=100_000),
            1,
            1_000_000,
            excused=_EDITOR,
        ),
    ] = "",
    new_text: Annotated[
        str | None,
        Arg("The new text.", Agent(most=200_000), most=1_000_000, excused=_EDITOR),
    ] = None,
    reason: Annotated[
        str,
        Arg("Why another replaces it.", most=1_000, excused={FrontEnd.SHELL: "see `supersede`"}),
    ] = "",
) -> EditedNote:
    """Set properties of a note, or replace one place of its text; every other byte stays."""
    from vaultmem.services.memory.new_note import NoteUpdate

    if bool(old_text) is (new_text is None) or not (properties or old_text):
        raise RefusedError("give properties, or old_text and new_text, or all of them")
    return _edit(vault, path, NoteUpdate(properties, None, old_text, new_text, reason))


def rewrite(
    vault: Vault,
    path: NotePath,
    text: Annotated[str, Arg("Whole markdown of the note, with its properties.", most=1_000_000)],
) -> EditedNote:
    """Give a note another text."""
    from vaultmem.services.memory.new_note import NoteUpdate

    return _edit(vault, path, NoteUpdate(text=text))


def _edit(vault: Vault, path: str, update: NoteUpdate) -> EditedNote:
    from vaultmem.services.memory.new_note import update_note

    before = _find(vault, path)
    blob = update_note(vault, before.path, update)
    return show_edited(vault, before, blob, update.properties)


def show_edited(
    vault: Vault, before: Note, blob: str = "", names: Iterable[str] = ()
) -> EditedNote:
    """Return an edited note at a version, by default the current one, with these properties."""
    from vaultmem.core.notes.frontmatter import as_json as property_json
    from vaultmem.services.views.open_view import current_view
    from vaultmem.services.views.read_notes import read_as_written

    after = read_as_written(current_view(vault), before.path)
    properties = {name: after.frontmatter.get(name) for name in names}
    values = {name: property_json(prop) if prop else None for name, prop in properties.items()}
    facts = {"properties": values} if values else {}
    edited = EditedNote(before.path, blob or after.blob, facts, warnings=after.warnings)
    return edited._replace(verb="") if edited.blob == before.blob else edited


def _edited_data(result: EditedNote) -> dict[str, Any]:
    return {"path": result.path, "blob": result.blob, **result.facts}


def _edited_lines(result: EditedNote, _: Any) -> Iterator[Line]:
    if not result.verb:
        yield Line(f"{result.path}: unchanged")
        return
    yield Line(f"{result.verb}  ", "green", f"{result.path}{result.rest}")
    for warning in result.warnings:
        yield Line(f"  {result.path}", "yellow", f": {warning}")


_change = partial(
    change,
    data=_edited_data,
    lines=_edited_lines,
    warnings=lambda result: result.cautions,
    output_schema=record(path="string", blob="string"),
)

TAG = _change(
    tag_, "tag_note", "POST /tags/{path}", excused={FrontEnd.MCP: "update_note sets tags"}
)

PIN = _change(
    pin,
    "pin_note",
    "POST /pin/{path}",
    summary="Pin a note, so that every pack shows it, or unpin it.",
    excused={FrontEnd.MCP: "update_note sets pinned"},
)

UPDATE = _change(update, "update_note", "PATCH /notes/{path}")

REWRITE = _change(
    rewrite,
    "rewrite_note",
    "PUT /notes/{path}",
    excused={**_EDITOR, FrontEnd.MCP: "update_note replaces one place"},
)

NOTE_EDITS = (REWRITE, UPDATE, TAG, PIN)
