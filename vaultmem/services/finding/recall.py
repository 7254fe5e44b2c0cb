"""Find the sections that answer a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from vaultmem.core.finding.grouping import group_hits, group_places
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.reranking import Reranker
from vaultmem.services.finding.ground import Ground
from vaultmem.services.finding.hits import make_hits
from vaultmem.services.finding.parts import How, Scorer
from vaultmem.services.finding.rank import Ranked, rank_sections
from vaultmem.services.finding.together import choose_parts
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

#: Sections in which so many notes as are wanted are looked for, at most.
_DEEPEST = 2_000


def recall(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    beyond: int = 0,
    reranker: Reranker | None = None,
    by_note: bool = False,
) -> list[Hit]:
    """Return the best sections for the query, best first; ties in the order of path.

    Behind those asked for come `beyond` more, which change nothing in them. `by_note` counts
    notes, and returns the best section of each. What is on disk is taken in first, once for each
    `open_vault`; later this looks at no file but those it returns.
    """
    return recall_corrected(vault, query, How(dense, beyond, reranker, by_note))[1]


@heals
def recall_corrected(vault: Vault, query: RecallQuery, how: How) -> tuple[RecallQuery, list[Hit]]:
    """Return what answers as `recall` does, and the query, misspelt words corrected if wanted."""
    from vaultmem.services.finding.own_ground import OwnGround

    def choose(asked: RecallQuery) -> Ground | None:
        searched = choose_parts(vault, asked.filter)
        return None if searched is None else OwnGround(searched, how.dense)

    if not how.dense and not (query.terms or query.compounds):
        return query, []
    return find_sections(choose, query, how)


def find_sections(
    choose: Callable[[RecallQuery], Ground | None], query: RecallQuery, how: How
) -> tuple[RecallQuery, list[Hit]]:
    """Return what answers, as `recall_corrected` does, wherever the vaults are.

    `choose` returns what a query can find by its filter, None without a note.
    """
    ground = choose(query)
    if ground is None:
        return query, []
    if how.corrects:
        from vaultmem.services.finding.respell import respell

        given, query = query, respell(ground, query)
        if query.replaced and given.filter.with_archived:  # What they alone say is no suggestion.
            plain = given._replace(filter=given.filter._replace(with_archived=False))
            known = choose(plain)
            query = respell(known, given) if known else query
    wanted, reranker = query.limit + how.beyond, how.reranker
    least = reranker.sections if reranker is not None else 0
    asked = query._replace(limit=max(query.limit, least))
    rank = partial(rank_sections, ground)
    ranked, groups = _rank_deeper(asked, rank, wanted) if how.by_note else _rank_once(asked, rank)
    many = wanted
    if least:
        groups, many = _take_apart(groups, range(min(least, len(ranked.sections))), wanted)
    hits = make_hits(ground, ranked, groups, many, query.words)
    if reranker is not None:
        hits = reranker(asked, hits)
        hits = (group_hits(hits) if how.by_note else hits)[:wanted]
    return query, hits


#: A ranking, and its places as `make_hits` takes them.
Grouped = tuple[Ranked, list[list[int]]]


def _rank_once(query: RecallQuery, rank: Callable[[RecallQuery], Ranked]) -> Grouped:
    """Return a ranking, each section by itself."""
    ranked = _name_once(rank(query))
    return ranked, [[place] for place in range(len(ranked.sections))]


def _rank_deeper(query: RecallQuery, rank: Callable[[RecallQuery], Ranked], notes: int) -> Grouped:
    """Return a ranking that has so many notes, if there are, each note with its sections."""
    from vaultmem.core.finding.weights import WEIGHTS

    while True:
        ranked = rank(query)
        is_all = len(ranked.sections) < max(2 * query.limit, WEIGHTS.candidates)
        ranked = _name_once(ranked)
        documents = [document for document, _ in ranked.sections]
        groups = group_places(documents, ranked.ranking.score.tolist())
        if is_all or len(groups) >= notes or query.limit >= _DEEPEST:
            return ranked, groups
        query = query._replace(limit=min(4 * max(query.limit, WEIGHTS.read), _DEEPEST))


def _name_once(ranked: Ranked) -> Ranked:
    """Return a ranking with the best row of each section: what was shortened has many in one."""
    if len(set(ranked.sections)) == len(ranked.sections):
        return ranked
    first = {section: n for n, section in reversed([*enumerate(ranked.sections)])}
    places = sorted(first.values())
    sections = [ranked.sections[place] for place in places]
    return ranked._replace(ranking=ranked.ranking.cut(places), sections=sections)


def _take_apart(
    groups: Sequence[Sequence[int]], best: Iterable[int], notes: int
) -> tuple[list[list[int]], int]:
    """Return the best sections and the first of each note, by themselves; and how many to take.

    A model reads each of the best, and behind them what is missing for so many notes.
    """
    firsts = [group[0] for group in groups]
    return [[place] for place in sorted({*best, *firsts})], len({*best, *firsts[:notes]})
