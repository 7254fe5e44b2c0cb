"""Merge another branch: all of it, in one commit, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from vaultmem.core.merging.merge_note import get_author_name, is_first, is_note, merge_twins
from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.link_syntax import LinkNames
from vaultmem.core.notes.note import Note, parse_readable_note
from vaultmem.core.notes.rewrite_links import apply_edits, plan_edits
from vaultmem.core.similarity.canonical import canonical_form
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.paths import PINNED_FILES, fold, note_context
from vaultmem.errors import (
    ConflictError,
    MergeConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
)
from vaultmem.services.changes.commit import draft_event
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import find_leaks_since
from vaultmem.services.merging.branches import (
    PROPOSALS,
    check_clean,
    find_moves,
    mark_decided,
    move_tree,
    plan_files,
)
from vaultmem.services.merging.file_conflicts import BranchMerge, MergedDuplicate, MergeReport
from vaultmem.services.views.open_view import find_branch
from vaultmem.storage.git.commit_draft import CommitDraft, File, Moves, TreeEntry
from vaultmem.storage.git.merge_tree import merge_commits
from vaultmem.storage.git.refs import RefTarget
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault

#: A file's old and new name.
_Moved = tuple[str, str]


def merge_branch(vault: Vault, name: str, joins: bool = False) -> MergeReport:
    """Merge a branch, tag or commit into the vault's branch, as one commit with two parents.

    With `joins`, the two histories need no common commit.

    Raises:
        MergeConflictError: both sides changed what is not a file of the vault; nothing was merged.
        RefusedError: an incoming file looks like a credential, or is not a file of the vault.
        PendingError: there are uncommitted changes, or git cannot commit now.
        NoteNotFoundError: there is no such ref.
    """
    refs = vault.history.refs

    def work(operation: Transaction) -> MergeReport:
        other_branch = find_branch(vault)
        source = refs.resolve(name)
        if not other_branch:
            check_clean(vault, "merged")
        branch = other_branch or vault.history.head().branch
        ours = _find_tip(vault, branch)
        if refs.is_ancestor(source.commit, ours):
            _mark(vault, source, branch, ours)
            return MergeReport(source, branch, is_needed=False)
        draft, merge = draft_merge(vault, ours, source, branch, joins)
        if other_branch:
            ref = f"refs/heads/{branch}"
            return merge.report(vault.history.write_branch_commits(ref, [draft], ours)[0])
        moves, contents = _plan_moves(vault, draft, ours)
        move_tree(operation, vault, moves, contents)
        commit = vault.history.write_commits([draft], ours)[0]
        _mark(vault, source, branch, commit)
        return merge.report(commit, moves)

    return operate(vault, "nothing was merged", work)


def plan_merge(
    vault: Vault, name: str, joins: bool = False, commits_first: bool = False
) -> MergeReport:
    """Return the result of a merge without changing a branch or file.

    With `commits_first`, the caller would commit uncommitted changes before it merges.

    Raises:
        RefusedError, NoteNotFoundError: as for `merge_branch`.
    """
    refs = vault.history.refs

    def work(_: Transaction) -> MergeReport:
        source = refs.resolve(name)
        branch = find_branch(vault) or vault.history.head().branch
        ours = _find_tip(vault, branch)
        if refs.is_ancestor(source.commit, ours):
            return MergeReport(source, branch, is_needed=False)
        try:
            draft, merge = draft_merge(vault, ours, source, branch, joins)
        except MergeConflictError as error:
            return MergeReport(source, branch, conflicts=error.conflicts, problem=str(error))
        report = merge.report("", _plan_moves(vault, draft, ours)[0])
        try:
            if not (commits_first or find_branch(vault)):
                check_clean(vault, "merged")
        except PendingError as error:
            return report._replace(problem=str(error))
        return report

    return operate(vault, "nothing was merged", work)._replace(is_plan=True)


def follow_commit(vault: Vault, commit: str) -> tuple[str, ...]:
    """Fast-forward the vault's branch to a commit; return the changed paths.

    Raises:
        RefusedError, PendingError, ConflictError: as for `merge_branch`; nothing was changed.
    """

    def work(operation: Transaction) -> tuple[str, ...]:
        other_branch = find_branch(vault)
        if not other_branch:
            check_clean(vault, "merged")
        branch = other_branch or vault.history.head().branch
        ours = vault.history.refs.branch_tip(branch)
        if not vault.history.refs.is_ancestor(ours, commit):
            raise ConflictError("not merged: other commits have come in; try again")
        reject_secrets(vault, ours, commit, {})
        moves = find_moves(vault, ours, commit)
        if other_branch:
            vault.history.follow(ours, commit, f"refs/heads/{other_branch}")
        else:
            move_tree(operation, vault, moves)
            vault.history.follow(ours, commit)
        return tuple(sorted(moves))

    return operate(vault, "nothing was changed", work)


def draft_merge(
    vault: Vault, ours: str, source: RefTarget, branch: str, joins: bool = False
) -> tuple[CommitDraft, BranchMerge]:
    """Resolve the changes of both sides, and draft the commit."""
    history = vault.history
    tree, unmerged = merge_commits(history, ours, source.commit, vault.state_folder, joins)
    merge = BranchMerge(vault, ours, source, branch)
    merge.settle(unmerged)
    _join_apart(vault, merge, tree, ours, source.commit)
    merge.add_authors()
    count = len(merge.conflicts)
    tail = f" ({pluralize(count, 'conflict')})" if count else ""
    subject = f"merge: {source.name} into {branch}{tail}"
    event = Event("merge", subject, vault.author, _describe(source, merge))
    draft = draft_event(vault, event, merge.files, int(vault.now()))
    reject_secrets(vault, ours, tree, merge.files)
    return draft._replace(base=tree, extra_parents=(source.commit,)), merge


def reject_secrets(vault: Vault, ours: str, tree: str, files: Mapping[str, File]) -> None:
    """Reject incoming notes that look like a credential, merged or as on their side.

    `tree` is the incoming tree or commit; `files` replace its files.
    """
    changes = diff_commits(vault.history, ours, tree)
    incoming = [c for c in changes if c.blob and c.is_regular and c.path not in files]
    blobs = vault.history.objects.read_all(change.blob for change in incoming)
    all_files = dict(files)
    all_files |= {c.path: (c.mode, data) for c, (_, data) in zip(incoming, blobs, strict=True)}
    leaks = find_leaks_since(vault, all_files, ours)
    if leaks:
        places = "; ".join(place for each in leaks.values() for place in each[:3])
        raise RefusedError(
            f"not merged, this looks like a credential: {places}; remove it there first"
        )


def _mark(vault: Vault, source: RefTarget, into: str, commit: str) -> None:
    """Mark a proposal as merged, unless it goes into another proposal or another branch."""
    if not (into.startswith(PROPOSALS) or find_branch(vault)):
        mark_decided(vault, source.name, source.commit, commit)


def _find_tip(vault: Vault, branch: str) -> str:
    head = vault.history.head()
    if head.branch == branch and not head.commit:
        raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
    return vault.history.refs.branch_tip(branch)


def _describe(source: RefTarget, merge: BranchMerge) -> tuple[str, ...]:
    """Return the lines of a merge's commit message."""
    lines = [f"{source.name} at {source.commit}"]
    lines += [f"merged {path}" for path in sorted(merge.files)]
    lines += [f"twin {x.other} is {x.path}: by {' and '.join(x.authors)}" for x in merge.twins]
    lines += [f"conflict {x.path}: {x.what}" for x in merge.conflicts]
    lines += [f"lost {x.path}: {x.what}: {x.value}" for x in merge.losses]
    return tuple(map(one_line, lines))


def _plan_moves(vault: Vault, draft: CommitDraft, ours: str) -> tuple[Moves, dict[str, bytes]]:
    """Return the file changes, and uncommitted contents by blob id."""
    before = vault.history.tree(ours) if draft.files else {}
    moves, contents = plan_files(draft.files, before.get)
    git_moves = find_moves(vault, ours, draft.base)
    other_moves = {path: move for path, move in git_moves.items() if path not in draft.files}
    return {**other_moves, **moves}, contents


# ---- notes with two paths, one on each side


def _join_apart(vault: Vault, merge: BranchMerge, tree: str, ours: str, theirs: str) -> None:
    """Join duplicates with two paths, and update links to renamed files."""
    base = vault.history.refs.merge_base(ours, theirs)
    changes = [diff_commits(vault.history, base, side, renames=True) for side in (ours, theirs)]
    common_paths = {each.path for each in changes[0]} & {each.path for each in changes[1]}
    _join_twins(
        vault, merge, *([x for x in side if x.path not in common_paths] for side in changes)
    )
    moves = [*merge.moved, *((x.other, x.path) for x in merge.twins if x.other != x.path)]
    renames = [[(x.previous, x.path) for x in side if x.previous and x.path] for side in changes]
    if not moves and not any(renames):
        return
    entries = vault.history.tree(tree)
    for pairs, candidates in (
        (renames[0], [each.path for each in changes[1]]),
        (renames[1], [each.path for each in changes[0]]),
        (moves, None),
    ):
        _relink(vault, merge.files, entries, pairs, candidates)


def _join_twins(
    vault: Vault, merge: BranchMerge, ours: Sequence[FileChange], theirs: Sequence[FileChange]
) -> None:
    """Join each two duplicates that the sides added under different paths.

    The one made first stays, by the rules of `remember`; the other is removed.
    """
    our_candidates, their_candidates = (
        [c for c in side if _may_be_twin(c)] for side in (ours, theirs)
    )
    if not our_candidates or not their_candidates:
        return
    by_form: dict[tuple[str, ...], list[tuple[Note, str]]] = {}
    for note, mode in _read_notes(vault, their_candidates):
        by_form.setdefault(canonical_form(note.visible_body), []).append((note, mode))
    for note, mode in _read_notes(vault, our_candidates):
        form = canonical_form(note.visible_body)
        for place, twin in enumerate(by_form.get(form, ()) if form else ()):
            if _join_two(vault, merge, (note, mode), twin):
                by_form[form].pop(place)
                break


def _may_be_twin(change: FileChange) -> bool:
    is_new = bool(change.blob) and not change.old_blob and change.is_regular
    is_managed = is_note(change.path) and not change.path.startswith("primed/")
    return is_new and is_managed and change.path not in PINNED_FILES


def _read_notes(vault: Vault, changes: Sequence[FileChange]) -> Iterator[tuple[Note, str]]:
    """Yield the notes among added files, each with its mode."""
    blobs = vault.history.objects.read_all(each.blob for each in changes)
    for change, (_, data) in zip(changes, blobs, strict=True):
        if note := parse_readable_note(change.path, data):
            yield note, change.mode


def _join_two(
    vault: Vault, merge: BranchMerge, ours: tuple[Note, str], theirs: tuple[Note, str]
) -> bool:
    """Join two notes if they are duplicates; return whether they are."""
    our_note, their_note = ours[0], theirs[0]
    is_ours = is_first(our_note.text, their_note.text, our_note.frontmatter, their_note.frontmatter)
    (first, mode), (second, _) = (ours, theirs) if is_ours else (theirs, ours)
    if not _may_absorb(vault, first, second):
        return False
    kept_path, removed_path = str(first.path), str(second.path)
    result = merge_twins((kept_path, removed_path), first.text, second.text)
    if result is None or result.losses:
        return False
    merge.files.update({kept_path: (mode, result.text.encode("utf-8")), removed_path: None})
    merge.twins.append(
        MergedDuplicate(kept_path, removed_path, (get_author_name(first), get_author_name(second)))
    )
    return True


def _may_absorb(vault: Vault, first: Note, second: Note) -> bool:
    """Return whether `remember` would have found the first note instead of making the second."""
    from vaultmem.core.new_memory import Memory
    from vaultmem.services.similarity.known import may_absorb

    place = note_context(second.path)
    memory = Memory("", context=place, kind=second.kind, project=second.project)
    return may_absorb(vault, first, memory, second.state)


def _relink(
    vault: Vault,
    files: dict[str, File],
    tree: Mapping[str, TreeEntry],
    moves: Sequence[_Moved],
    candidates: Iterable[str] | None,
) -> None:
    """Update links in the candidates (None: in all notes) to renamed files.

    The merge results in `tree` with `files` changed; notes with changed links are added to `files`.
    """
    paths = frozenset(tree.keys() - files.keys())
    paths |= {path for path, file in files.items() if file is not None}
    renames = [(old, new) for old, new in moves if new in paths and old not in paths]
    if not renames:
        return
    texts = _read_texts(vault, files, tree, paths if candidates is None else paths & {*candidates})
    for old, new in renames:
        stem = fold(PurePosixPath(old).stem)
        after = before = None
        for path, (mode, text) in texts.items():
            if stem not in fold(text):
                continue
            if after is None or before is None:
                after, before = LinkNames(paths), LinkNames((paths - {new}) | {old})
            try:
                edits = plan_edits(text, (path, path), before, after, (old, new))
                if edits:
                    texts[path] = (mode, apply_edits(text, edits, path))
                    files[path] = (mode, texts[path][1].encode("utf-8"))
            except RefusedError:
                continue  # The link stays as written and is broken, as before.


def _read_texts(
    vault: Vault,
    files: Mapping[str, File],
    tree: Mapping[str, TreeEntry],
    paths: Iterable[str],
) -> dict[str, tuple[str, str]]:
    """Return mode and text of those notes that are UTF-8; for a canvas, its JSON."""
    note_paths = sorted(path for path in paths if is_note(path) or is_canvas(path))
    stored = [path for path in note_paths if path not in files]
    blobs = vault.history.objects.read_all(tree[path].blob for path in stored)
    versions = {
        path: (tree[path].mode, data) for path, (_, data) in zip(stored, blobs, strict=True)
    }
    versions |= {path: file for path in note_paths if (file := files.get(path)) is not None}
    decoded = {path: (mode, decode_text(data)) for path, (mode, data) in versions.items()}
    return {
        path: (mode, content.text)
        for path, (mode, content) in decoded.items()
        if not content.encoding
    }
