"""Consolidate: promote the candidates that were recalled often and well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files
from vaultmem.core.curation.dreaming import (
    NoteHit,
    PromotionScore,
    PromotionThresholds,
    Weights,
    measure_strength,
)
from vaultmem.core.curation.memory_file import (
    MEMORY,
    MemoryFileLimit,
    MemoryMove,
    add_bullets,
    choose_fact,
    format_bullet,
    format_heading,
    propose_moves,
)
from vaultmem.core.lifecycle import CLOSED_STATES, HIDDEN_STATES, OWNER_KINDS, NoteKind, NoteState
from vaultmem.core.notes.edit_properties import write_state
from vaultmem.core.notes.encoding import format_foreign
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.link_syntax import find_links
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import DREAMS
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.edit_notes import check_text
from vaultmem.services.changes.write import replace_text, write
from vaultmem.services.curation.curate import KEPT_APART
from vaultmem.services.lifecycle.transition import as_agent, check_branch
from vaultmem.services.search.link_walk import LinkGraph, NewLinks
from vaultmem.services.search.valid_spans import describe_validity, span_of
from vaultmem.services.sessions.edit_session import memory_budget
from vaultmem.services.views.read_notes import find_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.query_log import TOOL, SignalStore
from vaultmem.vault import Vault

# Decide whether nightly work of the watcher is due: once after 3:00.

#: Days between two runs, by the setting's value.
_DAYS = {"never": 0, "day": 1, "week": 7}


def is_night(vault: Vault, every: str, work: str) -> bool:
    """Return whether work is due: a night (3:00) has passed since it was last done.

    `every` is the setting's value. `work` is the state key that `note_night` writes.
    """
    days = _DAYS[every]
    if not days:
        return False
    now = vault.local_time()
    night = now.replace(hour=3, minute=0, second=0, microsecond=0)
    if now < night:
        night -= timedelta(days=1)
    last_run = float(vault.state.get(work) or 0)
    return last_run < (night - timedelta(days=days - 1)).timestamp()


def note_night(vault: Vault, work: str) -> None:
    """Record that the work was done now. Without this record, the work is repeated."""
    vault.state.put(work, str(vault.now()))


# Score recalled notes, and decide which to promote.

#: Reason to hold a note back that exceeds `dream_limit`.
NEXT_NIGHT = "left for the next night by dream_limit"

#: Text of a new MEMORY.md.
NEW_MEMORY = "# Memory\n"


class Candidate(NamedTuple):
    """A recalled note: its strength, and why it is not promoted ("" if it is).

    `bullet` is its line for MEMORY.md, or "". A project's note is promoted without a line, because
    every project is shown MEMORY.md.
    """

    path: str
    title: str
    kind: str
    state: str
    strength: PromotionScore
    held: str
    bullet: str = ""
    project: str = ""

    @property
    def line(self) -> str:
        """The line that the promotion adds to MEMORY.md, or ""."""
        return "" if self.held or self.project else f"{self.bullet}\n"


class Dream(NamedTuple):
    """All scored notes, strongest first, the proposed removals from MEMORY.md, and the commits."""

    candidates: tuple[Candidate, ...]
    moves: tuple[MemoryMove, ...]
    report: CommitReport = CommitReport()

    @property
    def promoted(self) -> tuple[Candidate, ...]:
        """The promoted notes, strongest first."""
        return tuple(each for each in self.candidates if not each.held)

    @property
    def remaining(self) -> tuple[Candidate, ...]:
        """The notes that only `dream_limit` holds back."""
        return tuple(each for each in self.candidates if each.held == NEXT_NIGHT)


def score_recalled(vault: Vault) -> Dream:
    """Return the strength of each recalled note, without changing anything.

    The index must be up to date.
    """
    config = vault.config
    gates = PromotionThresholds(config.dream_recalls, config.dream_queries, config.dream_score)
    graph = LinkGraph(vault)
    linked_paths = _find_linked(graph, str(MEMORY))
    promoted_paths = {
        *linked_paths.values(),
        *_find_linked(graph, str(DREAMS), every=True).values(),
    }
    strengths = _measure(vault)
    candidates = []
    for path in sorted(strengths, key=lambda path: (-strengths[path][1].score, path)):
        record, strength = strengths[path]
        obstacle = "promoted before" if path in promoted_paths else strength.find_gate(gates)
        bullet = "" if obstacle else _make_bullet(vault, graph, record)
        obstacle = obstacle or _find_obstacle(record, bullet)
        obstacle = obstacle or describe_validity(vault, record, span_of(vault.now()))
        fields = (path, record.title, record.kind, record.state)
        candidates.append(Candidate(*fields, strength, obstacle, bullet, record.project))
    memory = find_note(vault, MEMORY)
    room = MemoryFileLimit(config.memory_lines, memory_budget(vault))
    text = memory.text if memory else NEW_MEMORY
    limit = max(0, config.dream_limit - _count_promoted(vault))
    final_candidates, overflow = _fit(text, candidates, room, limit)
    if memory is None:
        return Dream(tuple(final_candidates), ())
    new_text = "".join(each.line for each in final_candidates)
    new_text += "".join(f"{each.bullet}\n" for each in overflow)
    scores = {each.path: each.strength.score for each in candidates}
    lines = {line: path for line, path in linked_paths.items() if path in graph.documents}
    moves = propose_moves(memory, lines, scores, _find_hidden(vault), room, new_text)
    return Dream(tuple(final_candidates), tuple(moves))


def _measure(vault: Vault) -> dict[str, tuple[NoteRecord, PromotionScore]]:
    """Return the strength of each recalled note that can be promoted."""
    store = SignalStore(vault.state, vault.state_folder)
    store.fold(vault.view.totals()[1])
    usage = store.surfaced()
    config, now = vault.config, vault.now()
    weights = Weights(
        *(config.dream_frequency, config.dream_relevance, config.dream_recency),
        *(config.dream_diversity, config.dream_consolidation),
    )
    strengths = {}
    for record in vault.view.records():
        note_usage = usage.get(record.path)
        if note_usage is None or note_usage.times < 2 or not _may_count(record):
            continue
        signals = (each for each in store.signals(record.path) if each.kind != TOOL)
        calls = (NoteHit(each.at, each.query, each.rank) for each in signals)
        strength = measure_strength(calls, now, weights)
        if strength.recalls:
            strengths[record.path] = (record, strength)
    return strengths


def _find_hidden(vault: Vault) -> dict[str, str]:
    """Return the state of each note that is hidden from packs, by path."""
    records = vault.view.records()
    return {r.path: r.state for r in records if NoteState(r.state) in HIDDEN_STATES}


def _may_count(record: NoteRecord) -> bool:
    is_apart = record.pinned or record.path.startswith(KEPT_APART)
    return not (is_apart or record.problem) and NoteState(record.state) not in CLOSED_STATES


def _make_bullet(vault: Vault, graph: LinkGraph, record: NoteRecord) -> str:
    """Return the line with a note's main fact and a link to it, or ""."""
    note = find_note(vault, PurePosixPath(record.path))
    fact = choose_fact(note) if note is not None else ""
    return format_bullet(fact, graph.link_shortly(record.path)) if fact else ""


def _find_obstacle(record: NoteRecord, bullet: str) -> str:
    """Return why an agent cannot promote a note, or ""."""
    if NoteKind(record.kind) in OWNER_KINDS and record.state != NoteState.ACTIVE:
        return f"a {record.kind}: only its owner promotes it"
    if record.encoding:
        return f"{format_foreign(record.encoding)}, so it is never rewritten"
    if not bullet:
        return "its first sentence is too long for MEMORY.md; give it a title"
    if find_secrets(bullet):
        return "its text looks like a credential"
    return ""


def _count_promoted(vault: Vault) -> int:
    """Return how many notes were promoted today, according to DREAMS.md."""
    diary = find_note(vault, DREAMS)
    today = f"- {vault.local_time().date()}:"
    lines = diary.text.splitlines() if diary is not None else []
    return sum(len(find_links(line, Frontmatter())) for line in lines if line.startswith(today))


def _find_linked(graph: LinkGraph, path: str, every: bool = False) -> dict[int, str]:
    """Return the notes that a note links to: the first by line, or all of them by position."""
    number = graph.documents.get(path)
    paths: dict[int, str] = {}
    for count, found_link in enumerate(graph.links_of(number) if number is not None else ()):
        if found_link.target:
            paths.setdefault(count if every else found_link.link.line, found_link.target)
    return paths


def _fit(
    text: str, candidates: Sequence[Candidate], room: MemoryFileLimit, limit: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates with their reasons, and those with no room in MEMORY.md."""
    final_candidates: list[Candidate] = []
    overflow: list[Candidate] = []
    count = 0
    for candidate in candidates:
        if not candidate.held and count == limit:
            candidate = candidate._replace(held=NEXT_NIGHT)
        elif not candidate.held and candidate.project:
            count += 1
        elif not candidate.held:
            new_text = add_bullets(text, [(format_heading(candidate.kind), candidate.bullet)])
            if room.lacks(new_text):
                candidate = candidate._replace(held="no room in MEMORY.md")
                overflow.append(candidate)
            else:
                text, count = new_text, count + 1
        final_candidates.append(candidate)
    return final_candidates, overflow[:limit]


#: State key for the time of the last consolidation.
_WORK = "dreamt"

#: Text of a new DREAMS.md. It is archived, so recall skips it unless a filter includes it.
_DIARY_TEMPLATE = """---
kind: reflection
state: archived
---
# Dreams

What `vaultmem dream` promoted, with the score of each.

"""


def dream(vault: Vault, is_dry: bool = False) -> Dream:
    """Promote the strongest notes in one commit; with `is_dry`, only score them.

    Each note becomes active. Global notes are listed in MEMORY.md while it has room. DREAMS.md
    lists all of them. No text becomes trusted: policies and skills still need their owner's
    promotion.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
        PendingError: the notes are changed; their commit has to wait.
    """
    check_branch(vault)
    if is_dry:
        sync_vault(vault)
        return score_recalled(vault)
    with vault.lock():
        sync_vault(vault)
        result = score_recalled(vault)
        if result.promoted:
            result = result._replace(report=_promote(as_agent(vault), result.promoted))
        note_night(vault, _WORK)
    return result


def dream_if_due(vault: Vault) -> Dream | None:
    """Consolidate if vaultmem.yaml enables it and a night has passed since; else return None.

    Raises:
        VaultError: as for `dream`.
    """
    return dream(vault) if is_night(vault, vault.config.dream_every, _WORK) else None


def _promote(machine: Vault, candidates: Sequence[Candidate]) -> CommitReport:
    """Set the states, update MEMORY.md and DREAMS.md, and commit only that."""
    bullets = [(format_heading(each.kind), each.bullet) for each in candidates if each.line]
    line = _make_diary_line(machine, candidates)

    def plan(change: Change) -> None:
        for each in candidates:
            replace_text(change, change.read(PurePosixPath(each.path)), _activate)
        if bullets:
            _add(change, MEMORY, NEW_MEMORY, lambda text: add_bullets(text, bullets))
        _add(change, DREAMS, _DIARY_TEMPLATE, lambda text: _end_line(text) + line)
        change.commit(_make_event(machine, candidates))

    return write(machine, plan).report


def _add(change: Change, path: PurePosixPath, start: str, edit: Callable[[str], str]) -> None:
    """Change a note's text, or create the note with the text `start`."""
    try:
        note = change.read(path)
    except NoteNotFoundError:
        text = edit(start)
        check_text(path, text)
        change.put(path, text.encode("utf-8"))
        return
    replace_text(change, note, lambda note: edit(note.text))


def _activate(note: Note) -> str:
    if note.state is NoteState.ACTIVE or note.state in CLOSED_STATES:
        return note.text  # The note was archived or deprecated meanwhile, or is active.
    return write_state(note.text, NoteState.ACTIVE)


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _make_diary_line(vault: Vault, candidates: Sequence[Candidate]) -> str:
    day = vault.local_time().date()
    links = NewLinks(vault)
    entries = (
        f"{links.in_property(each.path, str(DREAMS))} {each.strength.score:.2f}"
        for each in candidates
    )
    return f"- {day}: {', '.join(entries)}\n"


def _make_event(vault: Vault, candidates: Sequence[Candidate]) -> Event:
    body = tuple(f"{each.path}: {_describe_promotion(each)}" for each in candidates)
    paths = [each.path for each in candidates]
    subject = format_files("promote", paths, ", by dream")
    only = (*paths, str(MEMORY), str(DREAMS))
    return Event("promote", subject, vault.author, body, "refine", only=only)


def _describe_promotion(candidate: Candidate) -> str:
    step = "active" if candidate.state == NoteState.ACTIVE else f"{candidate.state} to active"
    strength = candidate.strength
    measures = (
        (strength.recalls, "recall"),
        (strength.queries, "question"),
        (strength.days, "day"),
    )
    counts = ", ".join(pluralize(number, unit) for number, unit in measures)
    return f"{step}, score {strength.score:.2f}, {counts}"
