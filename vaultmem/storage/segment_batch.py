"""Sections collected in memory, to be written as one segment of the index."""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vaultmem.core.finding.section_terms import SectionTerms

#: The fields that have terms; each section has a count of its terms in `<field>_length`.
TERM_FIELDS = ("body", "tags", "title")

#: Numbers of each section: its document's id, its ordinal there, its lengths in terms, the number
#: of its note's state, and the note's own dates (seconds since the epoch, 0 where it has none).
NUMBER_COLUMNS = (
    "document",
    "ordinal",
    "body_length",
    "tags_length",
    "title_length",
    "state",
    "created",
    "updated",
)

#: Bytes of each section: 32 bit numbers, as `SectionTerms` has them.
BYTES_COLUMNS = ("sequence", "labels")

#: Texts of each section that are kept in the arrays beside a segment alone.
BESIDE = ("text", "place")

#: A posting is packed in one number: the section's number and 16 bits of count.
COUNT_BITS = 16
MAX_COUNT = (1 << COUNT_BITS) - 1


class SegmentBatch:
    """The sections of one segment: columns, and postings by field and term."""

    def __init__(self) -> None:
        self.numbers: dict[str, array[int]] = {name: array("I") for name in NUMBER_COLUMNS}
        #: What the segment itself does not hold of each section; empty where it is not at hand.
        self.beside: dict[str, list[bytes]] = {name: [] for name in BESIDE}
        self.bytes: dict[str, list[bytes]] = {name: [] for name in BYTES_COLUMNS}
        self.postings: dict[str, defaultdict[str, array[int]]] = {
            name: defaultdict(partial(array, "Q")) for name in TERM_FIELDS
        }

    def __len__(self) -> int:
        return len(self.numbers["document"])

    def add(self, document: int, ordinal: int, terms: SectionTerms) -> None:
        """Add a section of a document."""
        base = len(self) << COUNT_BITS
        title, tags, body = terms.lengths
        facts = (terms.state, terms.created, terms.updated)
        values = (document, ordinal, body, tags, title, *facts)
        for column, value in zip(self.numbers.values(), values, strict=True):
            column.append(value)
        self.bytes["sequence"].append(terms.sequence)
        self.bytes["labels"].append(terms.labels)
        self.beside["text"].append(terms.text.encode("utf-8", "surrogatepass"))
        self.beside["place"].append(terms.place)
        for name in TERM_FIELDS:
            counts = terms.counts[name]
            entries = map(self.postings[name].__getitem__, counts)
            for entry, count in zip(entries, counts.values(), strict=True):
                entry.append(base + (count if count < MAX_COUNT else MAX_COUNT))
