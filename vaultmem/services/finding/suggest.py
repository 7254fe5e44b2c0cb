"""Say which words of a question the vault does not have, and what it has instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.terms import split_words, stem_word
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.finding.recall import find_places
from vaultmem.services.reading.texts import read_section
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.storage.index.snapshot import Snapshot

#: Misspelt words that are looked up, and terms that are tried for each.
_WORDS = 5
_TRIED = 20


def suggest_words(vault: Vault, query: RecallQuery) -> dict[str, str]:
    """Return words that no section has which the question may find, each with a similar one."""
    from vaultmem.core.finding.weights import WEIGHTS

    snapshot = vault.index.snapshot()
    if not snapshot.size:
        return {}
    eligible = choose_sections(vault, snapshot, query.filter, WEIGHTS)
    unknown = [
        word
        for word in dict.fromkeys(split_words(query.text))
        if stem_word(word) and not len(_find_rows(snapshot, eligible, stem_word(word)))
    ]
    found = ((word, _find_word(vault, snapshot, eligible, word)) for word in unknown[:_WORDS])
    return {word: other for word, other in found if other}


def _find_rows(snapshot: Snapshot, eligible: EligibleRows, term: str) -> NDArray[np.int64]:
    rows, _ = snapshot.term(term)
    return rows[eligible.mask[rows]]


def _find_word(vault: Vault, snapshot: Snapshot, eligible: EligibleRows, word: str) -> str:
    """Return the most frequent of the most similar words, empty if there is none."""
    from vaultmem.core.finding.spelling import allow_distance, find_similar

    most = allow_distance(word)
    if not most:
        return ""
    near = {
        each
        for names, starts in snapshot.vocabulary()
        for each in find_similar(stem_word(word), names, starts, most)
    }
    held = [
        (distance, -len(rows), term, rows)
        for distance, term in sorted(near)[:_TRIED]
        if len(rows := _find_rows(snapshot, eligible, term))
    ]
    for _, _, term, rows in sorted(held, key=lambda each: each[:3]):
        if written := _read_word(vault, snapshot, eligible, term, rows):
            return written
    return ""


def _read_word(
    vault: Vault,
    snapshot: Snapshot,
    eligible: EligibleRows,
    term: str,
    rows: NDArray[np.int64],
) -> str:
    """Return a word as some section has it, empty where that cannot be read."""
    wanted = rows[:_TRIED].tolist()
    places = find_places(vault, snapshot, eligible, wanted)
    for note, section in (places[row] for row in wanted if row in places):
        names = [note.title, section.heading, *section.parents, *note.tags, note.path]
        text = "\n".join([read_section(vault, note, section) or "", *names])
        words = (word for word in split_words(text) if stem_word(word) == term)
        if found := next(words, ""):
            return found
    return ""
