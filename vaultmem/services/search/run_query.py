"""Run a query over one or many vaults, the same for every front end, and log the shown hits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.packs.vault_parts import group_by_vault
from vaultmem.core.search.query import (
    Hit,
    MatchStrength,
    NoteFilter,
    RecallQuery,
    describe_corrections,
    describe_strength,
    group_hits,
    judge_hits,
    parse_query,
)
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.text.display import format_names
from vaultmem.core.text.token_count import count_fitting, count_tokens
from vaultmem.errors import VaultError
from vaultmem.services.search.annotations import add_cautions, find_shown_line
from vaultmem.services.search.recall import (
    EXTRA_HITS,
    describe_other_project,
    find_elsewhere,
    find_hits,
    find_other_project,
    find_past,
    order_by_validity,
)
from vaultmem.services.search.rerank import RerankInfo
from vaultmem.services.search.valid_spans import has_limits
from vaultmem.services.search.vault_set import SemanticInfo, TellProgress, VaultSet, open_set
from vaultmem.storage.query_log import PACK, TOOL, LoggedQuery, SignalStore, append, is_large
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.packs.pack_text import Pack


class Query(NamedTuple):
    """A query and its options; the defaults are the settings in vaultmem.yaml.

    - `limit`: the most notes, 0 for `recall_limit` of vaultmem.yaml
    - `offset`: the number of best notes to skip
    - `at`: a branch, tag, commit or date; `refs` are searched together with it
    - `semantic`: whether meaning counts, None for the setting in vaultmem.yaml
    - `expand_links`: also find sections that the best hits link to
    - `by_section`: return and count sections instead of notes
    - `suggests`: also search archived notes and other branches if the answer is not sure
    - `waits`: if false, use only existing vectors and no reranker
    - `counts`: if false, do not log the query
    - `recency`: the share of age in the score, 0 to 1
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
    recency: float | None = None


class QueryResult(NamedTuple):
    """The notes that answer, best first, each as its best section, with details of the search.

    - `has_more`: whether there are further hits
    - `replaced`: words that the vault does not have, with the words searched instead
    - `meaning`: None if words alone decided; `words_alone` is the reason, unless requested
    - `reranked`: the model that reordered the best hits, None if no model did
    - `elsewhere`: a line about an answer outside the searched notes
    - `too_large`: notes too large to be searched, if nothing answers
    - `other_project`: another project with a better answer
    - `shown`: the hits that the user was shown, each with the shown text
    - `flat`: the tokens of all searched notes
    - `skipped`: the number of hits before the query's offset
    """

    question: str
    terms: tuple[str, ...]
    hits: list[Hit]
    has_more: bool
    replaced: dict[str, str]
    meaning: SemanticInfo | None
    words_alone: str
    reranked: RerankInfo | None
    match_strength: MatchStrength
    elsewhere: str = ""
    too_large: tuple[str, ...] = ()
    other_project: str = ""
    shown: Sequence[tuple[Hit, str]] = ()
    flat: int = 0
    skipped: int = 0

    @property
    def sent(self) -> int:
        """The tokens of the shown text."""
        return sum(count_hit(hit, text) for hit, text in self.shown)

    @property
    def ratio(self) -> float:
        """The tokens of all notes divided by the tokens sent."""
        return self.flat / self.sent if self.sent else 0.0


#: Chooses the hits that a front end shows, each with its text; None does not log the query.
Show = Callable[[VaultSet, QueryResult], Sequence[tuple[Hit, str]] | None]

#: The most notes to consider for a budget.
MAX_FITTING = 50


def show_texts(_: VaultSet, result: QueryResult) -> list[tuple[Hit, str]]:
    """Show the whole text of every hit."""
    return [(hit, hit.text) for hit in result.hits]


def fit_texts(budget: int) -> Show:
    """Return a function that shows the whole text of the first hits within `budget` tokens."""

    def show(_: VaultSet, result: QueryResult) -> list[tuple[Hit, str]]:
        count = count_fitting((count_hit(hit, hit.text) for hit in result.hits), budget)
        return [(hit, hit.text) for hit in result.hits[:count]]

    return show


def run_query(
    vaults: Vault | Iterable[Vault] | VaultSet,
    request: Query,
    show: Show = show_texts,
    progress: TellProgress | None = None,
) -> QueryResult:
    """Run a query over some vaults, and log the hits that `show` returns.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the query is too long, the limit is under 1, or a ref's name is unsafe.
    """
    vault_set = open_set(vaults)
    viewed_vaults, result = vault_set.read_with_rebuild(lambda: _run(vault_set, request, progress))
    shown_hits = show(viewed_vaults, result)
    if request.counts and shown_hits is not None:
        _log(viewed_vaults, request.question, shown_hits)
    return result._replace(shown=shown_hits or ())


def count_all_tokens(vault: Vault) -> int:
    """Return the tokens of all notes in a vault's view."""
    return vault.view.totals()[1]


def _run(
    vaults: VaultSet, request: Query, progress: TellProgress | None
) -> tuple[VaultSet, QueryResult]:
    """Return the vaults as viewed, and the result before any of it is shown."""
    viewed_vaults = vaults.view(request.at, request.refs, progress)
    models = viewed_vaults.open_models(request.semantic, request.waits, progress)
    limit = request.limit or viewed_vaults.config.recall_limit
    query = parse_query(request.question, request.offset + limit, request.filter)
    query = query._replace(recency=request.recency)
    by_note = not request.by_section
    query, direct_hits = find_hits(
        viewed_vaults, query, query.limit + 1, by_note, models.dense, models.reranker
    )
    meaning, words_alone, reranked = models.describe()
    match_strength = judge_hits(direct_hits)
    hits = _expand(viewed_vaults, query, direct_hits) if request.expand_links else direct_hits
    hits = group_hits(hits) if by_note else hits
    result = QueryResult(
        question=request.question,
        terms=tuple(map(query.words.__getitem__, query.terms)),
        hits=viewed_vaults.change(
            hits[request.offset : query.limit], _complete, viewed_vaults.viewed_at
        ),
        has_more=len(hits) > query.limit,
        replaced=dict(query.replaced),
        meaning=meaning,
        words_alone=words_alone,
        reranked=reranked,
        match_strength=match_strength,
        elsewhere=find_elsewhere(viewed_vaults, query, match_strength) if request.suggests else "",
        too_large=()
        if hits and match_strength is not MatchStrength.NONE
        else _list_too_large(viewed_vaults),
        other_project=find_other_project(viewed_vaults, query, match_strength),
        flat=sum(
            viewed_vaults.run(count_all_tokens, dict.fromkeys(viewed_vaults.names, ())).values()
        ),
        skipped=len(hits[: request.offset]),
    )
    return viewed_vaults, result


def _complete(vault: Vault, hits: Sequence[Hit], at: float) -> list[Hit]:
    """Return hits with their cautions and the sentence to show."""
    hits = add_cautions(vault, hits, at)
    return [hit._replace(shown_line=find_shown_line(vault, hit)) for hit in hits]


def _log(vaults: VaultSet, question: str, shown_hits: Sequence[tuple[Hit, str]]) -> None:
    """Log a query in each vault whose hits are shown, and always in the first."""
    texts = {hit.key: text for hit, text in shown_hits}
    own = {vaults.names[0]: [], **group_by_vault(hit for hit, _ in shown_hits)}
    vaults.keep(
        count_recall,
        {name: (question, hits, [texts[hit.key] for hit in hits]) for name, hits in own.items()},
    )


def describe_match_strength(result: QueryResult, names_tool: bool = False) -> list[str]:
    """Return the lines to print for an answer that is not sure.

    `names_tool` is as in `describe_other_project`.
    """
    if result.skipped and not result.hits:
        return [f"No more hits; {result.skipped} in all."]
    match_strength = result.match_strength if result.hits else None
    lines = [
        *describe_corrections(result.replaced),
        *describe_strength(match_strength, result.elsewhere),
    ]
    lines += filter(
        None, [describe_other_project(result.other_project, result.question, names_tool)]
    )
    return [*lines, *_describe_too_large(result.too_large)]


def _describe_too_large(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        names = format_names(paths)
        yield f"Not searched, since over 1 MiB: {names}; divide them into smaller notes."


def _list_too_large(vaults: VaultSet) -> tuple[str, ...]:
    """Return the notes too large to be indexed, after their vault's name."""
    paths_by_vault = vaults.run(_find_too_large, dict.fromkeys(vaults.names, ()))
    return tuple(
        f"{name}:{path}" if name else path for name, own in paths_by_vault.items() for path in own
    )


def _find_too_large(vault: Vault) -> list[str]:
    """Return the notes of a folder that are too large; those of a commit are unknown."""
    return vault.manifest.too_large() if vault.view.is_work_tree else []


def _expand(vaults: VaultSet, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
    from vaultmem.services.search.link_walk import expand_hits

    limit = 2 * len(hits)
    linked_hits = vaults.change(hits, expand_hits, query._replace(limit=limit))
    if has_limits(linked_hits):
        linked_hits = vaults.change(hits, expand_hits, query._replace(limit=limit + EXTRA_HITS))
    sorted_hits = sorted(linked_hits, key=lambda hit: -round(hit.score, 5))
    return order_by_validity(vaults, sorted_hits, find_past(vaults, query))[:limit]


def count_recall(vault: Vault, query: str, hits: Sequence[Hit], texts: Sequence[str]) -> None:
    """Log a recall; `texts` is the shown text of each hit."""
    tokens = sum(count_hit(hit, text) for hit, text in zip(hits, texts, strict=True))
    _count(vault, "recall", query, _list_sections(hits), tokens, -1, len(hits))


def count_hit(hit: Hit, text: str) -> int:
    """Return the tokens of a hit of which `text` was shown."""
    return count_tokens(f"{hit.name}\n{hit.address}\n{text}")


def count_pack(vault: Vault, query: str, pack: Pack) -> None:
    """Log a pack, without its pinned sections: no query selected them."""
    hits = [item.hit for item in pack.items if not item.pinned]
    account = pack.account
    sections = _list_sections(hits if query.strip() else [])
    _count(vault, PACK, query, sections, account.sent, account.flat, len(hits))


def count_tool(vault: Vault, call: str, paths: Sequence[str], text: str) -> None:
    """Log the notes and tokens that a hook showed before a tool call."""
    sections = [(path, "", 0.0) for path in paths]
    _count(vault, TOOL, call, sections, count_tokens(text), 0, len(paths))


def _list_sections(hits: Iterable[Hit]) -> list[tuple[str, str, float]]:
    return [(hit.record.path, hit.section.heading, hit.score) for hit in hits]


def _count(
    vault: Vault,
    kind: str,
    query: str,
    sections: Sequence[tuple[str, str, float]],
    tokens: int,
    flat: int,
    hit_count: int,
) -> None:
    author = vault.author
    words = "" if not vault.keeps_words or find_secrets(query) else query
    call = LoggedQuery(
        vault.now(), kind, words, author.agent, author.session, tokens, flat, hit_count
    )
    size = append(vault.state_folder, call, sections)
    if is_large(size):
        with contextlib.suppress(VaultError, OSError):
            SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1], 0.0)
