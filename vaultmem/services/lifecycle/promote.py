"""Make candidates active, on record: one commit, and the person's word that it counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.indexing.analysis import digest_body
from vaultmem.core.lifecycle import INSTRUCTION_KINDS, State, check_promotion
from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.read_notes import read_note, resolve_address
from vaultmem.services.writing.commit import CommitReport, commit_earlier, commit_event
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.edit_notes import set_note_property
from vaultmem.services.writing.hand_edits import make_promotion, read_edited
from vaultmem.services.writing.pending import Whose
from vaultmem.services.writing.write_branch import commit_on_branch
from vaultmem.vault import Vault


class Promotion(NamedTuple):
    """What a promote did: (path, state before) of each note, which may instruct now, commits."""

    notes: tuple[tuple[str, str], ...]
    trusted: tuple[str, ...]
    report: CommitReport


def promote_notes(vault: Vault, addresses: Sequence[str]) -> Promotion:
    """Set the notes' state to active and commit them, and nothing else, as `promote`.

    A promotion by the person, or by an agent listed under `promoters`, also lets a policy or
    skill instruct from now on, until its text changes.

    Raises:
        NoteNotFoundError, RefusedError: a note is missing or cannot be promoted; none was.
        PendingError: the notes are active; their commit has to wait.
    """
    paths = [resolve_address(vault, address)[0] for address in addresses]
    if branch := find_branch(vault):
        return _promote_on_branch(vault, branch, paths)
    with vault.lock():
        notes = [read_note(vault, path) for path in paths]
        for note in notes:
            check_note(vault, note)
        blobs = {str(note.path): note.blob for note in notes}
        earlier = [*_commit_made_by_hand(vault, blobs)]
        earlier += commit_earlier(vault, blobs, Whose.OTHERS_AND_EDITS)
        before = [(note.path, note.state) for note in notes]
        for path, state in before:
            if state != State.ACTIVE:
                set_note_property(vault, path, "state", State.ACTIVE.value)
        trusted = record_trust(vault, [read_note(vault, path) for path in paths])
        event = make_event(vault, before)
        report = commit_event(vault, event)
        report = report._replace(commits=(*earlier, *report.commits))
    return Promotion(tuple((str(path), state.value) for path, state in before), trusted, report)


def _commit_made_by_hand(vault: Vault, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Commit, as a promotion by the person, what was made active in an editor already."""
    made = [str(e.note.path) for e in read_edited(vault, paths) if e.is_promoted]
    if not made or vault.history.obstacle():
        return ()
    return commit_event(vault, make_promotion(made)).commits


def check_note(vault: Vault, note: Note) -> None:
    """Allow a note to be promoted.

    Raises:
        RefusedError: its state or a pin does not allow it, or it looks like a credential.
    """
    check_promotion(str(note.path), note.state)
    if note.pinned and note.state is not State.ACTIVE and not vault.is_person:
        raise RefusedError(f"{note.path}: pinned, so only a person promotes it")
    leaks = () if vault.config.allows_secrets(str(note.path)) else find_secrets(note.text)
    for leak in leaks:
        raise RefusedError(
            f"{note.path}:{leak.line}: this looks like a credential ({leak.rule}); "
            "remove it before you promote the note"
        )


def make_event(
    vault: Vault, before: Sequence[tuple[PurePosixPath, State]], origin: str = ""
) -> Event:
    """Return the event of promoting notes (path, state before); `origin` stands behind each."""
    lines = tuple(f"{path}: {state} to active{origin}" for path, state in before)
    only = tuple(str(path) for path, _ in before)
    return Event("promote", "promote", vault.author, body=lines, intent="refine", only=only)


def _promote_on_branch(vault: Vault, branch: str, paths: Sequence[PurePosixPath]) -> Promotion:
    notes = [read_note(vault, path) for path in paths]
    for note in notes:
        check_note(vault, note)
    promoted: list[Note] = []

    def promote(seen: Vault) -> dict[str, bytes | None]:
        promoted.clear()
        for path in paths:
            note = read_note(seen, path)
            check_note(vault, note)
            text = set_property(note.text, "state", State.ACTIVE.value)
            promoted.append(parse_note(path, text.encode("utf-8")))
        return {str(note.path): note.text.encode("utf-8") for note in promoted}

    event = make_event(vault, [(note.path, note.state) for note in notes])
    commit = commit_on_branch(vault, branch, event, promote)
    made = ((commit, event.subject),) if commit else ()
    report = CommitReport(made, commit, tuple(map(str, paths)))
    before = tuple((str(note.path), note.state.value) for note in notes)
    return Promotion(before, record_trust(vault, promoted), report)


def record_trust(vault: Vault, notes: Sequence[Note]) -> tuple[str, ...]:
    """Let these policies and skills instruct, if whoever promotes may say so; return which."""
    allowed = vault.is_person or vault.author.agent in vault.config.promoters
    if not allowed or not vault.trust.is_trusted():
        return ()
    digests = {str(n.path): digest_body(n) for n in notes if n.kind in INSTRUCTION_KINDS}
    if digests:
        vault.trust.record(digests)
    return tuple(digests)
