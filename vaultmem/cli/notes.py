"""Commands that write and show notes: remember, get, list, edit."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.asking import open_several, split_vault, warn_unmatched
from vaultmem.cli.editor import open_editor
from vaultmem.cli.options import (
    AllVaultsOption,
    PathArgument,
    VaultsOption,
)
from vaultmem.cli.output import (
    cut_to_terminal,
    emit_json,
    fits_terminal,
    say,
    say_painted,
)
from vaultmem.cli.shared import Here, answer, offers, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.operations.lines import align
from vaultmem.operations.notes import (
    GET,
    LIST,
    REMEMBER,
    Get,
    ListNotes,
    Remember,
    list_of,
)

#: Characters of a column up to which the next ones stand below each other.
_LONGEST = 60


@offers(REMEMBER)
@takes("vault", "agent", "session", "as_json")
def remember_(
    here: Here,
    asked: Remember,
    branch: Annotated[
        str,
        typer.Option(
            "--branch",
            metavar="NAME",
            help="The branch to write on; else $VAULTMEM_REF, else what is checked out.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write a memory on a branch; `--ref` names what it rests on."""
    answer(REMEMBER, here._replace(ref=branch), asked)


@offers(GET)
@takes("vault", "ref", "at", "as_json")
def get(here: Here, asked: Get) -> None:
    """Print a note of a vault, which can stand before its path."""
    named, path = split_vault(here.vault, asked.path)
    answer(GET, here._replace(vault=named), asked._replace(path=path))


@offers(LIST)
@takes("ref", "at", "as_json")
def list_(
    here: Here,
    asked: ListNotes,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
) -> None:
    """Print the notes of a vault or several, in columns as wide as the terminal."""
    from vaultmem.services.finding.vault_set import look

    opened = open_several(here, vault, all_vaults, alone=True)
    records = list_of([look(each, here.at) for each in opened], asked)
    if here.as_json:
        emit_json(LIST.data(records))
        return
    rows = [
        [
            one_line(f"{name}:{each.path}" if name else each.path),
            each.kind,
            each.state + " pinned" * each.pinned,
            one_line(each.title),
        ]
        for name, each in records
    ]
    lines = align(rows, _LONGEST)
    if lines and not fits_terminal(max(lines, key=len)):  # The end of a path names a note as well.
        lines = align([[row[0].rpartition("/")[2], *row[1:]] for row in rows], _LONGEST)
    for line in lines:
        say(cut_to_terminal(line.rstrip()))
    say(count_things(len(records), "note"))
    if not records:
        warn_unmatched(opened, asked.only.make_filter())


@takes("vault", "agent")
def edit(here: Here, path: PathArgument) -> None:
    """Open a note in your editor, and check it afterwards.

    The editor is $VISUAL or $EDITOR.

    Examples:
      vaultmem edit refund-rules
    """
    from vaultmem.errors import RefusedError
    from vaultmem.services.reading.look import find_branch
    from vaultmem.services.reading.read_notes import read_as_written, resolve_address
    from vaultmem.services.reading.sync import sync_paths

    opened = here.open_synced()
    if branch := find_branch(opened):
        raise RefusedError(f"{branch}: not checked out, so there is no file to open; switch to it")
    found, _ = resolve_address(opened, path)
    before = read_as_written(opened, found)
    open_editor(opened.root / found)
    with opened.leaving_to_next():
        sync_paths(opened, [found])
    after = read_as_written(opened, found)
    if after.blob == before.blob:
        say(f"{found}: unchanged")
        return
    say_painted("edited  ", "green", str(found))
    for warning in after.warnings:
        say_painted(f"  {found}", "yellow", f": {warning}")
