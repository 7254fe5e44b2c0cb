"""Commands on a vault's health and usage: context, status, doctor, check, queries, stats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.assert_commands import CANNOT_JUDGE
from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import FleetOption
from vaultmem.cli.output import (
    emit_json,
    following,
    print_line,
    print_lines,
    print_stale_reason,
    warn,
)
from vaultmem.cli.shared import make_command, offers, print_answer, takes
from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import pick
from vaultmem.errors import NoVaultError, VaultError
from vaultmem.operations.checks import CHECK, DOCTOR, STATUS, is_healthy, next_lines
from vaultmem.operations.usage_stats import RECENT, STATS

if TYPE_CHECKING:
    from vaultmem.core.text.timestamps import Check
    from vaultmem.operations.declaration import Operation
    from vaultmem.vault import Vault


@takes("vault", "as_json")
def context(command_context: CommandContext) -> None:
    """Update CONTEXT.md and other generated files.

    vaultmem.yaml lists these files. `vaultmem watch` does this after each change.

    Examples:
      vaultmem context
    """
    from vaultmem.services.watching.generated_context import render_contexts

    results = render_contexts(command_context.open_synced())
    if command_context.as_json:
        emit_json({"contexts": [pick(each, "path changed problem?") for each in results]})
    else:
        for each in results:
            if each.problem:
                warn(f"error: {each.path} was not written: {each.problem}")
            else:
                print_line(f"{'wrote    ' if each.changed else 'same     '}{one_line(each.path)}")
    if any(each.problem for each in results):
        raise typer.Exit(1)


@offers(STATUS)
@takes("vault", "ref", "agent", "session", "as_json")
def status(
    command_context: CommandContext,
    request: Any,
    next_: Annotated[bool, typer.Option("--next", hidden=True)] = False,
) -> None:
    """Print how a vault is, also where its settings cannot be read."""
    result = _examine(STATUS, command_context, request)
    print_answer(STATUS, command_context, request, result)
    if next_ and not command_context.as_json:
        print_lines(next_lines(result))


@offers(DOCTOR)
@takes("vault", "as_json")
def doctor(
    command_context: CommandContext,
    request: Any,
    store_data: Annotated[
        str,
        typer.Option(
            "--keep-data",
            metavar="here|there",
            help="For a copied vault: folder that keeps counts and receipts.",
        ),
    ] = "",
) -> None:
    """Print what the checks found; the exit code is 1 if there is a problem."""
    if store_data:
        _store_data(_open_anyway(command_context, reads=False)[0], store_data)
    show_checks(
        _examine(DOCTOR, command_context, request, reads=not request.fix), command_context.as_json
    )


def _store_data(vault: Vault, choice: str) -> None:
    """Choose which of two copies of a vault keeps the counts and receipts."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.usage import store_data

    if choice not in {"here", "there"}:
        raise RefusedError(f'doctor: --keep-data is here or there, not "{choice}"')
    warn(f"{store_data(vault, choice == 'here')} keeps the counts and receipts")


def _examine(
    operation: Operation, command_context: CommandContext, request: Any, reads: bool = True
) -> Any:
    vault, problem = _open_anyway(command_context, reads)
    with following(vault) as progress:
        result = operation.run(vault, request, progress=progress, settings_problem=problem)
    print_stale_reason(vault.notices.stale)
    return result


def _open_anyway(command_context: CommandContext, reads: bool) -> tuple[Vault, str]:
    """Open the vault; if only vaultmem.yaml is invalid, use defaults and return the error."""
    try:
        return command_context.open(reads), ""
    except NoVaultError:
        raise
    except VaultError as error:
        from vaultmem.config import Config

        return command_context.open(reads, Config()), str(error)


def show_checks(checks: Sequence[Check], as_json: bool) -> None:
    """Print the checks; the exit code is 1 if there is a problem."""
    print_answer(DOCTOR, CommandContext(as_json=as_json), None, checks)
    if not is_healthy(checks):
        raise typer.Exit(1)


@offers(CHECK)
@takes("vault", "as_json")
def check(command_context: CommandContext, request: Any) -> None:
    """Report what a change introduces or breaks in notes."""
    try:
        report = CHECK.run(command_context.open_view(reads=True), request)
    except VaultError as error:
        warn(f"cannot be checked: {error}")
        raise typer.Exit(CANNOT_JUDGE) from None
    print_answer(CHECK, command_context, request, report)
    raise typer.Exit(0 if report.is_ok else 1)


# Commands on shown sections and token usage: queries, stats.

queries = make_command(RECENT, "queries")


@offers(STATS)
@takes("vault", "as_json")
def stats(
    command_context: CommandContext,
    request: Any,
    plot: Annotated[
        bool, typer.Option("--plot", help="Plot the size of packs against that of the vault.")
    ] = False,
    fleet: FleetOption = "",
) -> None:
    """Print what a vault's recalls and packs cost, or what a fleet's vaults hold."""
    if fleet:
        from vaultmem.cli.fleet_work import reject_with_fleet, stats_fleet

        reject_with_fleet(session=request.session, plot=plot)
        stats_fleet(fleet, command_context.vault, command_context.as_json)
        return
    vault = command_context.open_synced(reads=True)
    print_answer(STATS, command_context, request, STATS.run(vault, request))
    if plot and not command_context.as_json:
        from vaultmem.core.text.display import plot_lines
        from vaultmem.services.health.economics import read_pack_sizes

        packs, flat = read_pack_sizes(vault, request.session)
        print_line()
        shape = plot_lines(
            [(".", flat), ("o", packs)],
            "tokens in the vault",
            "tokens sent: o a pack, . flat memory",
        )
        print_line(shape or "No pack was counted yet.")
