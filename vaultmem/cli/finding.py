"""Commands that find: recall and pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from vaultmem.cli.asking import open_several, warn_unmatched
from vaultmem.cli.options import (
    AllVaultsOption,
    FleetOption,
    VaultsOption,
)
from vaultmem.cli.output import ProgressLine, emit_json, say, say_lines, warn
from vaultmem.cli.shared import Here, offers, takes
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


def _refuse_with_fleet(here: Here, asked: Recall | PackRequest, all_vaults: bool) -> None:
    """Refuse options that are for one vault, or for the vaults of this machine."""
    from vaultmem.cli.fleet_work import refuse_with_fleet

    refuse_with_fleet(
        ref=here.ref,
        at=asked.at,
        all_vaults=all_vaults,
        include_refs=asked.include_refs,
        project=asked.project,
    )


def _with_missing(told: dict[str, Any], missing: dict[str, str] | None) -> dict[str, Any]:
    """Return an answer as JSON, of a fleet with why some vaults have no part in it."""
    return told if missing is None else {**told, "missing": missing}


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
        _refuse_with_fleet(here, asked, all_vaults)
        answer, missing = recall_fleet(fleet, vault, make_ask(asked), show)
    else:
        opened = open_several(here, vault, all_vaults, bool(asked.at or asked.include_refs))
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


@offers(PACK)
@takes("ref", "agent", "session", "as_json")
def pack(
    here: Here,
    asked: PackRequest,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
    fleet: FleetOption = "",
) -> None:
    """Print a pack, of a vault, several or a fleet."""
    from vaultmem.cli.fleet_work import pack_fleet, warn_missing
    from vaultmem.services.finding.trust import tell_trust_elsewhere

    if asked.format not in FORMATS:
        raise typer.BadParameter(f'"{asked.format}" is not a format; use {", ".join(FORMATS)}')
    elsewhere, missing = "", None
    if fleet:
        _refuse_with_fleet(here, asked, all_vaults)
        answer, missing = pack_fleet(fleet, vault, make_pack_ask(asked))
    else:
        opened = open_several(here, vault, all_vaults, bool(asked.at or asked.include_refs))
        answer = pack_of(opened, asked, make_pack_ask(asked), ProgressLine)
        elsewhere = tell_trust_elsewhere(opened[0])
    _warn_of_models(answer)
    if answer.warning:
        warn(f"warning: {answer.warning}")
    if elsewhere:
        warn(f"note: {elsewhere}")
    if here.as_json or asked.format == "json":
        emit_json(_with_missing(pack_answer_data(answer), missing))
        return
    say(answer.pack.text.rstrip("\n"))
    warn_missing(missing or {})
    if asked.receipt:
        warn(f"receipt {answer.receipt}")
