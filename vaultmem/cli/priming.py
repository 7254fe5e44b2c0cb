"""The command about reference material: prime."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.notes import primed_json, unprimed_json
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.shared import Here, answer, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.operations.notes import LIST_SOURCES, SOURCE_NOTES, SourceRequest
from vaultmem.operations.operation import NoArguments

if TYPE_CHECKING:
    from vaultmem.core.priming import PrimePlan
    from vaultmem.services.priming.prime import SourceFile
    from vaultmem.vault import Vault

_SHOWN = 12


@takes("vault", "ref", "at", "agent", "as_json")
def prime(
    here: Here,
    place: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|FOLDER|-]",
            help="A markdown document, a folder, or -; else sources or notes are listed.",
        ),
    ] = "",
    source: Annotated[
        str, typer.Option("--source", metavar="NAME", help="What it is: the folder below primed/.")
    ] = "",
    pin: Annotated[bool, typer.Option("--pin", help="Show its notes in every pack.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Take the source's word over edits made here.")
    ] = False,
    dry_run: DryRunOption = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the notes of the source that is named.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="To --remove: notes edited or written here as well.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do --remove.")] = False,
) -> None:
    """Take in reference material, a note for each heading.

    Run again, it changes, adds and removes just what changed in the source. A note that somebody
    edited here stays as it is; --overwrite takes the source's version. Without FILE, it lists the
    sources; with --source NAME, the notes of one.

    Examples:
      vaultmem prime ../manual.md --source scanner-manual
      vaultmem prime
      vaultmem prime --source scanner-manual
      vaultmem prime --remove scanner-manual --yes
    """
    if not (place or remove):
        asked = SourceRequest(source) if source else NoArguments()
        answer(SOURCE_NOTES if source else LIST_SOURCES, here, asked)
        return
    if place and not (source or remove):
        raise typer.BadParameter(f"--source is missing: `vaultmem prime {place} --source NAME`")
    if here.at or not place:
        raise typer.BadParameter("give FILE --source NAME, --remove SOURCE, or no FILE to list")
    if remove:
        opened = here.open_view()
        _remove_source(opened, place, everything, yes, here.as_json)
        return
    from vaultmem.services.priming.prime import prime_source

    files = _read_place(place)
    opened = here.open_view()
    plan = prime_source(opened, source, files, pin=pin, overwrite=overwrite, dry_run=dry_run)
    if here.as_json:
        emit_json(primed_json(source, plan, is_dry=dry_run))
    else:
        _say_primed(source, plan, dry_run)


def _read_place(place: str) -> list[SourceFile]:
    from vaultmem.services.priming.prime import (
        MAX_DOCUMENT,
        SourceFile,
        decode_document,
        read_sources,
    )

    if place == "-":
        data = sys.stdin.buffer.read(MAX_DOCUMENT + 1)
        return [SourceFile("", "", decode_document("standard input", data))]
    return read_sources(Path(place).expanduser())


def _say_primed(source: str, plan: PrimePlan, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for name, paths in (
        ("added", plan.added),
        ("changed", plan.changed),
        ("removed", plan.removed),
    ):
        for path in paths[:_SHOWN]:
            say_painted(f"{would}{name:<7}  ", "green", one_line(path))
        if len(paths) > _SHOWN:
            say(f"{would}{name:<7}  {len(paths) - _SHOWN:,} more")
    for path, reason in plan.kept.items():
        say_painted("kept     ", "yellow", f"{one_line(path)}  ({reason})")
    say(
        f"{one_line(source)}: {len(plan.added):,} added, {len(plan.changed):,} changed, "
        f"{len(plan.removed):,} removed, {len(plan.unchanged):,} unchanged, {len(plan.kept):,} kept"
    )


def _remove_source(opened: Vault, source: str, everything: bool, yes: bool, as_json: bool) -> None:
    from vaultmem.services.priming.sources import unprime_source

    plan = unprime_source(opened, source, everything=everything, dry_run=not yes)
    if as_json:
        emit_json(unprimed_json(plan, is_dry=not yes))
        return
    for path in plan.removed:
        say_painted("removed  " if yes else "would remove  ", "yellow", one_line(path))
    for path, reason in plan.kept.items():
        say(f"kept  {one_line(path)}  ({reason})")
    if not yes and plan.removed:
        say(f"Nothing was removed; add --yes to remove {count_things(len(plan.removed), 'note')}.")
