"""Sections in memory as arrays, ready to be written as one segment of the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.indexing.rows import NoteRows
from vaultmem.core.indexing.term_arrays import TermArrays

#: Numbers of each section: its document's id, its ordinal there, the number of its note's state,
#: and the note's dates (seconds since the epoch, 0 if it has none).
NUMBER_COLUMNS = ("document", "ordinal", "state", "created", "updated")


class SectionArrays(NamedTuple):
    """Sections: their terms, `NUMBER_COLUMNS` by name, and labels (see `NoteFacts`).

    `labels` are those of all sections in order, `label_counts` the number of each section.
    """

    terms: TermArrays
    numbers: dict[str, NDArray[np.uint32]]
    labels: NDArray[np.uint32]
    label_counts: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.label_counts)


def describe_sections(
    documents: Sequence[int], notes: Sequence[NoteRows], terms: TermArrays
) -> SectionArrays:
    """Return the sections of notes; `documents` are the notes' document ids."""
    section_counts = np.array([len(note.ordinals) for note in notes], np.int64)
    facts = [np.array(column, np.uint32) for column in _turn(note.facts[:3] for note in notes)]
    columns = [np.array(documents, np.uint32), *facts]
    document, state, created, updated = (np.repeat(column, section_counts) for column in columns)
    ordinal = np.fromiter(chain.from_iterable(note.ordinals for note in notes), np.uint32)
    # Only a note with one section has neighbours (see `core.search.eligible`).
    own = (note.facts[3] if len(note.ordinals) == 1 else b"" for note in notes)
    labels = [np.frombuffer(each, np.uint32) for each in own]
    return SectionArrays(
        terms,
        dict(zip(NUMBER_COLUMNS, (document, ordinal, state, created, updated), strict=True)),
        np.concatenate([np.empty(0, np.uint32), *labels]),
        np.repeat(np.array(list(map(len, labels)), np.uint32), section_counts),
    )


def _turn(rows: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return list(zip(*rows, strict=True)) or [(), (), ()]


def select_sections(sections: SectionArrays, mask: NDArray[np.bool_]) -> SectionArrays:
    """Return the sections for which `mask` is true, in order (shape of `mask`: sections)."""
    if mask.all():
        return sections
    old = sections.terms
    posting_mask = mask[old.section]
    used = np.bincount(old.term[posting_mask], minlength=len(old.terms)) > 0
    numbers = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
    places = np.cumsum(mask, dtype=np.uint32) - np.uint32(1)
    terms = TermArrays(
        terms=list(compress(old.terms, used.tolist())),
        term=numbers[old.term[posting_mask]],
        section=places[old.section[posting_mask]],
        packed=old.packed[posting_mask],
        sequence=numbers[old.sequence[np.repeat(mask, old.lengths.sum(1, dtype=np.int64))]],
        lengths=old.lengths[mask],
    )
    return SectionArrays(
        terms,
        {name: numbers[mask] for name, numbers in sections.numbers.items()},
        sections.labels[np.repeat(mask, sections.label_counts)],
        sections.label_counts[mask],
    )
