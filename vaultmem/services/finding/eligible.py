"""Choose the sections that a question may find, and keep the choice for the next question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.finding.terms import LINKS_ALONE
from vaultmem.core.indexing.note_facts import STATES
from vaultmem.core.lifecycle import STATE_WEIGHT
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.storage.index.snapshot import Snapshot

#: Views and filters whose choice is kept, each some bytes a section.
_KEPT = 8

COLUMNS = (
    "document",
    "state",
    "created",
    "updated",
    "title_length",
    "tags_length",
    "body_length",
)


def choose_sections(vault: Vault, snapshot: Snapshot, note_filter: NoteFilter) -> EligibleRows:
    """Return the sections of notes that view and filter let through."""
    from vaultmem.core.finding.eligible import EligibleRows

    key = ("eligible", vault.view.key(), note_filter)
    cached = snapshot.kept.get(key)
    if isinstance(cached, EligibleRows):
        return cached
    made = make_chosen(
        {name: snapshot.column(name) for name in COLUMNS},
        vault.view.choose(note_filter),
        note_filter,
        snapshot.labels(),
        snapshot.term(LINKS_ALONE)[0],
        vault.now(),
    )
    keep_chosen(snapshot, key, made)
    return made


def make_chosen(
    columns: Mapping[str, NDArray[Any]],
    documents: Sequence[tuple[int, float]],
    note_filter: NoteFilter,
    labels: tuple[NDArray[Any], NDArray[np.int64]],
    links_alone: NDArray[np.int64],
    now: float,
) -> EligibleRows:
    """Return the rows of the documents whose state the filter admits."""
    from vaultmem.core.finding.eligible import make_eligible
    from vaultmem.core.finding.weights import WEIGHTS

    return make_eligible(
        columns,
        documents,
        [STATES.index(state) for state in note_filter.wanted_states],
        [STATE_WEIGHT.get(state, 1.0) for state in STATES],
        labels,
        links_alone,
        WEIGHTS,
        now,
    )


def keep_chosen(snapshot: Snapshot, key: object, chosen: object) -> None:
    """Keep a choice for the next question, as one of a few."""
    if len(snapshot.kept) >= _KEPT:
        snapshot.kept.clear()
    snapshot.kept[key] = chosen
