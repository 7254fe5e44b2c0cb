"""The fields and columns of the index, as Whoosh knows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from whoosh.analysis import Token, Tokenizer
from whoosh.columns import NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, TEXT, Schema

from vaultmem.core.finding.terms import FIELDS, term_sequence
from vaultmem.storage.index.batch import NUMBER_COLUMNS

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
