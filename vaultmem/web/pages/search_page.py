"""Search: the hits of a query with match explanations; only the list while the user types."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from itertools import groupby
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.lifecycle import parse_kind, parse_state
from vaultmem.core.packs.passages import choose_line, shorten_sentence
from vaultmem.core.search.query import Hit, NoteFilter
from vaultmem.core.search.terms import count_terms
from vaultmem.services.search.run_query import Query, QueryResult
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, open_asked, read, read_count
from vaultmem.web.rendering import render_page

#: Notes on a page.
_LIMIT = 20

#: Columns of notes that differ from the facet's name.
_COLUMNS = {"tag": "tags"}

#: The most values of a facet.
_MAX_FACET_VALUES = 8

#: The most characters of a hit's excerpt, and of the sentence that it is taken from.
_WIDTH, _MAX_SENTENCE_CHARS = 220, 20_000

#: Markdown syntax to remove from an excerpt, and the groups to keep. Lengths are limited; otherwise
#: a note of brackets takes minutes.
_MARKUP = re.compile(
    r"\\(?P<mark>[^\w\s])|!?\[\[(?:[^][|]{,200}\|)?(?P<link>[^][|]{1,200})\]\]"
    r"|!?\[(?P<text>[^][]{,400})\]\([^)]{,400}\)"
    r"|^[ \t]*(?:(?:[-*+>]|#{1,6})\s+)+(?:\[.\]\s+)?|</?[a-z][^<>]{0,200}>"
    r"|[*_]{2}|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|`+|==|~~|%%",
    re.MULTILINE,
)

#: Words, and the text between them; the parts of an identifier are words of their own.
_WORD = re.compile(r"[^\W_]+|[\W_]+")

#: The most words whose terms are cached: a search runs at each key press.
_MAX_CACHED_WORDS = 20_000


class Facets(NamedTuple):
    """Filters of the hits; empty fields accept all."""

    state: str = ""
    kind: str = ""
    context: str = ""
    tag: str = ""
    agent: str = ""

    def make_filter(self) -> NoteFilter:
        """Return the filter of a query.

        Raises:
            RefusedError: there is no such state or kind.
        """
        return NoteFilter(
            kinds=frozenset([parse_kind(self.kind)] if self.kind else []),
            states=frozenset([parse_state(self.state, to_find=True)] if self.state else []),
            tags=(self.tag,) if self.tag else (),
            context=self.context,
            agent=self.agent,
        )


class ShownHit(NamedTuple):
    """A hit, and an excerpt of its text: parts, each with whether it matches the query."""

    hit: Hit
    excerpt: list[tuple[str, bool]]


class SearchPage(NamedTuple):
    """A query's result with its hits, its doubts, and the facets of the vault.

    `choices` are the most frequent values of each facet; facets with one value are omitted, and all
    if nothing was found.
    """

    answer: QueryResult | None
    hits: list[ShownHit]
    doubts: list[str]
    choices: dict[str, list[str]]


def collect_hits(
    question: str, facets: Facets, offset: int, other: str, vault: Vault
) -> SearchPage:
    """Return the hits of a query, none for an empty one; the query is not logged."""
    from vaultmem.services.search.run_query import describe_match_strength, run_query

    if not question.strip():
        return SearchPage(None, [], [], {})
    note_filter = facets.make_filter()
    query = Query(question, _LIMIT, offset, note_filter, suggests=True, waits=False, counts=False)
    answer = run_query(open_asked(vault, other), query)
    doubts = describe_match_strength(answer)
    choices = vault.view.keep("facets", partial(_list_choices, vault)) if answer.hits else {}
    return SearchPage(answer, list(map(show_hit, answer.hits)), doubts, choices)


def _list_choices(vault: Vault) -> dict[str, list[str]]:
    facet_counts = {
        name: vault.view.count_notes(_COLUMNS.get(name, name)) for name in Facets._fields
    }
    return {
        name: [value for value in counts if value][:_MAX_FACET_VALUES]
        for name, counts in facet_counts.items()
        if len(counts) > 1
    }


def show_hit(hit: Hit) -> ShownHit:
    """Return a hit with its excerpt."""
    terms = frozenset(match.term for match in hit.matches)
    sentence = choose_line(hit)[:_MAX_SENTENCE_CHARS]
    plain = _MARKUP.sub(lambda match: "".join(filter(None, match.groups())), sentence)
    line = shorten_sentence(plain, terms, _WIDTH)
    runs = groupby(_WORD.findall(line), lambda part: _has_term(part, terms))
    return ShownHit(hit, [("".join(parts), is_asked) for is_asked, parts in runs])


def _has_term(word: str, terms: frozenset[str]) -> bool:
    return word[0].isalnum() and not terms.isdisjoint(_find_terms(word))


@lru_cache(_MAX_CACHED_WORDS)
def _find_terms(word: str) -> frozenset[str]:
    return frozenset(count_terms(word))


@answers
async def show_search(request: Request) -> Response:
    """Show the hits of a query."""
    query = request.query_params.get("q", "")[:1_000]
    offset = read_count(request.query_params.get("offset", ""), 1_000) or 0
    other = request.query_params.get("vault", "")
    facet_values = {name: request.query_params.get(name, "")[:200] for name in Facets._fields}
    work = partial(collect_hits, query, Facets(**facet_values), offset, other)
    frame, page = await read(request, work)
    template = "results.html" if "part" in request.query_params else "search.html"
    return render_page(
        request,
        template,
        vault=frame,
        query=query,
        facets=facet_values,
        offset=offset,
        limit=_LIMIT,
        found=page,
    )
