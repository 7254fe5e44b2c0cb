"""Look a vault through and propose, with reasons and evidence, what should change in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.counting import count_things
from vaultmem.core.lifecycle import CLOSED_STATES, HIDDEN_STATES, OWNER_KINDS, Kind, State
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.paths import DREAMS, PINNED_FILES
from vaultmem.core.safe_text import one_line
from vaultmem.core.similarity.compare import KnownText
from vaultmem.core.upkeep.proposal import Action, Proposal, Report
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.finding.links import LinkGraph, list_broken
from vaultmem.services.lifecycle.transition import refuse_branch
from vaultmem.services.likeness.pairs import Pairs, compare_vault, read_apart
from vaultmem.services.likeness.updates import list_unsaid
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.upkeep.dedup import plan_merges
from vaultmem.services.upkeep.groups import group_values
from vaultmem.services.upkeep.revalidate import find_doubtful
from vaultmem.services.upkeep.uses import Use, read_uses
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault

#: Sessions and tasks have an order of their own; reference material is not a memory.
KEPT_APART = ("sessions/", "tasks/", "handoffs/", "primed/")

_MAX_EVIDENCE = 5

#: When each note was written, and its path: of two the older one stands first.
Dates = Mapping[str, tuple[float, str]]


def curate(
    vault: Vault,
    progress: Callable[[int, int], None] | None = None,
    *,
    is_machine: bool = True,
) -> Report:
    """Return what should change in a vault; nothing is changed. The vault must be in sync.

    A machine merges no note of a person, so no such merge is proposed to one.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
    """
    refuse_branch(vault)
    records = vault.view.records()
    uses = read_uses(vault, records)
    open_ones = [record for record in records if _is_open(record)]
    pairs = compare_vault(vault, progress)
    dates = {record.path: (record.written, record.path) for record in records}
    found = [
        *propose_merges(vault, pairs, is_machine),
        *_find_superseded(vault, open_ones),
        *_find_idle(vault, open_ones, uses),
        *group_values(vault, tuple(propose_pairs(pairs, dates))),
        *find_doubtful(vault, open_ones, uses),
        *find_quarantined(vault, records),
        *_find_broken(vault, records),
    ]
    head = vault.head()
    made = vault.local_time().isoformat(timespec="seconds")
    order = list(Action)
    kept = sorted(_keep_first(found), key=lambda each: (order.index(each.action), each.path))
    return Report(made, head.commit if head else "", tuple(kept))


def propose_pairs(pairs: Pairs, dates: Dates) -> Iterator[Proposal]:
    """Yield what is to be decided of notes that contradict each other, or are nearly the same."""
    yield from _find_contradictions(pairs, dates)
    yield from _find_near(pairs, dates)


def describe_use(use: Use) -> tuple[str, ...]:
    """Return the evidence of a note's use: when it was written, when and how often recalled."""
    written = f"written {datetime.fromtimestamp(use.written).date()}"
    if not use.times:
        return (written, "never recalled")
    times = "once" if use.times == 1 else f"{use.times} times"
    return (written, f"recalled {times}, last {datetime.fromtimestamp(use.recalled).date()}")


def _is_open(record: NoteRecord) -> bool:
    apart = record.path in PINNED_FILES or record.path.startswith(KEPT_APART)
    is_whole = not record.problem and not record.encoding
    return record.state not in CLOSED_STATES and is_whole and not apart


def _keep_first(proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    """Leave out a second change of the same note, and any of a note that takes another in."""
    changed: set[str] = set()
    for each in proposals:
        if each.is_change:
            if each.path in changed:
                continue
            changed.add(each.path)
            if each.action is Action.MERGE_DUPLICATES:
                changed.add(each.into)
        yield each


def propose_merges(vault: Vault, pairs: Pairs, is_machine: bool) -> Iterator[Proposal]:
    """Yield the notes that may be merged into others which say the same."""
    for merge in plan_merges(vault, is_machine=is_machine, pairs=pairs.same):
        evidence, reason = ("adds nothing",), f"says the same as {merge.keep}"
        yield Proposal(
            *(Action.MERGE_DUPLICATES, merge.drop, merge.drop_blob, reason),
            *(evidence, merge.keep, merge.keep_blob),
        )


def _find_superseded(vault: Vault, records: Sequence[NoteRecord]) -> Iterator[Proposal]:
    """Yield the notes that another one says it replaces, or that say so themselves."""
    graph = LinkGraph(vault)
    by_path = {record.path: record for record in records}
    apart = read_apart(vault)
    replaced: dict[str, str] = {}
    for document, links in LinkStore(vault.state).links_in(["supersedes", "superseded_by"]).items():
        source = graph.paths.get(document)
        for link in links if source else ():
            target = graph.names.find(link, source or "")
            old, new = (target, source) if link.property == "supersedes" else (source, target)
            if (
                old in by_path
                and new in by_path
                and old != new
                and frozenset((old, new)) not in apart
            ):
                replaced.setdefault(str(old), str(new))
    for old, new in sorted(replaced.items()):
        record = by_path[old]
        if not record.pinned and replaced.get(new) != old:
            reason = f"superseded by [[{new.removesuffix('.md')}]]"
            by = (new, by_path[new].blob)
            state = (f"{new} is {by_path[new].state}",)
            yield Proposal(Action.DEPRECATE, old, record.blob, reason, state, *by)


def _find_idle(
    vault: Vault, records: Sequence[NoteRecord], uses: Mapping[str, Use]
) -> Iterator[Proposal]:
    """Yield the notes that nobody asked for in long; policies and skills hold unasked."""
    config, now = vault.config, vault.now()
    steps = {
        State.ACTIVE: (Action.DEMOTE_STALE, config.stale_after),
        State.STALE: (Action.ARCHIVE, config.archive_after),
        State.CANDIDATE: (Action.DEPRECATE, config.archive_after),
    }
    for record in records:
        state, use = State(record.state), uses[record.path]
        action, limit = steps[state]
        days = use.idle_days(now)
        if days < limit or (Kind(record.kind) in OWNER_KINDS and state != State.CANDIDATE):
            continue
        waited = "never promoted, and " if state is State.CANDIDATE else ""
        reason = f"{waited}not asked for in {count_things(int(days), 'day')}"
        if record.pinned:
            evidence = (*describe_use(use), "pinned: only a person moves it")
            yield Proposal(Action.SKIP_PINNED, record.path, record.blob, reason, evidence)
        else:
            yield Proposal(action, record.path, record.blob, reason, describe_use(use))


def _find_contradictions(pairs: Pairs, dates: Dates) -> Iterator[Proposal]:
    """Yield the pairs that say another value of the same thing, the older note first."""
    for pair in pairs.contradicting:
        ours, theirs = sorted((pair.ours, pair.theirs), key=lambda note: dates[str(note.path)])
        evidence = tuple(
            f"{each.kind}: {each.ours or 'nothing'} here, {each.theirs or 'nothing'} there"
            if pair.ours is ours
            else f"{each.kind}: {each.theirs or 'nothing'} here, {each.ours or 'nothing'} there"
            for each in pair.likeness.differences
        )
        is_update = any(each.kind == "update" for each in pair.likeness.differences)
        action = Action.UPDATE if is_update else Action.CONTRADICTION
        what = "a new value of that is" if is_update else "another value of the same thing is"
        left = list_unsaid(ours, KnownText(theirs.visible_body, theirs.title))
        more = [f"it says more, and stays: {one_line(left[0])[:200]}"] if left else []
        evidence = (*evidence[:_MAX_EVIDENCE], *more)
        yield _pair(action, ours, theirs, f"{what} in {theirs.path}", evidence)


def _pair(
    action: Action, ours: Note, theirs: Note, reason: str, evidence: tuple[str, ...]
) -> Proposal:
    place = (str(theirs.path), theirs.blob)
    return Proposal(action, str(ours.path), ours.blob, reason, evidence, *place)


def _find_near(pairs: Pairs, dates: Dates) -> Iterator[Proposal]:
    """Yield the pairs that perhaps say the same, the shorter note first: the other may say all."""
    for pair in pairs.near:
        ours, theirs = sorted(
            (pair.ours, pair.theirs),
            key=lambda note: (len(note.visible_body), dates[str(note.path)]),
        )
        alike = (f"{pair.likeness.similarity:.0%} alike, and no difference is known",)
        reason = f"perhaps says the same as {theirs.path}"
        yield _pair(Action.NEAR_DUPLICATE, ours, theirs, reason, alike)


def find_quarantined(vault: Vault, records: Iterable[NoteRecord]) -> Iterator[Proposal]:
    """Yield the quarantined notes, each with the reason."""
    for record in records:
        if record.state == State.QUARANTINED:
            evidence = (_read_reason(vault, record.path), f"by {record.agent or 'a person'}")
            reason = "quarantined: release it, or forget it"
            yield Proposal(Action.REVIEW_QUARANTINED, record.path, record.blob, reason, evidence)


def _read_reason(vault: Vault, path: str) -> str:
    try:
        prop = read_note(vault, PurePosixPath(path)).matter.get("state_reason")
    except (NoteNotFoundError, RefusedError):
        return "no reason given"
    return str(prop.value) if prop else "no reason given"


def _find_broken(vault: Vault, records: Iterable[NoteRecord]) -> Iterator[Proposal]:
    shown = {record.path: record for record in records if record.state not in HIDDEN_STATES}
    broken: dict[str, list[str]] = {}
    for found in list_broken(vault):
        if found.source in shown and found.source != str(DREAMS):
            place = f"{found.link.path or found.link.text} (line {found.link.line})"
            broken.setdefault(found.source, []).append(place)
    for path, places in broken.items():
        reason = f"{count_things(len(places), 'link')} to notes that are not there"
        evidence = tuple(places[:_MAX_EVIDENCE])
        yield Proposal(Action.BROKEN_LINKS, path, shown[path].blob, reason, evidence)
