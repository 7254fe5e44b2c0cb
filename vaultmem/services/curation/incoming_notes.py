"""Compare notes that arrived by a merge or pull with the known ones, as `remember` does.

Arrived notes with text that tries to instruct an agent are quarantined. In the owner's own edits,
such text is only reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import PurePosixPath

from vaultmem.core.commit_message import format_files
from vaultmem.core.curation.proposal import ORDER, Action, Proposal
from vaultmem.core.secrets.suspicious import find_suspicious
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import VaultError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.containment import (
    describe_found,
    describe_places,
    find_new,
    quarantine,
)
from vaultmem.services.changes.ownership import PendingFiles, is_persons
from vaultmem.services.changes.write import write
from vaultmem.services.curation.curate import group_values, propose_pairs
from vaultmem.services.curation.dedup import plan_merges
from vaultmem.services.lifecycle.transition import as_agent
from vaultmem.services.similarity.pairs import Pairs, compare_some, list_records
from vaultmem.services.views.read_notes import find_note
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.git.log import walk_log
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.uncompared_notes import read_found, read_waiting, store_found
from vaultmem.vault import Vault

#: Notes to compare between two checks of the time.
_BATCH = 4

#: Maximum stored proposals; above it, comparing stops.
_MAX_PROPOSALS = 500

_SENDER_SEPARATOR = " arrived from "

#: Memory key for the blobs of checked edits.
_CHECKED = "checked_edits"

#: Maximum commits of a note in which to search for the owner's approval.
_COMMITS = 50

#: Seconds for comparing, in a command with another purpose and in a command for review.
QUICK_COMPARE_SECONDS, REVIEW_COMPARE_SECONDS = 1.0, 20.0


def compare_incoming(vault: Vault, seconds: float) -> tuple[Proposal, ...]:
    """Compare arrived notes for up to `seconds`; return all open proposals about arrived notes.

    The rest waits for the next call. Notes of a proposal that have changed are compared again. The
    index must be up to date.
    """
    end = time.monotonic() + seconds
    senders = _find_changed(vault) | read_waiting(vault.state)
    contain_arrivals(vault, read_waiting(vault.state))
    paths = list(senders)
    for start in range(0, len(paths), _BATCH):
        if (start and time.monotonic() > end) or len(read_found(vault.state)) >= _MAX_PROPOSALS:
            break
        batch = paths[start : start + _BATCH]
        store_found(vault.state, batch, partial(_join, vault, _compare(vault, batch, senders)))
    proposals = list_arrived(vault)
    if len(proposals) < len(read_found(vault.state)):
        store_found(vault.state, (), partial(_join, vault, ()))
    return group_values(vault, proposals)


def contain_arrivals(vault: Vault, paths: Iterable[str]) -> None:
    """Quarantine arrived notes with text that tries to instruct an agent, in one commit.

    A note is left alone if the owner committed it with this text, on any machine.
    """
    machine = as_agent(vault)
    suspicious_paths = [path for path in paths if _is_suspicious(vault, path)]
    contained_paths = {path for path in suspicious_paths if not _is_vouched_for(vault, path)}
    if not contained_paths:
        return

    def plan(change: Change) -> None:
        for path in sorted(contained_paths):
            _contain(change, PurePosixPath(path))
        subject = format_files("state", sorted(change.steps), " to quarantined")
        body = tuple(change.suspicious.values())
        change.commit(Event("state", subject, machine.author, body, "refine"))

    write(machine, plan)


def _contain(change: Change, path: PurePosixPath) -> None:
    note = change.read(path)
    data = change.read_bytes(note)
    if findings := () if note.pinned else find_new(data, None):
        change.replace(path, quarantine(path, data, findings), note.blob)
        change.suspicious[str(path)] = describe_found(path, findings, is_held=True)


def check_edits(
    vault: Vault, pending: PendingFiles, seconds: float
) -> tuple[tuple[Proposal, ...], bool]:
    """Check the owner's uncommitted notes, for up to `seconds`, for text that instructs agents.

    Return the new proposals, and whether all notes were checked. The proposals are stored for
    `review`. The notes are not changed.
    """
    end = time.monotonic() + seconds
    checked_blobs: set[str] = vault.state.kept.setdefault(_CHECKED, ("", set()))[1]
    proposals: list[Proposal] = []
    is_done = True
    for path, file in pending.files.items():
        if not file or not is_note_name(path) or not is_persons(pending.owners[path].author):
            continue
        if time.monotonic() > end:
            is_done = False
            break
        blob = blob_id(file[1])
        if blob not in checked_blobs:
            checked_blobs.add(blob)
            proposals += _report(vault, pending.find_before(path) or path, path, file[1])
    if proposals:
        store_found(vault.state, (), partial(_join, vault, proposals))
    return tuple(proposals), is_done


def _report(vault: Vault, old_path: str, path: str, data: bytes) -> Iterator[Proposal]:
    """Yield a proposal if a note has suspicious text that its committed version does not have."""
    if not find_new(data, None):
        return
    entry = HeadTree(vault.state).entries([old_path]).get(old_path)
    old = vault.history.objects.read(entry.blob)[1] if entry else None
    if findings := find_new(data, old):
        places = tuple(f"line {each.line}: {each.rule}" for each in findings)
        yield Proposal(Action.SUSPICIOUS, path, blob_id(data), describe_places(findings), places)


def _is_suspicious(vault: Vault, path: str) -> bool:
    note = find_note(vault, path)
    return note is not None and bool(find_new(note.text.encode("utf-8"), None))


def _is_vouched_for(vault: Vault, path: str) -> bool:
    """Return whether the owner committed the note with all its suspicious text."""
    head, note = vault.head(), find_note(vault, path)
    if head is None or note is None:
        return False
    rules = {each.rule for each in find_suspicious(note.text)}
    person = vault.history.person()
    for commit in islice(walk_log(vault.history, head.commit, path), _COMMITS):
        is_owners = not commit.agent and commit.email == person.identity.email
        if person.problem or not is_owners or len(commit.parents) > 1:
            continue
        with suppress(VaultError):
            entry = find_entry(vault.history, commit.commit, path)
            data = vault.history.objects.read(entry.blob)[1] if entry else b""
            if rules <= {each.rule for each in find_new(data, None)}:
                return True
    return False


def _compare(vault: Vault, paths: Sequence[str], senders: Mapping[str, str]) -> list[Proposal]:
    """Return the proposals for these notes and similar ones, with their senders as evidence."""
    pairs = compare_some(vault, paths)
    merges = plan_merges(vault, pairs=pairs.duplicates)
    merged_pairs = {frozenset((each.path, each.into)) for each in merges}
    # The caller cannot merge these.
    unmerged_pairs = [each for each in pairs.duplicates if each.names not in merged_pairs]
    listed_pairs = {each.names for each in pairs.contradictions} | merged_pairs
    near_pairs = {
        each.names: each
        for each in (*unmerged_pairs, *pairs.similar)
        if each.names not in listed_pairs
    }
    pairs = Pairs((), pairs.contradictions, tuple(near_pairs.values()))
    dates = {each.path: (each.written, each.path) for each in list_records(vault, pairs)}
    proposals = [*merges, *propose_pairs(pairs, dates)]
    return [
        each._replace(evidence=(*_describe(each, senders), *each.evidence)) for each in proposals
    ]


def _describe(proposal: Proposal, senders: Mapping[str, str]) -> list[str]:
    paths = (proposal.path, proposal.into)
    return [f"{path}{_SENDER_SEPARATOR}{sender}" for path in paths if (sender := senders.get(path))]


def _join(
    vault: Vault, new_proposals: Sequence[Proposal], stored_proposals: Sequence[Proposal]
) -> list[Proposal]:
    """Return the new proposals and the stored ones that are still valid."""
    blobs = _read_blobs(vault, stored_proposals) if stored_proposals else {}
    current = {each.id: each for each in stored_proposals if _holds(each, blobs)}
    return list(({each.id: each for each in new_proposals} | current).values())


def filter_current(vault: Vault, proposals: Sequence[Proposal]) -> list[Proposal]:
    """Return the proposals whose notes have not changed since."""
    blobs = _read_blobs(vault, proposals) if proposals else {}
    return [each for each in proposals if _holds(each, blobs)]


def list_arrived(vault: Vault) -> tuple[Proposal, ...]:
    """Return the open proposals about arrived notes."""
    proposals = filter_current(vault, read_found(vault.state))
    return tuple(
        sorted(proposals, key=lambda each: (ORDER.index(each.action), each.path, each.into))
    )


def _holds(proposal: Proposal, blobs: Mapping[str, str]) -> bool:
    return all(blobs.get(path) == blob for path, blob in proposal.places)


def _read_blobs(vault: Vault, proposals: Sequence[Proposal]) -> dict[str, str]:
    files = vault.manifest.files(list({path for each in proposals for path, _ in each.places}))
    return {path: file.blob for path, file in files.items()}


def _find_changed(vault: Vault) -> dict[str, str]:
    """Return the notes of outdated proposals: sender by path."""
    proposals = read_found(vault.state)
    blobs = _read_blobs(vault, proposals) if proposals else {}
    changed_notes: dict[str, str] = {}
    for each in proposals:
        if each.action is not Action.SUSPICIOUS and not _holds(each, blobs):
            senders = dict(
                line.split(_SENDER_SEPARATOR, 1)
                for line in each.evidence
                if _SENDER_SEPARATOR in line
            )
            paths = (path for path in (each.path, each.into) if path in blobs)
            changed_notes |= {path: senders.get(path, "") for path in paths}
    return changed_notes
