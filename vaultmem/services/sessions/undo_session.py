"""Undo what a session wrote, as one commit. Text of people and of other sessions is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.merging.merge_note import merge_texts
from vaultmem.core.merging.text import RevertedText, revert_lines
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.sections import derive_title
from vaultmem.core.project import PROPERTY as PROJECT
from vaultmem.core.sessions.session import plain_id, session_path
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.line_diff import match_lines, split_bytes
from vaultmem.core.text.paths import PINNED_FILES, is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import PendingFiles, find_pending
from vaultmem.services.changes.write import reject_freeing, replace_text, write
from vaultmem.services.history.restore_note import blob_now, check_leaks
from vaultmem.services.lifecycle.transition import acting_party, check_branch, set_state
from vaultmem.services.sessions.spread import LaterNote, find_spread
from vaultmem.services.views.follow_renames import walk_present
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.log import Commit
from vaultmem.storage.git.vault_history import AgentLines
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault


class UndoAction(StrEnum):
    """Action on a note when a session is undone."""

    REMOVE = "remove"
    REVERT = "revert"
    RESTORE = "restore"
    QUARANTINE = "quarantine"
    KEEP = "keep"


class UndoneNote(NamedTuple):
    """A note and its action. `reason` is what is kept of it, or why nothing is done.

    `others` are the later authors of the note.
    """

    path: str
    action: UndoAction
    reason: str = ""
    others: tuple[str, ...] = ()


class SessionUndo(NamedTuple):
    """The actions of undoing a session; they were done, in a commit, if `is_applied`."""

    session: str
    notes: tuple[UndoneNote, ...]
    is_applied: bool
    report: CommitReport


class _Edit(NamedTuple):
    """The session's change of a file: bytes before and after, None for a missing file."""

    before: bytes | None
    after: bytes | None

    @property
    def is_new(self) -> bool:
        """Whether the session created the file."""
        return self.before is None

    @property
    def is_removal(self) -> bool:
        """Whether the session removed the file."""
        return self.after is None


def undo_session(
    vault: Vault, name: str, *, with_spread: bool = False, apply: bool = False
) -> SessionUndo:
    """Undo what a session wrote, as one commit; without `apply`, only return the plan.

    Later lines of other authors are kept, and removed notes stay in git. The session's own note is
    a record, so it is quarantined. `with_spread` also quarantines notes in the folder in which
    another session repeats or cites a statement that it was shown. The index must be up to date.

    Raises:
        NoteNotFoundError: no commit and no note is by that session.
        RefusedError: the session is open, its branch is not checked out, a note had text that looks
            like a credential, or the owner has pinned or quarantined a note since.
        ConflictError, PendingError: as for `write`.
    """
    check_branch(vault)
    session = plain_id(name)
    active = ActiveSessions(vault.state_folder).find(session)
    if active is not None and active.is_there:
        raise RefusedError(f"{session}: still open; `vaultmem session close {session}` ends it")
    writings = find_spread([vault], session).reached if with_spread else ()
    undone_notes: list[UndoneNote] = []

    def plan(change: Change) -> None:
        undo = _Undo(vault, change, session)
        undone_notes[:] = [*undo.revert_all(), *undo.quarantine_reached(writings)]
        body = tuple(
            f"{x.action} {x.path}" for x in undone_notes if x.action is not UndoAction.KEEP
        )
        if change.steps:
            change.commit(Event("undo", f"undo: session {session}", vault.author, body, "refine"))

    report = CommitReport()
    if apply:
        report = write(vault, plan).report
    else:
        plan(Change(vault))
    return SessionUndo(session, tuple(undone_notes), apply, report)


class _Undo:
    """The plan for undoing a session, as one change."""

    def __init__(self, vault: Vault, change: Change, session: str) -> None:
        self._vault, self._change, self._session = vault, change, session
        self._edits = _Edits(vault, session)
        self._here = vault.manifest.blobs().keys()

    def revert_all(self) -> list[UndoneNote]:
        """Plan to revert everything that the session wrote; return the action for each note.

        Raises:
            NoteNotFoundError: the session wrote nothing.
        """
        if not self._edits.by_path:
            raise NoteNotFoundError(
                f"{self._session}: this session wrote nothing here; see `vaultmem session list`"
            )
        return [
            self._try(path, partial(self._revert, path)) for path in sorted(self._edits.by_path)
        ]

    def quarantine_reached(self, writings: Iterable[LaterNote]) -> list[UndoneNote]:
        """Quarantine notes in which other sessions repeat or cite this one; return the actions."""
        notes_by_path: dict[str, UndoneNote] = {}
        for each in writings:
            path = each.path
            if each.commit:
                path = self._edits.paths.get((each.commit.commit, path), "")
            step = self._change.steps.get(path)
            if path not in self._here:
                reason = f"only on {', '.join(each.branches)}" if not path else "not there any more"
                notes_by_path[each.path] = UndoneNote(each.path, UndoAction.KEEP, reason)
            elif not each.agent:
                notes_by_path[path] = UndoneNote(
                    path, UndoAction.KEEP, "a person wrote it; edit it"
                )
            elif path not in notes_by_path and not (step and not step.data):
                usage = (
                    f"{each.relation} {each.source}" if each.source != path else str(each.relation)
                )
                notes_by_path[path] = self._try(
                    path, partial(self._quarantine, path, f"{each.session or each.agent} {usage}")
                )
        return [each for each in notes_by_path.values() if each.reason != _QUARANTINED_REASON]

    def _try(self, path: str, work: Callable[[], UndoneNote]) -> UndoneNote:
        """Return the action for a note. A rejected action becomes KEEP."""
        try:
            note = work()
        except (NoteNotFoundError, RefusedError) as error:
            note = UndoneNote(path, UndoAction.KEEP, str(error))
        return note._replace(others=tuple(self._edits.others.get(path, ())))

    def _revert(self, name: str) -> UndoneNote:
        edits, path = self._edits.by_path[name], PurePosixPath(name)
        if name == str(session_path(self._session)):
            return self._quarantine(str(path), "it is the record of the session")
        blob = blob_now(self._change, path)
        if not blob:
            return self._restore(path, edits)
        if not is_note_name(name):
            return UndoneNote(str(path), UndoAction.KEEP, "not a note; use git")
        if edits[0].is_removal:
            return UndoneNote(str(path), UndoAction.KEEP, "removed then, and written again since")
        note = self._change.read(path)
        reverted = _revert_text(note, edits)
        is_new = any(each.is_new for each in edits)
        if is_new and not reverted.text:
            if _has_others_properties(note, edits[0].after or b""):
                return self._quarantine(str(path), "others confirmed it")
            reject_freeing(self._change, path, None)
            self._change.remove(path, blob)
            return UndoneNote(str(path), UndoAction.REMOVE)
        if reverted.text == note.text:
            return UndoneNote(str(path), UndoAction.KEEP, "nothing of it is there any more")
        new_note = parse_note(path, reverted.text.encode("utf-8", "surrogateescape"))
        if new_note.problem:
            return self._quarantine(str(path), "its properties were changed since")
        reasons = _describe(reverted)
        if is_new and new_note.title == path.stem:  # It could repeat the removed text.
            title = derive_title(new_note.body)
            new_note = new_note._replace(text=set_property(new_note.text, "title", title))
            reasons = [*reasons, "the session named it; `vaultmem mv` renames it"]
        reject_freeing(self._change, path, new_note.text.encode("utf-8", "surrogateescape"))
        replace_text(self._change, note, lambda _: new_note.text)
        return UndoneNote(str(path), UndoAction.REVERT, ", ".join(reasons))

    def _restore(self, path: PurePosixPath, edits: Sequence[_Edit]) -> UndoneNote:
        """Restore a note that the session removed, without the session's earlier changes."""
        last_edit, *earlier_edits = edits
        data = last_edit.before if last_edit.is_removal else b""
        if data and earlier_edits:
            text = _revert_text(parse_note(path, data), earlier_edits).text
            data = text.encode("utf-8", "surrogateescape")
        if not data:
            return UndoneNote(str(path), UndoAction.KEEP, "not there any more")
        check_leaks(self._vault, str(path), data)
        self._change.put(path, data)
        return UndoneNote(str(path), UndoAction.RESTORE)

    def _quarantine(self, path: str, cause: str) -> UndoneNote:
        note = self._change.read(PurePosixPath(path))
        if note.state is NoteState.QUARANTINED:
            return UndoneNote(path, UndoAction.KEEP, _QUARANTINED_REASON)
        if path in PINNED_FILES:
            return UndoneNote(path, UndoAction.KEEP, f"{cause}; pinned by its name: edit it")
        reason = f"session {self._session} was undone"
        edit = set_state(NoteState.QUARANTINED, reason, acting_party(self._vault))
        replace_text(self._change, note, edit)
        return UndoneNote(path, UndoAction.QUARANTINE, cause)


#: Reason to keep a note that is quarantined already.
_QUARANTINED_REASON = "quarantined already"

#: Author of a change by hand, if no commit names the person.
_PERSON = "a person"

#: Properties that vaultmem sets itself, which are not text of other authors.
_BOOKKEEPING = frozenset({"state", "state_reason", "updated", "reviewed", "related", "contradicts"})
_BOOKKEEPING |= {"superseded_by", "supersedes", "pinned"}


class _Edits:
    """The session's changes by current path, each newest first.

    `others` maps each path to its later authors. `paths` maps a commit and its path to the current
    path.
    """

    def __init__(self, vault: Vault, session: str) -> None:
        self.by_path: dict[str, list[_Edit]] = {}
        self.others: dict[str, dict[str, None]] = {}
        self.paths: dict[tuple[str, str], str] = {}
        self._session, self._prefix = session, vault.history.prefix
        self._read = vault.history.objects.read
        self._later: dict[str, dict[str, None]] = {}
        pending = find_pending(vault)
        self._add_pending(pending, HeadTree(vault.state).entries(pending.files))
        self._add_commits(vault, pending.moved)

    def _add(self, path: str, edit: _Edit) -> None:
        self.by_path.setdefault(path, []).append(edit)
        self.others.setdefault(path, {}).update(self._later.pop(path, {}))

    def _add_pending(self, pending: PendingFiles, head: Mapping[str, TreeEntry]) -> None:
        for path, file in pending.files.items():
            author, draft = pending.owners[path]
            before = self._read(head[path].blob)[1] if path in head else None
            if draft is not None and draft.author.session == self._session:
                self._later[path] = {_PERSON: None}
                self._add(path, _Edit(before, draft.data))
            elif author is not None and author.session == self._session:
                self._add(path, _Edit(before, file and file[1]))
            else:
                self._later[path] = {(author and author.agent) or _PERSON: None}

    def _add_commits(self, vault: Vault, moves: Mapping[str, str]) -> None:
        def is_split(commit: Commit) -> bool:
            return any(each.session == self._session for each in commit.wrote or (commit,))

        for commit, each, present_path in walk_present(vault, moves, is_split):
            self.paths[commit.commit, each.path] = present_path
            if any(self._is_by(writer, each.path) for writer in commit.wrote or (commit,)):
                self._add(present_path, self._read_edit(commit, each))
            else:
                self._later.setdefault(present_path, {})[commit.shown] = None

    def _is_by(self, change: Commit | AgentLines, path: str) -> bool:
        """Return whether the session wrote the commit, or this file in another author's commit."""
        is_file = isinstance(change, Commit) or change.path == self._prefix + path
        return change.session == self._session and is_file

    def _read_edit(self, commit: Commit, change: FileChange) -> _Edit:
        blobs = (change.old_blob, change.blob)
        old, new = (self._read(blob)[1] if blob else None for blob in blobs)
        for wrote in commit.wrote:
            if new and wrote.lines and self._is_by(wrote, change.path):
                old = _leave_out(old or b"", new, wrote)
        return _Edit(old, new)


def _leave_out(old: bytes, new: bytes, wrote: AgentLines) -> bytes:
    """Return a commit's version of a file, without the new lines of this agent."""
    matches = match_lines(split_bytes(old), split_bytes(new))
    kept_lines = {place + at + 1 for _, place, length in matches for at in range(length)}
    lines = enumerate(new.split(b"\n"), 1)
    return b"\n".join(line for n, line in lines if n in kept_lines or not wrote.has_line(n))


def _revert_text(note: Note, edits: Sequence[_Edit]) -> RevertedText:
    """Return a note's text without these edits, newest first; "" if nothing is left."""
    text, changed_count, lost_lines = note.text, 0, list[str]()
    for edit in edits:
        if edit.is_removal:
            continue
        before, after = (decode_text(each or b"").text for each in edit)
        (head, body), (old_head, old_body), (new_head, new_body) = map(
            _split, (text, before, after)
        )
        result = revert_lines(old_body, new_body, body)
        changed_count += result.changed
        lost_lines += result.lost
        if not edit.is_new:
            head = merge_texts(str(note.path), new_head, head, old_head).text
        elif not result.text.strip():
            return RevertedText("", changed_count, tuple(lost_lines))
        else:
            head = _drop_properties(head, parse_note(note.path, edit.after or b""))
        text = head + result.text
    return RevertedText(text, changed_count, tuple(lost_lines))


def _split(text: str) -> tuple[str, str]:
    body = read_frontmatter(text).body
    return text[:body], text[body:]


def _drop_properties(head: str, session_note: Note) -> str:
    """Return a frontmatter without the author's unchanged properties, except `project`."""
    for prop in session_note.frontmatter.properties:
        current_property = read_frontmatter(head).get(prop.name)
        if (
            current_property is not None
            and current_property.value == prop.value
            and prop.name != PROJECT
        ):
            head = remove_property(head, prop.name)
    return head if read_frontmatter(head).properties else ""


def _has_others_properties(note: Note, after: bytes) -> bool:
    """Return whether other authors added properties that vaultmem does not set itself."""
    frontmatter = parse_note(note.path, after).frontmatter
    return any(
        prop.name not in _BOOKKEEPING
        and not ((own := frontmatter.get(prop.name)) and own.value == prop.value)
        for prop in note.frontmatter.properties
    )


def _describe(reverted: RevertedText) -> list[str]:
    phrases = [f"{pluralize(reverted.changed, 'line')} changed since"] if reverted.changed else []
    lost_count = len(reverted.lost)
    return (
        [*phrases, f"{pluralize(lost_count, 'line')} not brought back"] if lost_count else phrases
    )
