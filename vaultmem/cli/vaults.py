"""Commands about a vault as a whole: init, index, trust."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.health import created_json, indexed_json, trusted_json
from vaultmem.cli.opening import following, open_here
from vaultmem.cli.options import AgentOption, JsonOption, VaultOption
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.cli.quick_typer import add_commands

if TYPE_CHECKING:
    from vaultmem.vault import Vault


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_commands(app, init, index, trust)


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder.")] = Path(),
    agent: AgentOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make a vault of a folder; nothing that is there is changed.

    A folder outside git becomes a repository with a first commit. In an existing repository
    nothing is committed.
    """
    from vaultmem.environment import read_settings
    from vaultmem.services.notes.create import create_vault
    from vaultmem.services.reading.sync import sync_vault

    created = create_vault(folder, **read_settings(agent))
    with following(created.vault) as progress:
        sync_vault(created.vault, progress)
    if as_json:
        emit_json(created_json(created))
        return
    if not (created.added or created.excluded or created.configured):
        say(f"{created.vault.root} is a vault already; nothing changed.")
    for path in created.added:
        say(f"  added  {path}")
    for line in created.excluded:
        say(f"  added  {line}  to the repository's own exclude file")
    if created.configured:
        say("  set    merge driver for notes  in the repository's own configuration")
    if created.report.commit:
        say(f"Committed as {created.report.commit[:7]}.")
    notes, _ = created.vault.view.totals()
    say(f"{notes:,} notes in {created.vault.root}.")
    if created.person_problem:
        say(f"Note: {created.person_problem}.")
    _say_problems(created.vault.manifest.problems())


def index(vault: VaultOption = "", as_json: JsonOption = False) -> None:
    """Bring the index up to date, and name notes with problems.

    Other commands do the first by themselves.
    """
    from vaultmem.services.reading.sync import sync_vault

    opened = open_here(vault)
    with following(opened) as progress:
        report = sync_vault(opened, progress)
    if as_json:
        emit_json(indexed_json(opened, report))
        return
    notes, _ = opened.view.totals()
    say(
        f"{notes:,} notes, {report.added:,} new, {report.changed:,} changed, "
        f"{report.removed:,} gone  ({report.seconds:.1f} s)"
    )
    _say_problems(opened.manifest.problems())


def trust(
    place: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Vouch only for what you vouched for there: the same repository, moved, or "
            "another work tree of it.",
        ),
    ] = "",
    sign: Annotated[
        bool,
        typer.Option(
            "--sign", help="Sign what is trusted here with your SSH key, for your other machines."
        ),
    ] = False,
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="FILE", help="The SSH key; else git's, or ~/.ssh/id_ed25519."
        ),
    ] = "",
    signer: Annotated[
        str,
        typer.Option(
            "--allow-signer",
            metavar="FILE",
            help='Let what this key signs count on this machine: a .pub file, or "NAME KEY".',
        ),
    ] = "",
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say that this vault is yours: its policies count.

    So do its active skills and preferences. A vault that somebody else made is evidence only,
    until you say this.
    """
    from vaultmem.services.finding.trust import sign_trusted, take_trust, trust_vault
    from vaultmem.services.vaults.beside import find_companions

    if bool(place) + (sign or bool(key)) + bool(signer) > 1:
        raise typer.BadParameter("--from, --sign and --allow-signer are three commands")
    opened = open_here(vault)
    if signer:
        _allow_signer(opened, signer, as_json)
    elif sign or key:
        name, paths = sign_trusted(opened, key)
        _say_trusted(paths, as_json, name)
    else:
        companions = find_companions(opened)
        trusted = take_trust(opened, place) if place else trust_vault(opened, companions.values())
        _say_trusted(trusted, as_json)
        if companions and not (place or as_json):
            say(f"Asked beside it from now on: {', '.join(companions)}.")
        _tell_unknown(opened)


def _allow_signer(vault: Vault, signer: str, as_json: bool) -> None:
    from vaultmem.services.evidence.signed import allow_key
    from vaultmem.services.finding.trust import list_trusted

    name = allow_key(vault, signer)
    _say_trusted(list_trusted(vault), as_json, allowed=name)


def _say_trusted(paths: list[str], as_json: bool, signer: str = "", allowed: str = "") -> None:
    if as_json:
        emit_json(trusted_json(paths, signer, allowed))
        return
    for path in paths:
        say_painted("signed   " if signer else "trusted  ", "green", path)
    count = f"{len(paths)} active policies, skills and preferences"
    if signer:
        say(f"{count} are signed by {signer}; `vaultmem sync` takes that to your other machines,")
        say("and `vaultmem trust --allow-signer` there says that your key counts.")
    elif allowed:
        say(f"What {allowed} signs counts on this machine; {count} are trusted now.")
    else:
        say(f"{count} are on record from now on.")


def _tell_unknown(vault: Vault) -> None:
    from vaultmem.services.evidence.signed import verify_signed

    if unknown := verify_signed(vault):
        lists = "a list was" if unknown == 1 else f"{unknown} lists were"
        warn(
            f"{lists} signed with a key that does not count here; "
            "`vaultmem trust --allow-signer FILE` says that it is yours"
        )


def _say_problems(problems: list[tuple[str, str]]) -> None:
    if not problems:
        return
    files = len({path for path, _ in problems})
    say(f"\n{files:,} files were not read, or not fully (none was changed):")
    for path, problem in problems:
        say_painted(f"  {path}", "yellow", f": {problem}")
