"""Merge duplicates: one note is kept, and the others are deprecated with a link to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.commit_message import format_files, format_pair
from vaultmem.core.curation.proposal import Action, Proposal
from vaultmem.core.lifecycle import StateChanger
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.agent_changes import Attestation, confirm_note
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.note import Note
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import note_context
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import Edit, write_event
from vaultmem.services.lifecycle.supersede import (
    chain_edits,
    check_supersession,
    plan_supersession,
)
from vaultmem.services.lifecycle.transition import acting_party
from vaultmem.services.search.link_walk import NewLinks
from vaultmem.services.similarity.known import may_absorb
from vaultmem.services.similarity.pairs import Pair, compare_vault
from vaultmem.services.views.read_notes import read_note
from vaultmem.vault import Vault


def plan_merges(
    vault: Vault,
    progress: Callable[[int, int], None] | None = None,
    *,
    is_machine: bool = False,
    pairs: Sequence[Pair] | None = None,
) -> list[Proposal]:
    """Return the merges of duplicates, sorted by the merged path.

    Pinned notes are kept. An agent cannot merge a person's notes. `pairs` is the result of an
    earlier `compare_vault`. The index must be up to date.
    """
    mover = acting_party(vault, is_machine)
    same_pairs = compare_vault(vault, progress).duplicates if pairs is None else pairs
    merges: dict[str, Proposal] = {}
    kept_paths: set[str] = set()
    for pair in sorted(same_pairs, key=_rank):
        duplicate, target = str(pair.ours.path), str(pair.theirs.path)
        if (
            duplicate in merges
            or duplicate in kept_paths
            or target in merges
            or not _may_merge(vault, pair, mover)
        ):
            continue
        merges[duplicate] = Proposal(
            Action.MERGE_DUPLICATES,
            duplicate,
            pair.ours.blob,
            f"duplicate of {target}",
            ("adds nothing",),
            target,
            pair.theirs.blob,
        )
        kept_paths.add(target)
    return sorted(merges.values(), key=lambda merge: merge.path)


def apply_merges(vault: Vault, merges: Sequence[Proposal]) -> CommitReport:
    """Apply exactly these merges, in one commit.

    Raises:
        ConflictError: a note changed after the merge was planned; nothing was changed.
        RefusedError: the caller may not merge a note.
        PendingError: the notes are changed; their commit has to wait.
    """
    with vault.lock():
        changes = change_merged(vault, merges, acting_party(vault))
        targets = pluralize(len({merge.into for merge in merges}), "note")
        body = tuple(f"{merge.path} into {merge.into}" for merge in merges)
        subject = format_files("dedup", [each.path for each in merges], f" into {targets}")
        if len(merges) == 1:
            subject = format_pair("dedup", merges[0].path, " into ", merges[0].into)
        return write_event(vault, changes, Event("dedup", subject, vault.author, body, "refine"))


def change_merged(
    vault: Vault, merges: Sequence[Proposal], mover: StateChanger
) -> dict[PurePosixPath, Edit]:
    """Return the edits of these merges, by path.

    Raises:
        ConflictError, RefusedError: as for `apply_merges`.
    """
    changes: dict[PurePosixPath, Edit] = {}
    at, links = vault.local_time(), NewLinks(vault)
    for merge in merges:
        duplicate, target = (read_note(vault, PurePosixPath(p)) for p in (merge.path, merge.into))
        if (duplicate.blob, target.blob) != (merge.blob, merge.into_blob):
            raise ConflictError(f"{merge.path} or {merge.into}: changed since; look again")
        reason = "duplicate"
        alias = duplicate.path.stem if duplicate.path.stem != target.path.stem else ""
        edits = plan_supersession(duplicate, target.path, reason, mover, links, alias=alias)
        for path, change in edits.items():
            steps = [_confirm(duplicate, at), change] if path == target.path else [change]
            earlier_edits = [changes[path]] if path in changes else []
            changes[path] = chain_edits([*earlier_edits, *steps])
    return changes


def _rank(pair: Pair) -> tuple[bool, bool, int, float, str, str]:
    """Return a sort key for pairs: the best note to keep comes first."""
    target, duplicate = pair.theirs, pair.ours
    created = read_timestamp(target.created) or float("inf")
    return (
        not target.pinned,
        bool(target.agent) and not duplicate.agent,
        -len(target.body),
        created,
        str(target.path),
        str(duplicate.path),
    )


def _may_merge(vault: Vault, pair: Pair, mover: StateChanger) -> bool:
    duplicate, target = pair.ours, pair.theirs
    by_person = not duplicate.agent
    if (
        duplicate.encoding
        or duplicate.pinned
        or duplicate.problem
        or (by_person and (mover.is_machine or target.agent))
    ):
        return False
    try:
        check_supersession(duplicate, mover)
    except RefusedError:
        return False
    place = note_context(duplicate.path)
    new = Memory(
        "", context=place, kind=duplicate.kind, state=duplicate.state, project=duplicate.project
    )
    return may_absorb(vault, target, new, duplicate.state)


def _confirm(duplicate: Note, at: datetime) -> Edit:
    """Return the edit that adds the dropped note's author as a confirmation."""

    def change(note: Note) -> str:
        if note.body == duplicate.body:
            return note.text
        return confirm_note(
            note,
            Attestation(duplicate.agent, duplicate.session, at, duplicate.tags, duplicate.cites),
        )

    return change
