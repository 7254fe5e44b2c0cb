"""Rename or move a note, and update every link to it and from it.

This is one transaction. The note first exists under both names, then each linking note is changed,
and the old name is removed last. So every link always has a target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.commit_message import format_files, format_pair
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.edit_properties import mark_as_memory
from vaultmem.core.notes.encoding import CANVAS
from vaultmem.core.notes.link_syntax import Link, LinkNames
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.rewrite_links import LinkEdit, apply_edits, plan_edits, plan_repairs
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import check_new_name, fold_name, parse_note_path
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change, check_encoding
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import PendingFiles, read_pending
from vaultmem.services.changes.write import write
from vaultmem.services.history.diff import find_uncommitted
from vaultmem.services.lifecycle.transition import check_branch
from vaultmem.services.search.link_walk import LinkGraph
from vaultmem.services.views.follow_renames import follow_renames, read_renames
from vaultmem.services.views.invalid_notes import read_counting
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.read_notes import read_bytes, read_note, resolve_whole
from vaultmem.services.views.resolve_names import names_in
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.query_log import SignalStore
from vaultmem.vault import Vault


class Rename(NamedTuple):
    """A note's two paths, the link edits by note (old path), and notes that lose their trust."""

    old: str
    new: str
    edits: Mapping[str, list[LinkEdit]] = MappingProxyType({})
    untrusted: tuple[str, ...] = ()


def plan_rename(vault: Vault, address: str, new: str) -> Rename:
    """Return the changes of a rename. The index must be up to date.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: the new name is unsafe, or a link cannot contain it.
        ConflictError: a note of that name exists.
    """
    old = resolve_whole(vault, address)
    graph = LinkGraph(vault)
    if str(old) not in graph.documents:
        raise RefusedError(
            f"{old}: not a note that vaultmem reads; move it in a file manager, "
            "then run `vaultmem links --repair`"
        )
    target = _read_target(vault, old, new, is_named="/" not in address)
    edits = _find_edits(vault, graph, (str(old), str(target)))
    changed_paths = {
        path for path, note_edits in edits.items() if any(not e.link.property for e in note_edits)
    }
    untrusted = vault.trust.notes().keys() & {str(old), *changed_paths}
    return Rename(str(old), str(target), edits, tuple(sorted(untrusted)))


def rename_note(vault: Vault, address: str, new: str) -> Rename:
    """Rename a note and update the links of all notes. In the folder, nothing is committed.

    On a branch that is not checked out, the rename is one commit.

    Raises:
        NoteNotFoundError, RefusedError, ConflictError: as for `plan_rename`.
        ConflictError: a note kept changing meanwhile; nothing was changed.
        RefusedError: it is pinned or quarantined, and the caller is an agent.
    """

    def plan(change: Change) -> Rename:
        if change.is_folder:
            sync_vault(vault)
        rename = plan_rename(change.seen, address, new)
        if rename.old != rename.new:
            _build_changes(change, rename)
            subject = format_pair("mv", rename.old, " to ", rename.new)
            change.leave(Event("write", subject, vault.author, intent="refine"))
        return rename

    with vault.lock():
        rename = write(vault, plan).value
        if rename.old != rename.new and not find_branch(vault):
            with vault.leaving_to_next():
                SignalStore(vault.state, vault.state_folder).rename(rename.old, rename.new)
    return rename


def _find_edits(vault: Vault, graph: LinkGraph, move: tuple[str, str]) -> dict[str, list[LinkEdit]]:
    """Return, by note, the edits after which each link has the same target as before the move."""
    before, after = _names(graph, *move)
    edits = {}
    for document, links in graph.all_links():
        path = graph.paths[document]
        place = (path, move[1] if path == move[0] else path)
        if any(_means_other(before, after, link, place, move) for link in links):
            text = read_text(vault, read_note(vault, PurePosixPath(path)))
            if note_edits := plan_edits(text, place, before, after, move):
                edits[path] = note_edits
    return dict(sorted(edits.items()))


def _build_changes(change: Change, rename: Rename) -> None:
    """Move the note and change all links to it."""
    old, new = PurePosixPath(rename.old), PurePosixPath(rename.new)
    note = change.read(old)
    if note.pinned:
        change.seen.require_person(f"{old}: pinned, so only a person renames it")
    effective_note = read_counting(change.seen, note)
    if effective_note is None or effective_note.state is NoteState.QUARANTINED:
        change.seen.require_person(f"{old}: quarantined, so only a person moves it")
    edits = rename.edits.get(rename.old, [])
    data = read_bytes(change.seen, old)
    if edits or blob_id(data) != note.blob:  # Saved since it was read; `remove` checks this.
        text = read_text(change.seen, note)
        data = apply_edits(text, edits, rename.old).encode()
    if note.state is not NoteState.ACTIVE and not (note.problem or note.encoding):
        data = mark_as_memory(new, data.decode(), note.kind).encode()
    change.move(old, note.blob, new, data)
    for path in map(PurePosixPath, rename.edits.keys() - {rename.old}):
        linking_note = change.read(path)
        text = read_text(change.seen, linking_note)
        note_edits = rename.edits[str(path)]
        link_texts = [text[edit.link.start : edit.link.end] for edit in note_edits]
        if link_texts != [edit.old for edit in note_edits]:  # Saved since the plan was made.
            note_edits = _plan_again(change.seen, path, text, rename)
        change.replace(path, apply_edits(text, note_edits, str(path)).encode(), linking_note.blob)


def read_text(vault: Vault, note: Note) -> str:
    """Return the text with a note's links; for a canvas, its JSON.

    Raises:
        RefusedError: it is not UTF-8.
        ConflictError: another process saved it since it was read.
    """
    if note.encoding != CANVAS:
        check_encoding(note)
        return note.text
    data = read_bytes(vault, note.path)
    if blob_id(data) != note.blob:
        raise ConflictError(f"{note.path}: another process changed it; read it again")
    return data.decode()


def _plan_again(vault: Vault, path: PurePosixPath, text: str, rename: Rename) -> list[LinkEdit]:
    before, after = _names(LinkGraph(vault), rename.old, rename.new)
    return plan_edits(text, (str(path), str(path)), before, after, (rename.old, rename.new))


def _names(graph: LinkGraph, old: str, new: str) -> tuple[LinkNames, LinkNames]:
    """Return the link names before and after the move, independent of its progress."""
    return graph.names_with(old, without=new), graph.names_with(new, without=old)


def _means_other(
    before: LinkNames, after: LinkNames, link: Link, place: tuple[str, str], move: tuple[str, str]
) -> bool:
    old_target = before.find(link, place[0])
    target = move[1] if old_target == move[0] else old_target
    return old_target is not None and after.find(link, place[1]) != target


def _read_target(vault: Vault, old: PurePosixPath, text: str, is_named: bool) -> PurePosixPath:
    """Return the new path of a note. If both names have no folder, the note stays in its folder.

    Raises:
        RefusedError: the path is unsafe.
        ConflictError: the path is taken.
    """
    path = parse_note_path(text)
    is_folder = text.endswith("/") or (vault.view.is_work_tree and (vault.root / path).is_dir())
    if is_folder:
        path = path / old.name
    else:
        name = path.name if path.suffix.lower() == old.suffix.lower() else path.name + old.suffix
        path = (old if is_named and "/" not in text else path).with_name(name)
    check_new_name(path)
    existing_names = names_in(vault, path.parent).keys() - {fold_name(old)}
    if fold_name(path) in existing_names:
        raise ConflictError(f"{path}: a note of that name exists; choose another")
    return path


# Repair links that are broken because files were renamed or moved in the folder.

#: Hint that status and doctor print.
HOW_TO_REPAIR = "`vaultmem links --repair` repairs them"


class Repair(NamedTuple):
    """The link edits by note, the notes that lose their trust, and the commits."""

    edits: Mapping[str, list[LinkEdit]] = MappingProxyType({})
    untrusted: tuple[str, ...] = ()
    report: CommitReport = CommitReport()

    @property
    def links(self) -> int:
        """The number of links."""
        return sum(map(len, self.edits.values()))


def plan_repair(vault: Vault, pending: PendingFiles | None = None) -> Repair:
    """Return the edits for broken links whose target was moved.

    Renames in all commits and in the folder (`pending`) are known. The index must be up to date.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
    """
    check_branch(vault)
    if vault.head() is None:
        return Repair()
    renames = find_uncommitted(vault, pending or read_pending(vault))
    renames = {**read_renames(vault), **renames}
    edits = _find_repairs(vault, renames) if renames else {}
    changed_paths = {
        path for path, note_edits in edits.items() if any(not e.link.property for e in note_edits)
    }
    return Repair(edits, tuple(sorted(vault.trust.notes().keys() & changed_paths)))


def repair_links(vault: Vault) -> Repair:
    """Repair broken links in one commit, without other changes.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """

    def plan(change: Change) -> Repair:
        repair = plan_repair(vault)
        for path, edits in repair.edits.items():
            note = change.read(PurePosixPath(path))
            data = apply_edits(read_text(vault, note), edits, path).encode()
            change.replace(note.path, data, note.blob)
        if repair.edits:
            subject = format_files("repair links", repair.edits)
            change.commit(Event("write", subject, vault.author, intent="refine"))
        return repair

    repair, report = write(vault, plan)
    return repair._replace(report=report)


def _find_repairs(vault: Vault, renames: Mapping[str, str]) -> dict[str, list[LinkEdit]]:
    graph = LinkGraph(vault)
    new_paths = {
        old: follow_renames(old, graph.files, renames) for old in renames.keys() - graph.files
    }
    moves = {old: new for old, new in new_paths.items() if new in graph.files}
    if not moves:
        return {}
    before, old_paths = graph.names_before(moves), {new: old for old, new in moves.items()}
    edits = {}
    for document, links in graph.all_links():
        path = graph.paths[document]
        place = (old_paths.get(path, path), path)
        if not any(
            graph.names.find(link, path) is None and before.find(link, place[0]) for link in links
        ):
            continue
        with contextlib.suppress(NoteNotFoundError, RefusedError):  # It cannot be changed.
            text = read_text(vault, read_note(vault, PurePosixPath(path)))
            if note_edits := plan_repairs(text, place, before, graph.names, moves):
                edits[path] = note_edits
    return dict(sorted(edits.items()))
