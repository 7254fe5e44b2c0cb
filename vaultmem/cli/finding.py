"""Commands that find: recall and pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    open_view,
)
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.cli.plain import PlainCommand

if TYPE_CHECKING:
    from vaultmem.core.finding.hit import Hit
    from vaultmem.core.packs.pack import Pack
    from vaultmem.core.packs.pack_text import PackItem


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
    vault: VaultOption = "",
    ref: RefOption = "",
    at: AtOption = "",
    include_refs: IncludeRefsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find the sections that answer a question, best first, each with the reason why."""
    from vaultmem.core.finding.query import parse_query
    from vaultmem.services.finding.recall import recall

    states = state or (_ALL_BUT_QUARANTINED if include_archived else [])
    opened = open_view(vault, ref, at, include_refs)
    wanted = make_filter(kind, states, tag, context)
    asked = parse_query(" ".join(query), limit or opened.config.results, wanted)
    hits = recall(opened, asked)
    if as_json:
        emit_json({"query": asked.text, "terms": asked.terms, "hits": [_hit_json(h) for h in hits]})
        return
    if not hits:
        say("Nothing in this vault answers that.")
    for number, hit in enumerate(hits, 1):
        _say_hit(number, hit, explain)


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
    as_json: JsonOption = False,
) -> None:
    """Print the context pack: what is pinned plus what is relevant, within a token budget.

    Without a query: what is pinned plus what is most recent.
    """
    from vaultmem.services.finding.pack import make_pack

    opened = open_view(vault, ref, at, include_refs, agent, session)
    made = make_pack(opened, " ".join(query), budget or None)
    name = ""
    if not no_receipt and (receipt or opened.keeps_receipts):
        from vaultmem.services.finding.receipts import keep_receipt

        name = keep_receipt(opened, made, " ".join(query)).id
    if as_json:
        emit_json({**_pack_json(made), "receipt": name or None})
        return
    say(made.text.rstrip("\n"))
    if receipt:
        warn(f"receipt {name}")


def _say_hit(number: int, hit: Hit, explain: bool) -> None:
    from vaultmem.core.finding.excerpt import choose_excerpt

    say_painted(f"{number:>2}. {hit.name}", "bold")
    record = hit.record
    refs = f" | on {', '.join(hit.refs)}" if hit.refs else ""
    say(f"    {hit.address}   [{record.kind} | {record.state}{refs}]")
    say(f"    {choose_excerpt(hit.text, [match.term for match in hit.matches])}")
    words = ", ".join(f"{m.term} ({'+'.join(m.fields)})" for m in hit.matches)
    say_painted(f"    why: {words}", "dim", " and words in order" if hit.closeness else "")
    if explain:
        for match in hit.matches:
            say(f"      {match.score:7.3f}  {match.term} in {', '.join(match.fields)}")
        say(f"      {hit.closeness:7.3f}  words side by side")
        say(f"      {hit.state_weight:7.3f}  times, for state {record.state}")
        say(f"      {hit.score:7.3f}  score")


def _hit_json(hit: Hit) -> dict[str, Any]:
    record = hit.record
    return {
        "path": record.path,
        "heading": hit.section.heading or None,
        "line": hit.section.line,
        "blob": record.blob,
        "title": record.title,
        "kind": record.kind,
        "state": record.state,
        "pinned": record.pinned,
        "tags": record.tags,
        "context": record.context,
        "confidence": record.confidence,
        "source": record.source or None,
        "agent": record.agent or None,
        "session": record.session or None,
        "refs": hit.refs,
        "score": round(hit.score, 6),
        "text": hit.text,
        "why": {
            "matches": [
                {"term": m.term, "fields": m.fields, "score": round(m.score, 6)}
                for m in hit.matches
            ],
            "closeness": round(hit.closeness, 6),
            "state_weight": hit.state_weight,
        },
    }


def _pack_json(made: Pack) -> dict[str, Any]:
    account = made.account
    return {
        "text": made.text,
        "items": [_item_json(item) for item in made.items],
        "unshown": [hit.address for hit in made.unshown],
        "unnamed": made.unnamed,
        "tokens": {
            "sent": account.sent,
            "budget": account.budget,
            "flat": account.flat,
            "ratio": round(account.ratio, 2),
        },
    }


def _item_json(item: PackItem) -> dict[str, Any]:
    return {
        "path": item.hit.record.path,
        "heading": item.hit.section.heading or None,
        "blob": item.hit.record.blob,
        "refs": item.hit.refs,
        "group": "instructions" if item.is_instruction else "evidence",
        "pinned": item.pinned,
        "shortened": item.shortened,
        "text": item.text,
    }
