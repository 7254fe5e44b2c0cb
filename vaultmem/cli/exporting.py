"""The command that takes a vault elsewhere: as one archive, as lines of JSON, as pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import ProgressLine, emit_json, say, say_painted, say_raw, warn
from vaultmem.cli.shared import Here, needing, offers, takes
from vaultmem.core.counting import count_things
from vaultmem.operations.filters import Filters

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter
    from vaultmem.vault import Vault

_MOST_NAMED = 10


@offers(Filters)
@takes("vault", "ref", "at", "as_json")
def export(
    here: Here,
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
    """Write the vault as one archive, as lines of JSON, or as pages.

    An archive has the notes as they are now, their history, and what lies outside of the vault:
    receipts, what was asked, open sessions, and what you trust. It is not encrypted. Lines of JSON
    can be narrowed down as `list` can, and have notes in every state. Pages leave out what is
    quarantined, and ask for nothing from elsewhere.

    Examples:
        vaultmem export --archive ~/memory.tar.gz
        vaultmem export --jsonl - --kind decision
    """
    from vaultmem.errors import RefusedError

    wanted = only.make_filter(any_state=True)
    is_narrow = wanted != Filters().make_filter(any_state=True)
    if sum(map(bool, (archive, jsonl, html))) != 1:
        raise typer.BadParameter("give one of --archive FILE, --jsonl FILE and --html DIR")
    if (is_narrow and not jsonl) or (archive and (here.ref or here.at)):
        what = "an archive is of the whole vault" if archive else "pages are of all notes"
        raise RefusedError(f"export: {what}; only --jsonl can be narrowed down")
    if archive:
        _export_archive(here.open(), Path(archive).expanduser(), here.as_json)
    elif jsonl:
        _export_lines(here.open_view(reads=True), jsonl, wanted, here.as_json)
    else:
        _export_pages(here.open_view(reads=True), html, here.as_json)


def _export_archive(vault: Vault, file: Path, as_json: bool) -> None:
    """Write the archive, and say what is in it."""
    from vaultmem.services.archiving.export_archive import export_archive

    done = export_archive(vault, file, ProgressLine("packing"))
    if as_json:
        emit_json(done)
        return
    say_painted("archived", "green", f"  {done.file}  ({-(-done.bytes // 1024):,} KiB)")
    counts = ((done.notes, "note"), (done.files - done.notes, "other file"))
    more = ((done.commits, "commit"), (done.receipts, "receipt"))
    say(f"  {', '.join(count_things(*each) for each in (*counts, *more))}")
    for path, told in [*done.skipped.items()][:_MOST_NAMED]:
        warn(f"left out: {path}: {told}")
    if len(done.skipped) > _MOST_NAMED:
        warn(f"left out: {len(done.skipped) - _MOST_NAMED:,} more")
    say("It is not encrypted. On another machine: vaultmem import archive FILE FOLDER")


def _export_lines(vault: Vault, file: str, wanted: NoteFilter, as_json: bool) -> None:
    """Write or print a line for each note, as they are read."""
    from vaultmem.core.json_values import as_plain
    from vaultmem.operations.notes import whole_data
    from vaultmem.services.archiving.read_all import Lines, read_all
    from vaultmem.storage.atomic import write_atomically

    count = 0

    def read_lines() -> Iterator[str]:
        nonlocal count
        for count, whole in enumerate(read_all(vault, wanted), 1):  # noqa: B007
            yield json.dumps(as_plain(whole_data(whole)), ensure_ascii=False) + "\n"

    if file == "-":
        for line in read_lines():
            say_raw(line)
        return
    target = Path(file).expanduser().resolve()
    write_atomically(target, (line.encode() for line in read_lines()), mode=0o600)
    if as_json:
        emit_json(Lines(str(target), count))
    else:
        say_painted("written", "green", f"  {target}  ({count_things(count, 'note')})")


def _export_pages(vault: Vault, html: str, as_json: bool) -> None:
    """Write the pages, and say how many."""
    with needing("web", "export"):
        from vaultmem.web.export.export import export_html

    done = export_html(vault, Path(html).expanduser(), ProgressLine("writing pages"))
    if as_json:
        emit_json(done)
        return
    pictures = f", {count_things(done.pictures, 'picture')}" if done.pictures else ""
    left_out = f"; {done.left_out:,} quarantined left out" if done.left_out else ""
    pages = f"{count_things(done.notes, 'note')}, {count_things(done.pages, 'other page')}"
    say(f"{pages}{pictures}{left_out}")
    say(f"open {done.folder}/index.html")
