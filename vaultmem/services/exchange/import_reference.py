"""Import reference material into `primed/<source>/`: a note for each heading."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.reference import (
    FOLDER,
    PrimedNote,
    PrimePlan,
    choose_note_paths,
    is_edited,
    plan_priming,
    primed_digest,
    split_document,
)
from vaultmem.core.text.paths import check_new_name, is_hidden, parse_note_path, slugify
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import HOW_TO_ALLOW, AuthorScope, scan_note_text
from vaultmem.services.changes.write import write
from vaultmem.services.views.open_view import find_branch, view_at
from vaultmem.services.views.read_notes import read_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.vault import Vault

#: Most bytes of a document; a book has one or two million.
MAX_DOCUMENT = 32 * 1024 * 1024

_ENDINGS = frozenset({".md", ".markdown"})


class SourceFile(NamedTuple):
    """A document to import: its name for messages, its notes' folder below the source, its text."""

    name: str
    folder: str
    text: str


def read_sources(place: Path) -> list[SourceFile]:
    """Return a document, or all markdown below a folder; links are not followed.

    Raises:
        NoteNotFoundError: there is no such file, or no markdown in the folder.
        RefusedError: a document is not text, or too large.
    """
    if place.is_dir():
        files = [f for f in sorted(place.rglob("*")) if _is_document(place, f)]
        if not files:
            raise NoteNotFoundError(f"{place}: no markdown in it; name a file or another folder")
        return [_read_in_folder(place, file) for file in files]
    if not place.is_file():
        raise NoteNotFoundError(f"{place}: there is no such file; name a document, a folder or -")
    return [SourceFile(place.name, "", decode_document(place.name, _read_bytes(place)))]


def decode_document(name: str, data: bytes) -> str:
    """Return a document's text, decoded like a note's.

    Raises:
        RefusedError: it is not text, or too large.
    """
    if len(data) > MAX_DOCUMENT:
        raise RefusedError(f"{name}: larger than {MAX_DOCUMENT // 1024**2} MiB; divide it")
    text = decode_text(data).text.removeprefix("\ufeff")
    if "\0" in text:
        raise RefusedError(f"{name}: it contains NUL bytes, so it is not text")
    return text


def prime_source(
    vault: Vault,
    source: str,
    files: list[SourceFile],
    *,
    pin: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> PrimePlan:
    """Update a source's notes from its documents, and return the plan.

    Edited notes stay (see `plan_priming`). Unchanged documents change nothing. A branch that is not
    checked out gets a commit; otherwise nothing is committed.

    Raises:
        RefusedError: the source's name is unsafe, a section is too large or looks like a
            credential, or the documents have no text; nothing was written.
    """
    notes = _name_all(vault, check_source(source), files)

    def plan(view: Vault) -> PrimePlan:
        return plan_priming(notes, read_primed(view, source), pin, overwrite)

    if dry_run:
        return plan(open_target(vault))

    def change_notes(change: Change) -> PrimePlan:
        if change.is_folder:
            sync_vault(vault)
        prime_plan = plan(change.seen)
        write_texts(change, prime_plan.texts)
        event = Event("write", f"prime: {source}", vault.author, intent="observe")
        change.leave(event, AuthorScope.ANYBODY)
        return prime_plan

    return write(vault, change_notes).value


def open_target(vault: Vault) -> Vault:
    """Return the vault to write to: the folder in sync, or a view of its branch."""
    if branch := find_branch(vault):
        return view_at(vault, f"refs/heads/{branch}")
    sync_vault(vault)
    return vault


def read_primed(vault: Vault, source: str) -> dict[str, Note]:
    """Return the notes below `primed/<source>/`, by path."""
    records = vault.view.records("d.path GLOB ?", (f"{FOLDER}/{_escape_glob(source)}/*",))
    return {record.path: read_note(vault, PurePosixPath(record.path)) for record in records}


def check_source(source: str) -> str:
    """Return a source's name if it is valid for a folder.

    Raises:
        RefusedError: it is empty, unsafe, or more than one folder.
    """
    path = parse_note_path(source)
    if len(path.parts) != 1 or "/" in source or "\\" in source:
        raise RefusedError(f'"{source}" is not a name for a source; use one word or a few')
    check_new_name(PurePosixPath(FOLDER, path, "x.md"))
    return str(path)


def write_texts(change: Change, texts: Mapping[str, str | None]) -> None:
    """Write these notes; remove those with None."""
    blobs = change.seen.view.blobs()
    for name, text in texts.items():
        path = PurePosixPath(name)
        if text is None:
            change.remove(path, blobs[name])
        elif name in blobs:
            change.replace(path, text.encode("utf-8"), blobs[name])
        else:
            change.put(path, text.encode("utf-8"))


def _name_all(vault: Vault, source: str, files: list[SourceFile]) -> list[PrimedNote]:
    notes: dict[str, PrimedNote] = {}
    for file in files:
        for note in choose_note_paths(source, file.name, split_document(file.text), file.folder):
            if note.path in notes:
                raise RefusedError(
                    f"{file.name}: its notes would have the names of {notes[note.path].origin}; "
                    "rename one of the files"
                )
            _check(vault, file.name, note)
            notes[note.path] = note
    if not notes:
        raise RefusedError(
            f"{source}: no text to import; `vaultmem reference --remove {shlex.quote(source)}` "
            "removes the source"
        )
    return list(notes.values())


def _check(vault: Vault, name: str, note: PrimedNote) -> None:
    if len(note.body.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES - 4096:
        raise RefusedError(
            f"{name or 'standard input'}: the section at line {note.line} is over 1 MiB; divide it"
        )
    for leak in scan_note_text(vault, note.path, f"{note.title}\n{note.body}"):
        raise RefusedError(
            f"{name or 'standard input'}: the section at line {note.line} has a text that looks "
            f"like a credential ({leak.rule}); {HOW_TO_ALLOW}"
        )


def _is_document(place: Path, file: Path) -> bool:
    parts = file.relative_to(place).parts
    links = [place.joinpath(*parts[: n + 1]).is_symlink() for n in range(len(parts))]
    is_text = file.suffix.lower() in _ENDINGS and not any(links) and file.is_file()
    return is_text and not any(map(is_hidden, parts))


def _read_in_folder(place: Path, file: Path) -> SourceFile:
    inside = file.relative_to(place)
    folder = "/".join(slugify(part) for part in (*inside.parts[:-1], inside.stem))
    name = inside.as_posix()
    return SourceFile(name, folder, decode_document(name, _read_bytes(file)))


def _read_bytes(file: Path) -> bytes:
    with open(file, "rb") as stream:
        return stream.read(MAX_DOCUMENT + 1)


def _escape_glob(text: str) -> str:
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in text)


# List the sources of reference material, and remove one.


class PrimedSource(NamedTuple):
    """A source: its notes, their tokens, and how many are pinned, edited or hand-written."""

    name: str
    notes: int
    tokens: int
    pinned: int
    edited: int
    by_hand: int


class RemovalPlan(NamedTuple):
    """The notes to remove with a source, and those that stay, with reasons."""

    removed: tuple[str, ...]
    kept_notes: dict[str, str]


def list_sources(vault: Vault) -> list[PrimedSource]:
    """Return the sources below `primed/`, by name; the vault must be in sync."""
    records = vault.view.records(f"d.path GLOB '{FOLDER}/*/*'")
    names = dict.fromkeys(record.path.split("/")[1] for record in records)
    sources = []
    for name in names:
        own = [record for record in records if record.path.split("/")[1] == name]
        notes = read_primed(vault, name).values()
        sources.append(
            PrimedSource(
                name,
                len(own),
                sum(record.tokens for record in own),
                sum(record.pinned for record in own),
                sum(bool(primed_digest(note)) and is_edited(note) for note in notes),
                sum(not primed_digest(note) for note in notes),
            )
        )
    return sources


def list_source_notes(vault: Vault, source: str) -> list[NoteRecord]:
    """Return the notes of a source, by path; the vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such source.
    """
    prefix = f"{FOLDER}/{source}/"
    records = [
        record
        for record in vault.view.records(f"d.path GLOB '{FOLDER}/*/*'")
        if record.path.startswith(prefix)
    ]
    if not records:
        raise _reject_unknown(vault, source)
    return sorted(records, key=lambda record: record.path)


def unprime_source(
    vault: Vault, source: str, *, everything: bool = False, dry_run: bool = False
) -> RemovalPlan:
    """Remove a source's notes; edited and hand-written ones stay unless `everything`.

    Uncommitted notes are committed first, so that git can restore them.

    Raises:
        NoteNotFoundError: there is no such source.
        ConflictError: a note was changed at the same time.
    """
    if dry_run:
        return _choose(open_target(vault), source, everything)

    def plan(change: Change) -> RemovalPlan:
        if change.is_folder:
            sync_vault(vault)
        removal_plan = _choose(change.seen, source, everything)
        write_texts(change, dict.fromkeys(removal_plan.removed))
        event = Event("write", f"unprime: {source}", vault.author, intent="refine")
        change.leave(event, AuthorScope.ANYBODY)
        return removal_plan

    return write(vault, plan).value


def _choose(vault: Vault, source: str, everything: bool) -> RemovalPlan:
    notes = read_primed(vault, source)
    if not notes:
        raise _reject_unknown(vault, source)
    reasons = (
        {} if everything else {p: reason for p, note in notes.items() if (reason := _reason(note))}
    )
    return RemovalPlan(tuple(path for path in notes if path not in reasons), reasons)


def _reject_unknown(vault: Vault, source: str) -> NoteNotFoundError:
    names = [each.name for each in list_sources(vault)]
    hint = f"; there are {', '.join(names[:5])}" if names else "; nothing was imported yet"
    suggestion = suggest_similar(source, names, hint)
    return NoteNotFoundError(f"{source}: there is no such source{suggestion}")


def _reason(note: Note) -> str:
    if not primed_digest(note):
        return "written by hand"
    return "edited here" if is_edited(note) else ""
