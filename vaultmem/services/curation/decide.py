"""Apply the user's decision on a proposal: one decision, one commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files, format_pair
from vaultmem.core.curation.proposal import (
    CHOICES,
    NEW_STATES,
    PART,
    Action,
    Proposal,
    ProposalChoice,
    Report,
)
from vaultmem.core.indexing.section_texts import read_limit
from vaultmem.core.lifecycle import OWNER_KINDS, NoteState
from vaultmem.core.notes.agent_changes import Attestation, confirm_note
from vaultmem.core.notes.edit_properties import (
    add_to_list,
    drop_from_list,
    remove_property,
    set_property,
)
from vaultmem.core.notes.link_syntax import link_to
from vaultmem.core.notes.note import Note
from vaultmem.core.packs.conflicts import CONFLICT_PROPERTIES
from vaultmem.core.preferences import SpeakerRole, find_standing
from vaultmem.core.similarity.compare import KnownText
from vaultmem.core.text.paths import parse_note_path
from vaultmem.core.validity import EXPIRED
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.anchors.cite import renew_cites, renew_limit
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport, commit_all
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import Edit, write, write_event
from vaultmem.services.curation.dedup import apply_merges, change_merged
from vaultmem.services.curation.review import (
    drop_foreign,
    find_proposed,
    list_candidates,
    read_current,
)
from vaultmem.services.lifecycle.supersede import (
    chain_edits,
    supersede_note,
    supersede_several,
)
from vaultmem.services.lifecycle.transition import (
    acting_party,
    change_state,
    check_branch,
    check_reason,
    promote_notes,
    record_trust,
    set_state,
)
from vaultmem.services.memory.remember import propose_standing_preferences
from vaultmem.services.merging.branches import reject_branch
from vaultmem.services.merging.merge import merge_branch
from vaultmem.services.search.link_walk import NewLinks
from vaultmem.services.similarity.value_updates import list_untrusted
from vaultmem.services.views.read_notes import find_note, read_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

#: The property with the end of a note's validity.
_END = "valid_until"

#: New states after accepting and after rejecting.
_ACCEPTED_STATES = {
    **{action: state for action, state in NEW_STATES.items() if action in CHOICES},
    Action.REVIEW_QUARANTINED: NoteState.ACTIVE,
    Action.UNREADABLE: NoteState.QUARANTINED,
}
_REJECTED_STATES = {
    Action.REVALIDATE: NoteState.DEPRECATED,
    Action.CANDIDATE: NoteState.DEPRECATED,
    Action.SUSPICIOUS: NoteState.QUARANTINED,
}

#: Actions on pairs with different values.
_VALUES = frozenset({Action.UPDATE, Action.CONTRADICTION})
_PAIRS = _VALUES | {Action.NEAR_DUPLICATE}


class DecisionResult(NamedTuple):
    """A decided proposal, its effect as text, and the commits."""

    proposal: Proposal
    choice: ProposalChoice
    message: str
    report: CommitReport


def decide(
    vault: Vault, proposal: Proposal, choice: ProposalChoice, reason: str = ""
) -> DecisionResult:
    """Accept a proposal, accept it the other way round, or reject it so that it does not return.

    An agent can only decide what its other commands allow. It cannot reject proposals about a
    person's notes.

    Raises:
        ConflictError: the notes changed after the proposal; nothing was done.
        RefusedError: the choice does not exist, or the caller may not make it.
        PendingError: the notes are changed; their commit has to wait.
        MergeConflictError: a proposed branch cannot be merged; nothing was done.
    """
    check_branch(vault)
    effect = getattr(CHOICES[proposal.action], choice)
    if not effect:
        raise RefusedError(f"{proposal.path}: {proposal.action} takes no --{choice}; fix it first")
    with vault.lock():
        if proposal.action is Action.PROPOSAL:
            report = _decide_branch(vault, proposal, choice, reason)
            return DecisionResult(proposal, choice, effect, report)
        sync_vault(vault)
        notes = read_current(vault, proposal)
        if _is_part(proposal, notes, choice):
            effect = PART
        handler = _accept if choice is not ProposalChoice.REJECT else _reject
        report = handler(vault, proposal, notes, choice, reason)
    return DecisionResult(proposal, choice, effect, report)


def decide_candidates(
    vault: Vault, choice: ProposalChoice, reason: str = "", only: Collection[str] = ()
) -> list[DecisionResult]:
    """Promote or deprecate all candidates in one commit. The index must be up to date.

    `only` limits this to the candidates with these ids.

    Raises:
        RefusedError: the caller is an agent, or a candidate cannot be moved; nothing was done.
        PendingError: the notes are changed; their commit has to wait.
    """
    check_branch(vault)
    vault.require_person("--accept-all and --reject-all: only a person decides for all")
    with vault.lock():
        sync_vault(vault)
        candidates = drop_foreign(vault, list_candidates(vault))
        candidates = tuple(each for each in candidates if not only or each.id in only)
        paths = [each.path for each in candidates]
        if not paths:
            return []
        if choice is ProposalChoice.ACCEPT:
            report = promote_notes(vault, paths).report
        else:
            state_reason = reason or "looked at with all candidates, and turned down"
            report = change_state(vault, paths, NoteState.DEPRECATED, state_reason).report
    effect = getattr(CHOICES[Action.CANDIDATE], choice)
    return [DecisionResult(each, choice, effect, report) for each in candidates]


def _decide_branch(
    vault: Vault, proposal: Proposal, choice: ProposalChoice, reason: str
) -> CommitReport:
    """Merge a proposed branch, or commit its rejection; then the next sync removes it."""
    ref, checked_reason = find_proposed(vault, proposal), check_reason(reason)
    if choice is ProposalChoice.REJECT:
        vault.require_person(f"{proposal.path}: only a person rejects a proposal")
        return reject_branch(vault, proposal.path, proposal.blob, checked_reason)
    # Uncommitted changes would block the merge.
    commits = [*commit_all(vault).commits]
    result = merge_branch(vault, ref)
    if result.commit:
        commits.append((result.commit, f"merge: {result.source.name} into {result.target_branch}"))
    return CommitReport(tuple(commits), result.commit, result.paths)


def _accept(
    vault: Vault, proposal: Proposal, notes: list[Note], choice: ProposalChoice, reason: str
) -> CommitReport:
    action, path = proposal.action, proposal.path
    if action is Action.MERGE_DUPLICATES:
        return apply_merges(vault, [proposal])
    if action is Action.VALUE_GROUP:
        *olds, newest = (str(note.path) for note in notes)
        return supersede_several(vault, olds, newest, reason)
    if action in _PAIRS:
        old, new = _order(notes, choice)
        part = _is_part(proposal, notes, choice)
        return supersede_note(vault, str(old.path), str(new.path), reason, part=part).report
    if action is Action.WISH:
        return _decide_wishes(vault, notes[0], NoteState.ACTIVE, reason)
    if action is Action.CANDIDATE:
        return promote_notes(vault, [path]).report
    if action is Action.REVALIDATE:
        is_expired = proposal.reason.startswith(EXPIRED)
        edit = _prolong(vault) if is_expired else _confirm(vault)
        return _change(vault, {path: edit}, format_files("review", [path], " still holds"), reason)
    if action is Action.SUSPICIOUS:
        vault.require_person(f"{path}: only a person keeps text that tries to instruct an agent")
        edits = {path: _confirm(vault)}
        return _change(vault, edits, format_files("review", [path], " is kept"), reason)
    return change_state(vault, [path], _ACCEPTED_STATES[action], reason or proposal.reason).report


def _order(notes: list[Note], choice: ProposalChoice) -> list[Note]:
    """Return the two notes of a pair, the replaced one first."""
    return notes[::-1] if choice is ProposalChoice.OTHER else notes


def _is_part(proposal: Proposal, notes: list[Note], choice: ProposalChoice) -> bool:
    """Return whether the replaced note has more content than the contradicted part."""
    if proposal.action not in _VALUES or choice is ProposalChoice.REJECT:
        return False
    old, new = _order(notes, choice)
    return bool(list_untrusted(old, KnownText(new.visible_body, new.title)))


def _reject(
    vault: Vault, proposal: Proposal, notes: list[Note], _: ProposalChoice, reason: str
) -> CommitReport:
    action = proposal.action
    if action in _REJECTED_STATES:
        state_reason = reason or f"looked at, and turned down ({proposal.reason})"
        return change_state(vault, [proposal.path], _REJECTED_STATES[action], state_reason).report
    if action is Action.WISH:
        return _decide_wishes(vault, notes[0], NoteState.DEPRECATED, reason)
    for note in notes:
        _reject_agent(vault, note)
    path = proposal.path
    if proposal.into:
        subject = format_pair("review", path, " differs from ", proposal.into)
        if proposal.more:
            subject = format_files("review", [str(note.path) for note in notes], " all hold")
        return _change(vault, _set_all_apart(NewLinks(vault), notes), subject, reason)
    if action is Action.REVIEW_QUARANTINED:
        edits = {path: _set_reviewed(vault)}
        return _change(vault, edits, format_files("review", [path], " stays in quarantine"), reason)
    return _change(
        vault, {path: _confirm(vault)}, format_files("review", [path], " is kept"), reason
    )


def _decide_wishes(vault: Vault, note: Note, state: NoteState, reason: str) -> CommitReport:
    """Write a note's preferences with the decided state, in one commit.

    Raises:
        RefusedError: the caller is an agent.
    """
    vault.require_person(f"{note.path}: only a person decides what is wanted each time")
    checked_reason = check_reason(reason)
    speaker = SpeakerRole.AGENT if note.agent else SpeakerRole.OWNER
    wishes = find_standing(note.visible_body, speaker)
    paths: list[str] = []

    def plan(change: Change) -> None:
        preferences = propose_standing_preferences(change, wishes, str(note.path), state)
        paths[:] = [each.path for each in preferences]
        verb = "counts" if state is NoteState.ACTIVE else "does not count"
        subject = format_files("review", paths, f" {verb}")
        change.commit(
            Event(
                "review",
                subject,
                vault.author,
                (checked_reason,) if checked_reason else (),
                "refine",
            )
        )

    try:
        return write(vault, plan).report
    finally:  # Also if the commit has to wait. Preferences that were not written are not found.
        if state is NoteState.ACTIVE:
            record_trust(vault, [each for path in paths if (each := find_note(vault, path))])


def _reject_agent(vault: Vault, note: Note) -> None:
    """Reject agents for notes of people, pinned and quarantined notes, policies and skills.

    Raises:
        RefusedError: the caller is an agent, and this is such a note.
    """
    is_owned = not note.agent or note.pinned or note.kind in OWNER_KINDS
    if is_owned or note.state is NoteState.QUARANTINED:
        vault.require_person(f"{note.path}: only a person turns down what is proposed for it")


def _change(vault: Vault, edits: Mapping[str, Edit], subject: str, reason: str) -> CommitReport:
    checked_reason = check_reason(reason)
    event = Event(
        "review", subject, vault.author, (checked_reason,) if checked_reason else (), "refine"
    )
    return write_event(vault, {PurePosixPath(path): edit for path, edit in edits.items()}, event)


def _confirm(vault: Vault) -> Edit:
    """Return the edit that confirms a note now, in any state, and renews its anchors."""
    at = vault.local_time().replace(microsecond=0)
    attestation = Attestation(vault.author.agent, vault.author.session, at)

    def change(note: Note) -> str:
        has_frontmatter = bool(note.frontmatter.body)
        text = (
            confirm_note(note, attestation)
            if has_frontmatter
            else set_property(note.text, "updated", at)
        )
        for name, cites in renew_cites(vault, note).items():
            text = set_property(text, name, cites)
        return text

    return change


def _prolong(vault: Vault) -> Edit:
    """Return the edit that confirms an expired note and removes its end.

    A note that was valid until code changed becomes valid until the next change.
    """
    confirm = _confirm(vault)

    def change(note: Note) -> str:
        text = confirm(note)
        limit = renew_limit(vault, read_limit(note, _END), note.project)
        return set_property(text, _END, limit) if limit else remove_property(text, _END)

    return change


def _set_all_apart(links: NewLinks, notes: Sequence[Note]) -> dict[str, Edit]:
    """Return the edits that mark each note as different from all older ones."""
    edits: dict[str, list[Edit]] = {}
    for old, new in combinations(notes, 2):
        for path, edit in _set_apart(links, old, new).items():
            edits.setdefault(path, []).append(edit)
    return {path: chain_edits(each) for path, each in edits.items()}


def _set_apart(links: NewLinks, old: Note, new: Note) -> dict[str, Edit]:
    """Return the edits that mark the second note as different from the first."""
    link_text = links.in_property(str(old.path), str(new.path))

    def drop(other: Note) -> Edit:
        def change(note: Note) -> str:
            text = note.text
            other_link = links.in_property(str(other.path), str(note.path))
            for name in CONFLICT_PROPERTIES:
                text = drop_from_list(text, note, name, other_link, link_to(str(other.path)))
            return text

        return change

    def mark(note: Note) -> str:
        return add_to_list(drop(old)(note), note, "differs_from", (link_text,))

    return {str(old.path): drop(new), str(new.path): mark}


def _set_reviewed(vault: Vault) -> Edit:
    day = vault.local_time().date()
    return lambda note: set_property(note.text, "reviewed", day)


# Apply a reviewed report: exactly its changes, in one commit, or nothing.


class ApplyResult(NamedTuple):
    """The applied proposals, the skipped ones that were done already, and the commits."""

    proposals: tuple[Proposal, ...]
    skipped: tuple[Proposal, ...]
    report: CommitReport


def apply_report(vault: Vault, report: Report) -> ApplyResult:
    """Apply a report's changes in one commit, with the permissions of an agent.

    Changes that are done already, for example by another curator, are skipped.

    Raises:
        ConflictError: notes changed since the report was made; nothing was changed.
        RefusedError: an agent may not make one of the changes; nothing was changed.
        PendingError: the notes are changed; their commit has to wait.
    """
    check_branch(vault)
    with vault.lock():
        sync_vault(vault)
        open_proposals: list[Proposal] = []
        done_proposals: list[Proposal] = []
        outdated_paths: list[str] = []
        for proposal in report.changes:
            note = _read(vault, proposal.path)
            if note and _is_done(note, proposal):
                done_proposals.append(proposal)
            elif note is None or note.blob != proposal.blob or _has_moved(vault, proposal):
                outdated_paths.append(proposal.path)
            else:
                open_proposals.append(proposal)
        if outdated_paths:
            more = f" and {len(outdated_paths) - 1} more" if len(outdated_paths) > 1 else ""
            raise ConflictError(
                f"{outdated_paths[0]}{more}: changed since the report was made; nothing was done, "
                "run `vaultmem curate` again"
            )
        if not open_proposals:
            return ApplyResult((), tuple(done_proposals), CommitReport())
        commit_report = write_event(
            vault, _plan_changes(vault, open_proposals), _make_event(vault, open_proposals)
        )
        return ApplyResult(tuple(open_proposals), tuple(done_proposals), commit_report)


def _plan_changes(vault: Vault, proposals: Sequence[Proposal]) -> dict[PurePosixPath, Edit]:
    mover = acting_party(vault, is_machine=True)
    merges = [each for each in proposals if each.action is Action.MERGE_DUPLICATES]
    changes = change_merged(vault, merges, mover)
    for each in proposals:
        if each.action is not Action.MERGE_DUPLICATES:
            path = parse_note_path(each.path)
            if path in changes:
                raise RefusedError(f"{path}: the report changes it twice; make a new one")
            reason = check_reason(each.reason)
            changes[path] = set_state(NEW_STATES[each.action], reason, mover)
    return changes


def _make_event(vault: Vault, proposals: Sequence[Proposal]) -> Event:
    counts: dict[NoteState, int] = {}
    for each in proposals:
        state = NoteState.DEPRECATED if each.into else NEW_STATES[each.action]
        counts[state] = counts.get(state, 0) + 1
    summary = ", ".join(f"{number} {state}" for state, number in counts.items())
    body = tuple(
        f"{each.path}: {each.action.replace('_', ' ')}, {check_reason(each.reason)}"
        for each in proposals
    )
    subject = format_files("curate", [each.path for each in proposals], f" ({summary})")
    return Event("curate", subject, vault.author, body, "refine")


def _is_done(note: Note, proposal: Proposal) -> bool:
    """Return whether a note already has the proposed state."""
    return note.blob != proposal.blob and note.state is NEW_STATES[proposal.action]


def _has_moved(vault: Vault, proposal: Proposal) -> bool:
    """Return whether the target note of a merge has changed."""
    if proposal.action is not Action.MERGE_DUPLICATES:
        return False
    target = _read(vault, proposal.into)
    return target is None or target.blob != proposal.into_blob


def _read(vault: Vault, path: str) -> Note | None:
    try:
        return read_note(vault, parse_note_path(path))
    except NoteNotFoundError:
        return None
