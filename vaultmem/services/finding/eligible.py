"""Choose the sections that a question may find, and keep the choice for the next question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.finding.terms import LINKS_ALONE
from vaultmem.core.indexing.note_facts import STATES
from vaultmem.core.lifecycle import STATE_WEIGHT
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.weights import RankingWeights
    from vaultmem.storage.index.snapshot import Snapshot

#: Views and filters whose choice is kept, each some bytes a section.
_KEPT = 8

_COLUMNS = (
    "document",
    "state",
    "created",
    "updated",
    "title_length",
    "tags_length",
    "body_length",
)


def choose_sections(
    vault: Vault, snapshot: Snapshot, note_filter: NoteFilter, weights: RankingWeights
) -> EligibleRows:
    """Return the sections of notes that view and filter let through."""
    from vaultmem.core.finding.eligible import EligibleRows, make_eligible

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
        weights,
        vault.now(),
    )
    if len(snapshot.kept) >= _KEPT:
        snapshot.kept.clear()
    snapshot.kept[key] = made
    return made
