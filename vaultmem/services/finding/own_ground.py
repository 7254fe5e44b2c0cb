"""What a question is searched in where the vaults are of this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Match
from vaultmem.core.finding.spelling import Spellings, find_near_stems, read_spellings
from vaultmem.core.finding.terms import split_words, stem_word
from vaultmem.core.notes.record import NoteRecord, SectionRecord, place_number
from vaultmem.services.finding.ground import Near, Place
from vaultmem.services.finding.hits import explain, find_places, name_refs
from vaultmem.services.finding.parts import Part, Scorer, Searched
from vaultmem.services.finding.slices import cut_slice
from vaultmem.services.finding.together import weigh_again
from vaultmem.services.reading.texts import read_section
from vaultmem.storage.links import LinkStore

if TYPE_CHECKING:
    from vaultmem.core.finding.joined import Slice
    from vaultmem.core.finding.query import RecallQuery
    from vaultmem.core.finding.ranking import Share
    from vaultmem.core.finding.statistics import Statistics
    from vaultmem.storage.index.snapshot import Snapshot
    from vaultmem.vault import Vault


class OwnGround:
    """The sections that a question may find, `as_part` of what others find elsewhere or alone."""

    def __init__(
        self, searched: Searched, dense: Scorer | None = None, as_part: bool = False
    ) -> None:
        self._searched = searched
        self._dense = dense
        self._as_part = as_part
        self._shares: list[dict[str, Share]] = []

    @property
    def recency(self) -> float:
        """The share of the score that what is new has."""
        return self._searched.recency

    @property
    def by_words(self) -> float:
        """The share of the score by words, where meaning is asked as well."""
        return self._dense.weight if self._dense is not None else 1.0

    def count_terms(self, terms: Sequence[str]) -> Statistics:
        """Return the figures of the sections that can be found."""
        return self._searched.count_terms(terms)

    def count_all(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many sections have each term, whether they can be found or not."""
        snapshots = [part.snapshot for part in self._searched.parts]
        return {term: sum(each.count_sections(term) for each in snapshots) for term in terms}

    def find_near(self, words: Mapping[str, int], is_alone: bool) -> dict[str, list[Near]]:
        """Return for each word the terms that differ in at most so many letters."""
        found: dict[str, list[Near]] = {}
        for word, most in words.items():
            counted: Counter[tuple[int, str]] = Counter()
            stem = stem_word(word)
            for part in self._searched.parts:
                near = {
                    each
                    for terms in _read_terms(part.snapshot)
                    for each in find_near_stems(word, stem, terms, most, is_alone)
                }
                counts = part.count_terms([term for _, term in near]).counts if near else {}
                counted.update({each: counts[each[1]] for each in near})
            found[word] = [Near(*each, many) for each, many in counted.items() if many]
        return found

    def read_words(self, terms: Sequence[str], most: int) -> dict[str, list[tuple[int, set[str]]]]:
        """Return the words of each term in the first sections that have it, and whose they are."""
        return {term: [*self._read_words(term, most)] for term in terms}

    def _read_words(self, term: str, most: int) -> Iterator[tuple[int, set[str]]]:
        for part in self._searched.parts:
            rows, _ = part.snapshot.term(term)
            chosen = rows[part.eligible.mask[rows]][:most].tolist()
            most -= len(chosen)
            places = find_places(part.vault, part.snapshot, part.eligible, chosen) if chosen else {}
            for row in chosen:
                words = _name_words(part.vault, *places[row]) if row in places else []
                yield part.place, {word for word in words if stem_word(word) == term}
            if not most:
                return

    def cut(self, query: RecallQuery, statistics: Statistics) -> Slice:
        """Return what may answer, scored by the figures of all who are asked."""
        searched = weigh_again(self._searched, statistics)
        found, self._shares = cut_slice(searched, query, statistics, self._dense, self._as_part)
        return found

    def read(
        self, found: Slice, shown: Sequence[int], named: Sequence[int], words: Mapping[str, str]
    ) -> dict[int, Place]:
        """Return what sections of a slice are, some shown, some only named."""
        rows = found.rows
        read = self.read_rows(rows[[*shown]].tolist(), rows[[*named]].tolist(), words)
        asked = [*shown, *named]
        known = zip(asked, rows[asked].tolist(), strict=True)
        return {place: read[row] for place, row in known if row in read}

    def read_rows(
        self, shown: Sequence[int], named: Sequence[int], words: Mapping[str, str]
    ) -> dict[int, Place]:
        """Return what is known of rows, those that are shown with their texts."""
        import numpy as np

        found: dict[int, Place] = {}
        for part, shares in zip(self._searched.parts, self._shares, strict=True):
            last = part.first + part.snapshot.size
            own = [row - part.first for row in (*shown, *named) if part.first <= row < last]
            if not own:
                continue
            places = find_places(part.vault, part.snapshot, part.eligible, own)
            texts = [row for row in shown if row - part.first in places]
            local = np.asarray(texts, np.int64) - part.first
            matches = explain(local, shares, part.snapshot, words)
            for row in named:
                if row - part.first in places:
                    found[row] = _name_place(part, *places[row - part.first])
            for row, why in zip(texts, matches, strict=True):
                if place := _read_place(part, *places[row - part.first], why):
                    found[row] = place
        return found


def _read_place(
    part: Part, record: NoteRecord, section: SectionRecord, matches: tuple[Match, ...]
) -> Place | None:
    """Return what is shown of a section, None if it cannot be read any more."""
    text = read_section(part.vault, record, section)
    if text is None:
        return None
    kept = part.eligible.kept
    if "replaced" not in kept:
        kept["replaced"] = LinkStore(part.vault.state).targets_in("supersedes")
    replaces = tuple(kept["replaced"].get(record.document, ()))
    place = _name_place(part, record, section)
    refs = name_refs(part.vault, record)
    return place._replace(text=text, matches=matches, refs=refs, replaces=replaces)


def _name_place(part: Part, record: NoteRecord, section: SectionRecord) -> Place:
    """Return which section this is among those of all vaults."""
    if not (part.place or part.vault.beside):
        return Place(record, section)
    document = place_number(record.document, part.place)
    record, section = record._replace(document=document), section._replace(document=document)
    return Place(record, section, vault=part.vault.name)


def _name_words(vault: Vault, note: NoteRecord, section: SectionRecord) -> list[str]:
    """Return the words of a section and of what stands over it."""
    names = [note.title, section.heading, *section.parents, *note.tags, note.path]
    return split_words("\n".join([read_section(vault, note, section) or "", *names]))


def _read_terms(snapshot: Snapshot) -> list[Spellings]:
    """Return the terms of all segments, kept for the next question."""
    known: list[Spellings] | None = snapshot.kept.get("spellings")
    if known is None:
        known = [read_spellings(names, starts) for names, starts in snapshot.vocabulary()]
        snapshot.kept["spellings"] = known
    return known
