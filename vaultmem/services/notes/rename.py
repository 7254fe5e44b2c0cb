"""Give a note another name or folder, and keep every link to it and from it right.

The note first exists under both names. Then each linking note is changed, and the old name goes
last: at no moment does a link lead nowhere. What is under way is written down; after a crash the
next `rename_note` finishes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.links.link import Link
from vaultmem.core.links.names import Names
from vaultmem.core.links.rewrite import LinkEdit, apply_edits, plan_edits
from vaultmem.core.paths import check_new_name, fold_name, parse_note_path
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.finding.links import LinkGraph
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.moves import undo_move
from vaultmem.services.reading.read_notes import read_note, resolve_address
from vaultmem.services.reading.sync import sync_paths, sync_vault
from vaultmem.services.writing.commit import commit_earlier
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.write_branch import commit_on_branch, names_on_branch
from vaultmem.storage.files import create_file, read_file_and_mode, remove_file, replace_file
from vaultmem.storage.journal import REMOVED
from vaultmem.storage.renames import (
    Intent,
    change_case,
    drop_intent,
    finish_case,
    read_intent,
    write_intent,
)
from vaultmem.storage.signals import SignalStore
from vaultmem.vault import Vault

_ATTEMPTS = 5


class Rename(NamedTuple):
    """A note's two paths, the link edits by note (its path before), and what loses its trust.

    `was_finished` tells that an interruption had left it half done.
    """

    old: str
    new: str
    edits: Mapping[str, list[LinkEdit]] = MappingProxyType({})
    untrusted: tuple[str, ...] = ()
    was_finished: bool = False


def plan_rename(vault: Vault, address: str, new: str) -> Rename:
    """Return what a rename would change; the vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: the new name is unsafe, or a link could not hold it.
        ConflictError: a note of that name exists.
    """
    old, heading = resolve_address(vault, address)
    if heading:
        raise RefusedError(f"{address}: a section; name the whole note")
    target = _read_target(vault, old, new)
    graph = LinkGraph(vault)
    if str(old) not in graph.documents:
        raise RefusedError(f"{old}: not a note that vaultmem reads; move it yourself")
    edits = _find_edits(vault, graph, (str(old), str(target)))
    changed = {path for path, made in edits.items() if any(not e.link.property for e in made)}
    untrusted = vault.trust.notes().keys() & {str(old), *changed}
    return Rename(str(old), str(target), edits, tuple(sorted(untrusted)))


def rename_note(vault: Vault, address: str, new: str) -> Rename:
    """Rename a note and change the links of all notes; nothing is committed in the folder.

    On a branch that is not checked out, it is one commit there.

    Raises:
        NoteNotFoundError, RefusedError, ConflictError: as for `plan_rename`.
        ConflictError: a note was changed at the same time; run it again to finish.
    """
    if branch := find_branch(vault):
        return _rename_on_branch(vault, branch, address, new)
    with vault.lock():
        undo_move(vault)
        if (finished := _finish(vault, address, new)) is not None:
            return finished
        sync_vault(vault)
        rename = plan_rename(vault, address, new)
        if rename.old == rename.new:
            return rename
        blob = vault.view.blobs()[rename.old]
        _commit_others(vault, rename)
        write_intent(vault.state_folder, Intent(rename.old, rename.new, blob))
        _carry_out(vault, rename, blob)
    return rename


def _finish(vault: Vault, address: str, new: str) -> Rename | None:
    """Finish what an interruption left; return it if it is what is asked for now."""
    intent = read_intent(vault.state_folder)
    if intent is None:
        return None
    old, target = PurePosixPath(intent.old), PurePosixPath(intent.new)
    there = [(vault.root / path).is_file() for path in (old, target)]
    if not there[1] or fold_name(old) == fold_name(target):
        finish_case(vault.root, old, target)
        drop_intent(vault.state_folder)  # Nothing had happened yet, or all in one step.
        return None
    sync_vault(vault)
    graph = LinkGraph(vault)
    edits = _find_edits(vault, graph, (intent.old, intent.new)) if there[0] else {}
    edits.pop(intent.old, None)
    rename = Rename(intent.old, intent.new, edits, was_finished=True)
    _carry_out(vault, rename, intent.blob)
    wanted = {address, f"{address}.md"}
    is_asked = bool(wanted & {intent.old, old.name}) and _same_target(old, target, new)
    return rename if is_asked else None


def _find_edits(
    vault: Vault, graph: LinkGraph, moved: tuple[str, str]
) -> dict[str, list[LinkEdit]]:
    """Return, by note, the edits after which each link means what it meant before the move."""
    before, after = _names(graph, *moved)
    edits = {}
    for document, links in graph.all_links():
        path = graph.paths[document]
        place = (path, moved[1] if path == moved[0] else path)
        if any(_means_other(before, after, link, place, moved) for link in links):
            text = read_note(vault, PurePosixPath(path)).text
            if planned := plan_edits(text, place, before, after, moved):
                edits[path] = planned
    return dict(sorted(edits.items()))


def _carry_out(vault: Vault, rename: Rename, blob: str) -> None:
    """Do the steps that are not done yet, in the order that never loses a link."""
    old, new = PurePosixPath(rename.old), PurePosixPath(rename.new)
    if fold_name(old) == fold_name(new):
        vault.journal.record(rename.old, REMOVED, vault.author, time.time())
        vault.journal.record(rename.new, blob, vault.author, time.time())
        change_case(vault.root, old, new, blob)
        edited = [new]
    else:
        if not (vault.root / new).is_file():
            text = read_note(vault, old).text
            mode = read_file_and_mode(vault.root, old)[1] & 0o777
            data = apply_edits(text, rename.edits.get(rename.old, [])).encode()
            vault.journal.record(rename.new, blob_id(data), vault.author, time.time())
            create_file(vault.root, new, data, mode)
        edited = [PurePosixPath(path) for path in rename.edits if path != rename.old]
        for path in edited:
            _edit_links(vault, path, rename)
        _remove_old(vault, old, new, blob)
    sync_paths(vault, [old, new, *edited])
    SignalStore(vault.state, vault.state_folder).rename(rename.old, rename.new)
    drop_intent(vault.state_folder)


def _remove_old(vault: Vault, old: PurePosixPath, new: PurePosixPath, blob: str) -> None:
    if not (vault.root / old).is_file():
        return
    vault.journal.record(str(old), REMOVED, vault.author, time.time())
    try:
        remove_file(vault.root, old, blob)
    except ConflictError:
        sync_paths(vault, [old, new])
        drop_intent(vault.state_folder)
        raise ConflictError(
            f"{old}: somebody changed it meanwhile, so it is kept beside {new}; "
            "bring the two together and remove it"
        ) from None


def _edit_links(vault: Vault, path: PurePosixPath, rename: Rename) -> None:
    """Change one note's links; a save by somebody else meanwhile is kept and changed instead."""
    planned = rename.edits[str(path)]
    for attempt in range(_ATTEMPTS):
        note = read_note(vault, path)
        written = [note.text[edit.link.start : edit.link.end] for edit in planned]
        if written != [edit.old for edit in planned]:
            planned = _plan_again(vault, path, note.text, rename)
        data = apply_edits(note.text, planned).encode()
        if blob_id(data) == note.blob:
            return
        vault.journal.record(str(path), blob_id(data), vault.author, time.time())
        try:
            replace_file(vault.root, path, note.blob, data)
            return
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise


def _plan_again(vault: Vault, path: PurePosixPath, text: str, rename: Rename) -> list[LinkEdit]:
    before, after = _names(LinkGraph(vault), rename.old, rename.new)
    return plan_edits(text, (str(path), str(path)), before, after, (rename.old, rename.new))


def _names(graph: LinkGraph, old: str, new: str) -> tuple[Names, Names]:
    """Return what links can find before the move and behind it, wherever it stands now."""
    return graph.names_with(old, without=new), graph.names_with(new, without=old)


def _means_other(
    before: Names, after: Names, link: Link, place: tuple[str, str], moved: tuple[str, str]
) -> bool:
    meant = before.find(link, place[0])
    target = moved[1] if meant == moved[0] else meant
    return meant is not None and after.find(link, place[1]) != target


def _read_target(vault: Vault, old: PurePosixPath, text: str) -> PurePosixPath:
    """Return the path that a note is to have.

    Raises:
        RefusedError: it is unsafe.
        ConflictError: it is taken.
    """
    path = parse_note_path(text)
    is_folder = text.endswith("/") or (vault.view.is_work_tree and (vault.root / path).is_dir())
    if is_folder:
        path = path / old.name
    elif path.suffix.lower() != ".md":
        path = path.with_name(f"{path.name}.md")
    check_new_name(path)
    taken = _taken(vault, path) - {fold_name(old)}
    if fold_name(path) in taken:
        raise ConflictError(f"{path}: a note of that name exists; choose another")
    return path


def _same_target(old: PurePosixPath, target: PurePosixPath, text: str) -> bool:
    path = PurePosixPath(text)
    return target in {
        path,
        path.with_name(f"{path.name}.md") if path.name else path,
        path / old.name,
    }


def _taken(vault: Vault, path: PurePosixPath) -> set[str]:
    """Return the folded names of all that is in a folder."""
    if not vault.view.is_work_tree:
        return names_on_branch(vault, path.parent)
    try:
        return {fold_name(path.parent / each.name) for each in (vault.root / path.parent).iterdir()}
    except OSError:
        return set()


def _commit_others(vault: Vault, rename: Rename) -> None:
    """Commit what others wrote to these notes before they are changed."""
    blobs = vault.view.blobs()
    commit_earlier(vault, {path: blobs[path] for path in {rename.old, *rename.edits}})


def _rename_on_branch(vault: Vault, branch: str, address: str, new: str) -> Rename:
    done = []

    def change(seen: Vault) -> dict[str, bytes | None]:
        rename = plan_rename(seen, address, new)
        done.append(rename)
        files: dict[str, bytes | None] = {} if rename.old == rename.new else {rename.old: None}
        for path in {rename.old, *rename.edits}:
            text = apply_edits(
                read_note(seen, PurePosixPath(path)).text, rename.edits.get(path, [])
            )
            files[rename.new if path == rename.old else path] = text.encode()
        return files

    event = Event("write", f"write: {address} is now {new}", vault.author, intent="refine")
    commit_on_branch(vault, branch, event, change)
    return done[-1]
