"""List the sources of reference material, and remove one."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.notes.note import Note
from vaultmem.core.priming import FOLDER, is_edited, primed_digest
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.priming.prime import read_primed, write_texts
from vaultmem.services.reading.look import find_branch, look_at
from vaultmem.services.reading.moves import undo_move
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.write_branch import commit_on_branch
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


def unprime_source(
    vault: Vault, source: str, *, everything: bool = False, dry_run: bool = False
) -> Unpriming:
    """Remove a source's notes; those edited or written by hand stay, unless `everything` goes.

    What no commit has is committed before, so that git can bring it back.

    Raises:
        NoteNotFoundError: there is no such source.
        ConflictError: a note was changed at the same time.
    """
    if branch := find_branch(vault):
        return _unprime_branch(vault, branch, source, everything, dry_run)
    with vault.lock():
        undo_move(vault)
        sync_vault(vault)
        plan = _choose(vault, source, everything)
        if not dry_run:
            write_texts(vault, dict.fromkeys(plan.removed))
    return plan


def _choose(vault: Vault, source: str, everything: bool) -> Unpriming:
    notes = read_primed(vault, source)
    if not notes:
        names = ", ".join(each.name for each in list_sources(vault)) or "none yet"
        raise NoteNotFoundError(f"{source}: there is no such source; there are: {names}")
    kept = {} if everything else {p: why for p, note in notes.items() if (why := _reason(note))}
    return Unpriming(tuple(path for path in notes if path not in kept), kept)


def _reason(note: Note) -> str:
    if not primed_digest(note):
        return "written by hand"
    return "edited here" if is_edited(note) else ""


def _unprime_branch(
    vault: Vault, branch: str, source: str, everything: bool, dry_run: bool
) -> Unpriming:
    if dry_run:
        return _choose(look_at(vault, f"refs/heads/{branch}"), source, everything)
    made = []

    def change(seen: Vault) -> dict[str, bytes | None]:
        made.append(_choose(seen, source, everything))
        return dict.fromkeys(made[-1].removed)

    event = Event("write", f"write: unprime {source}", vault.author, intent="refine")
    commit_on_branch(vault, branch, event, change)
    return made[-1]
