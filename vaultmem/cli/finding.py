"""Commands that find: recall and pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.finding import hit_json, pack_json
from vaultmem.cli.embedding import describe_scorer, open_scorer
from vaultmem.cli.filters import (
    FromAgentOption,
    FromSessionOption,
    PathOption,
    SinceOption,
    UntilOption,
    narrow_filter,
)
from vaultmem.cli.hits import choose_line, say_hit, say_suggestions
from vaultmem.cli.opening import open_view
from vaultmem.cli.options import (
    AgentOption,
    AtOption,
    ContextOption,
    IncludeRefsOption,
    JsonOption,
    KindOption,
    RefOption,
    SessionOption,
    StateOption,
    TagOption,
    VaultOption,
    make_filter,
)
from vaultmem.cli.output import emit_json, say, warn
from vaultmem.cli.plain import PlainCommand

if TYPE_CHECKING:
    pass


ExpandLinksOption = Annotated[
    bool, typer.Option("--expand-links", help="Also what the best sections link to.")
]

SemanticOption = Annotated[
    bool | None,
    typer.Option(
        "--semantic/--no-semantic",
        help="By meaning too, or by words alone; else as vaultmem.yaml says.",
        show_default=False,
    ),
]

_FORMATS = ("markdown", "text", "json")

_SHOWN = ["active", "candidate", "stale"]
_ALL_BUT_QUARANTINED = ["active", "candidate", "stale", "archived", "deprecated"]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("recall", cls=PlainCommand)(recall_)
    app.command("pack", cls=PlainCommand)(pack)


def recall_(
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")],
    limit: Annotated[
        int,
        typer.Option(
            "-n", "--limit", metavar="N", help="Sections at most; else 10.", show_default=False
        ),
    ] = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Show each part of a score.")] = False,
    kind: KindOption = [],  # noqa: B006
    state: StateOption = [],  # noqa: B006
    tag: TagOption = [],  # noqa: B006
    context: ContextOption = "",
    include_archived: Annotated[
        bool, typer.Option("--include-archived", help="Also archived and deprecated notes.")
    ] = False,
    include_quarantined: Annotated[
        bool,
        typer.Option("--include-quarantined", help="Also quarantined notes, behind a warning."),
    ] = False,
    from_agent: FromAgentOption = "",
    from_session: FromSessionOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    path: PathOption = [],  # noqa: B006
    vault: VaultOption = "",
    ref: RefOption = "",
    at: AtOption = "",
    include_refs: IncludeRefsOption = "",
    expand_links: ExpandLinksOption = False,
    semantic: SemanticOption = None,
    agent: AgentOption = "",
    session: SessionOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find the sections that answer a question, best first, each with the reason why."""
    from vaultmem.core.finding.query import parse_query
    from vaultmem.services.economics import count_recall
    from vaultmem.services.finding.recall import recall
    from vaultmem.services.finding.suggest import suggest_words

    states = state or (_ALL_BUT_QUARANTINED if include_archived else [])
    if include_quarantined:
        states = [*(states or _SHOWN), "quarantined"]
    opened = open_view(vault, ref, at, include_refs, agent, session)
    wanted = make_filter(kind, states, tag, context)
    wanted = narrow_filter(wanted, from_agent, from_session, since, until, path)
    asked = parse_query(" ".join(query), limit or opened.config.results, wanted)
    dense = open_scorer(opened, semantic)
    hits = recall(opened, asked, dense)
    meaning = describe_scorer(dense)
    if expand_links:
        from vaultmem.services.finding.links import expand_hits

        hits = expand_hits(opened, asked, hits)
    shown = [hit.text if as_json else choose_line(hit) for hit in hits]
    count_recall(opened, asked.text, hits, shown)
    suggestions = suggest_words(opened, asked)
    if as_json:
        found = [hit_json(hit) for hit in hits]
        emit_json(
            {
                "query": asked.text,
                "terms": asked.terms,
                "did_you_mean": suggestions,
                "semantic": meaning,
                "hits": found,
            }
        )
        return
    if not hits:
        say("Nothing in this vault answers that.")
    for number, hit in enumerate(hits, 1):
        say_hit(number, hit, explain)
    say_suggestions(suggestions)


def pack(
    query: Annotated[
        list[str], typer.Argument(metavar="[QUERY]", help="What the pack is for.")
    ] = [],  # noqa: B006
    budget: Annotated[
        int,
        typer.Option(
            "--budget", metavar="TOKENS", help="Tokens at most; else 2000.", show_default=False
        ),
    ] = 0,
    vault: VaultOption = "",
    ref: RefOption = "",
    at: AtOption = "",
    include_refs: IncludeRefsOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    receipt: Annotated[
        bool, typer.Option("--receipt", help="Keep a receipt; an agent's packs always have one.")
    ] = False,
    no_receipt: Annotated[bool, typer.Option("--no-receipt", help="Keep no receipt.")] = False,
    expand_links: ExpandLinksOption = False,
    semantic: SemanticOption = None,
    output: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="markdown, text (plain, for hooks), or json."
        ),
    ] = "markdown",
    as_json: JsonOption = False,
) -> None:
    """Print the context pack: what is pinned plus what is relevant, within a token budget.

    Without a query: what is pinned plus what is most recent.
    """
    from vaultmem.core.packs.pack_text import PackStyle
    from vaultmem.services.economics import count_pack, warn_of_pinned
    from vaultmem.services.finding.pack import make_pack

    if output not in _FORMATS:
        raise typer.BadParameter(f'"{output}" is no format; use {", ".join(_FORMATS)}')
    as_json = as_json or output == "json"
    style = PackStyle.TEXT if output == "text" else PackStyle.MARKDOWN
    opened = open_view(vault, ref, at, include_refs, agent, session)
    dense = open_scorer(opened, semantic) if query else None
    made = make_pack(
        opened,
        " ".join(query),
        budget or None,
        style=style,
        expand_links=expand_links,
        dense=dense,
    )
    meaning = describe_scorer(dense)
    count_pack(opened, " ".join(query), made)
    name = ""
    if not no_receipt and (receipt or opened.keeps_receipts):
        from vaultmem.services.finding.receipts import keep_receipt

        name = keep_receipt(opened, made, " ".join(query)).id
    if warning := warn_of_pinned(made.pinned_tokens, opened.config.budget):
        warn(f"warning: {warning}")
    if as_json:
        emit_json({**pack_json(made), "receipt": name or None, "semantic": meaning})
        return
    say(made.text.rstrip("\n"))
    if receipt:
        warn(f"receipt {name}")
