"""Merge another branch: all of it, in one commit, or nothing."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import MergeConflictError, NoteNotFoundError
from vaultmem.services.branching.branches import check_clean
from vaultmem.services.branching.clash import Conflict, name_authors
from vaultmem.services.branching.incoming import refuse_leaks
from vaultmem.services.branching.proposals import PROPOSALS, mark_decided
from vaultmem.services.branching.relink import MergedNotes, list_renames, relink
from vaultmem.services.branching.settle import Lost, Settled, settle_merge
from vaultmem.services.branching.tree_moves import find_moves, move_tree, plan_files
from vaultmem.services.branching.twins import Twin, join_twins
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.commit import draft_event
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.services.writing.parts import Event
from vaultmem.storage.git.commit_draft import Draft, Moves
from vaultmem.storage.git.merge_tree import MergedTree, merge_commits
from vaultmem.storage.git.refs import Target
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault


class MergeReport(NamedTuple):
    """What a merge did: into which branch; its commit, empty if there was nothing to merge.

    `conflicts` are what both sides changed: ours stayed, theirs stands beside it. `losses` are
    values that could not stay, `twins` notes that both sides had made.
    """

    source: Target
    into: str
    commit: str
    paths: tuple[str, ...] = ()
    losses: tuple[Lost, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    twins: tuple[Twin, ...] = ()


def merge_branch(vault: Vault, name: str, joins: bool = False) -> MergeReport:
    """Merge a branch, tag or commit into the vault's branch, as one commit with two parents.

    With `joins`, it may be one of a history that has no commit in common with the vault's.

    Raises:
        MergeConflictError: both sides changed what is no file of the vault; nothing was merged.
        RefusedError: something that would come in looks like a credential, or is not a file of
            the vault.
        PendingError: something is not committed yet, or git cannot take a commit now.
        NoteNotFoundError: there is no such ref.
    """
    refs = vault.history.refs

    def work(operation: Operation) -> MergeReport:
        elsewhere = find_branch(vault)
        source = refs.resolve(name)
        if not elsewhere:
            check_clean(vault, "merged")
        into = elsewhere or vault.history.head().branch
        ours = _find_tip(vault, into)
        if refs.is_ancestor(source.commit, ours):
            _mark(vault, source, into, ours)
            return MergeReport(source, into, "")
        draft, settled, _ = draft_merge(vault, ours, source, into, joins)
        report = MergeReport(source, into, "", (), *settled.told)
        if elsewhere:
            ref = f"refs/heads/{into}"
            commit = vault.history.write_branch_commits(ref, [draft], ours)[0]
            return report._replace(commit=commit)
        moves, contents = _plan_moves(vault, draft, ours)
        move_tree(operation, vault, moves, contents)
        commit = vault.history.write_commits([draft], ours)[0]
        _mark(vault, source, into, commit)
        return report._replace(commit=commit, paths=tuple(sorted(moves)))

    return operate(vault, "nothing was merged", work)


class MergePlan(NamedTuple):
    """What a merge would do: as `MergeReport` tells it, or why it would be `refused`.

    It is not `needed` where the branch has all of the other already.
    """

    source: Target
    into: str
    needed: bool
    paths: tuple[str, ...] = ()
    losses: tuple[Lost, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    twins: tuple[Twin, ...] = ()
    refused: str = ""


def plan_merge(vault: Vault, name: str, joins: bool = False) -> MergePlan:
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
            draft, settled, _ = draft_merge(vault, ours, source, into, joins)
        except MergeConflictError as error:
            return MergePlan(source, into, True, conflicts=error.conflicts, refused=str(error))
        paths = tuple(sorted(_plan_moves(vault, draft, ours)[0]))
        return MergePlan(source, into, True, paths, *settled.told)


def _mark(vault: Vault, source: Target, into: str, commit: str) -> None:
    """Mark a proposal as merged, unless it goes into another proposal or a branch elsewhere."""
    if not (into.startswith(PROPOSALS) or find_branch(vault)):
        mark_decided(vault, source.name, source.commit, commit)


def _find_tip(vault: Vault, branch: str) -> str:
    head = vault.history.head()
    if head.branch == branch and not head.commit:
        raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
    return vault.history.refs.branch_tip(branch)


class Drafted(NamedTuple):
    """The merge's commit, to be made, what it tells, and what one side removed and one changed."""

    draft: Draft
    settled: Settled
    removed: frozenset[str]


def draft_merge(vault: Vault, ours: str, source: Target, into: str, joins: bool = False) -> Drafted:
    """Settle all that both sides changed, and draft the commit."""
    history = vault.history
    merged = merge_commits(history, ours, source.commit, vault.state_folder, joins)
    settled = settle_merge(vault, merged, ours, source, into)
    base = history.refs.merge_base(ours, source.commit)
    _join_apart(vault, merged, (base, ours, source.commit), settled)
    conflicts = name_authors(vault, settled.conflicts, ours, source.commit)
    settled = settled._replace(conflicts=conflicts)
    body = _tell(source, settled)
    count = len(settled.conflicts)
    tail = f" ({count_things(count, 'conflict')})" if count else ""
    event = Event("merge", f"merge: {source.name} into {into}{tail}", vault.author, body)
    draft = draft_event(vault, event, settled.files, int(vault.now()))
    refuse_leaks(vault, ours, merged.tree, settled.files)
    draft = draft._replace(base=merged.tree, extra_parents=(source.commit,))
    return Drafted(draft, settled, _list_removed(merged, history.prefix))


def _list_removed(merged: MergedTree, prefix: str) -> frozenset[str]:
    found = (each.path for each in merged.unmerged if not (each.ours and each.theirs))
    return frozenset(path.removeprefix(prefix) for path in found)


def _join_apart(
    vault: Vault, merged: MergedTree, commits: tuple[str, str, str], settled: Settled
) -> None:
    """Make one of twins that have two paths, and let links follow what has another name now."""
    base, ours, theirs = commits
    changes = [diff_commits(vault.history, base, side, renames=True) for side in (ours, theirs)]
    both = {each.path for each in changes[0]} & {each.path for each in changes[1]}
    alone = [[x for x in side if x.path not in both] for side in changes]
    joined = join_twins(vault, alone[0], alone[1])
    settled.files.update(joined.files)
    settled.twins.extend(joined.twins)
    moved = [*settled.moved, *((twin.other, twin.path) for twin in joined.twins)]
    renames = [list_renames(side) for side in changes]
    if not moved and not any(renames):
        return
    notes = MergedNotes(vault, vault.history.tree(merged.tree), settled.files)
    for renamed, candidates in (
        (renames[0], [each.path for each in changes[1]]),
        (renames[1], [each.path for each in changes[0]]),
        (moved, notes.paths),
    ):
        changed = relink(notes, renamed, candidates)
        notes.files.update(changed)
        settled.files.update(changed)


def _tell(source: Target, settled: Settled) -> tuple[str, ...]:
    """Return the lines that the commit has of a merge."""
    lines = [f"{source.name} at {source.commit}"]
    lines += [f"merged {path}" for path in sorted(settled.files)]
    lines += [f"twin {x.other} is {x.path}: by {' and '.join(x.authors)}" for x in settled.twins]
    lines += [f"conflict {x.path}: {x.what}" for x in settled.conflicts]
    lines += [f"lost {x.path}: {x.what}: {x.value}" for x in settled.losses]
    return tuple(map(one_line, lines))


def _plan_moves(vault: Vault, draft: Draft, ours: str) -> tuple[Moves, dict[str, bytes]]:
    """Return how the files change, and the contents that no commit has yet, by blob id."""
    before = vault.history.tree(ours) if draft.files else {}
    changed, contents = plan_files(draft.files, before.get)
    git_alone = find_moves(vault, ours, draft.base)
    kept = {path: move for path, move in git_alone.items() if path not in draft.files}
    return {**kept, **changed}, contents
