"""Merge duplicates: one note is kept, and the others are deprecated with a link to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.commit_message import format_files, format_pair
from vaultmem.core.curation.proposal import Action, Proposal
from vaultmem.core.lifecycle import Mover
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.agent_changes import Attestation, confirm_note
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.note import Note
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import note_context
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.parts import Event
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
    same = compare_vault(vault, progress).same if pairs is None else pairs
    merges: dict[str, Proposal] = {}
    kept: set[str] = set()
    for pair in sorted(same, key=_rank):
        drop, keep = str(pair.ours.path), str(pair.theirs.path)
        if drop in merges or drop in kept or keep in merges or not _may_merge(vault, pair, mover):
            continue
        merges[drop] = Proposal(
            Action.MERGE_DUPLICATES,
            drop,
            pair.ours.blob,
            f"duplicate of {keep}",
            ("adds nothing",),
            keep,
            pair.theirs.blob,
        )
        kept.add(keep)
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
        kept = pluralize(len({merge.into for merge in merges}), "note")
        body = tuple(f"{merge.path} into {merge.into}" for merge in merges)
        subject = format_files("dedup", [each.path for each in merges], f" into {kept}")
        if len(merges) == 1:
            subject = format_pair("dedup", merges[0].path, " into ", merges[0].into)
        return write_event(vault, changes, Event("dedup", subject, vault.author, body, "refine"))


def change_merged(
    vault: Vault, merges: Sequence[Proposal], mover: Mover
) -> dict[PurePosixPath, Edit]:
    """Return the edits of these merges, by path.

    Raises:
        ConflictError, RefusedError: as for `apply_merges`.
    """
    changes: dict[PurePosixPath, Edit] = {}
    at, links = vault.local_time(), NewLinks(vault)
    for merge in merges:
        drop, keep = (read_note(vault, PurePosixPath(p)) for p in (merge.path, merge.into))
        if (drop.blob, keep.blob) != (merge.blob, merge.into_blob):
            raise ConflictError(f"{merge.path} or {merge.into}: changed since; look again")
        reason = "duplicate"
        alias = drop.path.stem if drop.path.stem != keep.path.stem else ""
        planned = plan_supersession(drop, keep.path, reason, mover, links, alias=alias)
        for path, change in planned.items():
            steps = [_confirm(drop, at), change] if path == keep.path else [change]
            before = [changes[path]] if path in changes else []
            changes[path] = chain_edits([*before, *steps])
    return changes


def _rank(pair: Pair) -> tuple[bool, bool, int, float, str, str]:
    """Return a sort key for pairs: the best note to keep comes first."""
    keep, drop = pair.theirs, pair.ours
    created = read_timestamp(keep.created) or float("inf")
    return (
        not keep.pinned,
        bool(keep.agent) and not drop.agent,
        -len(keep.body),
        created,
        str(keep.path),
        str(drop.path),
    )


def _may_merge(vault: Vault, pair: Pair, mover: Mover) -> bool:
    drop, keep = pair.ours, pair.theirs
    by_person = not drop.agent
    if (
        drop.encoding
        or drop.pinned
        or drop.problem
        or (by_person and (mover.is_machine or keep.agent))
    ):
        return False
    try:
        check_supersession(drop, mover)
    except RefusedError:
        return False
    place = note_context(drop.path)
    new = Memory("", context=place, kind=drop.kind, state=drop.state, project=drop.project)
    return may_absorb(vault, keep, new, drop.state)


def _confirm(drop: Note, at: datetime) -> Edit:
    """Return the edit that adds the dropped note's author as a confirmation."""

    def change(note: Note) -> str:
        if note.body == drop.body:
            return note.text
        return confirm_note(note, Attestation(drop.agent, drop.session, at, drop.tags, drop.cites))

    return change
