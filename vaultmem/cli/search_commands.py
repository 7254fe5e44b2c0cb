"""Commands that search: recall, pack, mv, links, similar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import (
    AllVaultsOption,
    DryRunOption,
    FleetOption,
    VaultsOption,
)
from vaultmem.cli.output import (
    ProgressLine,
    emit_json,
    print_line,
    print_lines,
    warn,
)
from vaultmem.cli.shared import answer, make_command, offers, takes
from vaultmem.cli.vault_selection import open_several, warn_unmatched
from vaultmem.operations.curation import SIMILAR
from vaultmem.operations.declaration import NoArguments
from vaultmem.operations.finding import (
    FORMATS,
    PACK,
    RECALL,
    PackRequest,
    Recall,
    answer_data,
    make_ask,
    make_pack_ask,
    pack_answer_data,
    pack_of,
    recall_in,
    recall_lines,
    show_lines,
    show_texts,
)
from vaultmem.operations.links import (
    BACKLINKS,
    BROKEN,
    LINKS,
    MV,
    ORPHANS,
    REPAIR,
)

if TYPE_CHECKING:
    from vaultmem.services.packs.build import PackAnswer
    from vaultmem.services.search.run_query import QueryResult


def _warn_of_models(answer: QueryResult | PackAnswer) -> None:
    """Warn about models that a result did not use, or used only in part."""
    if answer.words_alone:
        warn(f"found by words alone: {answer.words_alone}")
    elif answer.meaning and (lacking := answer.meaning.sections - answer.meaning.embedded):
        of = f"{lacking:,} of {answer.meaning.sections:,} sections"
        warn(f"found by words alone: {of}, which have no vector yet; run `vaultmem embed`")
    if answer.reranked and answer.reranked.problem:
        warn(f"not reranked: {answer.reranked.problem}")


def _reject_with_fleet(
    context: CommandContext, request: Recall | PackRequest, all_vaults: bool
) -> None:
    """Reject options that only work on one vault, or on this machine's vaults."""
    from vaultmem.cli.fleet_work import reject_with_fleet

    reject_with_fleet(
        ref=context.ref,
        at=request.at,
        all_vaults=all_vaults,
        include_refs=request.include_refs,
        project=request.project,
    )


def _with_missing(data: dict[str, Any], missing: dict[str, str] | None) -> dict[str, Any]:
    """Return a result as JSON; for a fleet, with the missing vaults and the reasons."""
    return data if missing is None else {**data, "missing": missing}


@offers(RECALL)
@takes("ref", "agent", "session", "as_json")
def recall_(
    context: CommandContext,
    request: Recall,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
    fleet: FleetOption = "",
) -> None:
    """Print what answers a question, of a vault, several or a fleet."""
    from vaultmem.cli.fleet_work import recall_fleet, warn_missing

    show = show_texts(request) if context.as_json else show_lines(request)
    vaults, missing = None, None
    if fleet:
        _reject_with_fleet(context, request, all_vaults)
        answer, missing = recall_fleet(fleet, vault, make_ask(request), show)
    else:
        vaults = open_several(context, vault, all_vaults, bool(request.at or request.include_refs))
        answer = recall_in(vaults, request, show, ProgressLine)
    _warn_of_models(answer)
    if context.as_json:
        emit_json(_with_missing(answer_data(answer), missing))
        return
    print_lines(recall_lines(answer, request))
    if not answer.hits and vaults is not None:
        warn_unmatched(vaults, request.only.make_filter())
    elif not answer.hits:
        print_line("No note matches.")
    warn_missing(missing or {})


@offers(PACK)
@takes("ref", "agent", "session", "as_json")
def pack(
    context: CommandContext,
    request: PackRequest,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
    fleet: FleetOption = "",
) -> None:
    """Print a pack, of a vault, several or a fleet."""
    from vaultmem.cli.fleet_work import pack_fleet, warn_missing
    from vaultmem.services.search.trusted import describe_trust_elsewhere

    if request.format not in FORMATS:
        raise typer.BadParameter(f'"{request.format}" is not a format; use {", ".join(FORMATS)}')
    elsewhere, missing = "", None
    if fleet:
        _reject_with_fleet(context, request, all_vaults)
        answer, missing = pack_fleet(fleet, vault, make_pack_ask(request))
    else:
        vaults = open_several(context, vault, all_vaults, bool(request.at or request.include_refs))
        answer = pack_of(vaults, request, make_pack_ask(request), ProgressLine)
        elsewhere = describe_trust_elsewhere(vaults[0])
    _warn_of_models(answer)
    if answer.warning:
        warn(f"warning: {answer.warning}")
    if elsewhere:
        warn(f"note: {elsewhere}")
    if context.as_json or request.format == "json":
        emit_json(_with_missing(pack_answer_data(answer), missing))
        return
    print_line(answer.pack.text.rstrip("\n"))
    warn_missing(missing or {})
    if request.receipt:
        warn(f"receipt {answer.receipt}")


# Commands on links between notes: links, mv.


@takes("vault", "ref", "at", "agent", "as_json")
def links(
    context: CommandContext,
    path: Annotated[
        str,
        typer.Argument(metavar="[PATH]", help="The note; without it, all broken links are listed."),
    ] = "",
    to: Annotated[bool, typer.Option("--to", help="The links of other notes to it.")] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="The notes that no other note links to.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Change the broken links to files that were moved since."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """List what a note links to, or what links to it.

    Broken links are marked. Pinned notes and reference material are not orphans. --repair changes
    broken links whose file has another path now, in one commit.

    Examples:
      vaultmem links refund-rules
      vaultmem links --to refund-rules
      vaultmem links --orphans
      vaultmem links --repair --dry-run
    """
    if (to and not path) or (orphans and (path or to)):
        raise typer.BadParameter("give PATH, --to PATH, or --orphans")
    if repair and (path or to or orphans or context.at):
        raise typer.BadParameter("--repair is about all notes as they are; give --dry-run at most")
    if repair:
        answer(REPAIR._replace(writes=not dry_run), context, REPAIR.request(dry_run))
    elif path:
        answer(BACKLINKS if to else LINKS, context, LINKS.request(path))
    else:
        answer(ORPHANS if orphans else BROKEN, context, NoArguments())


mv = make_command(MV, "mv")


similar = make_command(SIMILAR, "similar")
