"""List what both sides of a merge said and nobody has decided yet; decide it, one commit a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.delta.lines import split_lines
from vaultmem.core.merging.text import Choice, settle_callouts
from vaultmem.core.notes.conflict import REMOVED, Placed, take_out_callouts
from vaultmem.core.notes.note import Note
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.notes.update import refuse_hidden
from vaultmem.services.reading.read_notes import find_note, read_bytes, resolve_address
from vaultmem.services.writing.change import Change, refuse_foreign
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.edit_notes import check_text
from vaultmem.services.writing.ownership import AuthorScope
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import write
from vaultmem.vault import Vault

_BEGINNING = b"> [!conflict"

#: What an editor makes of a note's text.
Rewrite = Callable[[str], str]


class Unsettled(NamedTuple):
    """A conflict in a note: its number there, its line, what was said above it, and by others.

    `verb` says what the others did: `Also said`, `Left out` or `Removed` (the note).
    """

    path: str
    number: int
    line: int
    verb: str
    author: str
    since: str
    where: str
    ours: str
    theirs: str
    state: str


class Resolved(NamedTuple):
    """A note in which conflicts were decided: how many, and the commit; `is_gone` if removed."""

    path: str
    decided: int
    is_gone: bool
    report: CommitReport


def list_conflicts(vault: Vault) -> list[Unsettled]:
    """Return the conflicts that stand in notes, by path and line; the vault must be in sync."""
    found: list[Unsettled] = []
    told = (record.path for record in vault.view.records() if record.warnings or record.problem)
    for path in sorted(told):
        place = PurePosixPath(path)
        try:
            data = read_bytes(vault, place)
        except (NoteNotFoundError, VaultError):
            continue
        if _BEGINNING in data and (note := find_note(vault, place)) is not None:
            found += describe_conflicts_in(note)
    return found


def describe_conflicts_in(note: Note) -> list[Unsettled]:
    """Return the conflicts that stand in a note, numbered from 1."""
    bare, placed = take_out_callouts(note.body)
    lines, first = split_lines(bare), note.text.count("\n", 0, note.matter.body) + 1
    return [_describe(note, number, each, lines, first) for number, each in enumerate(placed, 1)]


def _describe(note: Note, number: int, placed: Placed, lines: list[str], first: int) -> Unsettled:
    callout = placed.callout
    ours = lines[max(placed.place - callout.about, 0) : placed.place]
    said = "" if callout.verb == REMOVED else "".join(ours)
    return Unsettled(
        *(str(note.path), number, first + placed.line, callout.verb, *callout.speaker),
        *(said, "".join(f"{line}\n" for line in callout.lines), note.state.value),
    )


def resolve_conflicts(vault: Vault, address: str, choice: Choice, number: int = 0) -> Resolved:
    """Keep our words, put theirs in their place, or keep both; of one conflict, or of all.

    Theirs of a note that they removed is that it goes.

    Raises:
        NoteNotFoundError: there is no such note, or no such conflict in it.
        RefusedError: an agent may not change the note.
        ConflictError: somebody kept saving it; it is theirs.
    """

    def settle(note: Note) -> str | None:
        chosen = _choose(note, number)
        verbs = {each.verb for each in chosen}
        if choice is Choice.THEIRS and REMOVED in verbs:
            return None
        body = settle_callouts(note.body, choice, [each.number for each in chosen])
        return note.text[: note.matter.body] + body

    return _resolve(vault, address, choice.value, number, settle)


def resolve_by_hand(vault: Vault, address: str, rewrite: Rewrite) -> Resolved:
    """Let a person write the note anew; what conflicts are left in it stay.

    Raises:
        NoteNotFoundError, RefusedError, ConflictError: as for `resolve_conflicts`.
    """
    path = resolve_address(vault, address)[0]
    note = find_note(vault, path)
    if note is None:
        raise NoteNotFoundError(f"{path}: there is no such note")
    _choose(note, 0)
    text = rewrite(note.text)
    check_text(path, text)
    if text == note.text:
        raise RefusedError(f"{path}: nothing was changed, so the conflict stands")

    def settle(now: Note) -> str:
        if now.blob != note.blob:
            raise ConflictError(f"{path}: somebody has changed it meanwhile; look at it again")
        return text

    return _resolve(vault, str(path), "edited", 0, settle)


def _choose(note: Note, number: int) -> list[Unsettled]:
    found = describe_conflicts_in(note)
    chosen = [each for each in found if number in (0, each.number)]
    if not chosen:
        what = f"no conflict {number}" if found else "no conflict"
        raise NoteNotFoundError(f"{note.path}: {what} stands in it; see `vaultmem resolve`")
    return chosen


def _resolve(
    vault: Vault, address: str, how: str, number: int, settle: Callable[[Note], str | None]
) -> Resolved:
    def plan(change: Change) -> tuple[str, int, bool]:
        path = resolve_address(change.seen, address)[0]
        note = change.read(path)
        refuse_foreign(note)
        refuse_hidden(vault, note)
        chosen = _choose(note, number)
        text = settle(note)
        if text is None:
            change.remove(path, note.blob)
        else:
            change.replace(path, text.encode("utf-8"), note.blob)
        body = tuple(f"{how}: {each.verb} by {each.author}" for each in chosen)
        event = Event("resolve", name_files("resolve", [str(path)]), vault.author, body)
        change.commit(event, AuthorScope.ANYBODY)
        return str(path), len(chosen), text is None

    done = write(vault, plan)
    return Resolved(*done.value, done.report)
