"""Operations that search: recall, pack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    BUDGET,
    MAX_RESULT_TOKENS,
    MIN_RESULT_TOKENS,
    Agent,
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    Operation,
    VersionScope,
)
from vaultmem.operations.filters import Filters, ProjectScope, read_states
from vaultmem.operations.schemas import STRINGS, record, rows
from vaultmem.operations.traces import anchors_data

if TYPE_CHECKING:
    from datetime import date

    from vaultmem.core.packs.pack_item import OmittedItem, PackItem
    from vaultmem.core.packs.pack_text import Pack
    from vaultmem.core.search.query import Hit
    from vaultmem.services.packs.build import AskPack, PackAnswer
    from vaultmem.services.search.run_query import Query, QueryResult, Show
    from vaultmem.services.search.vault_set import TellProgress, VaultSet
    from vaultmem.vault import Vault

At = Annotated[
    str,
    Arg(
        "As it was at a commit, branch, tag or date (2026-10-01).",
        "As of a date, commit or branch.",
        most=200,
        metavar="WHEN",
    ),
]
IncludeRefs = Annotated[
    tuple[str, ...],
    Arg(
        "Look at these refs too; each hit names the refs that hold it.",
        "Branches too.",
        takes=ArgumentForm.COMMAS,
        metavar="A,B",
    ),
]
Vaults = Annotated[
    tuple[str, ...],
    Arg(
        "Ask these vaults of the user's too, by name; `all` for each of the list.",
        "Other vaults, or `all`.",
        excused={FrontEnd.SHELL: "--vault can be given again, and --all-vaults names all"},
    ),
]
ExpandLinks = Annotated[
    bool,
    Arg(
        "Also what the best sections link to.", excused={FrontEnd.MCP: "a pack names what is near"}
    ),
]
Semantic = Annotated[
    bool | None,
    Arg(
        "Search by meaning too, or by words alone.  [default: from vaultmem.yaml]",
        flags=("--semantic/--no-semantic",),
        excused={FrontEnd.MCP: "the vault's owner decides in vaultmem.yaml"},
    ),
]

AsOf = Annotated[
    str,
    Arg(
        "Prefer what was valid on this day (2026-10-01), by `valid_from` and `valid_until`.",
        "Day: what was valid then.",
        most=40,
        flags=("--as-of",),
        metavar="DATE",
    ),
]

Recency = Annotated[
    str,
    Arg(
        "Weight of recency: on, off or 0 to 1.  [default: from vaultmem.yaml]",
        most=40,
        metavar="on|off|NUMBER",
        excused={FrontEnd.MCP: "the vault's owner decides in vaultmem.yaml"},
    ),
]

_FOR_PEOPLE = {FrontEnd.MCP: "quarantined notes are shown only to the owner"}


#: Output formats of a pack; JSON contains the markdown.
FORMATS = ("markdown", "text", "json")


class Recall(NamedTuple):
    """A query and its options."""

    query: Annotated[
        str,
        Arg("What to look for.", "", 1, 1_000_000, takes=ArgumentForm.WORDS, metavar="QUERY"),
    ]
    limit: Annotated[
        int,
        Arg(
            "Notes at most.  [default: 10]",
            Agent(most=50),
            1,
            1_000,
            flags=("-n", "--limit"),
            metavar="N",
        ),
    ] = 0
    offset: Annotated[int, Arg("Hits to skip.", "", 0, 1_000, metavar="N")] = 0
    budget: Annotated[
        int,
        Arg(
            "Tokens at most, for all hits together.",
            Agent(f"Tokens; else {BUDGET:,}.", MIN_RESULT_TOKENS, MAX_RESULT_TOKENS),
            1,
            1_000_000,
            metavar="TOKENS",
        ),
    ] = 0
    explain: Annotated[
        bool,
        Arg(
            "Show each part of a score.",
            excused={FrontEnd.HTTP: "JSON has each part", FrontEnd.MCP: "detail has each part"},
        ),
    ] = False
    include_archived: Annotated[
        bool, Arg("Also deprecated notes; archived ones are always found.", Agent(is_listed=False))
    ] = False
    include_quarantined: Annotated[
        bool, Arg("Also quarantined notes, after a warning.", excused=_FOR_PEOPLE)
    ] = False
    include_refs: IncludeRefs = ()
    expand_links: ExpandLinks = False
    semantic: Semantic = None
    at: At = ""
    as_of: AsOf = ""
    recency: Recency = ""
    only: Filters = Filters()
    project: ProjectScope = ""
    vaults: Vaults = ()


class SearchAnswer(NamedTuple):
    """The result of a query or pack, and messages about skipped vaults."""

    answer: Any
    passed_over: Sequence[str] = ()


class PackRequest(NamedTuple):
    """The query of a pack, and its format."""

    query: Annotated[
        str,
        Arg(
            "What the pack is for.",
            "Else what is pinned and recent.",
            most=1_000_000,
            takes=ArgumentForm.WORDS,
            metavar="[QUERY]",
        ),
    ] = ""
    budget: Annotated[
        int,
        Arg(
            "Tokens at most.  [default: 2000]",
            Agent("", MIN_RESULT_TOKENS, MAX_RESULT_TOKENS),
            1,
            1_000_000,
            metavar="TOKENS",
        ),
    ] = 0
    include_refs: IncludeRefs = ()
    receipt: Annotated[
        bool | None,
        Arg(
            "Keep a receipt; an agent's packs always have one.",
            flags=("--receipt/--no-receipt",),
            excused={FrontEnd.MCP: "an agent's packs always have one"},
        ),
    ] = None
    expand_links: ExpandLinks = False
    semantic: Semantic = None
    format: Annotated[
        str,
        Arg(
            "markdown, text (plain, for hooks), or json.",
            words=FORMATS,
            metavar="FORMAT",
            excused={FrontEnd.MCP: "models read markdown"},
        ),
    ] = "markdown"
    labels: Annotated[
        str,
        Arg(
            "short, or full: path, state and more of each.",
            Agent(is_listed=False),
            words=("short", "full"),
            metavar="LABELS",
        ),
    ] = ""
    at: At = ""
    as_of: AsOf = ""
    project: ProjectScope = ""
    vaults: Vaults = ()


def recall(vault: Vault, request: Recall) -> SearchAnswer:
    """Find the notes that answer a query, best first.

    Each is shown by its best section, with the reason why it was found.

    Examples:
      vaultmem recall "how are refunds handled?" -n 3
      vaultmem recall tokens --kind decision --since 2026-10-01
    """
    vaults, passed_over = open_vaults(vault, request)
    return SearchAnswer(recall_in(vaults, request, show_texts(request)), passed_over)


def recall_in(
    vaults: Sequence[Vault], request: Recall, show: Show, progress: TellProgress | None = None
) -> QueryResult:
    """Return the hits of a query in these vaults; `show` chooses the shown ones.

    Only notes of the caller's or the named project are searched.
    """
    from vaultmem.services.projects.scope import view_projects
    from vaultmem.services.search.run_query import run_query

    return run_query(view_projects(vaults, request.project), make_ask(request), show, progress)


def open_vaults(vault: Vault, request: Recall | PackRequest) -> tuple[list[Vault], list[str]]:
    """Return the vaults to search, and messages about those that are skipped."""
    from vaultmem.services.vaults.companions import add_others

    return add_others(vault, request.vaults, bool(request.at or request.include_refs or vault.ref))


def pack(vault: Vault, request: PackRequest) -> SearchAnswer:
    """Print what an agent needs to know, within a token budget.

    That is what is pinned, and what answers the query; without one, what is most recent.

    Examples:
      vaultmem pack "holmpay 429" --budget 500
      vaultmem pack "session tokens" --receipt
    """
    vaults, passed_over = open_vaults(vault, request)
    return SearchAnswer(pack_of(vaults, request, make_pack_ask(request)), passed_over)


def pack_of(
    vaults: Sequence[Vault],
    request: PackRequest,
    options: AskPack,
    progress: TellProgress | None = None,
) -> PackAnswer:
    """Return the pack of these vaults, limited to a project as in `recall_in`."""
    from vaultmem.services.packs.build import ask_pack
    from vaultmem.services.projects.scope import view_projects

    return ask_pack(view_projects(vaults, request.project), options, progress)


def make_pack_ask(request: PackRequest) -> AskPack:
    """Return the pack options of a request.

    Raises:
        RefusedError: the labels are invalid.
    """
    from vaultmem.core.packs.pack_item import PackStyle, parse_labels
    from vaultmem.services.packs.build import AskPack

    return AskPack(
        request.query,
        request.budget or None,
        PackStyle.TEXT if request.format == "text" else PackStyle.MARKDOWN,
        parse_labels(request.labels) if request.labels else None,
        request.at,
        request.include_refs,
        request.semantic,
        request.expand_links,
        receipt=request.receipt,
        as_of=_read_day(request.as_of),
    )


def _read_day(text: str) -> date | None:
    from vaultmem.services.search.valid_spans import parse_day

    return parse_day(text) if text else None


def make_ask(request: Recall) -> Query:
    """Return the query of a request.

    Raises:
        RefusedError: a kind, a state, a date or the recency is invalid.
    """
    from vaultmem.core.search.query import parse_recency
    from vaultmem.services.search.run_query import MAX_FITTING, Query

    only = request.only.make_filter()
    return Query(
        request.query,
        request.limit or (MAX_FITTING if request.budget else 0),
        request.offset,
        only._replace(states=_choose_states(request), as_of=_read_day(request.as_of)),
        request.at,
        request.include_refs,
        request.semantic,
        request.expand_links,
        suggests=True,
        recency=parse_recency(request.recency),
    )


def _choose_states(request: Recall) -> frozenset[Any]:
    """Return the requested states; an empty set means those shown by default."""
    from vaultmem.core.lifecycle import NoteState

    states = read_states(request.only.state)
    if not states and request.include_archived:
        states = frozenset(NoteState) - {NoteState.QUARANTINED}
    if request.include_quarantined:
        states = (states or frozenset(NoteState) - {NoteState.DEPRECATED}) | {NoteState.QUARANTINED}
    return states


def show_texts(request: Recall) -> Show:
    """Return a function that shows the text of the hits that fit; all without a budget."""
    from vaultmem.services.search import run_query

    return run_query.fit_texts(request.budget) if request.budget else run_query.show_texts


def _recall_data(result: SearchAnswer) -> dict[str, Any]:
    return {**answer_data(result.answer), **_passed_over(result)}


def _pack_found_data(result: SearchAnswer) -> dict[str, Any]:
    return {**pack_answer_data(result.answer), **_passed_over(result)}


def _passed_over(result: SearchAnswer) -> dict[str, Any]:
    return {"skipped": result.passed_over} if result.passed_over else {}


def answer_data(answer: QueryResult) -> dict[str, Any]:
    """Return the hits of a query, with its corrections, match strength and tokens."""
    return {
        "query": answer.question,
        "terms": answer.terms,
        "corrections": answer.replaced,
        "semantic": answer.meaning,
        "rerank": answer.reranked,
        **pick(answer, "match_strength suggestion?=elsewhere too_large"),
        **({"other_project": answer.other_project} if answer.other_project else {}),
        "hits": [hit_data(hit) for hit, _ in answer.shown],
        "omitted": len(answer.hits) - len(answer.shown),
        "tokens": {**pick(answer, "sent full_vault_tokens=flat"), "ratio": round(answer.ratio, 2)},
    }


def hit_data(hit: Hit) -> dict[str, Any]:
    """Return a hit with its match explanation and related sections."""
    facts = "blob title kind state pinned tags context confidence source? agent? session?"
    return {
        **pick(hit, "vault?"),
        **pick(hit.record, "path"),
        **pick(hit.section, "heading? line"),
        **pick(hit.record, facts),
        **({"project": hit.record.project} if hit.record.project else {}),
        **pick(hit, "refs linked_from? replaces"),
        "related_sections": [
            {**pick(each, "heading? line"), "score": round(each.score, 6)}
            for each in hit.related_sections
        ],
        **pick(hit, "caution?"),
        "anchors": anchors_data(hit.anchors),
        "score": round(hit.score, 6),
        **pick(hit, "text shown_line?"),
        "explanation": why_data(hit),
    }


#: The parts of a score besides the words, with their display texts.
_PARTS = {
    "closeness": "words side by side",
    "passage": "its best passage",
    "named": "a title of the question's words",
    "neighbours": "notes written just before and after",
    "recency": "its age, compared with the best answer",
    "semantic": "in meaning; words and meaning are blended",
}


def why_data(hit: Hit) -> dict[str, Any]:
    """Return the parts of a hit's score."""
    matches = [
        {"term": m.shown, "fields": m.fields, "score": round(m.score, 6)} for m in hit.matches
    ]
    return {
        "matches": matches,
        **{name: round(getattr(hit, name), 6) for name in _PARTS},
        "rerank": None if hit.rerank is None else round(hit.rerank, 6),
        "state_weight": round(hit.state_weight, 6),
    }


def recall_lines(answer: QueryResult, request: Recall) -> Iterator[Line]:
    """Yield a result as lines: the match strength, shown hits and the number of others."""
    from vaultmem.services.search.run_query import describe_match_strength

    for line in describe_match_strength(answer):
        yield Line(line, "yellow")
    for number, (hit, _) in enumerate(answer.shown, 1):
        yield from _list_lines(number, hit, request.explain)
    count, more = len(answer.hits) - len(answer.shown), "more " if answer.shown else ""
    if request.budget and count:
        text = f"{count} {more}found, for which {request.budget} tokens have no room"
        yield Line(f"{text}; give a larger --budget.", "yellow")
    if answer.shown:
        tokens = f"{answer.sent:,} tokens shown, {answer.flat:,} in all notes"
        yield Line(f"{tokens} ({answer.ratio:.1f}x)", "dim")


def show_lines(request: Recall) -> Show:
    """Return a function that shows the hits whose lines fit; all without a budget."""
    from vaultmem.core.packs.passages import show_line
    from vaultmem.core.text.token_count import count_tokens

    def show(_: VaultSet, answer: QueryResult) -> list[tuple[Hit, str]]:
        shown_hits, budget_left = [], request.budget
        for number, hit in enumerate(answer.hits, 1):
            lines = _list_lines(number, hit, request.explain) if request.budget else ()
            budget_left -= count_tokens("".join(f"{each.text}{each.rest}\n" for each in lines))
            if budget_left < 0:
                break
            shown_hits.append((hit, show_line(hit)))
        return shown_hits

    return show


def _list_lines(number: int, hit: Hit, explain: bool) -> Iterator[Line]:
    from vaultmem.core.packs.pack_item import format_related, plain_label
    from vaultmem.core.packs.pack_text import label_hit
    from vaultmem.core.packs.passages import show_line
    from vaultmem.core.packs.warnings import describe_anchors
    from vaultmem.core.text.display import truncate_line

    yield Line(f"{number:>2}. {truncate_line(plain_label(hit.name), 200)}", "bold")
    yield Line(f"    {plain_label(hit.address)}   {label_hit(hit)}")
    if hit.replaces:
        yield Line(f"    replaces {', '.join(hit.replaces)}")
    if anchors := describe_anchors(hit):
        yield Line(f"    {anchors}", "yellow" if any(e.is_different for e in hit.anchors) else "")
    if hit.caution:
        yield Line(f"    {hit.caution}", "red")
    mark = "> " if hit.record.state == "quarantined" else ""
    if text := show_line(hit):
        yield Line(f"    {mark}{text}")
    order = " and words in order" if hit.closeness else ""
    yield Line(f"    why: {_explain_hit(hit)}{order}", "dim")
    if further := format_related(hit):
        yield Line(f"    also: {further}", "dim")
    if explain:
        yield from _explain(hit)


def _explain_hit(hit: Hit) -> str:
    words = [f"{m.shown} ({'+'.join(m.fields)})" for m in hit.matches]
    if hit.linked_from:
        words.append(f"link in {hit.linked_from}")
    if not words and hit.semantic:
        words.append("near in meaning")
    return ", ".join(words)


def _explain(hit: Hit) -> Iterator[Line]:
    for match in hit.matches:
        yield Line(f"      {match.score:7.3f}  {match.shown} in {', '.join(match.fields)}")
    for name, description in _PARTS.items():
        if value := getattr(hit, name):
            yield Line(f"      {value:7.3f}  {description}")
    yield Line(f"      {hit.state_weight:7.3f}  times, for state {hit.record.state}")
    if hit.rerank is not None:
        text = "by the reranker, which orders the best sections"
        yield Line(f"      {hit.rerank:7.3f}  {text}")
    place = " of this place" * (hit.rerank is not None)
    yield Line(f"      {hit.score:7.3f}  score{place}")


def pack_answer_data(answer: PackAnswer) -> dict[str, Any]:
    """Return a pack with its receipt, and the use of embeddings and the reranker."""
    search_data = {"semantic": answer.meaning, "rerank": answer.reranked}
    return {**pack_data(answer.pack), **pick(answer, "receipt?"), **search_data}


def pack_data(context_pack: Pack) -> dict[str, Any]:
    """Return a pack: its text, its shown and omitted sections, and its tokens."""
    from vaultmem.core.packs.pack_text import price_pack

    account, costs = context_pack.account, price_pack(context_pack)
    return {
        **pick(context_pack, "text match_strength"),
        "items": [_item_data(*each) for each in zip(context_pack.items, costs, strict=True)],
        "omitted_pins": [hit.address for hit in context_pack.omitted_pins],
        "unnamed": context_pack.unlisted_pin_count,
        "omitted": list(map(_left_data, context_pack.omitted)),
        "corrections": dict(context_pack.replaced),
        "tokens": {
            **pick(account, "sent budget full_vault_tokens=flat"),
            "ratio": round(account.ratio, 2),
        },
    }


def _left_data(left: OmittedItem) -> dict[str, Any]:
    """Return a section that was omitted from a pack."""
    return {
        **_place_data(left.hit),
        "pinned": left.pinned,
        "reason": left.why,
        "instead": left.instead.address if left.instead else None,
        "score": round(left.hit.score, 6),
    }


def _place_data(hit: Hit) -> dict[str, Any]:
    return {
        **pick(hit, "vault?"),
        **pick(hit.record, "path"),
        **pick(hit.section, "heading?"),
        **pick(hit.record, "blob"),
    }


def _item_data(item: PackItem, cost: int) -> dict[str, Any]:
    from vaultmem.core.packs.pack_text import build_handle

    return {
        "handle": build_handle(item.hit, item.handle),
        **_place_data(item.hit),
        "refs": item.hit.refs,
        "group": item.part.value,
        "pinned": item.pinned,
        "follows": item.hit.answered_note or None,
        **pick(item, "shortened duplicates=duplicate_count caution? conflict?"),
        "anchors": anchors_data(item.hit.anchors),
        "tokens": cost,
        "score": round(item.hit.score, 6),
        "explanation": why_data(item.hit),
        "text": item.text,
    }


def by_body(operation: Operation) -> Operation:
    """Return a copy of a reading operation as a POST, because a query can be long."""
    return operation._replace(
        name=f"{operation.name}_by_body",
        address=f"POST {operation.path}",
        summary="The same as GET, for questions that are too long for an address.",
    )


RECALL = Operation(
    "recall",
    "GET /recall",
    run=recall,
    request=Recall,
    data=_recall_data,
    output_schema=record(
        query="string",
        terms=STRINGS,
        corrections="object",
        match_strength="string",
        suggestion="string?",
        hits=rows(
            path="string",
            heading="string?",
            line="integer",
            blob="string",
            title="string",
            kind="string",
            state="string",
            score="number",
            text="string",
            explanation="object",
        ),
        omitted="integer",
        tokens=record(sent="integer", full_vault_tokens="integer", ratio="number"),
    ),
    versions=VersionScope.ASKED,
)

PACK = Operation(
    "pack",
    "GET /pack",
    run=pack,
    request=PackRequest,
    data=_pack_found_data,
    output_schema=record(
        text="string",
        match_strength="string?",
        items=rows(
            handle="string",
            path="string",
            heading="string?",
            blob="string",
            group="string",
            pinned="boolean",
            shortened="boolean",
            tokens="integer",
            score="number",
            explanation="object",
            text="string",
        ),
        omitted=rows(path="string", heading="string?", reason="string", instead="string?"),
        omitted_pins=STRINGS,
        unnamed="integer",
        tokens=record(
            sent="integer", budget="integer", full_vault_tokens="integer", ratio="number"
        ),
        receipt="string?",
    ),
    versions=VersionScope.ASKED,
)

FINDING = (RECALL, by_body(RECALL), PACK, by_body(PACK))
