"""Propose merges, archiving and checks of notes, each with its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.anchors import CITE_PROPERTIES, AnchorCheck
from vaultmem.core.curation.proposal import Action, Proposal, Report
from vaultmem.core.lifecycle import CLOSED_STATES, HIDDEN_STATES, OWNER_KINDS, NoteKind, NoteState
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.packs.warnings import OLD_DAYS, quote_claim
from vaultmem.core.search.query import Hit
from vaultmem.core.similarity.canonical import canonical_form
from vaultmem.core.similarity.compare import KnownText, compare_texts, compare_titled
from vaultmem.core.similarity.facts import read_facts
from vaultmem.core.similarity.updates import find_update
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.paths import DREAMS, PINNED_FILES
from vaultmem.core.validity import EXPIRED
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.anchors.check import check_documents
from vaultmem.services.curation.dedup import plan_merges
from vaultmem.services.lifecycle.transition import check_branch
from vaultmem.services.search.link_walk import LinkGraph, list_broken
from vaultmem.services.search.valid_spans import describe_validity, span_of
from vaultmem.services.similarity.pairs import Pairs, compare_vault, read_apart
from vaultmem.services.similarity.value_updates import are_apart, list_untrusted
from vaultmem.services.usage import read_usage
from vaultmem.services.views.read_notes import find_note, read_note
from vaultmem.storage.git.log import walk_changes
from vaultmem.storage.link_table import LinkStore
from vaultmem.storage.query_log import SignalStore
from vaultmem.vault import Vault

# Read when each note was last used on any machine, and whether a person edited it.

#: Events that change a note's state or length. They do not count as use.
_MAINTENANCE_EVENTS = frozenset({"curate", "compact", "dedup", "state", "supersede", "review"})

#: Events that contain no text of the person who made the commit.
_UNAUTHORED_EVENTS = _MAINTENANCE_EVENTS | {"promote", "merge", "take"}


class LastUse(NamedTuple):
    """When a note was last written and recalled, and how often it was recalled; 0 for never.

    Times are in seconds since the epoch. `by_person` means that a person wrote or edited it.
    """

    written: float
    recalled: float
    times: int
    by_person: bool

    @property
    def last(self) -> float:
        """The time of the last write or recall."""
        return max(self.written, self.recalled)

    def idle_days(self, now: float) -> float:
        """Return the days since the last write or recall."""
        return max(0.0, now - self.last) / 86_400


def read_uses(vault: Vault, records: Iterable[NoteRecord]) -> dict[str, LastUse]:
    """Return the use of each of these notes, by path. The index must be up to date.

    Changes by curation (curate, compact, ...) do not count.
    """
    SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1])
    usage = read_usage(vault)
    change_times, person_paths = _read_history(vault)
    uses = {}
    for record in records:
        path = record.path
        timestamp = read_timestamp(record.updated or record.created)
        timestamps = [at for at in (timestamp, change_times.get(path)) if at is not None]
        recall = usage.get(path)
        uses[path] = LastUse(
            max(timestamps) if timestamps else record.changed,
            recall.last if recall else 0.0,
            recall.times if recall else 0,
            not record.agent or path in person_paths,
        )
    return uses


def _read_history(vault: Vault) -> tuple[dict[str, float], set[str]]:
    """Return the last use of each path by a commit, and the paths that a person changed."""
    head = vault.head()
    change_times: dict[str, float] = {}
    person_paths: set[str] = set()
    if head is None or not head.commit:
        return change_times, person_paths
    for commit, files in walk_changes(vault.history, head.commit):
        paths = [file.path for file in files]
        if commit.event not in _MAINTENANCE_EVENTS:
            for path in paths:
                change_times[path] = max(commit.at, change_times.get(path, 0.0))
        if not commit.agent and commit.event not in _UNAUTHORED_EVENTS:
            person_paths.update(paths)
    return change_times, person_paths


# Find notes to check: old claims, changed code, and low confidence.

#: Maximum changed anchors in a proposal.
_MAX_TOLD = 3


def find_anchors(vault: Vault, records: Sequence[NoteRecord]) -> dict[str, tuple[AnchorCheck, ...]]:
    """Return the states of the code that notes cite, by path."""
    cited = LinkStore(vault.state).links_in(CITE_PROPERTIES)
    by_document = {record.document: record for record in records}
    checks = check_documents(vault, by_document, cited)
    return {by_document[document].path: states for document, states in checks.items()}


#: Notes below this confidence must be confirmed within so many days.
LOW_CONFIDENCE = 0.5
UNCONFIRMED_DAYS = 30


def find_doubtful(
    vault: Vault, records: Sequence[NoteRecord], uses: Mapping[str, LastUse]
) -> Iterator[Proposal]:
    """Yield a proposal for each note that should be checked, with all reasons in one text."""
    now = vault.now()
    anchors = find_anchors(vault, records)
    for record in records:
        days = (now - uses[record.path].written) / 86_400
        reasons: list[str] = []
        evidence: list[str] = []
        checks = anchors.get(record.path, ())
        if changed_anchors := [str(each) for each in checks if each.is_different]:
            reasons.append("the code that it cites has changed")
            evidence.extend(changed_anchors[:_MAX_TOLD])
        is_low = record.confidence is not None and record.confidence < LOW_CONFIDENCE
        note = find_note(vault, record.path) if days > min(OLD_DAYS, UNCONFIRMED_DAYS) else None
        if (
            is_low
            and note
            and days > UNCONFIRMED_DAYS
            and note.frontmatter.get("confirmed_by") is None
        ):
            reasons.append("of low confidence, and never confirmed")
            evidence.append(f"confidence {record.confidence:g}, {_check_age(uses, record, days)}")
        is_old = days > OLD_DAYS and not (checks and all(each.is_same for each in checks))
        if note and is_old and (claim := _find_claim(record, note)):
            reasons.append("an old claim of what does not work or exist")
            evidence.append(f'"{claim}", {_check_age(uses, record, days)}')
        if reasons:
            reason = "; ".join(reasons)
            yield Proposal(Action.REVALIDATE, record.path, record.blob, reason, tuple(evidence))


def _find_claim(record: NoteRecord, note: Note) -> str:
    """Return the first sentence of a note that is possibly outdated, or ""."""
    for section in note.sections:
        span = (section.start, section.end, section.line)
        place = SectionRecord(0, section.ordinal, section.heading, section.parents, *span)
        text = note.section_text(section)
        if claim := quote_claim(Hit(record, place, text, 0.0, (), 0.0, 1.0)):
            return claim
    return ""


def _check_age(uses: Mapping[str, LastUse], record: NoteRecord, days: float) -> str:
    day = datetime.fromtimestamp(uses[record.path].written).date()
    return f"written {day}, {pluralize(int(days), 'day')} ago"


# Several values of one thing are one decision: of three notes or more, compare the newest with all.
# Pairs of notes are found one by one. Eight values of one thing are up to 28 pairs, but one
# decision.

#: Reason to list a pinned note without a change.
_PINNED = "pinned: only a person moves it"

#: Minimum notes of a group.
_MIN_GROUP_NOTES = 3

#: Actions on notes with different values for one thing.
_VALUES = frozenset({Action.UPDATE, Action.CONTRADICTION, Action.VALUE_GROUP})

#: A note's path and blob id.
_GroupMember = tuple[str, str]


class _Group(NamedTuple):
    """The notes of connected proposals, and the evidence that names their origin."""

    places: dict[_GroupMember, None]
    evidence: dict[str, None]


def group_values(vault: Vault, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Return the proposals, with those about several values of one thing replaced by one.

    The group is at the place of its first proposal. Each older note in it has another value than
    the newest; other pairs stay.
    """
    proposals_by_note: dict[_GroupMember, Proposal] = {}
    for group in _join(each for each in proposals if each.action in _VALUES):
        if len(group.places) >= _MIN_GROUP_NOTES and (proposal := _make(vault, group)):
            proposals_by_note |= dict.fromkeys(proposal.places, proposal)
    by_id: dict[str, Proposal] = {}
    for each in proposals:
        replacements = (
            {proposals_by_note.get(place) for place in each.places}
            if each.action in _VALUES
            else {None}
        )
        replacement = replacements.pop() if len(replacements) == 1 else None
        by_id.setdefault((replacement or each).id, replacement or each)
    return tuple(by_id.values())


def _join(proposals: Iterable[Proposal]) -> Iterable[_Group]:
    """Return groups of the notes that proposals connect."""
    groups: dict[_GroupMember, _Group] = {}
    for each in proposals:
        new_group = _Group({}, {})
        for group in {id(groups[p]): groups[p] for p in each.places if p in groups}.values():
            new_group.places.update(group.places)
            new_group.evidence.update(group.evidence)
        new_group.places.update(dict.fromkeys(each.places))
        new_group.evidence.update(
            {line: None for line in each.evidence if " arrived from " in line}
        )
        groups |= dict.fromkeys(new_group.places, new_group)
    return {id(each): each for each in groups.values()}.values()


def _make(vault: Vault, group: _Group) -> Proposal | None:
    """Return one proposal for the notes that contradict the newest of the group, or None."""
    placeholders = ", ".join("?" * len(group.places))
    records = vault.view.records(f"d.path IN ({placeholders})", [path for path, _ in group.places])
    paths_by_date = sorted((each.written, each.path) for each in records)
    notes = [note for _, path in paths_by_date if (note := find_note(vault, path))]
    notes = [note for note in notes if (str(note.path), note.blob) in group.places]
    others = [note for note in notes[:-1] if _says_otherwise(note, notes[-1])]
    values = {canonical_form(note.visible_body) for note in others}
    if len(values) + 1 < _MIN_GROUP_NOTES:  # Notes with the same text count as one value.
        return None
    first, *more, last = ((str(note.path), note.blob) for note in (*others, notes[-1]))
    reason = f"{len(values) + 1} values of one thing, the last one in {last[0]}"
    evidence = tuple(group.evidence)
    return Proposal(Action.VALUE_GROUP, *first, reason, evidence, *last, more=tuple(more))


def _says_otherwise(old: Note, new: Note) -> bool:
    if are_apart(old, new):
        return False
    old_text = KnownText(old.visible_body, old.title)
    comparison = compare_texts(new.visible_body, old_text, context=new.title)
    comparison = compare_titled(new.visible_body, new.title, old_text, comparison)
    facts = read_facts(old.visible_body), read_facts(new.visible_body)
    return comparison.is_contradiction or find_update(*facts) is not None


#: Folders to skip: sessions and tasks have their own lifecycle; reference material is not managed.
KEPT_APART = ("sessions/", "tasks/", "handoffs/", "primed/")

_MAX_EVIDENCE = 5

#: Time of writing and path of each note. Pairs are sorted by it, older note first.
Dates = Mapping[str, tuple[float, str]]


def curate(
    vault: Vault,
    progress: Callable[[int, int], None] | None = None,
    *,
    is_machine: bool = True,
) -> Report:
    """Return the proposed changes of a vault, without changing it. The index must be up to date.

    If `is_machine`, merges of a person's notes are not proposed.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
    """
    check_branch(vault)
    records = vault.view.records()
    uses = read_uses(vault, records)
    open_records = [record for record in records if is_open(record)]
    pairs = compare_vault(vault, progress)
    dates = {record.path: (record.written, record.path) for record in records}
    proposals = [
        *plan_merges(vault, is_machine=is_machine, pairs=pairs.duplicates),
        *_find_pinned_copies(pairs),
        *_find_superseded(vault, open_records),
        *_find_idle(vault, open_records, uses),
        *group_values(vault, tuple(propose_pairs(pairs, dates))),
        *find_doubtful(vault, open_records, uses),
        *_find_expired(vault, open_records),
        *find_quarantined(vault, records),
        *_find_broken(vault, records),
    ]
    head = vault.head()
    timestamp = vault.local_time().isoformat(timespec="seconds")
    order = list(Action)
    ordered_proposals = sorted(
        _drop_repeated(proposals), key=lambda each: (order.index(each.action), each.path)
    )
    return Report(timestamp, head.commit if head else "", tuple(ordered_proposals))


def propose_pairs(pairs: Pairs, dates: Dates) -> Iterator[Proposal]:
    """Yield proposals for contradictions and near duplicates."""
    yield from _find_contradictions(pairs, dates)
    yield from _find_near(pairs, dates)


def describe_use(use: LastUse) -> tuple[str, ...]:
    """Return the evidence of a note's use: write date, number of recalls and the last one."""
    write_date = f"written {datetime.fromtimestamp(use.written).date()}"
    if not use.times:
        return (write_date, "never recalled")
    times = "once" if use.times == 1 else f"{use.times} times"
    return (write_date, f"recalled {times}, last {datetime.fromtimestamp(use.recalled).date()}")


def is_open(record: NoteRecord) -> bool:
    """Return whether a note is an open managed note: not closed, and readable."""
    is_apart = record.path in PINNED_FILES or record.path.startswith(KEPT_APART)
    is_whole = not record.problem and not record.encoding
    return record.state not in CLOSED_STATES and is_whole and not is_apart


def _drop_repeated(proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    """Yield proposals, without further changes of a changed note or of a merge target."""
    changed_paths: set[str] = set()
    for each in proposals:
        if each.is_change:
            if each.path in changed_paths:
                continue
            changed_paths.add(each.path)
            if each.action is Action.MERGE_DUPLICATES:
                changed_paths.add(each.into)
        yield each


def _find_pinned_copies(pairs: Pairs) -> Iterator[Proposal]:
    """Yield proposals for pinned notes that duplicate another pinned note, one for each pair."""
    pinned_pairs = {
        each.names: each for each in pairs.duplicates if each.ours.pinned and each.theirs.pinned
    }
    for names, pair in pinned_pairs.items():
        duplicate, target = sorted(names)
        blob = pair.ours.blob if str(pair.ours.path) == duplicate else pair.theirs.blob
        yield Proposal(Action.SKIP_PINNED, duplicate, blob, f"duplicate of {target}", (_PINNED,))


def _find_superseded(vault: Vault, records: Sequence[NoteRecord]) -> Iterator[Proposal]:
    """Yield proposals for notes that a `supersedes` or `superseded_by` link marks as replaced."""
    graph = LinkGraph(vault)
    by_path = {record.path: record for record in records}
    separate_pairs = read_apart(vault)
    replacements: dict[str, str] = {}
    for document, links in LinkStore(vault.state).links_in(["supersedes", "superseded_by"]).items():
        source = graph.paths.get(document)
        for link in links if source else ():
            target = graph.names.find(link, source or "")
            old, new = (target, source) if link.property == "supersedes" else (source, target)
            if (
                old in by_path
                and new in by_path
                and old != new
                and frozenset((old, new)) not in separate_pairs
            ):
                replacements.setdefault(str(old), str(new))
    for old, new in sorted(replacements.items()):
        record = by_path[old]
        if replacements.get(new) == old:
            continue
        reason = f"superseded by [[{new.removesuffix('.md')}]]"
        state = f"{new} is {by_path[new].state}"
        if record.pinned:
            yield Proposal(Action.SKIP_PINNED, old, record.blob, reason, (state, _PINNED))
        else:
            successor = (new, by_path[new].blob)
            yield Proposal(Action.DEPRECATE, old, record.blob, reason, (state,), *successor)


def _find_expired(vault: Vault, records: Sequence[NoteRecord]) -> Iterator[Proposal]:
    """Yield proposals for notes whose `valid_until` has passed."""
    today = span_of(vault.now())
    for record in records:
        label = describe_validity(vault, record, today) if record.valid_until else ""
        if label.startswith(EXPIRED):
            evidence = (f"valid_until: {record.valid_until}",)
            yield Proposal(Action.REVALIDATE, record.path, record.blob, label, evidence)


def _find_idle(
    vault: Vault, records: Sequence[NoteRecord], uses: Mapping[str, LastUse]
) -> Iterator[Proposal]:
    """Yield proposals for notes not used for long. Active policies and skills are excluded."""
    config, now = vault.config, vault.now()
    steps = {
        NoteState.ACTIVE: (Action.DEMOTE_STALE, config.stale_after_days),
        NoteState.STALE: (Action.ARCHIVE, config.archive_after_days),
        NoteState.CANDIDATE: (Action.DEPRECATE, config.archive_after_days),
    }
    for record in records:
        state, use = NoteState(record.state), uses[record.path]
        action, limit = steps[state]
        days = use.idle_days(now)
        if days < limit or (NoteKind(record.kind) in OWNER_KINDS and state != NoteState.CANDIDATE):
            continue
        prefix = "never promoted, and " if state is NoteState.CANDIDATE else ""
        reason = f"{prefix}not asked for in {pluralize(int(days), 'day')}"
        if record.pinned:
            evidence = (*describe_use(use), _PINNED)
            yield Proposal(Action.SKIP_PINNED, record.path, record.blob, reason, evidence)
        else:
            yield Proposal(action, record.path, record.blob, reason, describe_use(use))


def _find_contradictions(pairs: Pairs, dates: Dates) -> Iterator[Proposal]:
    """Yield proposals for pairs with different values for one thing, older note first."""
    for pair in pairs.contradictions:
        old_note, new_note = sorted(
            (pair.ours, pair.theirs), key=lambda note: dates[str(note.path)]
        )
        evidence = tuple(
            f"{each.kind}: {each.ours or 'nothing'} here, {each.theirs or 'nothing'} there"
            if pair.ours is old_note
            else f"{each.kind}: {each.theirs or 'nothing'} here, {each.ours or 'nothing'} there"
            for each in pair.likeness.differences
        )
        is_update = any(each.kind == "update" for each in pair.likeness.differences)
        action = Action.UPDATE if is_update else Action.CONTRADICTION
        phrase = "a new value of that is" if is_update else "another value of the same thing is"
        statements = list_untrusted(old_note, KnownText(new_note.visible_body, new_note.title))
        more = [f"it has more, and stays: {one_line(statements[0])[:200]}"] if statements else []
        evidence = (*evidence[:_MAX_EVIDENCE], *more)
        yield _pair(action, old_note, new_note, f"{phrase} in {new_note.path}", evidence)


def _pair(
    action: Action, note: Note, target: Note, reason: str, evidence: tuple[str, ...]
) -> Proposal:
    place = (str(target.path), target.blob)
    return Proposal(action, str(note.path), note.blob, reason, evidence, *place)


def _find_near(pairs: Pairs, dates: Dates) -> Iterator[Proposal]:
    """Yield proposals for possible duplicates, shorter note first."""
    for pair in pairs.similar:
        short_note, long_note = sorted(
            (pair.ours, pair.theirs),
            key=lambda note: (len(note.visible_body), dates[str(note.path)]),
        )
        evidence = (f"{pair.likeness.similarity:.0%} alike, and no difference is known",)
        reason = f"perhaps a duplicate of {long_note.path}"
        yield _pair(Action.NEAR_DUPLICATE, short_note, long_note, reason, evidence)


def find_quarantined(vault: Vault, records: Iterable[NoteRecord]) -> Iterator[Proposal]:
    """Yield a proposal for each quarantined note, with the reason."""
    for record in records:
        if record.state == NoteState.QUARANTINED:
            evidence = (_read_reason(vault, record.path), f"by {record.agent or 'a person'}")
            reason = "quarantined: release it, or forget it"
            yield Proposal(Action.REVIEW_QUARANTINED, record.path, record.blob, reason, evidence)


def _read_reason(vault: Vault, path: str) -> str:
    try:
        prop = read_note(vault, PurePosixPath(path)).frontmatter.get("state_reason")
    except (NoteNotFoundError, RefusedError):
        return "no reason given"
    return str(prop.value) if prop else "no reason given"


def _find_broken(vault: Vault, records: Iterable[NoteRecord]) -> Iterator[Proposal]:
    visible_records = {
        record.path: record for record in records if record.state not in HIDDEN_STATES
    }
    places_by_path: dict[str, list[str]] = {}
    for found_link in list_broken(vault):
        if found_link.source in visible_records and found_link.source != str(DREAMS):
            place = f"{found_link.link.path or found_link.link.text} (line {found_link.link.line})"
            places_by_path.setdefault(found_link.source, []).append(place)
    for path, places in places_by_path.items():
        reason = f"{pluralize(len(places), 'link')} to notes that are not there"
        evidence = tuple(places[:_MAX_EVIDENCE])
        yield Proposal(Action.BROKEN_LINKS, path, visible_records[path].blob, reason, evidence)
