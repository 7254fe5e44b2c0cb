"""Branches: list, create, rename, remove, switch and reset them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.changes import FileChange
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import format_names
from vaultmem.errors import ConflictError, NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.changes.commit import CommitReport, commit_all, commit_event
from vaultmem.services.changes.commit_parts import Event, find_running
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import find_pending
from vaultmem.services.views.recovery import read_blobs
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.files import UnsafeFileError, find_max_bytes, read_file
from vaultmem.storage.git.checkout import follow_index, list_staged, unstage
from vaultmem.storage.git.commit_draft import REGULAR, File, TreeEntry
from vaultmem.storage.git.git_locks import MAX_LOCK_AGE_SECONDS
from vaultmem.storage.git.head import GitHead, read_refs
from vaultmem.storage.git.refs import Branch, RefTarget
from vaultmem.storage.git.repository import find_checkout
from vaultmem.storage.git.trees import diff_commits
from vaultmem.storage.scan_files import read_blob, remove_empty_folders
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import Moves


# Move the work tree from one commit to another without losing saves made meanwhile.


def move_tree(
    operation: Transaction, vault: Vault, moves: Moves, contents: Mapping[str, bytes] | None = None
) -> None:
    """Apply `moves` to the files; HEAD must follow before the operation ends.

    `contents` is by blob id; other blobs are read from git.

    Raises:
        ConflictError: a file differs from its commit; nothing was changed.
    """
    _check_unchanged(vault, moves)
    new = contents or {}
    blobs = {after.blob for _, after in moves.values() if after is not None}
    blob_data = {**read_blobs(vault, blobs - new.keys()), **new}
    operation.move(moves, blob_data, is_committed=True)
    for path, (_, after) in moves.items():
        if after is None:
            remove_empty_folders(vault.root, PurePosixPath(path).parent)
    operation.then(lambda: sync_vault(vault))


def plan_files(
    files: Mapping[str, File], find_before: Callable[[str], TreeEntry | None]
) -> tuple[Moves, dict[str, bytes]]:
    """Return the file changes from their previous versions, and contents by blob id."""
    moves: dict[str, tuple[TreeEntry | None, TreeEntry | None]] = {}
    contents: dict[str, bytes] = {}
    for path, file in files.items():
        before, after = find_before(path), None
        if file is not None:
            after = TreeEntry(file[0], blob_id(file[1]))
            contents[after.blob] = file[1]
        if before != after:
            moves[path] = (before, after)
    return moves, contents


def read_entry(vault: Vault, path: str) -> TreeEntry | None:
    """Return the entry that a commit of a file would have, None without the file."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except NoteNotFoundError:
        return None
    return TreeEntry("100644", blob_id(data))


def find_moves(vault: Vault, old: str, new: str) -> Moves:
    """Return the differences of two trees or commits, by vault-relative path.

    Raises:
        RefusedError: one is not a regular file of the vault, or is too large.
    """
    from vaultmem.storage.git.checkout import find_differences
    from vaultmem.storage.git.objects import is_refused_name

    prefix = vault.history.prefix
    moves = {}
    for path, before, after in find_differences(vault.history, old, new):
        entries = [entry for entry in (before, after) if entry is not None]
        if is_refused_name(path) or {"", ".", ".."} & set(path.split("/")):
            raise RefusedError(f"{path}: git allows no file of this name; nothing was changed")
        if not path.startswith(prefix) or any(e.mode not in REGULAR for e in entries):
            raise RefusedError(
                f"{path}: not a file of the vault that vaultmem can change; use git itself for this"
            )
        moves[path.removeprefix(prefix)] = (before, after)
    _check_sizes(vault, moves)
    return moves


def _check_sizes(vault: Vault, moves: Moves) -> None:
    """Reject files that are too large to commit."""
    from vaultmem.storage.git.checkout import find_sizes

    blobs = {entry.blob: path for path, pair in moves.items() for entry in pair if entry}
    for blob, size in find_sizes(vault.history, blobs):
        most = find_max_bytes(blobs[blob])
        if size > most:
            raise RefusedError(
                f"{blobs[blob]}: it has {size:,} bytes and vaultmem moves {most:,} at most; "
                "use git itself for this"
            )


def _check_unchanged(vault: Vault, moves: Moves) -> None:
    removed_paths = {path for path, (_, after) in moves.items() if after is None}
    for path, (before, _) in moves.items():
        if before is None:
            _check_free(vault.root, PurePosixPath(path), removed_paths)
        elif _blob_at(vault.root, PurePosixPath(path)) != before.blob:
            if vault.history.find_skipped({path}):
                raise RefusedError(
                    f"{path}: a sparse checkout leaves it out; use git itself for this"
                )
            raise ConflictError(
                f"{path}: the file is not as committed; commit it or move it away first"
            )


def _check_free(root: Path, path: PurePosixPath, removed_paths: Set[str]) -> None:
    """Check that a new file's path is free, apart from files that are removed first."""
    for folder in reversed(path.parents[:-1] if path.parts[1:] else ()):
        if str(folder) in removed_paths:
            return
        if (root / folder).is_symlink() or (
            (root / folder).exists() and not (root / folder).is_dir()
        ):
            raise _in_the_way(folder)
    file = root / path
    is_folder = file.is_dir() and not file.is_symlink()
    if is_folder and any(each.startswith(f"{path}/") for each in removed_paths):
        return
    if os.path.lexists(file):
        raise _in_the_way(path)


def _in_the_way(path: PurePosixPath) -> ConflictError:
    return ConflictError(f"{path}: in no commit, and in the way; move it away first")


def _blob_at(root: Path, path: PurePosixPath) -> str:
    """Return the blob id of a file, "" if there is none or it is a folder."""
    try:
        return read_blob(root, path)
    except UnsafeFileError as error:
        raise ConflictError(f"{error}; commit it or move it away first") from None


#: Prefix of refs that keep a branch's previous commit, so that no commit is lost.
_BACKUPS = "refs/vaultmem/backup"


class ListedBranch(NamedTuple):
    """A branch; `ahead` and `behind` count the commits that only it, or only HEAD, has."""

    branch: Branch
    is_current: bool
    ahead: int
    behind: int


class ResetReport(NamedTuple):
    """A branch moved from the commit `before` to another one; `backup` keeps the old one.

    `files` is the number of changed files; `backup` is "" if nothing changed.
    """

    branch: str
    commit: str
    before: str
    backup: str
    files: int


def list_branches(vault: Vault) -> list[ListedBranch]:
    """Return the local branches by name, each compared with HEAD."""
    head, refs = vault.history.head(), vault.history.refs
    branches = []
    for branch in refs.branches():
        ahead, behind = refs.count_ahead(branch.commit, head.commit) if head.commit else (0, 0)
        displayed_branch = branch._replace(folder=vault.show_folder(branch.folder))
        branches.append(ListedBranch(displayed_branch, branch.name == head.branch, ahead, behind))
    return branches


def make_branch(vault: Vault, name: str, start: str = "") -> RefTarget:
    """Create a branch at `start` (a ref or date, default HEAD) without switching to it.

    Raises:
        RefusedError: the name is taken or not allowed.
        NoteNotFoundError: nothing is committed yet, or there is no such start.
    """

    def work(_: Transaction) -> RefTarget:
        if not start and not vault.history.head().commit:
            raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
        target = vault.history.refs.resolve(start or "HEAD")
        vault.history.refs.create_branch(name, target.commit)
        return target

    return operate(vault, "no branch was changed", work)


def remove_branch(vault: Vault, name: str, force: bool = False) -> str:
    """Delete a branch and return its last commit.

    Raises:
        NoteNotFoundError: there is no such branch.
        RefusedError: it is checked out, or has commits that no other branch has (unless `force`).
    """
    refs = vault.history.refs

    def work(_: Transaction) -> str:
        commit = refs.branch_tip(name)
        if folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
            raise RefusedError(f"{name}: checked out in {folder}; switch to another branch first")
        others = [branch for branch in refs.branches() if branch.name != name]
        if not force and not any(refs.is_ancestor(commit, other.commit) for other in others):
            raise RefusedError(
                f"{name}: has commits that are on no other branch; merge it, or run "
                f"`vaultmem branch {name} --delete --force`"
            )
        refs.delete_branch(name, commit)
        return commit

    return operate(vault, "no branch was changed", work)


def switch_branch(vault: Vault, name: str, create: bool = False) -> tuple[RefTarget, int]:
    """Check out a local branch; return it, and the number of changed files.

    With `create` the branch is first made at HEAD; then no file changes. From a detached HEAD,
    uncommitted changes are kept.

    Raises:
        NoteNotFoundError: there is no such branch.
        PendingError: there are uncommitted changes.
        RefusedError: it is checked out elsewhere, the difference needs git itself, or commits
            would be on no branch.
        ConflictError: an uncommitted file is in the way.
    """

    def work(operation: Transaction) -> tuple[RefTarget, int]:
        if create:
            return _create_branch(vault, name), 0
        return _switch(operation, vault, name)

    return operate(vault, "nothing was switched", work)


def reset_branch(vault: Vault, name: str, to: str = "") -> ResetReport:
    """Move a local branch to a branch, tag, commit or date (default HEAD).

    If it is checked out, the files follow.

    Raises:
        NoteNotFoundError: there is no such branch or commit.
        PendingError: it is checked out with uncommitted changes, or has just moved.
        RefusedError: it is checked out elsewhere, or the difference needs git itself. Or it is
            checked out here, and there is no target or an agent moves it.
        ConflictError: an uncommitted file is in the way.
    """

    def work(operation: Transaction) -> ResetReport:
        before = vault.history.refs.branch_tip(name)
        is_here = vault.history.head().branch == name
        if is_here:
            vault.require_person(f"{name}: checked out, so only a person moves it")
        if is_here and not to:
            raise RefusedError(f"{name}: checked out; say which commit or branch it is to go to")
        target = vault.history.refs.resolve(to or "HEAD", within=before)
        if target.commit == before:
            return ResetReport(name, before, before, "", 0)
        backup = _choose_backup_ref(vault, name)
        files = 0
        if is_here:
            check_clean(vault, "reset")
            head = vault.history.head()
            files = _move_files(operation, vault, head, target.commit, "reset")
        elif folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
            raise RefusedError(f"{name}: checked out in {folder}; reset it there")
        vault.history.refs.move_branch(name, target.commit, before, backup)
        return ResetReport(name, target.commit, before, backup, files)

    return operate(vault, "nothing was reset", work)


def check_clean(vault: Vault, action: str, may_be_detached: bool = False) -> None:
    """Check that nothing is uncommitted before a branch is `action` (merged, switched).

    Raises:
        PendingError: a git operation is in progress, or there are uncommitted changes.
    """
    check_idle(vault, action, may_be_detached)
    pending = find_pending(vault)
    changed_paths = sorted(pending.files)
    if changed_paths:
        names = ", ".join(changed_paths[:3]) + (" ..." if len(changed_paths) > 3 else "")
        count = "1 file is" if len(changed_paths) == 1 else f"{len(changed_paths):,} files are"
        detached = may_be_detached and not vault.history.head().branch
        remedy = (
            "`vaultmem switch --create NAME` takes them along to a new branch"
            if detached
            else "run `vaultmem checkpoint NOTE` first"
        )
        if running := find_running(vault, vault.author, pending):
            path = min(running)
            remedy = f"{path} is {running[path]}; try again after its end"
        raise PendingError(f"not {action}: {count} not committed ({names}); {remedy}")
    vault.history.update_git_index()  # An interrupted commit is not work.
    if staged := list_staged(vault.history):
        raise PendingError(
            f"not {action}: changes are staged ({format_names(staged)}); `git reset` unstages them "
            "and "
            "changes no file"
        )


def unstage_committed(vault: Vault) -> None:
    """Reset staged entries whose file on disk is the same as in HEAD."""
    history = vault.history

    def work(_: Transaction) -> None:
        staged = [x for x in list_staged(history, removed=False) if x.startswith(history.prefix)]
        if not staged or history.obstacle(patience=MAX_LOCK_AGE_SECONDS):
            return
        pending = find_pending(vault)
        uncommitted_paths = {
            f"{history.prefix}{path}" for path in (*pending.files, *pending.skipped)
        }
        unstage(history, [path for path in staged if path not in uncommitted_paths])

    operate(vault, "nothing was unstaged", work)


def check_idle(vault: Vault, action: str, may_be_detached: bool = False) -> None:
    """Check that no git operation of the user is in progress.

    Raises:
        PendingError: one is; the text names the command.
    """
    if obstacle := vault.history.obstacle(may_be_detached, MAX_LOCK_AGE_SECONDS):
        raise PendingError(f"not {action}: {obstacle}")


def check_head(vault: Vault, head: GitHead, action: str) -> None:
    """Check, as late as possible, that no other program has committed or switched.

    Raises:
        PendingError: one has.
    """
    if vault.history.head() != head:
        raise PendingError(f"not {action}: another process is using git here; try again")


def _create_branch(vault: Vault, name: str) -> RefTarget:
    refs, head = vault.history.refs, vault.history.head()
    if not head.commit:
        raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
    if head.branch:
        check_clean(vault, "switched")
    else:
        check_idle(vault, "switched", may_be_detached=True)
    refs.create_branch(name, head.commit)
    try:
        check_head(vault, head, "switched")
        refs.checkout(name)
    except BaseException:
        if vault.history.head().branch != name:
            refs.delete_branch(name, head.commit)
        raise
    return refs.resolve(f"refs/heads/{name}")


def _switch(operation: Transaction, vault: Vault, name: str) -> tuple[RefTarget, int]:
    refs, head = vault.history.refs, vault.history.head()
    refs.branch_tip(name)
    target = refs.resolve(f"refs/heads/{name}")
    if head.branch == name:
        return target, 0
    if folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
        raise RefusedError(f"{name}: checked out in {folder}; work there, or switch it away")
    check_clean(vault, "switched", may_be_detached=True)
    if head.commit and not head.branch and not refs.is_kept(head.commit):
        raise RefusedError(
            f"not switched: no branch or tag has the commits that you are at ({head.commit[:7]}); "
            "`vaultmem branch NAME` keeps them"
        )
    count = _move_files(operation, vault, head, target.commit, "switched")
    if refs.branch_tip(name) != target.commit:
        raise PendingError(f"not switched: {name} has just got another commit; try again")
    refs.checkout(name)
    return target, count


def _move_files(
    operation: Transaction, vault: Vault, head: GitHead, commit: str, action: str
) -> int:
    """Move files and git's index from HEAD to a commit; return the number of changed files."""
    moves = find_moves(vault, head.commit, commit)
    move_tree(operation, vault, moves)
    follow_index(vault.history, moves)
    check_head(vault, head, action)
    return len(moves)


def _choose_backup_ref(vault: Vault, name: str) -> str:
    """Return a free name for the ref that keeps a branch's previous commit."""
    at = datetime.fromtimestamp(vault.now(), UTC).strftime("%Y%m%dT%H%M%SZ")
    existing_refs = vault.history.git.run("for-each-ref", "--format=%(refname)", _BACKUPS).split(
        "\n"
    )
    ref, number = f"{_BACKUPS}/{name}-{at}", 1
    while ref in existing_refs:
        number += 1
        ref = f"{_BACKUPS}/{name}-{at}-{number}"
    return ref


# Branches that propose changes (`proposals/WHO/TOPIC` at a remote), and decisions.
#
# A decision is a commit on the vault's branch. The next sync deletes the remote branch, once the
# remote has that commit. Until then a local ref marks the proposal as decided.

PROPOSALS = "proposals/"

#: One ref per decided proposal, at the deciding commit: COMMIT OF THE PROPOSAL/NAME.
_DECISION_PREFIX = "refs/vaultmem/decided/"

_NAME = re.compile(rf"(?:[^/]+/)?({PROPOSALS}[^/]+/.+)")


class ProposedBranch(NamedTuple):
    """A remote branch that waits for a decision, with its local `ref`, and its `day` (ISO 8601)."""

    name: str
    ref: str
    commit: str
    day: str


class ProposalDecision(NamedTuple):
    """A proposal decided here by `decision_commit`; `mark` is the ref that records it."""

    mark: str
    name: str
    commit: str
    decision_commit: str


def list_proposed(vault: Vault) -> list[ProposedBranch]:
    """Return the proposals that HEAD lacks and that were not rejected."""
    head = vault.head()
    if head is None or not head.commit:
        return []
    refs = read_refs(vault.history.git_folder, "refs/remotes/")
    if refs is not None and not any(f"/{PROPOSALS}" in ref for ref in refs):
        return []  # Most vaults have none: skip git.
    form = "%(refname)%00%(refname:lstrip=3)%00%(objectname)%00%(committerdate:short)"
    command = ("for-each-ref", f"--format={form}", f"--no-merged={head.commit}")
    out = vault.history.git.run(*command, f"refs/remotes/*/{PROPOSALS}**")
    rows = [line.split("\0") for line in out.splitlines()]
    decided = {
        (each.name, each.commit)
        for each in (list_decided(vault) if rows else ())
        if vault.history.refs.is_ancestor(each.decision_commit, head.commit)
    }
    return [
        ProposedBranch(name, ref, commit, day)
        for ref, name, commit, day in rows
        if _NAME.fullmatch(name) and (name, commit) not in decided
    ]


def list_changes(vault: Vault, commit: str) -> list[FileChange]:
    """Return a proposal's changes since it diverged from HEAD."""
    base = vault.history.refs.merge_base(vault.history.head().commit, commit)
    return diff_commits(vault.history, base, commit)


def reject_branch(vault: Vault, name: str, commit: str, reason: str) -> CommitReport:
    """Commit the rejection of a proposal with the reason; the next sync deletes its branch."""
    commit_all(vault)
    body = (f"{name} at {commit}", *filter(None, [reason]))
    event = Event("review", f"review: {name} is rejected", vault.author, body, "refine")
    report = commit_event(vault, event, even_if_clean=True)
    mark_decided(vault, name, commit, report.commit)
    return report


def mark_decided(vault: Vault, name: str, commit: str, by: str) -> None:
    """Mark a branch as decided by a commit, if its `name`, as users write it, is a proposal's."""
    if match := _NAME.fullmatch(name):
        vault.history.git.run("update-ref", f"{_DECISION_PREFIX}{commit}/{match[1]}", by)


def list_decided(vault: Vault) -> list[ProposalDecision]:
    """Return the proposals decided here that the remote might still have."""
    out = vault.history.git.run(
        "for-each-ref", "--format=%(objectname) %(refname)", _DECISION_PREFIX
    )
    rows = (line.partition(" ") for line in out.splitlines())
    fields = (
        (mark, *mark.removeprefix(_DECISION_PREFIX).partition("/"), by) for by, _, mark in rows
    )
    return [ProposalDecision(mark, name, commit, by) for mark, commit, _, name, by in fields]
