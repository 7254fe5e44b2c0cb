"""Commands on the list of vaults: vault list, vault add, vault remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import emit_json, print_line, print_styled, warn
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.core.text.display import escape_bytes, one_line, pluralize
from vaultmem.errors import VaultError
from vaultmem.operations.vault_data import listed_json

if TYPE_CHECKING:
    from vaultmem.services.vaults.companions import ListedVault
    from vaultmem.vault import UserFolders, Vault


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, invoke_without_command=True, rich_markup_mode=None)
    app.callback()(vault)
    add_commands(app, list_, add, remove)
    parent.add_typer(app, name="vault")


def vault(context: typer.Context, as_json: JsonOption = False) -> None:
    """List your vaults, or add one to the list or remove it.

    `--vault` takes a name of the list, unless there is a folder of that name. Without a command, it
    lists the vaults.

    Examples:
      vaultmem vault list
      vaultmem vault add ~/memory
    """
    if not context.invoked_subcommand:
        list_(as_json)


def list_(as_json: JsonOption = False) -> None:
    """List your vaults and their problems.

    Examples:
      vaultmem vault list
    """
    from vaultmem.services.vaults.companions import list_vaults

    entries = list_vaults(_find_folders())
    if as_json:
        emit_json({"vaults": entries})
        return
    width = max((len(each.name) for each in entries), default=0)
    for each in entries:
        print_styled(f"{each.name:<{width}}", "bold", f"  {escape_bytes(one_line(each.path))}")
        style = "yellow" if each.problem or each.doubtful else ""
        print_styled(f"{'':<{width}}  {_describe(each)}", style)
    if not entries:
        print_line("No vault is listed yet; `vaultmem vault add PATH` lists one.")


def add(
    path: Annotated[str, typer.Argument(metavar="DIR", help="The vault's folder.")],
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Name of the vault.  [default: the folder's]"),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Put a vault on the list; nothing in it is changed.

    Examples:
      vaultmem vault add . --name ferrylane
    """
    from vaultmem.services.vaults.companions import add_vault

    entry = add_vault(_find_folders(), path, name)
    if as_json:
        emit_json(entry)
        return
    print_styled("listed  ", "green", f"{entry.name}  {escape_bytes(one_line(entry.path))}")


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or folder of the vault.")],
    as_json: JsonOption = False,
) -> None:
    """Take a vault off the list; its notes stay where they are.

    Examples:
      vaultmem vault remove ferrylane
    """
    from vaultmem.services.vaults.companions import remove_vault

    entry = remove_vault(_find_folders(), name)
    if as_json:
        emit_json(listed_json(entry.name, entry.path))
        return
    print_styled("off the list  ", "green", f"{entry.name}  {escape_bytes(one_line(entry.path))}")


def register_here(vault: Vault) -> str:
    """Add a vault to the user's list; return its name there, "" on an error."""
    from vaultmem.services.vaults.companions import register_vault

    try:
        return register_vault(vault.folders, vault.root)
    except (VaultError, OSError) as error:  # The command itself has succeeded.
        warn(f"not on the list of vaults: {error}")
        return ""


def _find_folders() -> UserFolders:
    from vaultmem.environment import current_environment
    from vaultmem.vault import find_user_folders

    return find_user_folders(current_environment())


def _describe(entry: ListedVault) -> str:
    if entry.problem:
        return entry.problem
    notes = "never read yet" if entry.notes is None else pluralize(entry.notes, "note")
    facts = [notes, f"on {entry.branch}" if entry.branch else "no branch"]
    facts += [f"{pluralize(entry.doubtful, 'file')} not read fully"] if entry.doubtful else []
    facts += ["trusted" if entry.trusted else "not trusted"]
    facts += ["watched"] if entry.watched else []
    return ", ".join(facts)
