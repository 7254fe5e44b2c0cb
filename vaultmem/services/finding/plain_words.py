"""Answer a question of words so common that they are not indexed, by reading titles and notes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.grouping import group_hits
from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.terms import MAX_TERM_LENGTH, split_words
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.finding.hits import find_places, name_refs
from vaultmem.services.reading.texts import read_section
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.notes.record import NoteRecord, SectionRecord
    from vaultmem.storage.index.snapshot import Snapshot

#: Sections that are read, the newest first, and notes whose titles have the words: of all vaults
#: that are asked together, for reading takes a while.
_SECTIONS = 2_000
_TITLES = 200
_WORDS = 12

#: What two words side by side count for, against one; and any of them in a title.
_PAIR, _TITLE = 2.0, 3.0


class _Read(NamedTuple):
    """A section that was read, and which words and pairs it has in its title and text."""

    record: NoteRecord
    section: SectionRecord
    text: str
    title: frozenset[tuple[str, ...]]
    body: frozenset[tuple[str, ...]]


def find_plain(
    vault: Vault, query: RecallQuery, limit: int, by_note: bool, among: int = 1
) -> list[Hit]:
    """Return the sections that have the words of a question, those of rare pairs first.

    `by_note` counts notes, and returns the best section of each. Looked at are the notes whose
    title has one of them, and the newest sections besides; fewer, where so many vaults are asked.
    """
    snapshot = vault.index.snapshot()
    words = [word for word in split_words(query.text) if len(word) <= MAX_TERM_LENGTH][:_WORDS]
    if not (snapshot.size and words):
        return []
    eligible = choose_sections(vault, snapshot, query.filter)
    wanted = {*((word,) for word in words), *pairwise(words)}
    rows = _choose_rows(vault, snapshot, eligible, words, among)
    read = list(_read_rows(vault, snapshot, eligible, rows, wanted))
    seen = Counter(each for one in read for each in one.title | one.body)
    worth = {each: _weigh(len(each), len(read), many) for each, many in seen.items()}
    ranked = sorted(
        ((_score(one, worth), -number) for number, one in enumerate(read)), reverse=True
    )
    best = ranked[: _SECTIONS if by_note else limit]
    chosen = [(score, read[-place]) for score, place in best if score > 0]
    hits = [_make_hit(vault, one, score, worth) for score, one in chosen]
    return group_hits(hits)[:limit] if by_note else hits


def _choose_rows(
    vault: Vault, snapshot: Snapshot, eligible: EligibleRows, words: Sequence[str], among: int
) -> NDArray[np.int64]:
    """Return the rows to look at: by title, then the newest."""
    import numpy as np

    rows = np.flatnonzero(eligible.mask)
    rows = rows[np.lexsort((rows, -eligible.times[eligible.place[rows]]))]
    with_words = _find_titles(vault, words)[: -(-_TITLES // among)]
    titled = np.isin(snapshot.column("document")[rows], with_words)
    by_title = rows[titled & (snapshot.column("ordinal")[rows] == 0)]
    return np.concatenate([by_title, rows[~np.isin(rows, by_title)][: -(-_SECTIONS // among)]])


def _find_titles(vault: Vault, words: Sequence[str]) -> list[int]:
    """Return the documents whose titles have the words, those of the rarest first."""
    found: dict[int, float] = {}
    for word in dict.fromkeys(words):
        # A word of ASCII letters has no sign that LIKE reads.
        if word.isascii():
            clause = "' ' || d.title || ' ' LIKE ?"
            documents = vault.view.paths(clause, [f"% {word} %"])
            for document in documents:
                found[document] = found.get(document, 0.0) + 1 / len(documents)
    return sorted(found, key=lambda document: (-found[document], document))


def _read_rows(
    vault: Vault,
    snapshot: Snapshot,
    eligible: EligibleRows,
    rows: NDArray[np.int64],
    wanted: set[tuple[str, ...]],
) -> Iterator[_Read]:
    found = find_places(vault, snapshot, eligible, rows.tolist()).values()
    places = {(record.document, section.ordinal): (record, section) for record, section in found}
    for record, section in places.values():
        text = read_section(vault, record, section)
        if text is None:
            continue
        names = split_words("\n".join((record.title, *section.parents, section.heading)))
        body = split_words(text)
        has = [
            frozenset(wanted & {*((w,) for w in part), *pairwise(part)}) for part in (names, body)
        ]
        if has[0] or any(len(each) > 1 for each in has[1]) or len(has[1]) == len(wanted):
            yield _Read(record, section, text, *has)


def _weigh(size: int, many: int, having: int) -> float:
    return math.log1p((many - having + 0.5) / (having + 0.5)) * (_PAIR if size > 1 else 1.0)


def _score(one: _Read, worth: dict[tuple[str, ...], float]) -> float:
    return sum(worth[each] for each in one.body) + _TITLE * sum(worth[each] for each in one.title)


def _make_hit(vault: Vault, one: _Read, score: float, worth: dict[tuple[str, ...], float]) -> Hit:
    matches = [
        Match(each[0], _fields(each in one.title, each in one.body), worth[each])
        for each in sorted(one.title | one.body)
        if len(each) == 1
    ]
    refs = name_refs(vault, one.record)
    return Hit(one.record, one.section, one.text, score, tuple(matches), 0.0, 1.0, refs)


def _fields(in_title: bool, in_body: bool) -> tuple[str, ...]:
    return ("title",) * in_title + ("body",) * in_body
