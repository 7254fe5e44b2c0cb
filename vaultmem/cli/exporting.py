"""The command that writes a vault's pages as files: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vaultmem.cli.opening import open_view
from vaultmem.cli.options import AtOption, JsonOption, RefOption, VaultOption
from vaultmem.cli.output import ProgressLine, emit_json, say
from vaultmem.cli.quick_typer import add_commands


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_commands(app, export)


def export(
    html: Annotated[
        str,
        typer.Option(
            "--html",
            metavar="DIR",
            help="The folder: empty, not there yet, or an earlier export, which is replaced.",
            show_default=False,
        ),
    ],
    vault: VaultOption = "",
    ref: RefOption = "",
    at: AtOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write the vault's pages as files that need no server.

    It needs the extra `web`. Quarantined notes are left out. Nothing in a page asks for anything
    from elsewhere.
    """
    from vaultmem.errors import VaultError

    try:
        from vaultmem.web.export.export import export_html
    except ModuleNotFoundError as error:
        from vaultmem.storage.missing import tell_missing

        raise VaultError(f"export: {tell_missing(error.name, 'web')}") from None

    opened = open_view(vault, ref, at, reads=True)
    done = export_html(opened, Path(html).expanduser(), ProgressLine("writing pages"))
    if as_json:
        emit_json(done)
        return
    pictures = f", {done.pictures:,} pictures" if done.pictures else ""
    left_out = f"; {done.left_out:,} quarantined left out" if done.left_out else ""
    say(f"{done.notes:,} notes, {done.pages:,} other pages{pictures}{left_out}")
    say(f"open {done.folder}/index.html")
