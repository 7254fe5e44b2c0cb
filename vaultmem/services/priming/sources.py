"""List the sources of reference material, and remove one."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.priming import FOLDER, is_edited, primed_digest
from vaultmem.core.suggest import ask_meant
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.priming.prime import read_primed, see_target, write_texts
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.ownership import AuthorScope
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import write
from vaultmem.vault import Vault


class PrimedSource(NamedTuple):
    """A source: its notes, what they cost in a prompt, and how many are pinned, edited, by hand."""

    name: str
    notes: int
    tokens: int
    pinned: int
    edited: int
    by_hand: int


class Unpriming(NamedTuple):
    """What goes when a source is removed, and what stays, with the reason."""

    removed: tuple[str, ...]
    kept: dict[str, str]


def list_sources(vault: Vault) -> list[PrimedSource]:
    """Return the sources below `primed/`, by name; the vault must be in sync."""
    records = vault.view.records(f"d.path GLOB '{FOLDER}/*/*'")
    names = dict.fromkeys(record.path.split("/")[1] for record in records)
    found = []
    for name in names:
        own = [record for record in records if record.path.split("/")[1] == name]
        notes = read_primed(vault, name).values()
        found.append(
            PrimedSource(
                name,
                len(own),
                sum(record.tokens for record in own),
                sum(record.pinned for record in own),
                sum(bool(primed_digest(note)) and is_edited(note) for note in notes),
                sum(not primed_digest(note) for note in notes),
            )
        )
    return found


def list_source_notes(vault: Vault, source: str) -> list[NoteRecord]:
    """Return the notes of a source, by path; the vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such source.
    """
    below = f"{FOLDER}/{source}/"
    found = [
        record
        for record in vault.view.records(f"d.path GLOB '{FOLDER}/*/*'")
        if record.path.startswith(below)
    ]
    if not found:
        raise _refuse_unknown(vault, source)
    return sorted(found, key=lambda record: record.path)


def unprime_source(
    vault: Vault, source: str, *, everything: bool = False, dry_run: bool = False
) -> Unpriming:
    """Remove a source's notes; those edited or written by hand stay, unless `everything` goes.

    What no commit has is committed before, so that git can bring it back.

    Raises:
        NoteNotFoundError: there is no such source.
        ConflictError: a note was changed at the same time.
    """
    if dry_run:
        return _choose(see_target(vault), source, everything)

    def plan(change: Change) -> Unpriming:
        if change.is_folder:
            sync_vault(vault)
        chosen = _choose(change.seen, source, everything)
        write_texts(change, dict.fromkeys(chosen.removed))
        event = Event("write", f"unprime: {source}", vault.author, intent="refine")
        change.leave(event, AuthorScope.ANYBODY)
        return chosen

    return write(vault, plan).value


def _choose(vault: Vault, source: str, everything: bool) -> Unpriming:
    notes = read_primed(vault, source)
    if not notes:
        raise _refuse_unknown(vault, source)
    kept = {} if everything else {p: why for p, note in notes.items() if (why := _reason(note))}
    return Unpriming(tuple(path for path in notes if path not in kept), kept)


def _refuse_unknown(vault: Vault, source: str) -> NoteNotFoundError:
    known = [each.name for each in list_sources(vault)]
    there = f"; there are {', '.join(known[:5])}" if known else "; nothing is primed yet"
    near = ask_meant(source, known, there)
    return NoteNotFoundError(f"{source}: there is no such source{near}")


def _reason(note: Note) -> str:
    if not primed_digest(note):
        return "written by hand"
    return "edited here" if is_edited(note) else ""
