"""Weigh what was recalled: how strong each note is, whether it is promoted, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import CLOSED_STATES, HIDDEN_STATES, OWNER_KINDS, Kind, State
from vaultmem.core.notes.encoding import name_foreign
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.paths import DREAMS
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.upkeep.dreaming import Gates, Strength, Surfacing, Weights, measure_strength
from vaultmem.core.upkeep.memory_file import (
    MEMORY,
    MemoryMove,
    Room,
    add_bullets,
    choose_fact,
    format_bullet,
    name_heading,
    propose_moves,
)
from vaultmem.services.finding.links import LinkGraph
from vaultmem.services.reading.read_notes import find_note
from vaultmem.services.sessions.learn import memory_budget
from vaultmem.services.upkeep.curate import KEPT_APART
from vaultmem.storage.signals import SignalStore
from vaultmem.vault import Vault

#: Why a note waits that only `dream_limit` holds back.
NEXT_NIGHT = "left for the next night by dream_limit"

#: How MEMORY.md begins where there is none.
NEW_MEMORY = "# Memory\n"


class Candidate(NamedTuple):
    """A note that was recalled: how strong it is, and why it is not promoted ("" if it is).

    `bullet` is the line that names it in MEMORY.md, "" where it was not come to that. A note of a
    project is promoted without it: every project is shown MEMORY.md.
    """

    path: str
    title: str
    kind: str
    state: str
    strength: Strength
    held: str
    bullet: str = ""
    project: str = ""

    @property
    def line(self) -> str:
        """What MEMORY.md gets with the promotion, "" for nothing."""
        return "" if self.held or self.project else f"{self.bullet}\n"


class Weighed(NamedTuple):
    """All that was recalled, strongest first, and what may leave MEMORY.md to make room."""

    candidates: tuple[Candidate, ...]
    moves: tuple[MemoryMove, ...]


def weigh_recalled(vault: Vault) -> Weighed:
    """Return how strong each note is that was recalled; the vault must be in sync."""
    config = vault.config
    gates = Gates(config.dream_recalls, config.dream_queries, config.dream_score)
    graph = LinkGraph(vault)
    linked = _find_linked(graph, str(MEMORY))
    named = {*linked.values(), *_find_linked(graph, str(DREAMS), every=True).values()}
    strengths = _measure(vault)
    candidates = []
    for path in sorted(strengths, key=lambda path: (-strengths[path][1].score, path)):
        record, strength = strengths[path]
        held = "promoted before" if path in named else strength.find_gate(gates)
        bullet = "" if held else _make_bullet(vault, graph, record)
        held = held or _find_obstacle(record, bullet)
        named_so = (path, record.title, record.kind, record.state)
        candidates.append(Candidate(*named_so, strength, held, bullet, record.project))
    memory = find_note(vault, MEMORY)
    room = Room(config.memory_lines, memory_budget(vault))
    text = memory.text if memory else NEW_MEMORY
    limit = max(0, config.dream_limit - _count_promoted(vault))
    chosen, waiting = _fit(text, candidates, room, limit)
    if memory is None:
        return Weighed(tuple(chosen), ())
    wanted = "".join(each.line for each in chosen)
    wanted += "".join(f"{each.bullet}\n" for each in waiting)
    scores = {each.path: each.strength.score for each in candidates}
    lines = {line: path for line, path in linked.items() if path in graph.documents}
    moves = propose_moves(memory, lines, scores, _find_hidden(vault), room, wanted)
    return Weighed(tuple(chosen), tuple(moves))


def _measure(vault: Vault) -> dict[str, tuple[NoteRecord, Strength]]:
    """Return the strength of each note that ever surfaced and may count."""
    store = SignalStore(vault.state, vault.state_folder)
    store.fold(vault.view.totals()[1])
    surfaced = store.surfaced()
    config, now = vault.config, vault.now()
    weights = Weights(
        *(config.dream_frequency, config.dream_relevance, config.dream_recency),
        *(config.dream_diversity, config.dream_consolidation),
    )
    found = {}
    for record in vault.view.records():
        known = surfaced.get(record.path)
        if known is None or known.times < 2 or not _may_count(record):
            continue
        calls = (Surfacing(s.at, s.query, s.rank) for s in store.signals(record.path))
        strength = measure_strength(calls, now, weights)
        if strength.recalls:
            found[record.path] = (record, strength)
    return found


def _find_hidden(vault: Vault) -> dict[str, str]:
    """Return the state of each note that is in no pack."""
    records = vault.view.records()
    return {r.path: r.state for r in records if State(r.state) in HIDDEN_STATES}


def _may_count(record: NoteRecord) -> bool:
    apart = record.pinned or record.path.startswith(KEPT_APART)
    return not (apart or record.problem) and State(record.state) not in CLOSED_STATES


def _make_bullet(vault: Vault, graph: LinkGraph, record: NoteRecord) -> str:
    """Return the line that says what a note says and leads to it, "" where none can."""
    note = find_note(vault, PurePosixPath(record.path))
    fact = choose_fact(note) if note is not None else ""
    return format_bullet(fact, graph.link_shortly(record.path)) if fact else ""


def _find_obstacle(record: NoteRecord, bullet: str) -> str:
    """Return why a machine cannot promote a note, "" if it can."""
    if Kind(record.kind) in OWNER_KINDS and record.state != State.ACTIVE:
        return f"a {record.kind}: only its owner promotes it"
    if record.encoding:
        return f"{name_foreign(record.encoding)}, so it is never rewritten"
    if not bullet:
        return "its first sentence is too long for MEMORY.md; give it a title"
    if find_secrets(bullet):
        return "what it says looks like a credential"
    return ""


def _count_promoted(vault: Vault) -> int:
    """Return how many notes were promoted today already, as the diary has it."""
    diary = find_note(vault, DREAMS)
    today = f"- {vault.local_time().date()}:"
    lines = diary.text.splitlines() if diary is not None else []
    return sum(line.count("[[") for line in lines if line.startswith(today))


def _find_linked(graph: LinkGraph, path: str, every: bool = False) -> dict[int, str]:
    """Return the notes that a note links to, by line: the first of each line, or all numbered."""
    number = graph.documents.get(path)
    linked: dict[int, str] = {}
    for count, found in enumerate(graph.links_of(number) if number is not None else ()):
        if found.target:
            linked.setdefault(count if every else found.link.line, found.target)
    return linked


def _fit(
    text: str, candidates: Sequence[Candidate], room: Room, limit: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates, those held back that have no room, and of these the ones that wait."""
    chosen: list[Candidate] = []
    waiting: list[Candidate] = []
    count = 0
    for each in candidates:
        if not each.held and count == limit:
            each = each._replace(held=NEXT_NIGHT)
        elif not each.held and each.project:
            count += 1
        elif not each.held:
            longer = add_bullets(text, [(name_heading(each.kind), each.bullet)])
            if room.lacks(longer):
                each = each._replace(held="no room in MEMORY.md")
                waiting.append(each)
            else:
                text, count = longer, count + 1
        chosen.append(each)
    return chosen, waiting[:limit]
