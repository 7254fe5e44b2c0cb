"""Search: what answers a question, and why; the list alone is asked for as somebody types."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.packs.passages import choose_line, shorten_sentence
from vaultmem.core.search.query import Hit
from vaultmem.core.search.terms import count_terms
from vaultmem.services.search.run_query import Query, QueryResult
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, open_asked, read, read_count
from vaultmem.web.rendering import render_page

#: Notes on a page.
_LIMIT = 20

#: Characters of a hit's excerpt, and of the sentence that it is cut out of.
_WIDTH, _LONGEST = 220, 20_000

#: Marks of markdown that say nothing in an excerpt, and what of them is kept. Nothing is looked for
#: further than links are long, else a note of brackets takes minutes.
_MARKUP = re.compile(
    r"!?\[\[(?:[^][|]{,200}\|)?(?P<link>[^][|]{1,200})\]\]"
    r"|!?\[(?P<text>[^][]{,400})\]\([^)]{,400}\)"
    r"|^[ \t]*(?:[-*+>]\s+)+(?:\[.\]\s+)?|[*_]{2}|`+|==|~~",
    re.MULTILINE,
)

_WORD = re.compile(r"\w+|\W+")

#: Words whose terms are remembered: what somebody types is searched again at each key.
_MANY = 20_000


class ShownHit(NamedTuple):
    """A hit, and of its text the line that shows why: parts of it, those that were asked marked."""

    hit: Hit
    excerpt: list[tuple[str, bool]]


class SearchPage(NamedTuple):
    """An answer with its hits, and what is to be said of how sure it is."""

    answer: QueryResult | None
    hits: list[ShownHit]
    doubts: list[str]


def collect_hits(question: str, offset: int, other: str, vault: Vault) -> SearchPage:
    """Return what answers a question, nothing for an empty one; nobody is counted as shown it."""
    from vaultmem.services.search.run_query import describe_match_strength, run_query

    if not question.strip():
        return SearchPage(None, [], [])
    asked = Query(question, _LIMIT, offset, suggests=True, waits=False, counts=False)
    answer = run_query(open_asked(vault, other), asked)
    return SearchPage(answer, list(map(show_hit, answer.hits)), describe_match_strength(answer))


def show_hit(hit: Hit) -> ShownHit:
    """Return a hit as it is listed."""
    terms = frozenset(match.term for match in hit.matches)
    sentence = choose_line(hit)[:_LONGEST]
    plain = _MARKUP.sub(lambda found: found["link"] or found["text"] or "", sentence)
    line = shorten_sentence(plain, terms, _WIDTH)
    return ShownHit(hit, [(part, _has_term(part, terms)) for part in _WORD.findall(line)])


def _has_term(word: str, terms: frozenset[str]) -> bool:
    return word[0].isalnum() and not terms.isdisjoint(_find_terms(word))


@lru_cache(_MANY)
def _find_terms(word: str) -> frozenset[str]:
    return frozenset(count_terms(word))


@answers
async def show_search(request: Request) -> Response:
    """Show what answers a question."""
    query = request.query_params.get("q", "")[:1_000]
    offset = read_count(request.query_params.get("offset", ""), 1_000) or 0
    other = request.query_params.get("vault", "")
    frame, found = await read(request, partial(collect_hits, query, offset, other))
    template = "results.html" if "part" in request.query_params else "search.html"
    return render_page(
        request, template, vault=frame, query=query, offset=offset, limit=_LIMIT, found=found
    )
