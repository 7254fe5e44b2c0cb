"""Find the hits of a query in one vault or several, with corrected spelling and past dates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from typing import TYPE_CHECKING

from vaultmem.core.languages import read_lines, read_pairs
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.packs.pack_item import plain_label
from vaultmem.core.search.query import (
    MAX_TERMS,
    Hit,
    MatchStrength,
    RecallQuery,
    Statistics,
    describe_corrections,
    describe_strength,
    group_hits,
    judge_hits,
    parse_query,
)
from vaultmem.core.search.terms import list_stop_terms, split_words, stem_word
from vaultmem.core.text.paths import DREAMS
from vaultmem.errors import VaultError
from vaultmem.services.search.rerank import Reranker
from vaultmem.services.search.score import MAX_SEARCHED_SECTIONS, Depth, Scorer, widen_query
from vaultmem.services.search.search import merge_hits
from vaultmem.services.search.valid_spans import find_span, has_limits, order_valid
from vaultmem.services.search.vault_set import VaultSet, label_vault, look
from vaultmem.services.views.update_index import retries_after_rebuild
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.validity import Span
    from vaultmem.storage.git.refs import Branch

#: The most misspelt words that are looked up.
_MAX_MISSPELT_WORDS = 5

#: The most distinct terms of a query in which an unknown one counts as misspelt, unless all are
#: unknown. In a longer query, it is more often a word that the vault does not contain.
_MAX_SPELLCHECK_TERMS = 6


@retries_after_rebuild
def recall(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
    by_note: bool = False,
) -> list[Hit]:
    """Return the best sections for the query, best first; ties are in the order of path.

    `by_note` counts notes, and returns the best section of each. Files that changed since
    `open_vault` are indexed first, once; later calls read only the files of the hits.
    """
    vaults = VaultSet([look(vault)])
    return find_sections(vaults, query, vaults.count(query), query.limit, by_note, dense, reranker)


def find_hits(
    vaults: VaultSet,
    query: RecallQuery,
    limit: int,
    by_note: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as searched, with corrected spelling, and at most `limit` best hits.

    Archived notes rank with the others. If all words are stop words, they are searched.
    """
    options = (by_note, dense, reranker)
    note_filter = query.filter
    if not (query.terms or query.compounds or dense):
        query = query._replace(compounds=tuple(list_stop_terms(query.text)))
    if note_filter.states or note_filter.any_state:
        return _find_known(vaults, query, limit, *options)
    wider = query._replace(filter=note_filter._replace(with_archived=True))
    searched_query, hits = _find_known(vaults, wider, limit + 1, *options)
    hits = [hit for hit in hits if hit.record.path != str(DREAMS)][:limit]
    return searched_query._replace(filter=note_filter), hits


#: Additional hits to read if some are not valid any more.
EXTRA_HITS = 20


def _find_known(
    vaults: VaultSet,
    query: RecallQuery,
    limit: int,
    by_note: bool,
    dense: Scorer | None,
    reranker: Reranker | None,
) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as searched, and the best hits of the notes that its filter admits.

    A query about the past finds notes that were valid then.
    """
    past, note_filter = find_past(vaults, query), query.filter
    query = query._replace(filter=note_filter._replace(past=past is not None))
    statistics = vaults.count(query)
    corrected = _correct_spelling(vaults, query, statistics)
    if corrected.replaced:
        query, statistics = corrected, vaults.count(corrected)
    hits = find_sections(vaults, query, statistics, limit, by_note, dense, reranker)
    if has_limits(hits):  # Valid hits beyond `limit` can move up.
        more = limit + EXTRA_HITS
        hits = find_sections(vaults, query, statistics, more, by_note, dense, reranker)
    return query._replace(filter=note_filter), order_by_validity(vaults, hits, past)[:limit]


def order_by_validity(vaults: VaultSet, hits: Sequence[Hit], past: Span | None) -> list[Hit]:
    """Return hits with those last, and labelled, that are not valid at a past time, or now."""
    if past is not None:
        hits = vaults.change(hits, filter_valid, past)
    return order_valid(vaults, hits, past or find_span(vaults, None))


def find_sections(
    vaults: VaultSet,
    query: RecallQuery,
    statistics: Statistics,
    limit: int,
    by_note: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
) -> list[Hit]:
    """Return the best hits for a query, without corrections, of all vaults together."""
    depth = Depth(limit, by_note, reranker.sections if reranker is not None else 0)
    hits_by_vault = _search_deep(vaults, query, statistics, depth, dense)
    by_words = dense.weight if dense is not None else 1.0
    if reranker is None:
        return merge_hits(hits_by_vault, limit, by_words)
    hits = reranker(query, merge_hits(hits_by_vault, by_words=by_words))
    return (group_hits(hits) if by_note else hits)[:limit]


def _search_deep(
    vaults: VaultSet,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
    dense: Scorer | None,
) -> list[tuple[str, list[Hit]]]:
    """Return the best hits of each vault.

    All vaults together compare as many sections as one vault with all their notes would.
    """
    if len(vaults.names) == 1:
        return vaults.search(query, statistics, depth, dense)
    from vaultmem.core.search.ranking import count_candidates, count_read

    query = query._replace(limit=max(query.limit, depth.sections))
    while True:
        count = count_candidates(query.limit)
        scores = sorted(vaults.score_words(query, statistics), reverse=True)[:count]
        if not scores and dense is None:
            return []
        best_scores = scores[: count_read(query.limit)]
        if scores:
            depth = depth._replace(best=scores[0], least=scores[-1], read=best_scores[-1])
        hits_by_vault = vaults.search(query, statistics, depth, dense)
        is_enough = not depth.by_note or sum(len(hits) for _, hits in hits_by_vault) >= depth.hits
        if is_enough or len(scores) < count or query.limit >= MAX_SEARCHED_SECTIONS:
            return hits_by_vault
        query = widen_query(query)


def _correct_spelling(vaults: VaultSet, query: RecallQuery, statistics: Statistics) -> RecallQuery:
    """Return the query with similar words in place of those that no eligible section contains.

    Words of archived notes alone are not used.
    """
    result = _replace_unknown(vaults, query, statistics)
    if result.replaced and query.filter.with_archived:
        plain = query._replace(filter=query.filter._replace(with_archived=False))
        result = _replace_unknown(vaults, plain, vaults.count(plain))
    return result._replace(filter=query.filter)


def _replace_unknown(vaults: VaultSet, query: RecallQuery, statistics: Statistics) -> RecallQuery:
    """Return the query with the nearest word of all vaults for each word that no vault contains.

    A word among others needs a nearer match than a single word: it can be correct, and the others
    can find the answer.
    """
    different = [*dict.fromkeys(query.terms)]
    if not statistics.counts or len(query.terms) > MAX_TERMS:
        return query
    is_known = {term: statistics.counts[term] > 0 for term in different}
    is_alone = not any(is_known.values())
    if all(is_known.values()) or (
        len(is_known) > _MAX_SPELLCHECK_TERMS
        and (not is_alone or any(map(statistics.totals.get, different)))
    ):
        return query
    from vaultmem.core.search.eligible import measure_distance

    words = dict.fromkeys(split_words(query.text))
    unknown_words = [word for word in words if not is_known.get(stem_word(word), True)][
        :_MAX_MISSPELT_WORDS
    ]
    neighbours = vaults.count(query, unknown_words, is_alone).near if unknown_words else {}
    replacements = {
        word: min(
            others, key=lambda other: (measure_distance(word, other, 2), -others[other], other)
        )
        for word, others in neighbours.items()
        if others
    }
    terms = {stem_word(word): stem_word(other) for word, other in replacements.items()}
    return query._replace(
        terms=tuple(terms.get(term, term) for term in query.terms),
        replaced=tuple(replacements.items()),
        near=frozenset(terms.values()) - frozenset(query.terms),
    )


def find_past(vaults: VaultSet, query: RecallQuery) -> Span | None:
    """Return the time of `--as-of`, or the past time that a query without states names.

    None is now.
    """
    if query.filter.as_of is not None:
        return find_span(vaults, query.filter.as_of)
    if query.filter.any_state or query.filter.states or not _may_name_time(query.text):
        return None
    from vaultmem.core.validity import find_asked

    return find_asked(query.text, datetime.fromtimestamp(int(vaults.now())).date())


def _may_name_time(text: str) -> bool:
    """Return whether a query contains a digit or a word of time; `find_asked` parses it."""
    return not _time_words().isdisjoint(re.findall(r"[^\W\d]+|\d", text.lower()))


@cache
def _time_words() -> frozenset[str]:
    past = (line.split()[1] for line in read_lines("times") if line.startswith(("past ", "last ")))
    return frozenset({*"0123456789", *past, *read_pairs("months")})


def filter_valid(vault: Vault, hits: Sequence[Hit], span: Span) -> list[Hit]:
    """Return the hits without replaced notes that were not valid at the time in question.

    A replaced note that was valid then is labelled with its dates, and comes before its
    replacement.
    """
    valid_hits: list[Hit] = []
    for hit in hits:
        if hit.record.state != NoteState.DEPRECATED:
            valid_hits.append(hit)
        elif label := _describe_validity(vault, hit, span):
            name = hit.record.path.removesuffix(".md")
            names = {name, name.rpartition("/")[2]}
            newer = (n for n, each in enumerate(valid_hits) if not names.isdisjoint(each.replaces))
            valid_hits.insert(next(newer, len(valid_hits)), hit._replace(caution=label))
    return valid_hits


def _describe_validity(vault: Vault, hit: Hit, span: Span) -> str:
    """Return when a note was valid, "" if not at the time in question."""
    from vaultmem.core.validity import Span
    from vaultmem.services.views.read_notes import find_note

    note = find_note(vault, hit.record.path)
    if note is None:
        return ""
    start, end = (_read_day(note, name) for name in ("valid_from", "valid_until"))
    if end is None or not Span(start, end).overlaps(span):
        return ""
    return f"held {f'from {start} ' if start else ''}until {end}, when another value took its place"


def _read_day(note: Note, name: str) -> date | None:
    from vaultmem.core.validity import read_day

    entry = note.frontmatter.get(name)
    return read_day(str(entry.value)) if entry else None


#: The most branches to search, those of the newest commits.
_BRANCHES = 5

#: The most characters of a query that a suggested command repeats.
_QUOTED = 100

#: States to search if nothing else answers; archived notes are searched anyway.
_FALLBACK_STATES = frozenset({NoteState.DEPRECATED})


def describe_limits(
    vaults: VaultSet,
    query: RecallQuery,
    hits: Sequence[Hit],
    match_strength: MatchStrength,
    looks_elsewhere: bool,
) -> tuple[str, ...]:
    """Return the lines of a pack about corrected words and a weak match."""
    elsewhere = find_elsewhere(vaults, query, match_strength) if looks_elsewhere else ""
    # An empty pack has its own message.
    lines = describe_strength(match_strength if hits else MatchStrength.STRONG, elsewhere)
    return (*describe_corrections(dict(query.replaced)), *lines)


def find_elsewhere(vaults: VaultSet, query: RecallQuery, match_strength: MatchStrength) -> str:
    """Return a line that names a replaced note or another branch with an answer, or "".

    A strong answer needs no suggestion. A weak one is suggested only if there is no answer at all.
    Quarantined notes are never named. This never waits for another process. The branches are those
    of the first vault.
    """
    first = vaults.names[0]
    if query.filter.states or query.is_of_stop_words or match_strength is MatchStrength.STRONG:
        return ""
    if vaults.run(_is_narrow, {first: ()})[first]:
        return ""
    hit = _find_laid_aside(vaults, query, match_strength)
    if hit is not None:
        reason = f"it is {hit.record.state}: ask recall with --include-archived"
        return plain_label(f"{hit.address} may answer that; {reason}")
    hits = vaults.run(_find_on_branches, {first: (query,)})[first]
    hit = next(iter(label_vault(first, hits)), None)
    if hit is None:
        return ""
    return plain_label(f"{hit.address} on branch {hit.refs[0]} may answer that")


def find_other_project(vaults: VaultSet, query: RecallQuery, match_strength: MatchStrength) -> str:
    """Return the name of another project that surely answers if the viewed one does not, or "".

    It is also "" if all projects are viewed. Only the first vault is searched.
    """
    first = vaults.names[0]
    if match_strength is MatchStrength.STRONG or query.is_of_stop_words:
        return ""
    return vaults.run(_find_in_projects, {first: (query,)})[first]


def _find_in_projects(vault: Vault, query: RecallQuery) -> str:
    own = vault.view.project
    if own is None:
        return ""
    # A word unknown here can be known there.
    project_query = parse_query(query.text, 3, query.filter)
    hits = recall(replace(vault, view=vault.view.of_project(None)), project_query)
    others = (hit for hit in hits if hit.record.project.casefold() not in {"", own.casefold()})
    best_hit = _choose_sure([*others])
    return best_hit.record.project if best_hit else ""


def describe_other_project(project: str, question: str, names_tool: bool = False) -> str:
    """Return the line with the command to query another project; "" without one.

    `names_tool` is for callers with tools instead of a shell.
    """
    if not project:
        return ""
    message = f"project {project} has a better answer"
    if names_tool:
        return plain_label(f'{message}; call recall with project "{project}"')
    words = shlex.quote(question) if len(question) <= _QUOTED and question.isprintable() else "..."
    return plain_label(f"{message}; run: vaultmem recall --project {shlex.quote(project)} {words}")


def _is_narrow(vault: Vault) -> bool:
    """Return whether the view of a vault is not simply its folder."""
    return bool(vault.view.sources or vault.ref)


def _find_laid_aside(
    vaults: VaultSet, query: RecallQuery, match_strength: MatchStrength
) -> Hit | None:
    states = query.filter.wanted_states | _FALLBACK_STATES
    query = query._replace(limit=3, filter=query.filter._replace(states=states))
    hits = find_sections(vaults, query, vaults.count(query), query.limit)
    inactive_hits = [hit for hit in hits if hit.record.state in _FALLBACK_STATES]
    best_hit = _choose_sure(inactive_hits)
    if best_hit is None and match_strength is MatchStrength.NONE:
        best_hit = next(
            (hit for hit in inactive_hits if judge_hits([hit]) is MatchStrength.WEAK), None
        )
    return best_hit


def _find_on_branches(vault: Vault, query: RecallQuery) -> list[Hit]:
    """Return a strong hit on another branch of this vault alone, if there is one."""
    try:
        names = [branch.name for branch in _list_others(vault)]
        if not names:
            return []
        from vaultmem.services.views.open_view import view_at

        branch_vault = view_at(vault, include=names, patience=0)
        own_name = branch_vault.view.sources[0].name
        hits = recall(branch_vault, query._replace(limit=3))
    except VaultError:
        return []
    best_hit = _choose_sure([hit for hit in hits if own_name not in hit.refs])
    return [best_hit] if best_hit else []


def _list_others(vault: Vault) -> list[Branch]:
    """Return the branches that are not checked out, newest commits first."""
    head = vault.head()
    if head is None:
        return []
    others = [b for b in vault.history.refs.branches() if b.commit != head.commit]
    return sorted(others, key=lambda branch: (-branch.at, branch.name))[:_BRANCHES]


def _choose_sure(hits: list[Hit]) -> Hit | None:
    return next((hit for hit in hits if judge_hits([hit]) is MatchStrength.STRONG), None)
