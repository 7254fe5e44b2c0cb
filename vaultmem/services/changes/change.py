"""A change that an operation plans: notes to write, replace or remove, and its event."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Generic, NamedTuple, TypeVar

from vaultmem.core.indexing.section_texts import digest_body
from vaultmem.core.lifecycle import OWNER_KINDS, NoteState
from vaultmem.core.notes.edit_properties import write_state
from vaultmem.core.notes.encoding import describe_encoding, open_to_edit
from vaultmem.core.notes.note import Note, parse_note, parse_readable_note
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VersionMismatchError
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import AuthorScope
from vaultmem.services.views.read_notes import find_problem, read_as_written, read_bytes
from vaultmem.services.views.trust_withdrawal import is_trust_named
from vaultmem.storage.files import read_file_and_mode, read_known
from vaultmem.vault import Vault

T = TypeVar("T")


class NoteStep(NamedTuple):
    """The change of one note: `before` is its blob id ("" for none); `data` None removes it.

    `mode` is the permission bits of a new file, None for the default.
    """

    before: str
    data: bytes | None
    mode: int | None = None


class Change:
    """A planned change of notes in one view (`seen`); nothing is written yet.

    Only a person can make a trusted text active again; an agent's change makes the note one of the
    `candidates`. Text that tries to instruct an agent quarantines a note unless a person wrote it
    (`is_foreign`). `suspicious` describes such text for each note.
    """

    def __init__(self, vault: Vault) -> None:
        self.seen = vault
        self.steps: dict[str, NoteStep] = {}
        self.event: Event | None = None
        self.is_left = True
        self.whose = AuthorScope.OTHERS
        self.candidates: list[str] = []
        self.is_foreign = not vault.is_person
        self.suspicious: dict[str, str] = {}
        self._known: dict[str, str] = {}

    @property
    def is_folder(self) -> bool:
        """Return whether the change is for the folder, not a branch."""
        return self.seen.view.is_work_tree

    def read(self, path: PurePosixPath) -> Note:
        """Return a note as stored, or as this change leaves it.

        Raises:
            NoteNotFoundError: there is no such note.
            RefusedError: the file cannot be read as a note.
        """
        step = self.steps.get(str(path))
        if step is not None and step.data is not None:
            return parse_note(path, step.data)
        note = read_as_written(self.seen, path)
        if not self.is_folder and (problem := find_problem(self.seen, path)):
            raise RefusedError(f"{path}: {problem}; fix it where that branch is checked out")
        self._expect(path, note.blob)
        self._known[str(path)] = note.blob
        return note

    def _expect(self, path: PurePosixPath, blob: str) -> None:
        """Check that a note has not changed since the caller read it.

        Raises:
            VersionMismatchError: the note has another version than expected.
        """
        blobs = self.seen.expected.get(str(path))
        if blobs is not None and blob not in blobs:
            raise VersionMismatchError(
                f"{path}: changed since it was read as {', '.join(sorted(blobs))}; read it again"
            )

    def read_bytes(self, note: Note) -> bytes:
        """Return the bytes of a note that was read.

        Raises:
            ConflictError: another process saved it since.
        """
        step = self.steps.get(str(note.path))
        step_data = step.data if step is not None else None
        data = read_bytes(self.seen, note.path) if step_data is None else step_data
        if blob_id(data) != note.blob:
            raise ConflictError(f"{note.path}: another process changed it; read it again")
        return data

    def put(self, path: PurePosixPath, data: bytes, mode: int | None = None) -> bytes:
        """Add a new note and return its bytes."""
        data = self._restrict(path, data, None)
        self.steps[str(path)] = NoteStep("", data, mode)
        return data

    def move(self, old: PurePosixPath, blob: str, new: PurePosixPath, data: bytes) -> None:
        """Move a note whose blob id is `blob`, keeping its permissions; its bytes can change."""
        mode = read_file_and_mode(self.seen.root, old)[1] & 0o777 if self.is_folder else None
        self.steps[str(new)] = NoteStep("", data, mode)
        self.remove(old, blob)

    def replace(self, path: PurePosixPath, data: bytes, blob: str) -> bytes:
        """Replace the bytes of a note whose blob id is `blob`, and return the new bytes.

        Equal bytes are not a change.
        """
        step = self.steps.get(str(path))
        if step is not None:
            data = self._restrict(path, data, step.data)
            self.steps[str(path)] = step._replace(data=data)
            return data
        self._expect(path, blob)
        self._known.setdefault(str(path), blob)
        if blob_id(data) != blob:
            data = self._restrict(path, data, self._read_blob(str(path), blob))
        if blob_id(data) != blob:
            self.steps[str(path)] = NoteStep(blob, data)
        return data

    def _restrict(self, path: PurePosixPath, data: bytes, old_data: bytes | None) -> bytes:
        """Return a note's bytes as allowed: quarantined, a candidate, or unchanged."""
        return self._demote(path, self._contain(path, data, old_data), old_data)

    def _contain(self, path: PurePosixPath, data: bytes, old_data: bytes | None) -> bytes:
        """Return a note's bytes, quarantined if foreign text tries to instruct an agent.

        Raises:
            RefusedError: the note is pinned, so it cannot be quarantined.
        """
        from vaultmem.services.changes.containment import describe_found, find_new, quarantine

        findings = find_new(data, old_data) if is_note_name(str(path)) else ()
        if findings:
            new_data = quarantine(path, data, findings) if self.is_foreign else data
            self.suspicious[str(path)] = describe_found(path, findings, is_held=self.is_foreign)
            return new_data
        return data

    def _demote(self, path: PurePosixPath, data: bytes, old_data: bytes | None) -> bytes:
        """Return a note's bytes, as a candidate if the agent cannot make it active."""
        agent = self.seen.author.agent
        if self.seen.may_activate(agent) or not (digest := _digest_in_force(path, data)):
            return data
        is_unchanged = digest == _digest_in_force(path, old_data)
        if is_unchanged or not is_trust_named(self.seen, (str(path), digest)):
            return data
        text, as_bytes = open_to_edit(data)
        self.candidates.append(str(path))
        return as_bytes(write_state(text, NoteState.CANDIDATE, f"{agent} may not make it active"))

    def read_before(self, path: str) -> bytes | None:
        """Return the bytes that a step replaces, None if there are none."""
        blob = self.steps[path].before
        return self._read_blob(path, blob) if blob else None

    def _read_blob(self, path: str, blob: str) -> bytes | None:
        if self.is_folder and (data := read_known(self.seen.root, path, blob)) is not None:
            return data
        if self.seen.head() is None:
            return None
        try:
            return self.seen.history.objects.read(blob)[1]
        except NoteNotFoundError:  # Another process just saved it.
            return None

    def remove(self, path: PurePosixPath, blob: str) -> None:
        """Remove a note whose blob id is `blob`."""
        self._expect(path, blob)
        self._known.setdefault(str(path), blob)
        self.steps[str(path)] = NoteStep(blob, None)

    def commit(self, event: Event, scope: AuthorScope = AuthorScope.ANYBODY) -> None:
        """Commit the change; earlier uncommitted text in `scope` goes into other commits first."""
        self.event, self.whose, self.is_left = event, scope, False

    def leave(self, event: Event | None = None, scope: AuthorScope = AuthorScope.OTHERS) -> None:
        """Leave the change to the next event; on a branch, where nothing can wait, use this one."""
        self.event, self.whose, self.is_left = event, scope, True

    def find_touched(self) -> dict[str, str]:
        """Return the existing notes that are changed or committed: path to blob id."""
        paths = {*self.steps, *(self.event.only if self.event else ())}
        return {path: blob for path, blob in self._known.items() if path in paths}


def _digest_in_force(path: PurePosixPath, data: bytes | None) -> str:
    """Return the digest of an active policy, skill or preference, "" for any other bytes."""
    note = parse_readable_note(path, data or b"")
    if note is None or note.problem or note.state is not NoteState.ACTIVE:
        return ""
    return digest_body(note) if note.kind in OWNER_KINDS else ""


def check_encoding(note: Note) -> None:
    """Check that a note's text can be changed: only UTF-8 is written, and nothing is converted.

    Raises:
        RefusedError: its bytes are not UTF-8.
    """
    if note.encoding:
        raise RefusedError(f"{note.path}: {describe_encoding(note.encoding)}")


class WriteResult(NamedTuple, Generic[T]):
    """A plan's return value, and the report of the commits."""

    value: T
    report: CommitReport
