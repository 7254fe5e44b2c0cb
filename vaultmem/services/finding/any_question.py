"""Find what answers a question however it is worded: misspelt, or of common words alone."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import MAX_TERMS, RecallQuery
from vaultmem.core.finding.sureness import JUDGED, is_strong
from vaultmem.core.languages import read_lines, read_pairs
from vaultmem.core.lifecycle import State
from vaultmem.core.paths import DREAMS
from vaultmem.services.finding.parts import AS_IT_IS, How, Scorer
from vaultmem.services.finding.reach import Reach, Together
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.heal import heals

if TYPE_CHECKING:
    from vaultmem.core.finding.reranking import Reranker
    from vaultmem.core.validity import Span
    from vaultmem.vault import Vault


@heals
def recall_any(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    beyond: int = 0,
    reranker: Reranker | None = None,
    by_note: bool = False,
) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as it was searched, and what answers as `recall` does.

    Archived notes answer too; where others surely do, those that have a word which these lack.
    """
    sync_once(vault)
    return find_any(Together(vault), query, How(dense, beyond, reranker, by_note))


def find_any(
    reach: Reach, query: RecallQuery, how: How = AS_IT_IS
) -> tuple[RecallQuery, list[Hit]]:
    """Return what answers as `recall_any` does, of vaults that are in sync."""
    plain = query.filter
    if plain.states or plain.any_state or not (query.terms or query.compounds or how.dense):
        return _find(reach, query, how)
    wider = query._replace(filter=plain._replace(with_archived=True))
    found_by, found = _find(reach, wider, how._replace(beyond=how.beyond + 1))
    found = [hit for hit in found if hit.record.path != str(DREAMS)][: query.limit + how.beyond]
    others = [hit for hit in found if hit.record.state != State.ARCHIVED]
    strong = [hit for hit in others[:JUDGED] if is_strong(hit)]
    if len(others) == len(found) or not strong:
        return found_by._replace(filter=plain), found
    answered = {match.term for hit in strong for match in hit.matches}
    more = [
        hit
        for hit in found
        if hit.record.state == State.ARCHIVED
        and not answered.issuperset(match.term for match in hit.matches)
    ]
    found_by, others = _find(reach, query, how)
    found = sorted([*others, *more], key=lambda hit: -hit.score)
    return found_by, found[: query.limit + how.beyond]


def _find(reach: Reach, query: RecallQuery, how: How) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as it was searched, and what answers of the notes that its filter admits."""
    if not (query.terms or query.compounds or how.dense):
        from vaultmem.services.finding.plain_words import find_plain

        wanted = query.limit + how.beyond
        among = len(reach.names)
        plain = partial(find_plain, query=query, limit=wanted, by_note=how.by_note, among=among)
        return query, reach.best(plain, wanted)
    asked, given = _find_past(reach, query), query.filter
    query = query._replace(filter=given._replace(past=asked is not None))
    corrects = 0 < len(query.terms) <= MAX_TERMS
    query, hits = reach.find(query, how._replace(corrects=corrects))
    if asked is not None:
        from vaultmem.services.finding.past import keep_valid

        hits = reach.change(hits, partial(keep_valid, asked=asked))
    return query._replace(filter=given), hits


def _find_past(reach: Reach, query: RecallQuery) -> Span | None:
    """Return the past time that a question asks about, unless it asks for states."""
    if query.filter.any_state or query.filter.states or not _may_name_time(query.text):
        return None
    from vaultmem.core.validity import find_asked

    return find_asked(query.text, datetime.fromtimestamp(int(reach.now())).date())


def _may_name_time(text: str) -> bool:
    """Tell whether a question has a figure or a word of times; what it asks is read elsewhere."""
    return not _time_words().isdisjoint(re.findall(r"[^\W\d]+|\d", text.lower()))


@cache
def _time_words() -> frozenset[str]:
    past = (line.split()[1] for line in read_lines("times") if line.startswith(("past ", "last ")))
    return frozenset({*"0123456789", *past, *read_pairs("months")})
