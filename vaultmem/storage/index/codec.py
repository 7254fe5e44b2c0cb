"""The Whoosh codec that reads an index's segments of arrays, and the index's schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from whoosh.analysis import Token, Tokenizer
from whoosh.codec import base
from whoosh.columns import NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, TEXT, Schema

from vaultmem.core.search.terms import FIELDS, term_sequence
from vaultmem.storage.index.batch import NUMBER_COLUMNS
from vaultmem.storage.index.codec_reading import SegmentDocuments, SegmentTerms
from vaultmem.storage.index.segments import SUFFIX, SegmentArrays


class ArraySegment(base.Segment):  # type: ignore[misc]
    """What a table of contents says of a segment; instances are pickled there.

    No document of a segment is ever deleted: it is left out of the next merge.
    """

    def __init__(self, indexname: str, size: int) -> None:
        super().__init__(indexname)
        self._size = size

    def codec(self) -> ArrayCodec:
        """Return what reads the segment."""
        return ArrayCodec()

    def file_name(self) -> str:
        """Return the name of the segment's only file."""
        return str(self.make_filename(SUFFIX))

    def doc_count_all(self) -> int:
        """Return the number of documents."""
        return self._size

    def deleted_count(self) -> int:
        """Return that no document is deleted."""
        return 0

    def deleted_docs(self) -> Iterable[int]:
        """Return no documents."""
        return ()

    def is_deleted(self, docnum: int) -> bool:
        """Tell that a document is not deleted."""
        return False


class ArrayCodec(base.Codec):  # type: ignore[misc]
    """Reads segments of arrays; what writes them is `segment_encoding`, many sections at once."""

    def terms_reader(self, storage: Any, segment: ArraySegment) -> SegmentTerms:
        """Return what reads terms and postings.

        Raises:
            DamagedFileError: the segment's file is not as it was written.
        """
        return SegmentTerms(_open_arrays(storage, segment))

    def per_document_reader(self, storage: Any, segment: ArraySegment) -> SegmentDocuments:
        """Return what reads what each document has."""
        return SegmentDocuments(_open_arrays(storage, segment))


def _open_arrays(storage: Any, segment: ArraySegment) -> SegmentArrays:
    """Open a segment's file.

    Raises:
        DamagedFileError: it was cut short, or is of another version.
    """
    return SegmentArrays.open(Path(storage.folder) / segment.file_name())


# The fields and columns of the index, as Whoosh knows them.

_RUN = re.compile(r"\S+")


class TermTokenizer(Tokenizer):  # type: ignore[misc]
    """Gives the index terms of a text in their order, so that queries are cut as sections are."""

    def __call__(
        self,
        value: str,
        positions: bool = False,
        chars: bool = False,
        removestops: bool = True,
        start_pos: int = 0,
        start_char: int = 0,
        mode: str = "",
        **options: Any,
    ) -> Iterator[Token]:
        """Yield the tokens of a text; each begins and ends where there are blanks around it."""
        token = Token(positions, chars, removestops, mode, **options)
        terms = ((run, term) for run in _RUN.finditer(value) for term in term_sequence(run[0]))
        for position, (run, term) in enumerate(terms, start_pos):
            token.text, token.original, token.boost = term, term, 1.0
            token.pos, token.stopped = position, False
            token.startchar, token.endchar = (start_char + place for place in run.span())
            yield token


def make_schema() -> Schema:
    """Return the schema: three fields of terms, columns of numbers, and labels as bytes.

    A section's labels are 32 bits each, the lowest first. Nothing is stored.
    """
    fields: dict[str, Any] = {name: TEXT(analyzer=TermTokenizer()) for name in FIELDS}
    fields |= {name: COLUMN(NumericColumn("I")) for name in NUMBER_COLUMNS}
    return Schema(**fields, labels=COLUMN(VarBytesColumn()))
