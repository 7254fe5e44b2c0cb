"""Commands that find: recall and pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.answers.finding import answer_json, pack_answer_json
from vaultmem.cli.asking import open_several
from vaultmem.cli.hit_text import say_hit, show_hits, tell_left_out, warn_unmatched
from vaultmem.cli.narrowing import Only, takes_only
from vaultmem.cli.options import (
    AllVaultsOption,
    BudgetOption,
    FleetOption,
    IncludeRefsOption,
    VaultsOption,
    split_names,
)
from vaultmem.cli.output import ProgressLine, emit_json, say, say_painted, warn
from vaultmem.cli.shared import Here, takes

if TYPE_CHECKING:
    from vaultmem.services.finding.ask import QueryResult
    from vaultmem.services.finding.pack import PackAnswer


def _warn_of_models(answer: QueryResult | PackAnswer) -> None:
    """Say which models had no part in an answer, or not their whole part."""
    if answer.words_alone:
        warn(f"found by words alone: {answer.words_alone}")
    elif answer.meaning and (lacking := answer.meaning.sections - answer.meaning.embedded):
        of = f"{lacking:,} of {answer.meaning.sections:,} sections"
        warn(f"found by words alone: {of}, which have no vector yet; run `vaultmem embed`")
    if answer.reranked and answer.reranked.problem:
        warn(f"not reranked: {answer.reranked.problem}")


def _refuse_with_fleet(here: Here, all_vaults: bool, include_refs: str) -> None:
    """Refuse options that are for one vault, or for the vaults of this machine."""
    from vaultmem.cli.fleet_work import refuse_with_fleet

    refuse_with_fleet(ref=here.ref, at=here.at, all_vaults=all_vaults, include_refs=include_refs)


def _with_missing(told: dict[str, Any], missing: dict[str, str] | None) -> dict[str, Any]:
    """Return an answer as JSON, of a fleet with why some vaults have no part in it."""
    return told if missing is None else {**told, "missing": missing}


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


@takes_only
@takes("ref", "at", "agent", "session", "as_json")
def recall_(
    here: Here,
    only: Only,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")],
    limit: Annotated[
        int,
        typer.Option(
            "-n", "--limit", metavar="N", help="Notes at most; else 10.", show_default=False
        ),
    ] = 0,
    budget: Annotated[
        int,
        typer.Option(
            "--budget",
            metavar="TOKENS",
            help="As many of the best as fit into so many tokens; else any number of tokens.",
            show_default=False,
        ),
    ] = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Show each part of a score.")] = False,
    include_archived: Annotated[
        bool, typer.Option("--include-archived", help="Also archived and deprecated notes.")
    ] = False,
    include_quarantined: Annotated[
        bool,
        typer.Option("--include-quarantined", help="Also quarantined notes, behind a warning."),
    ] = False,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
    fleet: FleetOption = "",
    include_refs: IncludeRefsOption = "",
    expand_links: ExpandLinksOption = False,
    semantic: SemanticOption = None,
) -> None:
    """Find the notes that answer a question, best first.

    Each is shown by its best section, with the reason why it was found.

    Examples:
      vaultmem recall "how are refunds handled?" -n 3
      vaultmem recall tokens --kind decision --since 2026-10-01
    """
    from vaultmem.cli.fleet_work import recall_fleet, warn_missing
    from vaultmem.services.finding.ask import MOST_FITTING, Ask, run_query, tell_how_sure

    states = only.state or (_ALL_BUT_QUARANTINED if include_archived else [])
    if include_quarantined:
        states = [*(states or _SHOWN), "quarantined"]
    asked = Ask(
        " ".join(query),
        limit or (MOST_FITTING if budget else 0),
        filter=only._replace(state=states).make_filter(),
        at=here.at,
        refs=split_names(include_refs),
        semantic=semantic,
        expand_links=expand_links,
        suggests=True,
    )
    show = show_hits(budget, explain, here.as_json)
    opened, missing = None, None
    if fleet:
        _refuse_with_fleet(here, all_vaults, include_refs)
        answer, missing = recall_fleet(fleet, vault, asked, show)
    else:
        opened = open_several(here, vault, all_vaults, alone=bool(here.at or include_refs))
        answer = run_query(opened, asked, show, ProgressLine)
    _warn_of_models(answer)
    if here.as_json:
        emit_json(_with_missing(answer_json(answer), missing))
        return
    for line in tell_how_sure(answer):
        say_painted(line, "yellow")
    if not answer.hits and opened is not None:
        warn_unmatched(opened, asked.filter)
    elif not answer.hits:
        say("No note matches.")
    for number, (hit, _) in enumerate(answer.shown, 1):
        say_hit(number, hit, explain)
    if left_out := tell_left_out(answer, budget):
        say_painted(left_out, "yellow")
    warn_missing(missing or {})


@takes("ref", "at", "agent", "session", "as_json")
def pack(
    here: Here,
    query: Annotated[
        list[str], typer.Argument(metavar="[QUERY]", help="What the pack is for.")
    ] = [],  # noqa: B006
    budget: BudgetOption = 0,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
    fleet: FleetOption = "",
    include_refs: IncludeRefsOption = "",
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
    labels: Annotated[
        str,
        typer.Option(
            "--labels", metavar="LABELS", help="short, or full: path, state and more of each."
        ),
    ] = "",
) -> None:
    """Print what an agent needs to know, within a token budget.

    That is what is pinned, and what answers the query; without one, what is most recent.

    Examples:
      vaultmem pack "holmpay 429" --budget 500
      vaultmem pack "session tokens" --receipt
    """
    from vaultmem.cli.fleet_work import pack_fleet, warn_missing
    from vaultmem.core.packs.pack_item import PackStyle, parse_labels
    from vaultmem.services.finding.pack import AskPack, ask_pack
    from vaultmem.services.finding.trust import tell_trust_elsewhere

    if output not in _FORMATS:
        raise typer.BadParameter(f'"{output}" is not a format; use {", ".join(_FORMATS)}')
    as_json = here.as_json or output == "json"
    asked = AskPack(
        " ".join(query),
        budget or None,
        PackStyle.TEXT if output == "text" else PackStyle.MARKDOWN,
        parse_labels(labels) if labels else None,
        at=here.at,
        refs=split_names(include_refs),
        semantic=semantic,
        expand_links=expand_links,
        receipt=False if no_receipt else receipt or None,
    )
    elsewhere, missing = "", None
    if fleet:
        _refuse_with_fleet(here, all_vaults, include_refs)
        answer, missing = pack_fleet(fleet, vault, asked)
    else:
        opened = open_several(here, vault, all_vaults, alone=bool(here.at or include_refs))
        answer = ask_pack(opened, asked, ProgressLine)
        elsewhere = tell_trust_elsewhere(opened[0])
    _warn_of_models(answer)
    if answer.warning:
        warn(f"warning: {answer.warning}")
    if elsewhere:
        warn(f"note: {elsewhere}")
    if as_json:
        emit_json(_with_missing(pack_answer_json(answer), missing))
        return
    say(answer.pack.text.rstrip("\n"))
    warn_missing(missing or {})
    if receipt:
        warn(f"receipt {answer.receipt}")
