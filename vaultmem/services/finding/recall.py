"""Find the sections that answer a question."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.query import NoteFilter, RecallQuery
from vaultmem.core.finding.terms import term_sequence
from vaultmem.core.lifecycle import STATE_WEIGHT, State
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.services.finding.texts import read_sections, read_text
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.ranking import Scoring
    from vaultmem.storage.search_index import Snapshot

#: Views and filters whose masks are kept, each a byte a section.
_MASKS = 16

#: The best sections by terms alone are looked at again for the order of their words.
_REREAD = 24


def recall(vault: Vault, query: RecallQuery) -> list[Hit]:
    """Return the best sections for the query, best first; ties in the order of path.

    The vault must be in sync (`sync_vault`), or be one that looks at commits (`look_at`): this
    looks at no file but those it returns.
    """
    from vaultmem.core.finding.ranking import RankingWeights, best_sections, score_sections

    terms = list(dict.fromkeys(query.terms))
    snapshot = vault.index.snapshot()
    if not terms or not snapshot.size:
        return []
    eligible = _eligible_sections(vault, snapshot, query.filter)
    weights = RankingWeights()
    postings = [{f: snapshot.postings(f, term) for f in weights.fields} for term in terms]
    lengths = {name: snapshot.column(f"{name}_length") for name in weights.fields}
    scoring = score_sections(postings, lengths, eligible, weights)
    numbers = best_sections(scoring.total, max(query.limit + 8, _REREAD))
    candidates = _rank_candidates(vault, query, terms, snapshot, scoring, numbers)
    return _make_hits(vault, query, terms, snapshot, scoring, candidates)


def name_refs(vault: Vault, record: NoteRecord) -> tuple[str, ...]:
    """Return which refs hold a note, where several are looked at together."""
    return vault.view.sources_of(record.document) if len(vault.view.sources) > 1 else ()


def _eligible_sections(
    vault: Vault, snapshot: Snapshot, note_filter: NoteFilter
) -> NDArray[np.bool_]:
    """Return which sections belong to a note that the filter admits (shape: sections)."""
    key = (vault.view.key(), note_filter)
    cached = snapshot.masks.get(key)
    if cached is not None:
        return cached
    import numpy as np

    documents = snapshot.column("document")
    allowed = np.zeros(int(documents.max(initial=0)) + 1, np.bool_)
    view = np.asarray(vault.view.documents(note_filter), np.int64)
    allowed[view[view < len(allowed)]] = True
    if len(snapshot.masks) >= _MASKS:
        snapshot.masks.clear()
    eligible: NDArray[np.bool_] = allowed[documents]
    snapshot.masks[key] = eligible
    return eligible


@dataclass(frozen=True, slots=True)
class _Candidate:
    number: int
    record: NoteRecord
    section: SectionRecord
    score: float
    closeness: float
    state_weight: float


def _rank_candidates(
    vault: Vault,
    query: RecallQuery,
    terms: list[str],
    snapshot: Snapshot,
    scoring: Scoring,
    numbers: list[int],
) -> list[_Candidate]:
    """Order the best sections again, now with their state and the order of their words."""
    documents, ordinals = snapshot.column("document"), snapshot.column("ordinal")
    found = {(int(documents[n]), int(ordinals[n])): n for n in numbers}
    records = vault.view.records_of({document for document, _ in found})
    sections = vault.view.sections_at(found)
    idf = dict(zip(terms, scoring.idf, strict=True))
    shares = dict(zip(terms, scoring.shares, strict=True))
    pairs = [(shares[a], shares[b]) for a, b in pairwise(query.terms)]
    candidates = []
    for key, number in found.items():
        if key not in sections or key[0] not in records:
            continue
        record, section, bonus = records[key[0]], sections[key], 0.0
        if any(a[number] > 0 and b[number] > 0 for a, b in pairs):
            bonus = _closeness(vault, query, idf, record, section)
        weight = STATE_WEIGHT.get(State(record.state), 1.0)
        score = (float(scoring.total[number]) + bonus) * weight
        candidates.append(_Candidate(number, record, section, score, bonus, weight))
    candidates.sort(key=lambda c: (-round(c.score, 5), c.record.path, c.section.ordinal))
    return candidates


def _make_hits(
    vault: Vault,
    query: RecallQuery,
    terms: list[str],
    snapshot: Snapshot,
    scoring: Scoring,
    candidates: list[_Candidate],
) -> list[Hit]:
    """Read the texts of the best candidates; one whose note changed meanwhile is left out."""
    hits: list[Hit] = []
    for each in candidates:
        if len(hits) == query.limit:
            break
        for record, section, text in read_sections(vault, [(each.record, each.section)]):
            matches = _explain(terms, snapshot, scoring, each.number)
            parts = (each.score, matches, each.closeness, each.state_weight)
            hits.append(Hit(record, section, text, *parts, name_refs(vault, record)))
    return hits


def _closeness(
    vault: Vault,
    query: RecallQuery,
    idf: dict[str, float],
    record: NoteRecord,
    section: SectionRecord,
) -> float:
    from vaultmem.core.finding.ranking import measure_closeness

    text = read_text(vault, record.path, record.blob) or ""
    body = text[section.start : section.end]
    sequence = term_sequence("\n".join([record.title, *section.parents, section.heading, body]))
    return measure_closeness(query.terms, [idf[term] for term in query.terms], sequence)


def _explain(
    terms: list[str], snapshot: Snapshot, scoring: Scoring, number: int
) -> tuple[Match, ...]:
    matches = []
    for term, share in zip(terms, scoring.shares, strict=True):
        if share[number] > 0:
            fields = tuple(
                name
                for name in ("title", "tags", "body")
                if _contains(snapshot.postings(name, term)[0], number)
            )
            matches.append(Match(term, fields, float(share[number])))
    return tuple(matches)


def _contains(numbers: NDArray[np.int64], number: int) -> bool:
    place = int(numbers.searchsorted(number))
    return place < len(numbers) and int(numbers[place]) == number
