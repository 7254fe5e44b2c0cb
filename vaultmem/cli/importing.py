"""The command `import`: what other programs remember, or wrote down."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.agents import import_json
from vaultmem.cli.opening import open_synced
from vaultmem.cli.options import DryRunOption, JsonOption, VaultOption
from vaultmem.cli.output import ProgressLine, emit_json, say, say_painted
from vaultmem.cli.quick_typer import add_commands

if TYPE_CHECKING:
    from vaultmem.services.importing.run import ImportReport
    from vaultmem.services.importing.take import Outcome

_SHOWN = 12

_COLOURS = {
    "new": "green",
    "changed": "green",
    "contradicts": "yellow",
    "quarantined": "yellow",
    "credential": "red",
}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_commands(app, import_)


def import_(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="transcripts, chatgpt, claude-ai, claude-memory, codex-memory, mem0, "
            "basic-memory, openclaw or letta.",
        ),
    ],
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, folders, or zips of an export.")
    ],
    dry_run: DryRunOption = False,
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take in what other programs remember, as candidates.

    Talks become sessions. What is known already is left as it is, so the same export again adds
    nothing. All of it is one commit.
    """
    from vaultmem.services.importing.run import find_kind, import_kind

    find_kind(kind)
    progress = ProgressLine("importing, KiB")
    report = import_kind(open_synced(vault), kind, paths, dry_run=dry_run, progress=progress)
    if as_json:
        emit_json(import_json(report))
    else:
        _say_report(report)


def _say_report(report: ImportReport) -> None:
    """Say what is worth a look, then how many there are of each."""
    from vaultmem.services.importing.take import Outcome

    shown: dict[str, int] = {}
    for each in report.taken:
        shown[each.outcome] = shown.get(each.outcome, 0) + 1
        if each.outcome is Outcome.KNOWN or shown[each.outcome] > _SHOWN:
            continue
        told = f"{each.path}  ({each.remark})" if each.remark else each.path
        rest = told if each.path else f"{each.item}: {each.remark}"
        say_painted(f"{each.outcome:<11}", _COLOURS.get(each.outcome, "dim"), f"  {rest}")
    for outcome in Outcome:
        if (number := report.count(outcome)) > _SHOWN and outcome is not Outcome.KNOWN:
            say(f"{outcome:<11}  {number - _SHOWN:,} more")
    files = report.counts.items() if len(report.counts) <= _SHOWN else [_join(report)]
    for name, counts in files:
        parts = [f"{number:,} {outcome}" for outcome, number in sorted(counts.items())]
        say(f"{name}: {', '.join(parts)}")
    if report.turns:
        say(f"{report.turns:,} turn{'s' * (report.turns != 1)}")
    if report.dry_run:
        say("Nothing was written; the same without --dry-run imports it.")
    for commit, subject in report.commits.commits:
        say_painted(commit[:7], "yellow", f"  {subject}")


def _join(report: ImportReport) -> tuple[str, Counter[Outcome]]:
    """Return how many of each outcome all files together had."""
    return f"{len(report.counts):,} files", sum(report.counts.values(), Counter())
