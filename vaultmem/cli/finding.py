"""Commands that find: recall and pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.asking import open_several, warn_unmatched
from vaultmem.cli.options import (
    AllVaultsOption,
    BudgetOption,
    FleetOption,
    IncludeRefsOption,
    VaultsOption,
    split_names,
)
from vaultmem.cli.output import ProgressLine, emit_json, say, say_lines, warn
from vaultmem.cli.shared import Here, offers, takes
from vaultmem.operations.finding import (
    RECALL,
    Recall,
    answer_data,
    make_ask,
    pack_answer_data,
    recall_in,
    recall_lines,
    show_lines,
    show_texts,
)

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


def _refuse_with_fleet(here: Here, all_vaults: bool, include_refs: object) -> None:
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


@offers(RECALL)
@takes("ref", "agent", "session", "as_json")
def recall_(
    here: Here,
    asked: Recall,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
    fleet: FleetOption = "",
) -> None:
    """Print what answers a question, of a vault, several or a fleet."""
    from vaultmem.cli.fleet_work import recall_fleet, warn_missing

    show = show_texts(asked) if here.as_json else show_lines(asked)
    opened, missing = None, None
    if fleet:
        _refuse_with_fleet(here._replace(at=asked.at), all_vaults, asked.include_refs)
        answer, missing = recall_fleet(fleet, vault, make_ask(asked), show)
    else:
        is_alone = bool(asked.at or asked.include_refs)
        opened = open_several(here, vault, all_vaults, is_alone)
        answer = recall_in(opened, asked, show, ProgressLine)
    _warn_of_models(answer)
    if here.as_json:
        emit_json(_with_missing(answer_data(answer), missing))
        return
    say_lines(recall_lines(answer, asked))
    if not answer.hits and opened is not None:
        warn_unmatched(opened, asked.only.make_filter())
    elif not answer.hits:
        say("No note matches.")
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
        emit_json(_with_missing(pack_answer_data(answer), missing))
        return
    say(answer.pack.text.rstrip("\n"))
    warn_missing(missing or {})
    if receipt:
        warn(f"receipt {answer.receipt}")
