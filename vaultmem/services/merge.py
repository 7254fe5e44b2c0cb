"""Merge another branch: all of it, in one commit, or nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vaultmem.core.blob import blob_id
from vaultmem.core.merge_note import merge_texts
from vaultmem.errors import MergeConflictError, PendingError
from vaultmem.services.clean import check_clean
from vaultmem.services.commit import draft_event
from vaultmem.services.divide import Event
from vaultmem.services.look import find_branch
from vaultmem.services.move import (
    Changes,
    find_moves,
    finish_move,
    move_files,
    undo_move,
)
from vaultmem.services.pending import find_leaks
from vaultmem.services.sync import sync_vault
from vaultmem.storage.commits import Draft, File, RefMovedError, TreeEntry
from vaultmem.storage.log import walk_log
from vaultmem.storage.merge_tree import MergedTree, Unmerged, merge_commits
from vaultmem.storage.refs import Target
from vaultmem.vault import Vault

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Conflict:
    """What both sides changed differently: a property or lines of a note, or the whole file.

    The texts are what each side has, empty where it has nothing; `our_author` and `their_author`
    wrote the newest change of the note on their side.
    """

    path: str
    what: str
    ours: str
    theirs: str
    our_author: str
    their_author: str


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did: into which branch; its commit, empty if there was nothing to merge."""

    source: Target
    into: str
    commit: str
    paths: tuple[str, ...] = ()


def merge_branch(vault: Vault, name: str) -> MergeReport:
    """Merge a branch, tag or commit into the vault's branch, as one commit with two parents.

    Raises:
        MergeConflictError: both sides changed the same thing; nothing was merged.
        PendingError: something is not committed yet, or git cannot take a commit now.
        NoteNotFoundError: there is no such ref.
    """
    refs = vault.history.refs
    with vault.lock():
        elsewhere = find_branch(vault)
        for _ in range(_ATTEMPTS):
            if not elsewhere:
                check_clean(vault, "merged")
            source = refs.resolve(name)
            into = elsewhere or vault.history.head().branch
            ours = refs.branch_tip(into)
            if refs.is_ancestor(source.commit, ours):
                return MergeReport(source, into, "")
            merged = merge_commits(vault.history.git, ours, source.commit, vault.state_folder)
            files = _resolve(vault, merged, ours, source)
            draft = _make_draft(vault, merged, files, source, into)
            try:
                if elsewhere:
                    ref = f"refs/heads/{into}"
                    commit = vault.history.write_branch_commits(ref, [draft], ours)[0]
                    return MergeReport(source, into, commit)
                return _merge_here(vault, draft, ours, MergeReport(source, into, ""))
            except RefMovedError:
                continue
    raise PendingError("not merged: other commits keep coming in; try again")


def _make_draft(
    vault: Vault, merged: MergedTree, files: Mapping[str, File], source: Target, into: str
) -> Draft:
    body = (f"{source.name} at {source.commit}", *(f"merged {path}" for path in sorted(files)))
    event = Event("merge", f"merge: {source.name} into {into}", vault.author, body)
    draft = draft_event(vault, event, files, int(time.time()))
    return replace(draft, base=merged.tree, extra_parents=(source.commit,))


def _merge_here(vault: Vault, draft: Draft, ours: str, report: MergeReport) -> MergeReport:
    """Make the commit where the branch is checked out: files first, then index and branch."""
    moves, contents = _plan_moves(vault, draft, ours)
    move_files(vault, moves, contents)
    try:
        commit = vault.history.write_commits([draft], ours)[0]
    except BaseException:
        undo_move(vault)
        raise
    finish_move(vault)
    sync_vault(vault)
    return replace(report, commit=commit, paths=tuple(sorted(moves)))


def _plan_moves(vault: Vault, draft: Draft, ours: str) -> tuple[Changes, dict[str, bytes]]:
    """Return how the files change, and the content of each blob that comes to be there."""
    moves = {p: m for p, m in find_moves(vault, ours, draft.base).items() if p not in draft.files}
    contents: dict[str, bytes] = {}
    blobs = sorted({after.blob for _, after in moves.values() if after is not None})
    for blob, (_, data) in zip(blobs, vault.history.objects.read_all(blobs), strict=True):
        contents[blob] = data
    before = vault.history.tree(ours) if draft.files else {}
    for path, file in draft.files.items():
        if file is not None:
            entry = TreeEntry(file[0], blob_id(file[1]))
            contents[entry.blob] = file[1]
            if before.get(path) != entry:
                moves[path] = (before.get(path), entry)
    return moves, contents


def _resolve(vault: Vault, merged: MergedTree, ours: str, source: Target) -> dict[str, File]:
    """Merge the notes that git left to us.

    Raises:
        MergeConflictError: something is left that both sides changed differently.
    """
    files: dict[str, File] = {}
    conflicts: list[Conflict] = []
    for each in merged.unmerged:
        result = _merge_file(vault, each)
        if isinstance(result, bytes) and each.ours is not None:
            files[each.path.removeprefix(vault.history.prefix)] = (each.ours.mode, result)
        elif isinstance(result, tuple):
            conflicts += _name_authors(vault, each.path, result, ours, source.commit)
    leaks = find_leaks(vault, files)
    conflicts += [
        Conflict(path, "looks like a credential", "; ".join(places), "", "", "")
        for path, places in leaks.items()
    ]
    if conflicts:
        paths = len({conflict.path for conflict in conflicts})
        raise MergeConflictError(
            f"not merged: {source.name} and this branch changed the same thing in {paths} "
            f"{'file' if paths == 1 else 'files'}; nothing was changed",
            conflicts,
        )
    return files


def _merge_file(vault: Vault, each: Unmerged) -> bytes | tuple[tuple[str, str, str], ...]:
    """Return the merged bytes, or what is in conflict as (what, ours, theirs)."""
    if each.ours is None or each.theirs is None:
        gone, kept = ("ours", "theirs") if each.ours is None else ("theirs", "ours")
        what = f"removed or renamed by {gone}, changed by {kept}"
        return ((what, _show(vault, each.ours), _show(vault, each.theirs)),)
    is_note = each.path.lower().endswith(".md") and each.path.startswith(vault.history.prefix)
    texts = [_read(vault, entry) for entry in (each.base, each.ours, each.theirs)]
    base, ours, theirs = texts
    if not is_note or base is None or ours is None or theirs is None:
        return (("the whole file", _show(vault, each.ours), _show(vault, each.theirs)),)
    result = merge_texts(each.path, base, ours, theirs)
    if result.conflicts:
        return tuple((each.what, each.ours, each.theirs) for each in result.conflicts)
    return result.text.encode("utf-8")


def _read(vault: Vault, entry: TreeEntry | None) -> str | None:
    """Return a version's text, empty for none; None if it is no text or no regular file."""
    if entry is None:
        return ""
    if entry.mode not in {"100644", "100755"}:
        return None
    data = vault.history.objects.read(entry.blob)[1]
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _show(vault: Vault, entry: TreeEntry | None) -> str:
    text = _read(vault, entry)
    if entry is None or text is None:
        return "" if entry is None else f"{entry.blob[:7]}, not text"
    return text if len(text) <= 400 else text[:400] + " ..."


def _name_authors(
    vault: Vault, path: str, found: tuple[tuple[str, str, str], ...], ours: str, theirs: str
) -> list[Conflict]:
    inside = path.removeprefix(vault.history.prefix)
    our_author, their_author = (_last_author(vault, side, inside) for side in (ours, theirs))
    return [Conflict(inside, *each, our_author, their_author) for each in found]


def _last_author(vault: Vault, commit: str, path: str) -> str:
    walk = walk_log(vault.history, commit, path)
    newest = next(walk, None)
    walk.close()
    if newest is None:
        return ""
    return ", session ".join(filter(None, (newest.who, newest.session)))
