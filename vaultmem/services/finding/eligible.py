"""Choose the sections that a question may find, and keep the choice for the next question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.finding.statistics import Statistics
from vaultmem.core.finding.terms import LINKS_ALONE
from vaultmem.core.indexing.note_facts import STATES
from vaultmem.core.lifecycle import STATE_WEIGHT
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.storage.index.snapshot import Snapshot

#: Views and filters whose choice is kept, each some bytes a section.
_KEPT = 8

#: Terms whose counts are kept.
_KEPT_COUNTS = 8_192

_COLUMNS = (
    "document",
    "state",
    "created",
    "updated",
    "title_length",
    "tags_length",
    "body_length",
)


class Scope(NamedTuple):
    """A vault, its index as it is now, and the rows of it that a query can find."""

    vault: Vault
    snapshot: Snapshot
    eligible: EligibleRows


def choose_scope(vault: Vault, note_filter: NoteFilter) -> Scope | None:
    """Return the sections that view and filter let through; None for an empty index."""
    snapshot = vault.index.snapshot()
    if not snapshot.size:
        return None
    return Scope(vault, snapshot, choose_sections(vault, snapshot, note_filter))


def count_term(scope: Scope, term: str) -> tuple[int, int]:
    """Return how many eligible sections and how many of all contain a term, cached."""
    from vaultmem.core.finding.ranking import count_rows

    known = scope.eligible.kept.setdefault("counts", {})
    if term not in known:
        if len(known) > _KEPT_COUNTS:
            known.clear()
        rows, _ = scope.snapshot.term(term)
        known[term] = count_rows(rows, scope.eligible), len(rows)
    found: tuple[int, int] = known[term]
    return found


def weigh_scope(scope: Scope, statistics: Statistics) -> Scope:
    """Return the same rows with length norms and recency by the figures of all vaults, cached."""
    from vaultmem.core.finding.eligible import weigh_rows
    from vaultmem.core.finding.weights import WEIGHTS

    chosen = scope.eligible
    figures = statistics[:3]
    if figures == chosen.statistics[:3]:
        return scope
    kept = chosen.kept.setdefault("weighed", {})
    if figures not in kept:
        columns = {name: scope.snapshot.column(name) for name in _COLUMNS}
        links_alone = scope.snapshot.term(LINKS_ALONE)[0]
        kept.clear()
        kept[figures] = weigh_rows(chosen, columns, links_alone, Statistics(*figures), WEIGHTS)
    return scope._replace(eligible=kept[figures])


def choose_sections(vault: Vault, snapshot: Snapshot, note_filter: NoteFilter) -> EligibleRows:
    """Return the sections of notes that view and filter let through, cached for a few filters."""
    from vaultmem.core.finding.eligible import EligibleRows, make_eligible
    from vaultmem.core.finding.weights import WEIGHTS

    key = ("eligible", vault.view.key(), note_filter)
    cached = snapshot.kept.get(key)
    if isinstance(cached, EligibleRows):
        return cached
    made = make_eligible(
        {name: snapshot.column(name) for name in _COLUMNS},
        vault.view.choose(note_filter),
        [STATES.index(state) for state in note_filter.wanted_states],
        [STATE_WEIGHT.get(state, 1.0) for state in STATES],
        snapshot.labels(),
        snapshot.term(LINKS_ALONE)[0],
        WEIGHTS,
        vault.now(),
    )
    if len(snapshot.kept) >= _KEPT:
        snapshot.kept.clear()
    snapshot.kept[key] = made
    return made
