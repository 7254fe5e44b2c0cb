"""Choose the sections that a question may find, of one vault or of several as of one."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.finding.terms import LINKS_ALONE
from vaultmem.core.notes.record import place_number
from vaultmem.services.finding.eligible import COLUMNS, choose_sections, keep_chosen, make_chosen
from vaultmem.services.finding.parts import Part, Searched
from vaultmem.services.reading.behind import sync_once
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.statistics import Statistics
    from vaultmem.storage.index.snapshot import Snapshot


def choose_parts(
    vault: Vault, note_filter: NoteFilter, places: Sequence[int] = ()
) -> Searched | None:
    """Return what a question may find, of the vault and of those beside it; None without a note.

    `places` are theirs among all that are asked, in ascending order, where others are elsewhere.
    """
    for each in vault.together:
        sync_once(each)
    if vault.beside or vault.apart:
        return _join(vault, note_filter, places or range(len(vault.together)))
    snapshot = vault.index.snapshot()
    if not snapshot.size:
        return None
    eligible = choose_sections(vault, snapshot, note_filter)
    columns = snapshot.column("document"), snapshot.column("ordinal")
    parts = [Part(vault, snapshot, eligible)]
    return Searched(parts, eligible, *columns, vault.config.recency)


def weigh_again(searched: Searched, statistics: Statistics) -> Searched:
    """Return what is searched as one part of all that the figures are of; kept for the next."""
    import numpy as np

    from vaultmem.core.finding.eligible import weigh_rows
    from vaultmem.core.finding.weights import WEIGHTS

    figures = statistics[:-1]  # Without what has which term.
    if figures == searched.eligible.statistics[:-1]:
        return searched
    kept = searched.eligible.kept.setdefault("weighed", {})
    if figures not in kept:
        snapshots = [part.snapshot for part in searched.parts]
        columns = {name: np.concatenate([s.column(name) for s in snapshots]) for name in COLUMNS}
        chosen = searched.eligible
        links = _list_links(snapshots)
        eligible = weigh_rows(chosen, columns, links, statistics._replace(counts={}), WEIGHTS)
        own = _divide(eligible, snapshots)
        kept.clear()
        kept[figures] = (
            [
                part._replace(eligible=rows._replace(kept=part.eligible.kept))
                for part, rows in zip(searched.parts, own, strict=True)
            ],
            eligible,
        )
    parts, eligible = kept[figures]
    return searched._replace(parts=parts, eligible=eligible)


def _join(vault: Vault, note_filter: NoteFilter, places: Sequence[int]) -> Searched | None:
    """Return the sections of several vaults, chosen as of one, kept while all stay as they are."""
    placed = zip(places, vault.together, strict=True)
    opened = [(place, each, each.index.snapshot()) for place, each in placed]
    opened = [each for each in opened if each[2].size]
    if not opened:
        return None
    snapshots = [each for _, _, each in opened]
    state = [(place, each.root, each.view.key()) for place, each, _ in opened]
    key = ("together", note_filter, vault.apart)
    kept = snapshots[0].kept.get(key)
    if kept and kept[0] == state and all(a is b for a, b in zip(kept[1], snapshots, strict=True)):
        eligible, documents, ordinals, own = kept[2:]
    else:
        eligible, documents, ordinals = _choose_among(opened, note_filter, vault.apart)
        own = _divide(eligible, snapshots)
        keep_chosen(snapshots[0], key, (state, snapshots, eligible, documents, ordinals, own))
    firsts = [0, *accumulate(each.size for each in snapshots)]
    parts = [
        Part(each, snapshot, rows, place, first)
        for (place, each, snapshot), rows, first in zip(opened, own, firsts, strict=False)
    ]
    return Searched(parts, eligible, documents, ordinals, vault.config.recency)


def _choose_among(
    opened: Sequence[tuple[int, Vault, Snapshot]], note_filter: NoteFilter, apart: bool
) -> tuple[EligibleRows, NDArray[np.int64], NDArray[Any]]:
    """Return the rows of all, numbered through, and of each its document and ordinal."""
    import numpy as np

    snapshots = [snapshot for _, _, snapshot in opened]
    # Numbers side by side, which a table can have: those that hits have lie far apart.
    bases = [0, *accumulate(int(s.column("document").max(initial=0)) + 1 for s in snapshots)]
    columns = {name: np.concatenate([s.column(name) for s in snapshots]) for name in COLUMNS}
    numbers = [s.column("document").astype(np.int64) for s in snapshots]
    columns["document"] = np.concatenate([n + b for n, b in zip(numbers, bases, strict=False)])
    chosen = make_chosen(
        columns,
        _list_documents(opened, note_filter, bases),
        note_filter,
        _join_labels(snapshots, apart),
        _list_links(snapshots),
        opened[0][1].now(),
    )
    documents = [place_number(n, place) for n, (place, _, _) in zip(numbers, opened, strict=True)]
    ordinals = np.concatenate([each.column("ordinal") for each in snapshots])
    return chosen, np.concatenate(documents), ordinals


def _list_documents(
    opened: Sequence[tuple[int, Vault, Snapshot]], note_filter: NoteFilter, bases: Sequence[int]
) -> list[tuple[int, float]]:
    """Return number and time of all documents that the filter admits, in the order of paths."""
    listed = []
    for (place, vault, _), base in zip(opened, bases, strict=False):
        paths = vault.view.paths()
        admitted = vault.view.choose(note_filter)
        listed.append([(paths[n], place, n + base, time) for n, time in admitted if n in paths])
    return [(number, time) for _, _, number, time in heapq.merge(*listed)]


def _list_links(snapshots: Sequence[Snapshot]) -> NDArray[np.int64]:
    """Return the rows that are links and hardly more, numbered through."""
    import numpy as np

    firsts = [0, *accumulate(each.size for each in snapshots)]
    links = [s.term(LINKS_ALONE)[0] + f for s, f in zip(snapshots, firsts, strict=False)]
    return np.concatenate(links)


def _join_labels(
    snapshots: Sequence[Snapshot], apart: bool
) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
    """Return all labels, and where each row's begin; `apart`, no two vaults have one in common."""
    import numpy as np

    found = [each.labels() for each in snapshots]
    ends = [0, *accumulate(len(labels) for labels, _ in found)]
    starts = [s[:-1] + end for (_, s), end in zip(found, ends, strict=False)]
    labels = [each.astype(np.int64) for each, _ in found]
    if apart:
        labels = [each + (n << 32) for n, each in enumerate(labels)]
    return np.concatenate(labels), np.concatenate([*starts, ends[-1:]])


def _divide(eligible: EligibleRows, snapshots: Sequence[Snapshot]) -> list[EligibleRows]:
    """Return the rows of each vault, as they count among all: parts of the same arrays."""
    import numpy as np

    found, first = [], 0
    for each in snapshots:
        own = slice(first, first + each.size)
        first += each.size
        size = int(np.count_nonzero(eligible.mask[own]))
        rows = eligible._replace(
            mask=eligible.mask[own],
            size=size,
            is_all=size == each.size,
            place=eligible.place[own],
            norm=eligible.norm[own],
            recency=eligible.recency[own],
            state_weight=eligible.state_weight[own],
            neighbours=None,
            kept={},
        )
        found.append(rows)
    return found
