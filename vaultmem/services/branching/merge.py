"""Merge another branch: all of it, in one commit, or nothing."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.merging.merged import MergeConflict
from vaultmem.core.merging.note import merge_texts
from vaultmem.errors import (
    MergeConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    naming_faults,
)
from vaultmem.services.branching.branches import check_clean
from vaultmem.services.branching.clash import Conflict, describe_conflicts, name_authors
from vaultmem.services.branching.incoming import refuse_leaks
from vaultmem.services.branching.tree_moves import find_moves, moving_tree
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.writing.commit import draft_event
from vaultmem.services.writing.divide import Event
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commit_draft import REGULAR, Draft, File, RefMovedError, TreeEntry
from vaultmem.storage.git.intent import Moves
from vaultmem.storage.git.merge_tree import (
    MergedTree,
    Unmerged,
    find_shared_versions,
    merge_commits,
)
from vaultmem.storage.git.refs import Target
from vaultmem.vault import Vault

_ATTEMPTS = 5


class MergeReport(NamedTuple):
    """What a merge did: into which branch; its commit, empty if there was nothing to merge."""

    source: Target
    into: str
    commit: str
    paths: tuple[str, ...] = ()


def merge_branch(vault: Vault, name: str, joins: bool = False) -> MergeReport:
    """Merge a branch, tag or commit into the vault's branch, as one commit with two parents.

    With `joins`, it may be one of a history that has no commit in common with the vault's.

    Raises:
        MergeConflictError: both sides changed the same thing; nothing was merged.
        RefusedError: something that would come in looks like a credential, or is not a file of
            the vault.
        PendingError: something is not committed yet, or git cannot take a commit now.
        NoteNotFoundError: there is no such ref.
    """
    refs = vault.history.refs
    with naming_faults("nothing was merged"), vault.lock():
        elsewhere = find_branch(vault)
        for _ in range(_ATTEMPTS):
            if not elsewhere:
                check_clean(vault, "merged")
            source = refs.resolve(name)
            into = elsewhere or vault.history.head().branch
            ours = _find_tip(vault, into)
            if refs.is_ancestor(source.commit, ours):
                return MergeReport(source, into, "")
            draft = _draft_merge(vault, ours, source, into, joins)
            try:
                if elsewhere:
                    ref = f"refs/heads/{into}"
                    commit = vault.history.write_branch_commits(ref, [draft], ours)[0]
                    return MergeReport(source, into, commit)
                return _merge_here(vault, draft, ours, MergeReport(source, into, ""))
            except RefMovedError:
                continue
    raise PendingError("not merged: other commits keep coming in; try again")


class MergePlan(NamedTuple):
    """What a merge would do: which files would change, or what keeps it from being done.

    It is not `needed` where the branch has all of the other already.
    """

    source: Target
    into: str
    needed: bool
    paths: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def plan_merge(vault: Vault, name: str) -> MergePlan:
    """Return what merging a branch, tag or commit would do; no branch and no file is changed.

    Raises:
        RefusedError, NoteNotFoundError: as for `merge_branch`.
    """
    refs = vault.history.refs
    with vault.lock():
        source = refs.resolve(name)
        into = find_branch(vault) or vault.history.head().branch
        ours = _find_tip(vault, into)
        if refs.is_ancestor(source.commit, ours):
            return MergePlan(source, into, False)
        try:
            moves, _ = _plan_moves(vault, _draft_merge(vault, ours, source, into), ours)
        except MergeConflictError as error:
            return MergePlan(source, into, True, conflicts=error.conflicts)
        return MergePlan(source, into, True, tuple(sorted(moves)))


def _find_tip(vault: Vault, branch: str) -> str:
    head = vault.history.head()
    if head.branch == branch and not head.commit:
        raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
    return vault.history.refs.branch_tip(branch)


def _draft_merge(vault: Vault, ours: str, source: Target, into: str, joins: bool = False) -> Draft:
    """Return the merge's commit, to be made."""
    merged = merge_commits(vault.history, ours, source.commit, vault.state_folder, joins)
    files = _resolve(vault, merged, ours, source)
    body = (f"{source.name} at {source.commit}", *(f"merged {path}" for path in sorted(files)))
    event = Event("merge", f"merge: {source.name} into {into}", vault.author, body)
    draft = draft_event(vault, event, files, int(vault.now()))
    refuse_leaks(vault, ours, merged.tree, files)
    return draft._replace(base=merged.tree, extra_parents=(source.commit,))


def _merge_here(vault: Vault, draft: Draft, ours: str, report: MergeReport) -> MergeReport:
    """Make the commit where the branch is checked out: files first, then index and branch."""
    moves, contents = _plan_moves(vault, draft, ours)
    with moving_tree(vault, moves, contents):
        commit = vault.history.write_commits([draft], ours)[0]
    with vault.leaving_to_next():
        sync_vault(vault)
    return report._replace(commit=commit, paths=tuple(sorted(moves)))


def _plan_moves(vault: Vault, draft: Draft, ours: str) -> tuple[Moves, dict[str, bytes]]:
    """Return how the files change, and the contents that no commit has yet, by blob id."""
    moves = dict(find_moves(vault, ours, draft.base))
    contents: dict[str, bytes] = {}
    before = vault.history.tree(ours) if draft.files else {}
    for path, file in draft.files.items():
        moves.pop(path, None)
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
    paths = [each.path for each in merged.unmerged]
    bases = find_shared_versions(vault.history, ours, source.commit, paths) if paths else {}
    for each in merged.unmerged:
        result = _merge_file(vault, each, bases.get(each.path) or each.base)
        if isinstance(result, tuple):
            files[each.path.removeprefix(vault.history.prefix)] = result
        else:
            conflicts += result
    if conflicts:
        count = len({conflict.path for conflict in conflicts})
        raise MergeConflictError(
            f"not merged: {source.name} and this branch changed the same thing in {count} "
            f"{'file' if count == 1 else 'files'}; nothing was changed",
            name_authors(vault, conflicts, ours, source.commit),
        )
    return files


def _merge_file(
    vault: Vault, each: Unmerged, base: TreeEntry | None
) -> tuple[str, bytes] | list[Conflict]:
    """Return the merged mode and bytes, or what is in conflict."""
    path, prefix = each.path, vault.history.prefix
    inside = path.removeprefix(prefix)
    allowed = vault.config.allows_secrets(inside)
    whole = describe_conflicts(
        inside,
        [MergeConflict(_describe(each), "", *(_show(vault, e) for e in (each.ours, each.theirs)))],
        allowed,
    )
    if each.kind == "rename/rename" and len(each.names) == 3:
        names = (name.removeprefix(prefix) for name in each.names[1:])
        return [Conflict(inside, "renamed by both", *names)]
    if each.kind or each.ours is None or each.theirs is None:
        return whole
    if not (path.lower().endswith(".md") and path.startswith(prefix)):
        return whole
    texts = [_read(vault, entry) for entry in (base, each.ours, each.theirs)]
    if texts[0] is None or texts[1] is None or texts[2] is None:
        return whole
    result = merge_texts(path, texts[0], texts[1], texts[2])
    if result.conflicts:
        return describe_conflicts(inside, result.conflicts, allowed)
    data = result.text.encode("utf-8")
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(
            f"{inside}: not merged, both versions together are too large for a note; use git itself"
        )
    changed = each.theirs if each.base and each.base.mode == each.ours.mode else each.ours
    return (changed.mode, data)


def _describe(each: Unmerged) -> str:
    """Say what both sides did to a file that is not merged line by line."""
    if "directory" in each.kind:
        return "a file on one side, a folder on the other"
    if (each.ours is None) == (each.theirs is None):
        return "the whole file"
    gone, kept = ("ours", "theirs") if each.ours is None else ("theirs", "ours")
    entry = each.theirs if each.ours is None else each.ours
    if each.base is not None and entry is not None and each.base.blob == entry.blob:
        return f"removed by {gone}, renamed by {kept}"
    return f"removed or renamed by {gone}, changed by {kept}"


def _read(vault: Vault, entry: TreeEntry | None) -> str | None:
    """Return a version's text, empty for none; None if it is no text or no regular file."""
    if entry is None:
        return ""
    if entry.mode not in REGULAR:
        return None
    data = vault.history.objects.read(entry.blob)[1]
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _show(vault: Vault, entry: TreeEntry | None) -> str:
    text = _read(vault, entry)
    return f"{entry.blob[:7]}, not text" if text is None and entry is not None else text or ""
