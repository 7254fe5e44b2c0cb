"""Search for the nearest words of the vault where it does not have those of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.spelling import (
    Spellings,
    allow_distance,
    find_near_stems,
    measure_distance,
    read_spellings,
)
from vaultmem.core.finding.terms import split_words, stem_word
from vaultmem.services.finding.hits import find_places
from vaultmem.services.reading.texts import read_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.services.finding.parts import Part
    from vaultmem.storage.index.snapshot import Snapshot

#: Misspelt words that are looked up, terms that are tried for each, and sections that are read for
#: each of these.
_WORDS = 5
#: Different terms of a question in which one that is not known counts as misspelt, unless all are:
#: in a longer one, it is more often a word that the vault happens not to have.
_FEW = 6
_TRIED = 12
_READ = 4


def respell(parts: Sequence[Part], query: RecallQuery) -> RecallQuery:
    """Return the query with similar words for those that no section has which it may find.

    A word among others must be nearer than one alone: it may be right, and the others answer.
    """
    different = {*query.terms}
    if len(different) > _FEW and any(
        part.snapshot.count_sections(term) for part in parts for term in different
    ):
        return query
    known = {term: any(_is_known(part, term) for part in parts) for term in different}
    is_alone = not any(known.values())
    if all(known.values()) or (not is_alone and len(known) > _FEW):
        return query
    words = dict.fromkeys(split_words(query.text))
    unknown = [word for word in words if not known.get(stem_word(word), True)]
    replaced = {
        word: other for word in unknown[:_WORDS] if (other := _find_word(parts, word, is_alone))
    }
    terms = {stem_word(word): stem_word(other) for word, other in replaced.items()}
    return query._replace(
        terms=tuple(terms.get(term, term) for term in query.terms),
        replaced=tuple(replaced.items()),
        near=frozenset(terms.values()) - frozenset(query.terms),
    )


def _read_terms(snapshot: Snapshot) -> list[Spellings]:
    """Return the terms of all segments, kept for the next question."""
    known: list[Spellings] | None = snapshot.kept.get("spellings")
    if known is None:
        known = [read_spellings(names, starts) for names, starts in snapshot.vocabulary()]
        snapshot.kept["spellings"] = known
    return known


def _find_word(parts: Sequence[Part], word: str, is_alone: bool) -> str:
    """Return the nearest word of all vaults, the most frequent of equals; empty if none is."""
    most = allow_distance(word, is_alone)
    if not most:
        return ""
    near = {
        each
        for part in parts
        for terms in _read_terms(part.snapshot)
        for each in find_near_stems(word, stem_word(word), terms, most, is_alone)
    }
    held = []
    for distance, term in sorted(near):
        rows = [_find_rows(part, term) for part in parts]
        if many := sum(map(len, rows)):
            held.append((distance, -many, term, rows))
    found = [
        (measure_distance(word, other, most), fewer, other)
        for _, fewer, term, rows in sorted(held, key=lambda each: each[:3])[:_TRIED]
        for other in _read_words(parts, term, rows)
    ]
    best = min(found, default=None)
    return best[2] if best and best[0] <= most else ""


def _is_known(part: Part, term: str) -> bool:
    rows, _ = part.snapshot.term(term)  # What is read is kept for the ranking.
    return len(rows) > 0 if part.eligible.is_all else bool(part.eligible.mask[rows].any())


def _find_rows(part: Part, term: str) -> NDArray[np.int64]:
    rows, _ = part.snapshot.term(term)
    return rows[part.eligible.mask[rows]]


def _read_words(parts: Sequence[Part], term: str, rows: Sequence[NDArray[np.int64]]) -> set[str]:
    """Return the words of a term that the first sections have."""
    found: set[str] = set()
    left = _READ
    for part, own in zip(parts, rows, strict=True):
        chosen = own[:left].tolist()
        left -= len(chosen)
        places = find_places(part.vault, part.snapshot, part.eligible, chosen) if chosen else {}
        for note, section in places.values():
            names = [note.title, section.heading, *section.parents, *note.tags, note.path]
            text = "\n".join([read_section(part.vault, note, section) or "", *names])
            found.update(word for word in split_words(text) if stem_word(word) == term)
    return found
