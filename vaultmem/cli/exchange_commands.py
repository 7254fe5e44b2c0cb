"""Commands that export and import text: export, import, reference."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import ProgressLine, emit_json, print_line, print_raw, print_styled, warn
from vaultmem.cli.shared import answer, needing, offers, takes
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.operations.declaration import NoArguments
from vaultmem.operations.filters import Filters
from vaultmem.operations.notes import LIST_SOURCES, SOURCE_NOTES
from vaultmem.operations.vault_data import import_json, primed_json, unprimed_json

if TYPE_CHECKING:
    from vaultmem.core.reference import PrimePlan
    from vaultmem.core.search.query import NoteFilter
    from vaultmem.services.exchange.import_notes import ImportOutcome
    from vaultmem.services.exchange.import_reference import SourceFile
    from vaultmem.services.exchange.run_import import ImportReport
    from vaultmem.vault import Vault


_MAX_WARNINGS = 10


@offers(Filters)
@takes("vault", "ref", "at", "as_json")
def export(
    context: CommandContext,
    only: Filters,
    archive: Annotated[
        str,
        typer.Option(
            "--archive",
            metavar="FILE",
            help="One file (.tar.gz) with all of the vault, for `vaultmem import archive`.",
            show_default=False,
        ),
    ] = "",
    jsonl: Annotated[
        str,
        typer.Option(
            "--jsonl",
            metavar="FILE",
            help="A line of JSON for each note; - prints them.",
            show_default=False,
        ),
    ] = "",
    html: Annotated[
        str,
        typer.Option(
            "--html",
            metavar="DIR",
            help="Pages that need no server (needs the extra `web`). The folder is empty, not "
            "there yet, or an earlier export, which is replaced.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write the vault as an archive, as JSON lines or as pages.

    An archive contains the notes, their history, receipts, the query log, open sessions and the
    trust record. It is not encrypted. JSON lines take the filters of `list`, and contain notes in
    every state. Pages leave out quarantined notes, and load nothing from other servers.

    Examples:
        vaultmem export --archive ~/memory.tar.gz
        vaultmem export --jsonl - --kind decision
    """
    from vaultmem.errors import RefusedError

    note_filter = only.make_filter(any_state=True)
    is_narrow = note_filter != Filters().make_filter(any_state=True)
    if sum(map(bool, (archive, jsonl, html))) != 1:
        raise typer.BadParameter("give one of --archive FILE, --jsonl FILE and --html DIR")
    if (is_narrow and not jsonl) or (archive and (context.ref or context.at)):
        subject = "an archive is of the whole vault" if archive else "pages are of all notes"
        raise RefusedError(f"export: {subject}; only --jsonl can be narrowed down")
    if archive:
        _export_archive(context.open(), Path(archive).expanduser(), context.as_json)
    elif jsonl:
        _export_lines(context.open_view(reads=True), jsonl, note_filter, context.as_json)
    else:
        _export_pages(context.open_view(reads=True), html, context.as_json)


def _export_archive(vault: Vault, file: Path, as_json: bool) -> None:
    """Write the archive, and print its contents."""
    from vaultmem.services.exchange.archives import export_archive

    result = export_archive(vault, file, ProgressLine("packing"))
    if as_json:
        emit_json(result)
        return
    print_styled("archived", "green", f"  {result.file}  ({-(-result.bytes // 1024):,} KiB)")
    counts = ((result.notes, "note"), (result.files - result.notes, "other file"))
    extra_counts = ((result.commits, "commit"), (result.receipts, "receipt"))
    print_line(f"  {', '.join(pluralize(*each) for each in (*counts, *extra_counts))}")
    for path, reason in [*result.skipped.items()][:_MAX_WARNINGS]:
        warn(f"left out: {path}: {reason}")
    if len(result.skipped) > _MAX_WARNINGS:
        warn(f"left out: {len(result.skipped) - _MAX_WARNINGS:,} more")
    print_line("It is not encrypted. On another machine: vaultmem import archive FILE FOLDER")


def _export_lines(vault: Vault, file: str, note_filter: NoteFilter, as_json: bool) -> None:
    """Write or print a JSON line for each note, one at a time."""
    from vaultmem.core.text.json_values import as_plain
    from vaultmem.operations.notes import whole_data
    from vaultmem.services.exchange.archives import Lines, check_outside, read_all
    from vaultmem.storage.atomic import write_atomically

    count = 0

    def read_lines() -> Iterator[str]:
        nonlocal count
        for count, whole in enumerate(read_all(vault, note_filter), 1):  # noqa: B007
            yield json.dumps(as_plain(whole_data(whole)), ensure_ascii=False) + "\n"

    if file == "-":
        for line in read_lines():
            print_raw(line)
        return
    target = Path(file).expanduser().resolve()
    check_outside(vault, target)
    write_atomically(target, (line.encode() for line in read_lines()), mode=0o600)
    if as_json:
        emit_json(Lines(str(target), count))
    else:
        print_styled("written", "green", f"  {target}  ({pluralize(count, 'note')})")


def _export_pages(vault: Vault, html: str, as_json: bool) -> None:
    """Write the pages, and print their number."""
    with needing("web", "export"):
        from vaultmem.web.export.export_site import export_html

    result = export_html(vault, Path(html).expanduser(), ProgressLine("writing pages"))
    if as_json:
        emit_json(result)
        return
    pictures = f", {pluralize(result.pictures, 'picture')}" if result.pictures else ""
    omitted = f"; {result.omitted:,} quarantined left out" if result.omitted else ""
    pages = f"{pluralize(result.notes, 'note')}, {pluralize(result.pages, 'other page')}"
    print_line(f"{pages}{pictures}{omitted}")
    print_line(f"open {result.folder}/index.html")


# The import command: an archived vault, or memories of other programs.

_MAX_LISTED_ITEMS = 12

_COLOURS = {
    "new": "green",
    "changed": "green",
    "contradicts": "yellow",
    "quarantined": "yellow",
    "credential": "red",
}


@takes("vault", "as_json")
def import_(
    context: CommandContext,
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
            help="For an archive of your own: also import what you trusted.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="For transcripts: rebuild the turns from the logs."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Import memories of other programs, or an archived vault.

    Memories become candidates and conversations become sessions, all in one commit; the same export
    again adds nothing. `import archive FILE [FOLDER]` unpacks an archive of `export --archive` into
    a new or empty folder, whole or not at all.

    Examples:
        vaultmem import chatgpt ~/Downloads/chatgpt-export.zip --dry-run
        vaultmem import archive ~/memory.tar.gz memory --trust
        vaultmem import transcripts ~/.claude/projects --again --dry-run
    """
    if again and kind != "transcripts":
        raise typer.BadParameter("--again is for `import transcripts` alone")
    if kind == "archive":
        _import_archive(paths, trust, dry_run, context.as_json)
        return
    if trust:
        raise typer.BadParameter("--trust is for `import archive` alone")
    from vaultmem.services.exchange.run_import import find_kind, import_kind

    find_kind(kind)
    progress = ProgressLine("importing, KiB")
    report = import_kind(
        context.open_synced(), kind, paths, dry_run=dry_run, again=again, progress=progress
    )
    if context.as_json:
        emit_json(import_json(report))
    else:
        _print_report(report)


def _import_archive(paths: list[str], trust: bool, dry_run: bool, as_json: bool) -> None:
    """Unpack an archived vault, and print its contents and trust."""
    from vaultmem.environment import read_settings
    from vaultmem.services.exchange.archives import import_archive

    if len(paths) > 2:
        raise typer.BadParameter("an archive is one file; the folder that it is to be comes next")
    file, folder = (Path(each).expanduser() for each in (paths[0], "".join(paths[1:])))
    result = import_archive(
        file,
        folder if paths[1:] else None,
        trust=trust,
        dry_run=dry_run,
        progress=ProgressLine("unpacking"),
        **read_settings(),
    )
    if as_json:
        emit_json(result)
        return
    print_styled("would import" if dry_run else "imported", "green", f"  {result.folder}")
    counts = ((result.notes, "note"), (result.files - result.notes, "other file"))
    extra_counts = ((result.commits, "commit"), (result.receipts, "receipt"))
    print_line(f"  {', '.join(pluralize(*each) for each in (*counts, *extra_counts))}")
    print_line(
        f"  archived {result.made[:10]} by vaultmem {result.vaultmem}; every byte was checked"
    )
    if result.trusted:
        print_line(
            f"  {pluralize(result.vouched, 'text')} that you trusted there may instruct here"
        )
    elif result.vouched and not trust:
        print_line(
            f"{pluralize(result.vouched, 'text')} trusted there may not instruct agents here yet."
        )
        print_line("If the vault is yours, run in it: vaultmem trust")


def _print_report(report: ImportReport) -> None:
    """Print the notable items, then the counts by file and outcome."""
    from vaultmem.services.exchange.import_notes import ImportOutcome

    shown_counts: dict[str, int] = {}
    for each in report.items:
        shown_counts[each.outcome] = shown_counts.get(each.outcome, 0) + 1
        if each.outcome is ImportOutcome.KNOWN or shown_counts[each.outcome] > _MAX_LISTED_ITEMS:
            continue
        text = f"{each.path}  ({each.remark})" if each.remark else each.path
        rest = text if each.path else f"{each.item}: {each.remark}"
        print_styled(f"{each.outcome:<11}", _COLOURS.get(each.outcome, "dim"), f"  {rest}")
    for outcome in ImportOutcome:
        if (
            number := report.count(outcome)
        ) > _MAX_LISTED_ITEMS and outcome is not ImportOutcome.KNOWN:
            print_line(f"{outcome:<11}  {number - _MAX_LISTED_ITEMS:,} more")
    files = report.counts.items() if len(report.counts) <= _MAX_LISTED_ITEMS else [_join(report)]
    for name, counts in files:
        parts = [f"{number:,} {outcome}" for outcome, number in sorted(counts.items())]
        print_line(f"{name}: {', '.join(parts)}")
    if not report.counts:
        print_line("Nothing to import is in it.")
    if report.turns:
        print_line(pluralize(report.turns, "turn"))
    if report.dry_run:
        print_line("Nothing was written; the same without --dry-run imports it.")
    for commit, subject in report.commits.commits:
        print_styled(commit[:7], "yellow", f"  {subject}")


def _join(report: ImportReport) -> tuple[str, Counter[ImportOutcome]]:
    """Return the summed outcomes of all files."""
    return pluralize(len(report.counts), "file"), sum(report.counts.values(), Counter())


# The reference command.


@takes("vault", "ref", "at", "agent", "as_json")
def reference(
    context: CommandContext,
    place: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|FOLDER|-]",
            help="Markdown file, folder or -; without it, sources or notes are listed.",
        ),
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--source", metavar="NAME", help="Name of the source: its folder below primed/."
        ),
    ] = "",
    pin: Annotated[bool, typer.Option("--pin", help="Show its notes in every pack.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace edits made here by the source's version.")
    ] = False,
    dry_run: DryRunOption = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the notes of this source.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="With --remove: also notes that were edited or added here."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Import reference material, one note for each heading.

    If you run it again, it adds, changes and removes only what the source added, changed and
    removed. A note that was edited here stays as it is, unless you add --overwrite. Without FILE,
    it lists the sources. With --source NAME alone, it lists the notes of that source.

    Examples:
      vaultmem reference ../manual.md --source scanner-manual
      vaultmem reference
      vaultmem reference --source scanner-manual
      vaultmem reference --remove scanner-manual --yes
    """
    if not (place or remove):
        request = SOURCE_NOTES.request(source) if source else NoArguments()
        answer(SOURCE_NOTES if source else LIST_SOURCES, context, request)
        return
    if place and not (source or remove):
        raise typer.BadParameter(f"--source is missing: `vaultmem reference {place} --source NAME`")
    if context.at or not place:
        raise typer.BadParameter("give FILE --source NAME, --remove SOURCE, or no FILE to list")
    if remove:
        vault = context.open_view()
        _remove_source(vault, place, everything, yes, context.as_json)
        return
    from vaultmem.services.exchange.import_reference import prime_source

    files = _read_place(place)
    vault = context.open_view()
    plan = prime_source(vault, source, files, pin=pin, overwrite=overwrite, dry_run=dry_run)
    if context.as_json:
        emit_json(primed_json(source, plan, is_dry=dry_run))
    else:
        _print_primed(source, plan, dry_run)


def _read_place(place: str) -> list[SourceFile]:
    from vaultmem.services.exchange.import_reference import (
        MAX_DOCUMENT,
        SourceFile,
        decode_document,
        read_sources,
    )

    if place == "-":
        data = sys.stdin.buffer.read(MAX_DOCUMENT + 1)
        return [SourceFile("", "", decode_document("standard input", data))]
    return read_sources(Path(place).expanduser())


def _print_primed(source: str, plan: PrimePlan, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for name, paths in (
        ("added", plan.added),
        ("changed", plan.changed),
        ("removed", plan.removed),
    ):
        for path in paths[:_MAX_LISTED_ITEMS]:
            print_styled(f"{would}{name:<7}  ", "green", one_line(path))
        if len(paths) > _MAX_LISTED_ITEMS:
            print_line(f"{would}{name:<7}  {len(paths) - _MAX_LISTED_ITEMS:,} more")
    for path, reason in plan.kept_notes.items():
        print_styled("kept     ", "yellow", f"{one_line(path)}  ({reason})")
    print_line(
        f"{one_line(source)}: {len(plan.added):,} added, {len(plan.changed):,} changed, "
        f"{len(plan.removed):,} removed, {len(plan.unchanged):,} unchanged, "
        f"{len(plan.kept_notes):,} kept"
    )


def _remove_source(vault: Vault, source: str, everything: bool, yes: bool, as_json: bool) -> None:
    from vaultmem.services.exchange.import_reference import unprime_source

    plan = unprime_source(vault, source, everything=everything, dry_run=not yes)
    if as_json:
        emit_json(unprimed_json(plan, is_dry=not yes))
        return
    for path in plan.removed:
        print_styled("removed  " if yes else "would remove  ", "yellow", one_line(path))
    for path, reason in plan.kept_notes.items():
        print_line(f"kept  {one_line(path)}  ({reason})")
    if not yes and plan.removed:
        print_line(
            f"Nothing was removed; add --yes to remove {pluralize(len(plan.removed), 'note')}."
        )
