"""The review queue: everything that waits for a decision, with its notes."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.anchors import RESTS_ON
from vaultmem.core.curation.compaction import is_short
from vaultmem.core.curation.memory_file import MEMORY
from vaultmem.core.curation.proposal import (
    ORDER,
    Action,
    Proposal,
    Report,
    format_report,
    parse_report,
)
from vaultmem.core.lifecycle import HIDDEN_STATES, NoteState
from vaultmem.core.notes.changes import FileChange, diff_text
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.preferences import SpeakerRole, find_standing
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import DREAMS, is_note_name
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.changes.bullets import read_dreamt
from vaultmem.services.changes.ownership import read_pending
from vaultmem.services.curation.curate import (
    KEPT_APART,
    curate,
    find_quarantined,
    group_values,
    is_open,
)
from vaultmem.services.curation.incoming_notes import (
    REVIEW_COMPARE_SECONDS,
    check_edits,
    filter_current,
    list_arrived,
)
from vaultmem.services.merging.branches import PROPOSALS, list_changes, list_proposed
from vaultmem.services.projects.scope import view_project
from vaultmem.services.search.annotations import list_open_wishes
from vaultmem.services.search.link_walk import LinkGraph
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.read_notes import find_note, read_note
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.log import Commit, walk_changes
from vaultmem.storage.uncompared_notes import read_found
from vaultmem.storage.views import UNMERGED
from vaultmem.vault import Vault

#: Maximum notes that a server compares while a user waits. More would take minutes.
MAX_COMPARED_NOTES = 500

#: Maximum proposed branches to list, because each needs a call of git.
_BRANCHES = 100

#: Maximum files of a proposed branch to name, and notes to show with text.
_MAX_BRANCH_FILES, _MAX_BRANCH_NOTES = 20, 4

#: Cache file of the last shown queue.
_FILE = "review.json"

#: Memory key for the waiting proposals.
_PROPOSALS_KEY = "waiting"


class ReviewSide(NamedTuple):
    """A note of a proposal: its text, author, date and commit.

    `written` is an ISO 8601 date, `commit` the last commit of the note; both "" if unknown.
    `changed` is a unified diff (hunks only) if a proposed branch changes the note.
    """

    path: str
    title: str
    state: str
    text: str
    agent: str
    session: str
    written: str
    commit: str
    changed: tuple[str, ...] = ()


class Item(NamedTuple):
    """A proposal and its notes, in the proposal's order."""

    id: str
    proposal: Proposal
    sides: tuple[ReviewSide, ...]


def list_queue(vault: Vault, progress: Callable[[int, int], None] | None = None) -> Report:
    """Return all waiting proposals and store them for `find_item`. The index must be up to date.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
    """
    report = curate(vault, progress, is_machine=not vault.is_person)
    if vault.head() is not None:
        check_edits(vault, read_pending(vault), REVIEW_COMPARE_SECONDS)
    records = vault.view.records()
    proposals = [
        *(each for each in report.proposals if each.action in ORDER and _waits(vault, each)),
        *_find_candidates(records),
        *_find_unreadable(records),
        *_find_wishes(vault),
    ]
    proposals.sort(key=_order)
    queue = report._replace(proposals=group_values(vault, _add(list_arrived(vault), proposals)))
    with suppress(OSError):
        write_atomically(_file(vault), format_report(queue).encode(), mode=0o600, durable=False)
    return queue._replace(proposals=(*list_branches(vault), *queue.proposals))


def list_shown(vault: Vault) -> tuple[Proposal, ...]:
    """Return the last shown proposals, or () if they are not known."""
    try:
        return parse_report(_file(vault).read_text(encoding="utf-8")).proposals
    except (OSError, RefusedError, UnicodeDecodeError):
        return ()


def list_known(vault: Vault) -> tuple[Proposal, ...]:
    """Return the known proposals: about arrived notes, branches, and the last shown queue."""
    proposals = _add((*list_branches(vault), *list_arrived(vault)), list_shown(vault))
    return group_values(vault, proposals)


def list_waiting(vault: Vault) -> tuple[Proposal, ...]:
    """Return the waiting proposals that are known without a full comparison.

    They are the current ones of arrived notes, branches and the last `list_queue`, and each
    candidate, unreadable and quarantined note. Only notes with several values of one thing are
    compared, to group them. The index must be up to date.
    """
    proposals = [*filter_current(vault, list_shown(vault)), *_find_unasked(vault)]
    sorted_proposals = sorted(_add(list_arrived(vault), proposals), key=_order)
    return group_values(vault, (*list_branches(vault), *sorted_proposals))


class WaitingCounts(NamedTuple):
    """The number of waiting decisions by action, in queue order, and of notes with conflicts.

    Actions without a decision are left out.
    """

    decisions: Mapping[Action, int]
    conflicts: int = 0

    @property
    def total(self) -> int:
        """All waiting decisions and conflicts."""
        return sum(self.decisions.values()) + self.conflicts


def count_waiting(vault: Vault, *, drops_foreign: bool = False) -> WaitingCounts:
    """Return the counts of `list_waiting`, optionally without those that `drop_foreign` drops.

    The counts are empty for a branch that is not checked out, and for an unreadable git history.
    """
    try:
        if find_branch(vault):
            return WaitingCounts({})
        proposals, counts = _remember(vault)
        if not drops_foreign:
            return counts
        return counts._replace(decisions=_count_decisions(drop_foreign(vault, proposals)))
    except (VaultError, ImportError):
        return WaitingCounts({})


def remember_waiting(vault: Vault) -> tuple[Proposal, ...]:
    """Return `list_waiting`, from a cache while its files are unchanged."""
    return _remember(vault)[0]


def _remember(vault: Vault) -> tuple[tuple[Proposal, ...], WaitingCounts]:
    commit = (head := vault.head()) and head.commit
    others = (commit, read_found(vault.state), _stamp(vault, bool(commit)))
    return vault.view.keep(_PROPOSALS_KEY, partial(_find_waiting, vault), *others)


def _find_waiting(vault: Vault) -> tuple[tuple[Proposal, ...], WaitingCounts]:
    proposals = list_waiting(vault)
    decisions = _count_decisions(proposals)
    return proposals, WaitingCounts(decisions, len(vault.view.paths(UNMERGED)))


def _count_decisions(proposals: Sequence[Proposal]) -> dict[Action, int]:
    actions = Counter(each.action for each in proposals)
    return {action: actions[action] for action in ORDER if actions[action]}


def _stamp(vault: Vault, has_commit: bool) -> tuple[int, ...]:
    """Return the modification times of the stored queue and the proposed branches."""
    files = [_file(vault)]
    if has_commit:
        folder = vault.history.git_folder
        files += [folder / "packed-refs", *folder.glob(f"refs/remotes/*/{PROPOSALS}**/")]
    return tuple(_changed_at(file) for file in files)


def _changed_at(file: Path) -> int:
    with suppress(OSError):
        return os.stat(file).st_mtime_ns
    return 0


def drop_foreign(vault: Vault, proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """Return the proposals without those about other projects than the caller's."""
    foreign = view_project(vault).view.foreign()
    return tuple(each for each in proposals if foreign.isdisjoint(path for path, _ in each.places))


def list_candidates(vault: Vault) -> tuple[Proposal, ...]:
    """Return a proposal for each candidate. The index must be up to date."""
    records = vault.view.records("d.state = ?", [NoteState.CANDIDATE])
    return tuple(_find_candidates(records))


def _find_unasked(vault: Vault) -> Iterator[Proposal]:
    """Yield the proposals that need no comparison."""
    states = [NoteState.CANDIDATE, NoteState.QUARANTINED, NoteState.UNREADABLE]
    records = vault.view.records("d.state IN (?, ?, ?) OR v.problem <> ''", states)
    yield from _find_candidates(records)
    yield from _find_unreadable(records)
    yield from (each for each in find_quarantined(vault, records) if _waits(vault, each))
    yield from _find_wishes(vault)


def _order(proposal: Proposal) -> tuple[int, str, str]:
    return ORDER.index(proposal.action), proposal.path, proposal.into


def list_branches(vault: Vault) -> tuple[Proposal, ...]:
    """Return the first proposed branches that wait for a decision, by name."""
    proposals = []
    for each in list_proposed(vault)[:_BRANCHES]:
        changes = list_changes(vault, each.commit)
        reason = f"{each.name}: {pluralize(len(changes), 'file')}, {each.day}"
        lines = list(map(_describe_change, changes))
        more = (
            [f"and {len(lines) - _MAX_BRANCH_FILES:,} more"]
            if len(lines) > _MAX_BRANCH_FILES
            else []
        )
        evidence = (*lines[:_MAX_BRANCH_FILES], *more)
        proposals.append(Proposal(Action.PROPOSAL, each.name, each.commit, reason, evidence))
    return tuple(proposals)


def _add(first: Iterable[Proposal], others: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """Return both lists joined, with the first proposal for the same notes."""
    by_notes: dict[tuple[str, ...], Proposal] = {}
    for each in (*first, *others):
        prefix = () if each.into else (each.action,)
        by_notes.setdefault((*prefix, *sorted(path for path, _ in each.places)), each)
    return tuple(by_notes.values())


def find_item(
    vault: Vault,
    name: str,
    progress: Callable[[int, int], None] | None = None,
    *,
    looks: bool = True,
) -> Proposal:
    """Return the proposal with an id or a unique prefix of it.

    Known proposals are searched first. If none matches and `looks`, all notes are compared, which
    can take minutes.

    Raises:
        NoteNotFoundError: there is no such proposal, or the prefix is not unique.
    """
    matches = [each for each in list_known(vault) if each.id.startswith(name.lower())]
    if not matches and looks:
        proposals = list_queue(vault, progress).proposals
        matches = [each for each in proposals if each.id.startswith(name.lower())]
    if len(matches) == 1 and name:
        return matches[0]
    if matches:
        raise NoteNotFoundError(f"{name}: {len(matches)} ids begin like that; give more of it")
    raise NoteNotFoundError(
        f"{name}: nothing of that id is to be decided, or its notes changed; see `vaultmem review`"
    )


def describe_items(vault: Vault, proposals: Sequence[Proposal]) -> Iterator[Item]:
    """Yield proposals with their notes. Proposals with changed notes are skipped."""
    paths = {path for each in proposals for path, _ in each.places}
    commits = _read_commits(vault, paths)
    for each in proposals:
        with suppress(ConflictError):
            if each.action is Action.PROPOSAL:
                yield Item(each.id, each, tuple(_describe_branch(vault, each)))
                continue
            notes = read_current(vault, each)
            sides = [_describe_note(note, commits) for note in notes]
            yield Item(each.id, each, tuple(sides))


def find_proposed(vault: Vault, proposal: Proposal) -> str:
    """Return the ref of a proposed branch.

    Raises:
        ConflictError: the branch is deleted, or has other commits than when it was shown.
    """
    for each in list_proposed(vault):
        if (each.name, each.commit) == (proposal.path, proposal.blob):
            return each.ref
    raise ConflictError(f"{proposal.path}: changed since it was shown; run `vaultmem review` again")


def read_current(vault: Vault, proposal: Proposal) -> list[Note]:
    """Return the notes of a proposal, those of a group in order of time.

    Raises:
        ConflictError: a note changed after the proposal.
    """
    notes = []
    for path, blob in proposal.places:
        note = find_note(vault, path)
        if note is None or note.blob != blob:
            raise ConflictError(f"{path}: changed since it was shown; run `vaultmem review` again")
        notes.append(note)
    return notes


def _describe_branch(vault: Vault, proposal: Proposal) -> Iterator[ReviewSide]:
    """Yield the first notes that a proposed branch changes, with the branch's text."""
    find_proposed(vault, proposal)
    changes = list_changes(vault, proposal.blob)
    note_changes = [each for each in changes if each.blob and is_note_name(each.path)]
    for each in note_changes[:_MAX_BRANCH_NOTES]:
        with suppress(UnreadableNoteError):
            side = _describe_note(_parse_blob(vault, each.path, each.blob), {})
            if each.old_blob:
                old = _parse_blob(vault, each.previous or each.path, each.old_blob).text
                new = _parse_blob(vault, each.path, each.blob).text
                side = side._replace(changed=diff_text(old, new)[0])
            yield side


def _parse_blob(vault: Vault, path: str, blob: str) -> Note:
    return parse_note(PurePosixPath(path), vault.history.objects.read(blob)[1])


def _describe_change(change: FileChange) -> str:
    verb = "changes" if change.old_blob and change.blob else "adds" if change.blob else "removes"
    return f"{verb} {change.path}"


def _file(vault: Vault) -> Path:
    return vault.state_folder / _FILE


def _waits(vault: Vault, proposal: Proposal) -> bool:
    """Return whether a proposal waits: a quarantined note is not marked as reviewed."""
    if proposal.action is not Action.REVIEW_QUARANTINED:
        return True
    with suppress(NoteNotFoundError, RefusedError):
        return read_note(vault, PurePosixPath(proposal.path)).frontmatter.get("reviewed") is None
    return True


def _find_candidates(records: Iterable[NoteRecord]) -> Iterator[Proposal]:
    for record in records:
        is_apart = record.path.startswith(KEPT_APART)
        if record.state == NoteState.CANDIDATE and not record.problem and not is_apart:
            evidence = f"proposed by {record.agent}" if record.agent else "written by a person"
            kind = f"a {record.kind.replace('_', ' ')} that waits to be promoted"
            yield Proposal(Action.CANDIDATE, record.path, record.blob, kind, (evidence,))


def _find_wishes(vault: Vault) -> Iterator[Proposal]:
    """Yield the notes with preferences that no preference note contains."""
    open_records = filter(is_open, vault.view.records("d.wishes <> '[]'"))
    records = {each.document: each for each in open_records if each.state != NoteState.CANDIDATE}
    for document, wishes in list_open_wishes(vault, records.values()).items():
        record, count = records[document], pluralize(len(wishes), "sentence")
        yield Proposal(
            Action.WISH, record.path, record.blob, f"what you want each time, in {count}", wishes
        )


def _find_unreadable(records: Iterable[NoteRecord]) -> Iterator[Proposal]:
    for record in records:
        if record.problem and record.state != NoteState.QUARANTINED:
            evidence = (f"fix it with `vaultmem edit {shlex.quote(record.path)}`",)
            yield Proposal(Action.UNREADABLE, record.path, record.blob, record.problem, evidence)


def _read_commits(vault: Vault, paths: set[str]) -> dict[str, Commit]:
    """Return the last commit of each note, by path."""
    head = vault.head()
    commits: dict[str, Commit] = {}
    if head is None or not head.commit:
        return commits
    for commit, files in walk_changes(vault.history, head.commit):
        for file in files:
            if file.path in paths:
                commits.setdefault(file.path, commit)
        if len(commits) == len(paths):
            break
    return commits


def _describe_note(note: Note, commits: Mapping[str, Commit]) -> ReviewSide:
    path, commit = str(note.path), commits.get(str(note.path))
    day = (note.updated or note.created or (commit.time if commit else ""))[:10]
    text = note.text if note.problem else note.visible_body.strip()
    fields = (note.agent, note.session, day, commit.commit if commit else "")
    return ReviewSide(path, note.title, note.state.value, text, *fields)


# Find reasons to keep old notes: links from other notes, or unique content.

#: Session notes link every file that was touched, so their links do not count.
_SESSIONS_PREFIX = "sessions/"


def find_reasons(vault: Vault, records: Sequence[NoteRecord]) -> Callable[[int, Note], str]:
    """Return a function that returns why a document's note must be kept, or "".

    `records` are the active and stale notes. Numbers in long notes do not count, because keywords
    keep them. The index must be up to date.
    """
    linked_paths = _find_linked(vault)
    snapshot = vault.index.snapshot()
    documents = {record.document for record in records}

    def has_own_number(document: int, text: str) -> bool:
        for term in {term for term in term_sequence(text) if term[0].isdigit()}:
            sections = snapshot.find_sections(term)
            holders = {snapshot.locate(place, n)[0] for place, ns in sections for n in ns}
            if holders & documents <= {document}:
                return True
        return False

    def find_reason(document: int, note: Note) -> str:
        if str(note.path) in linked_paths:
            return "linked by another note"
        if find_standing(note.visible_body, SpeakerRole.OWNER):
            return "a lasting instruction"
        if is_short(note) and has_own_number(document, note.visible_body):
            return "a number that no other note has"
        return ""

    return find_reason


def _find_linked(vault: Vault) -> set[str]:
    """Return the notes that visible notes link to, without links that `dream` wrote."""
    records = vault.view.records()
    hidden_paths = {record.path for record in records if record.state in HIDDEN_STATES}
    dreamt_lines = _find_dreamt_lines(vault)
    return {
        found_link.target
        for found_link in LinkGraph(vault).links()
        if found_link.target
        and found_link.source != found_link.target
        and found_link.link.property in RESTS_ON
        and found_link.source not in hidden_paths | {str(DREAMS)}
        and not found_link.source.startswith(_SESSIONS_PREFIX)
        and not (found_link.source == str(MEMORY) and found_link.link.line in dreamt_lines)
    }


def _find_dreamt_lines(vault: Vault) -> set[int]:
    """Return the lines of MEMORY.md, from 1, that `dream` wrote."""
    head = vault.head()
    try:
        lines = read_note(vault, MEMORY).text.splitlines()
    except (NoteNotFoundError, RefusedError):
        return set()
    is_linked = any("[[" in line or "](" in line for line in lines)
    dreamt_lines = read_dreamt(vault, head.commit) if head is not None and is_linked else ()
    return {number for number, line in enumerate(lines, 1) if line in dreamt_lines}
