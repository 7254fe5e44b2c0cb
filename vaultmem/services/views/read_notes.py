"""Read notes: one by its address, or a list by filter."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.search.query import NoteFilter
from vaultmem.core.text.paths import fold, is_note_path, parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.views.update_index import retries_after_rebuild
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.sections import Section


class FoundNote(NamedTuple):
    """A note that was read, and the section that its address named, if any.

    `changed` is a message if the note differs from its handle. `whole` is the note before
    compaction, if requested.
    """

    note: Note
    section: Section | None
    changed: str = ""
    whole: Note | None = None

    @property
    def text(self) -> str:
        """The text of the section, or of the whole note with its properties."""
        note = self.whole or self.note
        if self.section is None:
            return note.text
        return note.section_text(self.section) + "\n"


def get_note(vault: Vault, address: str, full: bool = False) -> FoundNote:
    """Read the note at `path`, `path#Heading`, or by its bare name if that is unambiguous.

    A handle from a pack also works; if its note has changed, the present text is returned. With
    `full`, a compacted note has its earlier text.

    Raises:
        NoteNotFoundError: no such note or heading, or git lacks the full text.
        RefusedError: the path is unsafe, or its file cannot be read as a note.
    """
    path, heading, message = _locate(vault, address)
    note = read_note(vault, path)
    full_note = _read_whole(vault, note) if full else None
    section = (full_note or note).require_section(heading) if heading else None
    return FoundNote(note, section, message, full_note)


def _read_whole(vault: Vault, note: Note) -> Note:
    from vaultmem.services.views.texts import read_full

    return read_full(vault, note)


def _locate(vault: Vault, address: str) -> tuple[PurePosixPath, str, str]:
    """Return path and heading of a note by address or handle, and a message if it changed.

    A note's name can look like a handle: if both exist, the address is ambiguous.
    """
    from vaultmem.services.views.resolve_names import (
        describe_several,
        find_changed,
        find_named,
        is_handle,
    )

    name, _, heading = address.partition("#")
    if not is_handle(name):
        return (*resolve_address(vault, address), "")
    paths = find_named(vault, name)
    with contextlib.suppress(NoteNotFoundError):
        paths.add(str(resolve_address(vault, name)[0]))
    if len(paths) > 1:
        raise NoteNotFoundError(describe_several(vault, name, paths))
    if paths:
        return PurePosixPath(paths.pop()), heading, ""
    path = find_changed(vault, name)
    return path, heading, f"{path} changed since {name}; this is how it is now"


def read_note(vault: Vault, path: PurePosixPath) -> Note:
    """Read the note that counts at a path, now or in the viewed commit.

    It is the stored text, unless that is invalid: then `problem` is the reason.

    Raises:
        NoteNotFoundError: there is no such file.
        RefusedError: the file cannot be read as a note, or nothing of it can be shown.
    """
    from vaultmem.services.views.invalid_notes import read_counting

    note = read_as_written(vault, path)
    if not vault.view.is_work_tree:
        return note._replace(problem=find_problem(vault, path))
    effective_note = read_counting(vault, note)
    if effective_note is None:
        raise RefusedError(f"{path}: {note.problem}; fix it in an editor first")
    return effective_note


def find_note(vault: Vault, path: PurePosixPath | str) -> Note | None:
    """Return the note that counts at a path, None if `read_note` fails."""
    try:
        return read_note(vault, PurePosixPath(path))
    except (NoteNotFoundError, RefusedError):
        return None


def find_problem(vault: Vault, path: PurePosixPath) -> str:
    """Return why the note at a path of the view is invalid, "" if it is valid."""
    if not vault.view.problems():
        return ""
    records = vault.view.records("d.path = ?", [str(path)])
    return next((record.problem for record in records if record.problem), "")


def read_as_written(vault: Vault, path: PurePosixPath) -> Note:
    """Read a note to change it: the exact text on disk, or on the branch.

    Raises:
        NoteNotFoundError: there is no such file.
        RefusedError: the file cannot be read as a note.
    """
    try:
        return parse_note(path, read_bytes(vault, path))
    except UnreadableNoteError as error:
        raise RefusedError(f"{path}: {error}") from None
    except UnsafeFileError as error:
        raise RefusedError(str(error)) from None


def read_bytes(vault: Vault, path: PurePosixPath) -> bytes:
    """Return a note's bytes on disk, or in the viewed commit.

    Raises:
        NoteNotFoundError: there is no such note.
        UnsafeFileError: the file is unsafe to read.
    """
    if vault.view.is_work_tree:
        return read_file(vault.root, path)
    blob = vault.view.blobs().get(str(path))
    if blob is None:
        raise NoteNotFoundError(f"{path}: there is no such note")
    return vault.history.objects.read(blob)[1]


@retries_after_rebuild
def list_notes(vault: Vault, note_filter: NoteFilter) -> list[NoteRecord]:
    """Return the notes that match the filter, by path; the vault must be in sync."""
    return list(filter(note_filter.admits, vault.view.records()))


def count_notes(vault: Vault, name: Callable[[NoteRecord], Iterable[str]]) -> list[tuple[str, int]]:
    """Return the number of notes for each name, highest first; hidden notes are left out."""
    counts = Counter(each for record in list_notes(vault, NoteFilter()) for each in name(record))
    del counts[""]
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def resolve_address(vault: Vault, address: str, by_title: bool = True) -> tuple[PurePosixPath, str]:
    """Return the path and heading of an address: `.md` and folders can be left out.

    With `by_title`, an address that is not a path or bare name can be a title or alias.

    Raises:
        NoteNotFoundError: several notes have that name, or none.
        RefusedError: the path is unsafe.
    """
    is_there = _is_file if vault.view.is_work_tree else _is_listed
    if is_there(vault, address):
        return parse_note_path(address), ""
    name, _, heading = address.partition("#")
    path = parse_note_path(name)
    for candidate in (name, f"{name}.md"):
        if is_there(vault, candidate):
            return PurePosixPath(candidate), heading
    all_paths = vault.manifest.blobs() if vault.view.is_work_tree else vault.view.blobs()
    suffix = fold(f"/{path}".removesuffix(".md"))
    matches = [each for each in all_paths if fold(f"/{each}".removesuffix(".md")).endswith(suffix)]
    from vaultmem.services.views.resolve_names import (
        describe_several,
        describe_unknown,
        find_titled,
    )

    if not matches and by_title:
        if titled_paths := find_titled(vault, address):
            matches, heading = titled_paths, ""
        elif not (matches := find_titled(vault, name) if heading else []):
            raise NoteNotFoundError(describe_unknown(vault, name))
    if len(matches) == 1:
        return PurePosixPath(matches[0]), heading
    if matches:
        raise NoteNotFoundError(describe_several(vault, name, matches))
    raise NoteNotFoundError(f"{name}: there is no such note; see `vaultmem list`")


def resolve_whole(vault: Vault, address: str) -> PurePosixPath:
    """Return the path of the note that an address names.

    Raises:
        NoteNotFoundError: several notes have that bare name, or none.
        RefusedError: the path is unsafe, or names a section.
    """
    path, heading = resolve_address(vault, address)
    if heading:
        raise RefusedError(f"{address}: a section; name the whole note")
    return path


def _is_file(vault: Vault, address: str) -> bool:
    path = parse_note_path(address)
    file = vault.root / path
    try:
        return is_note_path(path) and file.is_file() and not file.is_symlink()
    except OSError:  # The name is too long.
        return False


def _is_listed(vault: Vault, address: str) -> bool:
    return str(parse_note_path(address)) in vault.view.blobs()
