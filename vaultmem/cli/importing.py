"""The command `import`: a whole vault of an archive, or what other programs remember."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.agents import import_json
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import ProgressLine, emit_json, say, say_painted
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things

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


@takes("vault", "as_json")
def import_(
    here: Here,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="archive, transcripts, chatgpt, claude-ai, claude-memory, codex-memory, mem0, "
            "basic-memory, openclaw or letta.",
        ),
    ],
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files, folders, or zips of an export; of an archive, its file and a new folder.",
        ),
    ],
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Of an archive: it is yours, and what you trusted there counts here.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Take in what other programs remember, or an archived vault.

    Memories become candidates and talks become sessions, all of it one commit; the same export
    again adds nothing. `import archive FILE [FOLDER]` puts what `export --archive` wrote into a
    folder that is empty or not there yet: all of it, or nothing.

    Examples:
        vaultmem import chatgpt ~/Downloads/chatgpt-export.zip --dry-run
        vaultmem import archive ~/memory.tar.gz memory --trust
    """
    if kind == "archive":
        _import_archive(paths, trust, dry_run, here.as_json)
        return
    if trust:
        raise typer.BadParameter("--trust is for `import archive` alone")
    from vaultmem.services.importing.run import find_kind, import_kind

    find_kind(kind)
    progress = ProgressLine("importing, KiB")
    report = import_kind(here.open_synced(), kind, paths, dry_run=dry_run, progress=progress)
    if here.as_json:
        emit_json(import_json(report))
    else:
        _say_report(report)


def _import_archive(paths: list[str], trust: bool, dry_run: bool, as_json: bool) -> None:
    """Put a vault into its folder, and say what of it counts here."""
    from vaultmem.environment import read_settings
    from vaultmem.services.archiving.import_archive import import_archive

    if len(paths) > 2:
        raise typer.BadParameter("an archive is one file; the folder that it is to be comes next")
    file, folder = (Path(each).expanduser() for each in (paths[0], "".join(paths[1:])))
    done = import_archive(
        file,
        folder if paths[1:] else None,
        trust=trust,
        dry_run=dry_run,
        progress=ProgressLine("unpacking"),
        **read_settings(),
    )
    if as_json:
        emit_json(done)
        return
    say_painted("would import" if dry_run else "imported", "green", f"  {done.folder}")
    counts = ((done.notes, "note"), (done.files - done.notes, "other file"))
    more = ((done.commits, "commit"), (done.receipts, "receipt"))
    say(f"  {', '.join(count_things(*each) for each in (*counts, *more))}")
    say(f"  archived {done.made[:10]} by vaultmem {done.vaultmem}; every byte was checked")
    if done.trusted:
        say(f"  {count_things(done.vouched, 'text')} that you trusted there may instruct here")
    elif done.vouched and not trust:
        say(f"{count_things(done.vouched, 'text')} trusted there may instruct nobody here yet.")
        say("If the vault is yours, say so in it: vaultmem trust")


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
    if not report.counts:
        say("Nothing to import is in it.")
    if report.turns:
        say(count_things(report.turns, "turn"))
    if report.dry_run:
        say("Nothing was written; the same without --dry-run imports it.")
    for commit, subject in report.commits.commits:
        say_painted(commit[:7], "yellow", f"  {subject}")


def _join(report: ImportReport) -> tuple[str, Counter[Outcome]]:
    """Return how many of each outcome all files together had."""
    return count_things(len(report.counts), "file"), sum(report.counts.values(), Counter())
