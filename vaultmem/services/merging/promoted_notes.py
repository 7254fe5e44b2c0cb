"""Take single notes over from another branch, each under its author's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files, read_subject
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.merging.merge_note import merge_texts
from vaultmem.core.merging.text import MergedText
from vaultmem.core.notes.edit_properties import write_state
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import one_line
from vaultmem.core.text.paths import fold_name
from vaultmem.errors import (
    ConflictError,
    MergeConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
)
from vaultmem.services.changes.change import check_encoding
from vaultmem.services.changes.commit import CommitReport, commit_earlier, draft_event
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import AuthorScope, is_pending
from vaultmem.services.lifecycle.transition import (
    PromoteResult,
    check_activation,
    check_note,
    list_untrusted,
    make_event,
    record_trust,
)
from vaultmem.services.merging.branches import check_idle, move_tree
from vaultmem.services.merging.file_conflicts import add_authors, find_newest, hide_secrets
from vaultmem.services.views.open_view import find_branch, view_at
from vaultmem.services.views.read_notes import read_note, resolve_address
from vaultmem.services.views.resolve_names import names_in
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commit_draft import CommitDraft, Identity, Move, TreeEntry
from vaultmem.storage.git.log import Commit
from vaultmem.storage.git.merge_tree import find_shared_versions
from vaultmem.storage.git.refs import RefTarget
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault

_NEW_FILE_MODE = "100644"


class _Taken(NamedTuple):
    """A note of the other branch, its last commit there, and its new version here.

    `local_blob` is its present blob id here, "" for none; `data` is the new version, `promoted` the
    same in state active; `lost` are discarded values.
    """

    path: str
    last_commit: Commit
    local_blob: str
    data: bytes
    promoted: bytes
    state: NoteState
    lost: tuple[str, ...] = ()


def promote_from(vault: Vault, source: str, addresses: Sequence[str]) -> PromoteResult:
    """Promote notes of another branch here, with their origin and nothing else.

    First they are taken over unchanged, each in a commit under its author's name. If a note also
    exists here, both versions are merged. Then the notes are promoted. Either all these commits are
    made or none.

    Raises:
        NoteNotFoundError: there is no such ref, or no such note on it.
        MergeConflictError: both branches changed the note differently; nothing was changed.
        RefusedError: a note cannot be promoted; nothing was changed.
        PendingError: git cannot commit now; nothing was changed.
        ConflictError: another process kept saving the note; it stays.
    """
    if find_branch(vault):
        raise RefusedError("promote --from works on the branch that is checked out; drop --ref")

    def work(operation: Transaction) -> PromoteResult:
        check_idle(vault, "promoted")
        sync_vault(vault)
        target = vault.history.refs.resolve(source)
        source_vault = view_at(vault, target.commit)
        paths = dict.fromkeys(_find_path(source_vault, address) for address in addresses)
        operation.retries_conflicts = True  # A note saved meanwhile is read again.
        return _promote(operation, vault, source_vault, target, list(paths))

    return operate(vault, "nothing was promoted", work)


def _promote(
    operation: Transaction,
    vault: Vault,
    source_vault: Vault,
    target: RefTarget,
    paths: Sequence[PurePosixPath],
) -> PromoteResult:
    plans = [_plan(vault, source_vault, target, path) for path in paths]
    own_blobs = {each.path: each.local_blob for each in plans if each.local_blob}
    earlier_commits = commit_earlier(vault, own_blobs, AuthorScope.ANYBODY)
    _check_committed(vault, own_blobs)
    head = vault.history.head().commit
    drafts, moves = _draft(vault, head, target, plans)
    commits: list[str] = []
    if drafts:
        contents = {blob_id(each.promoted): each.promoted for each in plans}
        new_blobs = {each.path: blob_id(each.promoted) for each in plans}
        operation.then(lambda: vault.journal.clear(new_blobs))
        move_tree(operation, vault, moves, contents)
        commits = vault.history.write_commits(drafts, head)
    notes = [parse_note(PurePosixPath(each.path), each.promoted) for each in plans]
    subjects = [read_subject(draft.message) for draft in drafts]
    all_commits = (*earlier_commits, *zip(commits, subjects, strict=True))
    last = commits[-1] if commits else ""
    report = CommitReport(all_commits, last, tuple(moves))
    before = tuple((each.path, each.state.value) for each in plans)
    trusted = record_trust(vault, notes)
    unsaid = list_untrusted(vault, notes)
    return PromoteResult(before, trusted, report, unsaid=unsaid, by_person=vault.is_person)


def _find_path(source_vault: Vault, address: str) -> PurePosixPath:
    path, heading = resolve_address(source_vault, address)
    if heading:
        raise RefusedError(f"{address}: a section; promote the whole note")
    return path


def _plan(vault: Vault, source_vault: Vault, target: RefTarget, path: PurePosixPath) -> _Taken:
    note = read_note(source_vault, path)
    check_note(vault, note)
    try:
        own_note = read_note(vault, path)
    except NoteNotFoundError:
        own_note = None
        if name := names_in(vault, path.parent).get(fold_name(path)):
            raise RefusedError(
                f"{path}: {name} differs from it only in upper and lower case; rename it first"
            ) from None
    for each in (note, own_note):
        if each is not None:
            check_encoding(each)
    merge = MergedText(note.text) if own_note is None else _merge(vault, target, own_note, note)
    text = merge.text
    merged_note = parse_note(path, text.encode("utf-8"))
    check_note(vault, merged_note)
    check_activation(vault, merged_note)
    promoted_text = text
    if merged_note.state != NoteState.ACTIVE:
        promoted_text = write_state(text, NoteState.ACTIVE)
    data = promoted_text.encode("utf-8")
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(f"{path}: both versions together are too large for a note")
    commit = find_newest(vault, target.commit, str(path))
    assert commit is not None  # noqa: S101 - the note was read there.
    blob = "" if own_note is None else own_note.blob
    lost_lines = tuple(f"lost {path}: {x.what}: {one_line(x.value)}" for x in merge.losses)
    return _Taken(
        str(path), commit, blob, text.encode("utf-8"), data, merged_note.state, lost_lines
    )


def _merge(vault: Vault, target: RefTarget, own_note: Note, source_note: Note) -> MergedText:
    """Return the merged note; text that both sides changed cannot be promoted."""
    path, history = str(own_note.path), vault.history
    head = history.head().commit
    result = merge_texts(
        path, _read_base(vault, head, target, path), own_note.text, source_note.text
    )
    if result.conflicts:
        conflicts = [hide_secrets(vault, each) for each in result.conflicts]
        raise MergeConflictError(
            f"{path}: changed differently here and on {target.name}; nothing was changed; "
            f"`vaultmem merge {target.name}` keeps both, and `vaultmem resolve` decides",
            add_authors(vault, conflicts, head, target.commit),
        )
    return result


def _read_base(vault: Vault, head: str, target: RefTarget, path: str) -> str:
    """Return the last version that both branches had, "" if they never shared one."""
    history = vault.history
    full_path = history.prefix + path
    entry = find_shared_versions(history, head, target.commit, [full_path]).get(full_path)
    if entry is None:
        base = history.refs.merge_base(head, target.commit)
        entry = find_entry(history, base, path) if base else None
    return decode_text(history.objects.read(entry.blob)[1]).text if entry else ""


def _check_committed(vault: Vault, own_blobs: Mapping[str, str]) -> None:
    """Check that the notes to change are committed."""
    for path, blob in own_blobs.items():
        if is_pending(vault, path, blob, AuthorScope.ANYBODY):
            raise PendingError(
                f"{path}: not promoted, because no commit has what it is here; "
                "`vaultmem checkpoint NOTE` makes one"
            )


def _draft(
    vault: Vault, head: str, target: RefTarget, plans: Sequence[_Taken]
) -> tuple[list[CommitDraft], dict[str, Move]]:
    """Return the commits to make, and the file changes.

    Raises:
        ConflictError: another process has just changed a note.
    """
    at = int(vault.now())
    drafts: list[CommitDraft] = []
    moves: dict[str, Move] = {}
    active: dict[str, tuple[str, bytes]] = {}
    for each in plans:
        old = find_entry(vault.history, head, each.path) if head else None
        if (old.blob if old else "") != each.local_blob:
            raise ConflictError(f"{each.path}: another process changed it; try again")
        mode = old.mode if old else _NEW_FILE_MODE
        if blob_id(each.data) != each.local_blob:
            drafts.append(_draft_take(vault, target, each, mode, at))
        if each.promoted != each.data:
            active[each.path] = (mode, each.promoted)
        new = TreeEntry(mode, blob_id(each.promoted))
        if new != old:
            moves[each.path] = (old, new)
    if drafts or active:
        origin = f", from {target.name} at {target.commit}"
        before = [(PurePosixPath(each.path), each.state) for each in plans]
        drafts.append(draft_event(vault, make_event(vault, before, origin), active, at))
    return drafts, moves


def _draft_take(vault: Vault, target: RefTarget, plan: _Taken, mode: str, at: int) -> CommitDraft:
    """Return the commit of a note from the other branch, under its author's name."""
    author = Author(plan.last_commit.agent, plan.last_commit.session, plan.last_commit.tool_call)
    body = (f"{plan.path} from {target.name} at {target.commit}", *plan.lost)
    subject = format_files("take", [plan.path], f" from {target.name}")
    event = Event("take", subject, author, body, "refine")
    draft = draft_event(vault, event, {plan.path: (mode, plan.data)}, at)
    return draft._replace(author=Identity(plan.last_commit.author, plan.last_commit.email))
