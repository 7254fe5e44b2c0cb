"""Withdraw trust that the owner took back, however the note changed.

The trust record is about active notes. Each change of a note (a command, a saved file or a commit)
is indexed, so the index compares the note before and after. A trusted text is withdrawn when

- its note is no longer active, or of another kind;
- a person removed it, or a person's commit removed it or replaced its text;
- an agent made the note active again.

If a person's command makes a withdrawn text active again, it is restored. A change of branch does
not affect the previous branch.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import OWNER_KINDS, NoteState
from vaultmem.errors import NoteNotFoundError, SystemFailureError, VaultError
from vaultmem.storage.journal import REMOVED
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.storage.git.introduced import IntroducedBlob

#: A note's path and the digest of its text.
Text = tuple[str, str]

#: State key: texts to withdraw that are not yet in the trust record.
_WITHDRAWALS_KEY = "withdrawals"


class _Turn(NamedTuple):
    """A commit that put a text into force, or out of it."""

    commit: str
    is_in_force: bool


def find_in_force(vault: Vault, paths: Iterable[str]) -> dict[str, str]:
    """Return path and digest of the notes that instruct, or would if they were trusted.

    Only paths in the trust record or a signed list are looked up.
    """
    candidates = {path for path, _ in _list_withdrawn_texts(vault)}.intersection(paths)
    return {path: record.body_digest for path, record in _read(vault, candidates).items() if record}


def review_files(vault: Vault, before: Mapping[str, str], paths: Iterable[str]) -> None:
    """Withdraw the texts that the owner took back in changed files, in an index transaction.

    `before` is the result of `find_in_force` before the files changed.
    """
    texts = _list_withdrawn_texts(vault)
    changed_paths = {path for path, _ in texts}.intersection(paths)
    if not changed_paths or _has_switched(vault):
        return
    withdrawn_texts: set[Text] = set()
    for path, record in _read(vault, changed_paths).items():
        old_text = (path, before.get(path, ""))
        new_text = (path, record.body_digest if record else "")
        if record and new_text != old_text and new_text in texts:
            author = vault.journal.find_author(path, record.blob)
            if author and not vault.may_activate(author.agent):
                withdrawn_texts.add(new_text)
            elif author:
                _restore(vault, new_text)
        elif record is None and old_text in texts and _is_taken_back(vault, path):
            withdrawn_texts.add(old_text)
    _put_due(vault, withdrawn_texts)


def review_commits(vault: Vault, since: str, changes: Sequence[IntroducedBlob]) -> None:
    """Withdraw texts that this branch's new commits took back, or that an agent restored.

    `changes` are the changes of the commits after `since`, newest first.
    """
    texts = _list_withdrawn_texts(vault)
    if not texts or _has_switched(vault):
        return
    versions: dict[str, list[IntroducedBlob]] = {}
    for each in reversed(changes):
        versions.setdefault(each.path, []).append(each)
    records = _read(vault, {path for path, _ in texts} & versions.keys())
    other_texts = vault.trust.notes_beside()
    withdrawn_texts: set[Text] = set()
    for path, digest in texts:
        turn = _find_last_turn(vault, since, versions[path], digest) if path in records else None
        if turn is None:
            continue
        record = records[path]
        counts = record is not None and record.body_digest == digest
        is_owners = _is_owners(vault, turn.commit)
        # Another text here does not affect the one that another work tree trusts.
        is_here = record is None or (path, digest) not in other_texts
        if counts and turn.is_in_force and not is_owners:
            withdrawn_texts.add((path, digest))
        if not counts and not turn.is_in_force and is_owners and is_here:
            withdrawn_texts.add((path, digest))
    _put_due(vault, withdrawn_texts)


def write_withdrawals(vault: Vault) -> None:
    """Write due withdrawals to the trust record.

    If the record cannot be written, as in a sandbox, the next command does it; until then the texts
    do not count.
    """
    if due := list_due(vault):
        with contextlib.suppress(SystemFailureError):
            vault.trust.withdraw(due, vault.now())
            vault.state.put(_WITHDRAWALS_KEY, "")


def is_trust_named(vault: Vault, text: Text) -> bool:
    """Return whether a text is trusted, or was before it was withdrawn."""
    return text in _list_withdrawn_texts(vault)


def list_due(vault: Vault) -> set[Text]:
    """Return the withdrawn texts that the trust record might still contain."""
    due = vault.state.get(_WITHDRAWALS_KEY)
    return {(path, digest) for path, digest in json.loads(due)} if due else set()


def _list_withdrawn_texts(vault: Vault) -> set[Text]:
    """Return the texts in the trust record or a signed list, including withdrawn ones."""
    notes = vault.trust.notes().items()
    texts = {(path, digest) for path, digests in notes for digest in digests}
    return texts | vault.store.signed_trust.list_texts() | vault.trust.withdrawn_here().keys()


def _read(vault: Vault, paths: Iterable[str]) -> dict[str, NoteRecord | None]:
    """Return the folder's records in force at these paths, None for others.

    A note that cannot be read is left out, because nothing is known of it.
    """
    paths = list(paths)
    files = vault.manifest.files(paths) if paths else {}
    numbers = {file.document for file in files.values() if file.document is not None}
    records = {record.path: record for record in vault.view.records_of(numbers).values()}
    return {
        path: record if record and _is_in_force(record.kind, record.state) else None
        for path in paths
        for record in [records.get(path)]
        if path not in files or not files[path].problem
    }


def _is_in_force(kind: str, state: str) -> bool:
    return kind in OWNER_KINDS and state == NoteState.ACTIVE


def _has_switched(vault: Vault) -> bool:
    """Return whether another branch, or none, is checked out since the last call."""
    head = vault.head()
    return head is not None and bool(head.commit) and vault.state.get("branch") != head.branch


def _is_taken_back(vault: Vault, path: str) -> bool:
    """Return whether a note left force by its state, or was removed by its owner."""
    if path in vault.manifest.files([path]):
        return True
    author = vault.journal.find_author(path, REMOVED)
    return author is not None and vault.may_activate(author.agent)


def _restore(vault: Vault, text: Text) -> None:
    """Trust a text again that a person's command made active again."""
    if vault.trust.is_trusted() and text in vault.trust.withdrawn_here():
        with contextlib.suppress(SystemFailureError):  # Active, but not trusted.
            vault.trust.record(dict([text]))


def _find_last_turn(
    vault: Vault, since: str, versions: Sequence[IntroducedBlob], digest: str
) -> _Turn | None:
    """Return the last commit that put a text into force, or out of it."""
    from vaultmem.storage.git.trees import find_entry

    path = versions[0].path
    entry = None
    with contextlib.suppress(VaultError):  # The vault can have another repository now.
        entry = find_entry(vault.history, since, path)
    was_in_force = entry is not None and _has_text(vault, path, entry.blob, digest)
    last = None
    for each in versions:
        is_in_force = _has_text(vault, path, each.blob, digest)
        if is_in_force != was_in_force:
            last = _Turn(each.commit, is_in_force)
        was_in_force = is_in_force
    return last


def _has_text(vault: Vault, path: str, blob: str, digest: str) -> bool:
    """Return whether a version of a note ("" for none) is in force with this text."""
    from vaultmem.core.indexing.section_texts import digest_body
    from vaultmem.core.notes.note import parse_readable_note

    note = None
    with contextlib.suppress(NoteNotFoundError):
        note = parse_readable_note(path, vault.history.objects.read(blob)[1]) if blob else None
    if note is None or note.problem or not _is_in_force(note.kind, note.state):
        return False
    return digest_body(note) == digest


def _is_owners(vault: Vault, commit: str) -> bool:
    """Return whether a person made a commit, or an agent that can promote."""
    from vaultmem.storage.git.log import read_commit

    try:
        return vault.may_activate(read_commit(vault.history, commit).agent)
    except VaultError:
        return False


def _put_due(vault: Vault, withdrawn: set[Text]) -> None:
    if withdrawn:
        vault.state.put(_WITHDRAWALS_KEY, json.dumps(sorted(withdrawn | list_due(vault))))
