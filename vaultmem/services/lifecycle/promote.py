"""Make candidates active, on record: one commit, and the person's word that it counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.indexing.analysis import digest_body
from vaultmem.core.lifecycle import OWNER_KINDS, State, check_promotion
from vaultmem.core.notes.edit_properties import write_state
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError, naming_faults
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.services.reading.withdraw import is_trust_named
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.leaks import look_for_leaks
from vaultmem.services.writing.ownership import AuthorScope
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import replace_text, write
from vaultmem.vault import HOW_TO_SAY, Vault


class Promotion(NamedTuple):
    """What a promote did: (path, state before) of each note, which may instruct now, commits.

    `active` were that already, with nothing to be said of them. `unsaid` are policies, skills and
    preferences that count for nothing yet, because no person has promoted them.
    """

    notes: tuple[tuple[str, str], ...]
    trusted: tuple[str, ...]
    report: CommitReport
    active: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()


def promote_notes(vault: Vault, addresses: Sequence[str]) -> Promotion:
    """Set the notes' state to active and commit them, and nothing else, as `promote`.

    An address may be a folder, which means its candidates.

    A promotion by the person, or by an agent listed under `promoters`, also lets a policy or
    skill instruct, and a preference count as the owner's, until its text changes. Of a note that is
    active that is all there is to do; what somebody changed in it waits for the next commit.

    Raises:
        NoteNotFoundError, RefusedError: a note is missing or cannot be promoted; none was.
        PendingError: the notes are active; their commit has to wait.
    """
    paths = [path for address in addresses for path in _find_named(vault, address)]
    promoted: list[Note] = []
    active: list[Note] = []

    def plan(change: Change) -> list[tuple[PurePosixPath, State]]:
        read = [change.read(path) for path in dict.fromkeys(paths)]
        for note in read:
            check_note(vault, note)
        notes = [each for each in read if each.state is not State.ACTIVE or _is_new(vault, each)]
        active[:] = [each for each in read if each not in notes]
        promoted[:] = [_activate(change, note) for note in notes]
        before = [(note.path, note.state) for note in notes]
        if not notes:
            return before
        change.commit(make_event(vault, before), AuthorScope.OTHERS_AND_EDITS)
        return before

    with vault.lock():
        try:
            before, report = write(vault, plan)
        except PendingError:
            if not find_branch(vault):  # Where nothing was written, nothing is to be trusted.
                record_trust(vault, promoted)
            raise
        trusted = record_trust(vault, promoted)
    notes = tuple((str(path), state.value) for path, state in before)
    unsaid = list_unsaid(vault, [*promoted, *active])
    return Promotion(notes, trusted, report, tuple(str(each.path) for each in active), unsaid)


def _find_named(vault: Vault, address: str) -> list[PurePosixPath]:
    """Return the note that an address means, or the candidates of a folder.

    Raises:
        NoteNotFoundError: there is neither.
    """
    try:
        return [resolve_address(vault, address)[0]]
    except NoteNotFoundError:
        below = f"{parse_note_path(address)}/"
        records = vault.view.records("d.state = ?", [State.CANDIDATE])
        named = [each for each in records if each.path.startswith(below) and not each.problem]
        if not named:
            raise
        return [PurePosixPath(each.path) for each in named]


def _activate(change: Change, note: Note) -> Note:
    """Set a note's state, and return it as it is then."""
    if note.state == State.ACTIVE:
        return note
    data = replace_text(change, note, lambda each: write_state(each.text, State.ACTIVE))
    return parse_note(note.path, data)


def check_note(vault: Vault, note: Note) -> None:
    """Allow a note to be promoted.

    Raises:
        RefusedError: its state or a pin does not allow it, or it looks like a credential.
    """
    if note.problem:
        raise RefusedError(f"{note.path}: {note.problem}; mend it in an editor first")
    check_promotion(str(note.path), note.state)
    if note.state is not State.ACTIVE:
        check_activation(vault, note)
    if note.pinned and note.state is not State.ACTIVE:
        vault.require_person(f"{note.path}: pinned, so only a person promotes it")
    for leak in look_for_leaks(vault, str(note.path), note.text):
        raise RefusedError(
            f"{note.path}:{leak.line}: this looks like a credential ({leak.rule}); "
            "remove it before you promote the note"
        )


def check_activation(vault: Vault, note: Note) -> None:
    """Allow a note to become active.

    Raises:
        RefusedError: its text was trusted once, and an agent asks that may not promote.
    """
    if note.kind not in OWNER_KINDS or vault.may_activate(vault.author.agent):
        return
    if is_trust_named(vault, (str(note.path), digest_body(note))):
        vault.require_person(f"{note.path}: was trusted, so only a person makes it active again")


def make_event(
    vault: Vault, before: Sequence[tuple[PurePosixPath, State]], origin: str = ""
) -> Event:
    """Return the event of promoting notes (path, state before); `origin` stands behind each."""
    lines = tuple(f"{path}: {state} to active{origin}" for path, state in before)
    only = tuple(str(path) for path, _ in before)
    return Event("promote", name_files("promote", only), vault.author, lines, "refine", only=only)


def record_trust(vault: Vault, notes: Sequence[Note]) -> tuple[str, ...]:
    """Put policies, skills and preferences on record, if whoever promotes may; return which."""
    if not _may_say(vault):
        return ()
    digests = {str(n.path): digest_body(n) for n in notes if n.kind in OWNER_KINDS}
    if not digests:
        return ()
    outcome = "the notes are promoted, but not trusted yet; promote them again"
    with naming_faults(outcome, stands=True):
        vault.trust.record(digests)
    return tuple(digests)


def _may_say(vault: Vault) -> bool:
    """Tell whether whoever promotes may say what instructs."""
    return vault.may_activate(vault.author.agent) and vault.trust.is_trusted()


def _is_new(vault: Vault, note: Note) -> bool:
    """Tell whether a note's very text is to be put on record, and is not on it yet."""
    return _may_say(vault) and _is_unsaid(vault, note)


def list_unsaid(vault: Vault, notes: Sequence[Note]) -> tuple[str, ...]:
    """Return the policies, skills and preferences of which an agent cannot say that they count."""
    if vault.is_person:
        return ()
    return tuple(str(note.path) for note in notes if _is_unsaid(vault, note))


def _is_unsaid(vault: Vault, note: Note) -> bool:
    on_record = vault.trust.notes().get(str(note.path), ())
    return note.kind in OWNER_KINDS and digest_body(note) not in on_record


def tell_unsaid(done: Promotion) -> str:
    """Say who lets what was promoted count, where that is not done; "" elsewhere."""
    if not done.unsaid:
        return ""
    return f"instructs nobody before a person promotes it: {', '.join(done.unsaid)}: {HOW_TO_SAY}"
