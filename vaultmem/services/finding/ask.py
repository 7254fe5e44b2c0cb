"""Run a query over one or many vaults, the same for every front end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.grouping import group_hits
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import MAX_TERMS, NoteFilter, RecallQuery, parse_query
from vaultmem.core.finding.reranking import Reranked, Reranker
from vaultmem.core.finding.spelling import measure_distance
from vaultmem.core.finding.statistics import Statistics
from vaultmem.core.finding.sureness import (
    JUDGED,
    Sureness,
    is_strong,
    judge_hits,
    tell_replaced,
    tell_sureness,
)
from vaultmem.core.finding.terms import list_stop_terms, split_words, stem_word
from vaultmem.core.languages import read_lines, read_pairs
from vaultmem.core.lifecycle import State
from vaultmem.core.packs.division import group_by_vault
from vaultmem.core.paths import DREAMS
from vaultmem.services.finding.caution import add_cautions
from vaultmem.services.finding.count import count_hit, count_recall
from vaultmem.services.finding.score import Depth, Scorer
from vaultmem.services.finding.search import merge_hits
from vaultmem.services.finding.vault_set import (
    ByMeaning,
    TellProgress,
    VaultSet,
    open_set,
)
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.validity import Span

class Ask(NamedTuple):
    """A question, and how it is asked; what is left out is as vaultmem.yaml has it.

    `limit` is how many notes at most, 0 for `results` of vaultmem.yaml; the best `offset` are
    passed over. `at` is a branch, tag, commit or date, and `refs` are looked at together with it.
    `semantic` says whether meaning counts, None if vaultmem.yaml does. With `expand_links`, what
    the best link to is found as well; with `by_section`, each section is a hit of its own and
    counts; with `suggests`, archived notes and other branches are looked at where the answer is not
    sure. Who does not wait (`waits`) is answered with the vectors that there are, and without a
    reranker. What nobody is shown is not counted (`counts`).
    """

    question: str
    limit: int = 0
    offset: int = 0
    filter: NoteFilter = NoteFilter()
    at: str = ""
    refs: tuple[str, ...] = ()
    semantic: bool | None = None
    expand_links: bool = False
    by_section: bool = False
    suggests: bool = False
    waits: bool = True
    counts: bool = True


class QueryResult(NamedTuple):
    """The notes that answer, best first, each as its best section, and what is to be said of them.

    `has_more` tells whether others come behind these, `replaced` which words the vault does not
    have and what was searched instead, `elsewhere` which note that was not asked answers. `meaning`
    is None where words alone decided; `words_alone` says why, if it was not asked for so.
    `reranked` says what put the best in order, None where nothing was to. `shown` are the
    hits that somebody was shown, each with what was shown of it.
    """

    question: str
    terms: tuple[str, ...]
    hits: list[Hit]
    has_more: bool
    replaced: dict[str, str]
    meaning: ByMeaning | None
    words_alone: str
    reranked: Reranked | None
    sureness: Sureness
    elsewhere: str = ""
    shown: Sequence[tuple[Hit, str]] = ()


#: Chooses the hits of a result that a front end shows, each with its text; None to show nothing.
Show = Callable[[VaultSet, QueryResult], Sequence[tuple[Hit, str]] | None]

#: Notes that are looked at for a budget.
MOST_FITTING = 50

#: Misspelt words that are looked up.
_MISSPELT = 5

#: Different terms of a question in which one that is not known counts as misspelt, unless all are:
#: in a longer one, it is more often a word that the vault happens not to have.
_FEW = 6


def show_texts(_: VaultSet, result: QueryResult) -> list[tuple[Hit, str]]:
    """Show the whole text of every hit."""
    return [(hit, hit.text) for hit in result.hits]


def fit_texts(budget: int) -> Show:
    """Return what shows the whole text of the first hits that fit into so many tokens."""

    def show(_: VaultSet, result: QueryResult) -> list[tuple[Hit, str]]:
        left = budget
        shown = []
        for hit in result.hits:
            left -= count_hit(hit, hit.text)
            if left < 0:
                break
            shown.append((hit, hit.text))
        return shown

    return show


def run_query(
    vaults: Vault | Iterable[Vault] | VaultSet,
    asked: Ask,
    show: Show = show_texts,
    progress: TellProgress | None = None,
) -> QueryResult:
    """Return the answer of some vaults to a query, and log the hits that `show` shows.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the question is too long, the limit under 1, or a ref's name unsafe.
    """
    opened = open_set(vaults)
    seen, result = opened.heal(lambda: _run(opened, asked, progress))
    shown = show(seen, result)
    if asked.counts and shown is not None:
        _log(seen, asked.question, shown)
    return result._replace(shown=shown or ())


def _run(
    vaults: VaultSet, asked: Ask, progress: TellProgress | None
) -> tuple[VaultSet, QueryResult]:
    """Return the vaults as they were viewed, and the result before anything of it is shown."""
    seen = vaults.view(asked.at, asked.refs, progress)
    models = seen.open_models(asked.semantic, asked.waits, progress)
    limit = asked.limit or seen.config.results
    query = parse_query(asked.question, asked.offset + limit, asked.filter)
    by_note = not asked.by_section
    query, found = find_hits(
        seen, query, query.limit + 1, by_note, models.dense, models.reranker
    )
    meaning, words_alone, reranked = models.describe()
    sureness = judge_hits(found)
    hits = _expand(seen, query, found) if asked.expand_links else found
    hits = group_hits(hits) if by_note else hits
    result = QueryResult(
        question=asked.question,
        terms=tuple(map(query.words.__getitem__, query.terms)),
        hits=seen.change(hits[asked.offset : query.limit], add_cautions, seen.viewed_at),
        has_more=len(hits) > query.limit,
        replaced=dict(query.replaced),
        meaning=meaning,
        words_alone=words_alone,
        reranked=reranked,
        sureness=sureness,
        elsewhere=_look_elsewhere(seen, asked, query, sureness),
    )
    return seen, result


def _log(vaults: VaultSet, question: str, shown: Sequence[tuple[Hit, str]]) -> None:
    """Log a query in each vault whose hits are shown, and in the first in any case."""
    texts = {hit.key: text for hit, text in shown}
    own = {vaults.names[0]: [], **group_by_vault(hit for hit, _ in shown)}
    vaults.keep(
        count_recall,
        {name: (question, hits, [texts[hit.key] for hit in hits]) for name, hits in own.items()},
    )


def tell_how_sure(result: QueryResult) -> list[str]:
    """Return what is to be said of an answer that is not sure, a line each."""
    sureness = result.sureness if result.hits else None
    return [*tell_replaced(result.replaced), *tell_sureness(sureness, result.elsewhere)]


def _expand(vaults: VaultSet, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
    from vaultmem.services.finding.links import expand_hits

    expanded = vaults.change(hits, expand_hits, query._replace(limit=2 * len(hits)))
    return sorted(expanded, key=lambda hit: -round(hit.score, 5))


def _look_elsewhere(vaults: VaultSet, asked: Ask, query: RecallQuery, sureness: Sureness) -> str:
    if not asked.suggests or sureness is Sureness.STRONG:
        return ""
    from vaultmem.services.finding.elsewhere import find_elsewhere

    return find_elsewhere(vaults, query, sureness)


def find_hits(
    vaults: VaultSet,
    query: RecallQuery,
    wanted: int,
    by_note: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as it was searched, spelling corrected, and the best hits.

    `wanted` is their number at most. Archived notes answer too: if others surely do, those with a
    term that these lack. A query of stop words alone is answered by these.
    """
    how = (by_note, dense, reranker)
    plain = query.filter
    if not (query.terms or query.compounds or dense):
        query = query._replace(compounds=tuple(list_stop_terms(query.text)))
    if plain.states or plain.any_state:
        return _find_known(vaults, query, wanted, *how)
    wider = query._replace(filter=plain._replace(with_archived=True))
    found_by, found = _find_known(vaults, wider, wanted + 1, *how)
    found = [hit for hit in found if hit.record.path != str(DREAMS)][:wanted]
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
    found_by, others = _find_known(vaults, query, wanted, *how)
    found = sorted([*others, *more], key=lambda hit: -hit.score)
    return found_by, found[:wanted]


def _find_known(
    vaults: VaultSet,
    query: RecallQuery,
    wanted: int,
    by_note: bool,
    dense: Scorer | None,
    reranker: Reranker | None,
) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as it was searched, and the best hits of the notes that its filter admits.

    A question about the past is answered by what held then.
    """
    past = _find_past(vaults, query)
    given = query.filter
    query = query._replace(filter=given._replace(past=past is not None))
    statistics = vaults.count(query)
    corrected = _correct_spelling(vaults, query, statistics)
    if corrected.replaced:
        query, statistics = corrected, vaults.count(corrected)
    hits = find_sections(vaults, query, statistics, wanted, by_note, dense, reranker)
    if past is not None:
        from vaultmem.services.finding.past import keep_valid

        hits = vaults.change(hits, keep_valid, past)
    return query._replace(filter=given), hits


def find_sections(
    vaults: VaultSet,
    query: RecallQuery,
    statistics: Statistics,
    wanted: int,
    by_note: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
) -> list[Hit]:
    """Return the best hits for a query as it is, of all vaults as of one."""
    depth = Depth(wanted, by_note, reranker.sections if reranker is not None else 0)
    found = vaults.search(query, statistics, depth, dense)
    by_words = dense.weight if dense is not None else 1.0
    if reranker is None:
        return merge_hits(found, wanted, by_words)
    hits = reranker(query, merge_hits(found, by_words=by_words))
    return (group_hits(hits) if by_note else hits)[:wanted]


def _correct_spelling(
    vaults: VaultSet, query: RecallQuery, statistics: Statistics
) -> RecallQuery:
    """Return the query with similar words for those that no section has which it can find.

    Archived notes alone give no suggestion.
    """
    corrected = _replace_unknown(vaults, query, statistics)
    if corrected.replaced and query.filter.with_archived:
        plain = query._replace(filter=query.filter._replace(with_archived=False))
        corrected = _replace_unknown(vaults, plain, vaults.count(plain))
    return corrected._replace(filter=query.filter)


def _replace_unknown(
    vaults: VaultSet, query: RecallQuery, statistics: Statistics
) -> RecallQuery:
    """Return the query with the nearest word of all vaults for each word that none has.

    A word among others must be nearer than one alone: it may be right, and the others answer.
    """
    different = [*dict.fromkeys(query.terms)]
    if not statistics.counts or len(query.terms) > MAX_TERMS:
        return query
    known = {term: statistics.counts[term] > 0 for term in different}
    is_alone = not any(known.values())
    if all(known.values()) or (
        len(known) > _FEW and (not is_alone or any(map(statistics.totals.get, different)))
    ):
        return query
    words = dict.fromkeys(split_words(query.text))
    unknown = [word for word in words if not known.get(stem_word(word), True)][:_MISSPELT]
    near = vaults.count(query, unknown, is_alone).near if unknown else {}
    replaced = {
        word: min(others, key=lambda other: (measure_distance(word, other, 2), -others[other], other))
        for word, others in near.items()
        if others
    }
    terms = {stem_word(word): stem_word(other) for word, other in replaced.items()}
    return query._replace(
        terms=tuple(terms.get(term, term) for term in query.terms),
        replaced=tuple(replaced.items()),
        near=frozenset(terms.values()) - frozenset(query.terms),
    )


def _find_past(vaults: VaultSet, query: RecallQuery) -> Span | None:
    """Return the past time that a question asks about, unless it asks for states."""
    if query.filter.any_state or query.filter.states or not _may_name_time(query.text):
        return None
    from vaultmem.core.validity import find_asked

    return find_asked(query.text, datetime.fromtimestamp(int(vaults.now())).date())


def _may_name_time(text: str) -> bool:
    """Tell whether a question has a figure or a word of times; what it asks is read elsewhere."""
    return not _time_words().isdisjoint(re.findall(r"[^\W\d]+|\d", text.lower()))


@cache
def _time_words() -> frozenset[str]:
    past = (line.split()[1] for line in read_lines("times") if line.startswith(("past ", "last ")))
    return frozenset({*"0123456789", *past, *read_pairs("months")})
