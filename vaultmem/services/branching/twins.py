"""Find the same statement under two paths, one made on each side of a merge, and make it one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.merging.note import is_note
from vaultmem.core.merging.twins import is_first, merge_twins
from vaultmem.core.notes.confirm import Saying
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.paths import PINNED_FILES, note_context
from vaultmem.core.similarity.canonical import canonical_form
from vaultmem.storage.git.commit_draft import File
from vaultmem.vault import Vault


class Twin(NamedTuple):
    """A note that two sides made: the one that stays, the path that it has no more, who said it."""

    path: str
    other: str
    authors: tuple[str, str]


class JoinedTwins(NamedTuple):
    """What becomes of twins: files by path, None for one that goes."""

    files: dict[str, File]
    twins: tuple[Twin, ...]


class _Made(NamedTuple):
    note: Note
    mode: str


def join_twins(
    vault: Vault, ours: Iterable[FileChange], theirs: Iterable[FileChange]
) -> JoinedTwins:
    """Make one note of each two that say the same, which each side added under its own path.

    The one made first stays, by the rules of `remember`; the other goes.
    """
    mine, other = ([c for c in side if _may_be_twin(c)] for side in (ours, theirs))
    files: dict[str, File] = {}
    twins: list[Twin] = []
    if not mine or not other:
        return JoinedTwins(files, ())
    by_form: dict[tuple[str, ...], list[_Made]] = {}
    for made in _read_notes(vault, other):
        by_form.setdefault(canonical_form(made.note.visible_body), []).append(made)
    for made in _read_notes(vault, mine):
        form = canonical_form(made.note.visible_body)
        for place, twin in enumerate(by_form.get(form, ()) if form else ()):
            if (joined := _join(vault, made, twin)) is not None:
                files |= joined[0]
                twins.append(joined[1])
                by_form[form].pop(place)
                break
    return JoinedTwins(files, tuple(twins))


def _may_be_twin(change: FileChange) -> bool:
    is_new = bool(change.blob) and not change.old_blob and change.is_regular
    is_memory = is_note(change.path) and not change.path.startswith("primed/")
    return is_new and is_memory and change.path not in PINNED_FILES


def _read_notes(vault: Vault, changes: Iterable[FileChange]) -> Iterable[_Made]:
    changes = list(changes)
    read = vault.history.objects.read_all(each.blob for each in changes)
    for change, (_, data) in zip(changes, read, strict=True):
        try:
            yield _Made(parse_note(PurePosixPath(change.path), data), change.mode)
        except UnreadableNoteError:
            continue


def _join(vault: Vault, ours: _Made, theirs: _Made) -> tuple[Mapping[str, File], Twin] | None:
    mine, other = ours.note, theirs.note
    is_ours = is_first(mine.text, other.text, mine.matter, other.matter)
    first, second = (ours, theirs) if is_ours else (theirs, ours)
    if not _may_absorb(vault, first.note, second.note):
        return None
    kept, gone = str(first.note.path), str(second.note.path)
    merged = merge_twins((kept, gone), first.note.text, second.note.text)
    if merged is None or merged.losses:
        return None
    files: dict[str, File] = {kept: (first.mode, merged.text.encode("utf-8")), gone: None}
    return files, Twin(kept, gone, (name_author(first.note), name_author(second.note)))


def _may_absorb(vault: Vault, first: Note, second: Note) -> bool:
    """Tell whether `remember` would have found the first note in place of making the second."""
    from vaultmem.services.likeness.known import NewMemory, may_absorb

    new = NewMemory(
        *(second.visible_body, second.title, note_context(second.path), second.kind, second.state),
        *(False, second.tags, second.refs, second.pinned),
    )
    return may_absorb(vault, first, new)


def name_author(note: Note) -> str:
    """Return who made a note, as `confirmed_by` names it."""
    from datetime import datetime

    return Saying(note.agent, note.session, datetime.min).who
