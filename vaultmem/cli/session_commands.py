"""The groups `session` and `task`."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.quick_typer import new_group
from vaultmem.cli.shared import list_operation_commands, offers, print_answer, takes
from vaultmem.errors import LockTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vaultmem.services.sessions.close import RecoveryResult
    from vaultmem.vault import Vault


def register(parent: typer.Typer) -> None:
    """Add the groups to the application."""
    parent.add_typer(
        _make_sessions(), name="session", help="Keep sessions: what an agent did, and what is open."
    )
    tasks = list_operation_commands(
        add="tasks.ADD",
        update="tasks.SET",
        list="tasks.LIST",
        show="tasks.SHOW",
        history="tasks.HISTORY",
        handoff="tasks.HAND_OFF",
        expand="tasks.EXPAND",
    )
    purpose = "Keep tasks: what is to be done, and what is next."
    parent.add_typer(new_group(tasks), name="task", help=purpose)


def _make_sessions() -> typer.Typer:
    before, after = (
        list_operation_commands(
            start="sessions.START",
            resume="sessions.RESUME",
            fork="sessions.FORK",
            mark_restore="sessions.MARK_RESTORE",
            close="sessions.CLOSE",
            show="session_views.SHOW",
        ),
        list_operation_commands(
            search="session_turns.SEARCH",
            turns="session_turns.TURNS",
            links="session_views.CHAIN",
            report="tasks.FAMILY",
            stats="session_views.STATS",
            restore="session_views.RESTORE",
            current="session_views.WHICH",
        ),
    )
    added = list_operation_commands(
        note="sessions.NOTE",
        decision="sessions.DECIDE",
        file="sessions.TOUCH",
        turn="sessions.TURN",
        summary="sessions.SUMMARIZE",
    )
    before["add"] = partial(new_group, added, "Add to a session: a note, decision, file, turn.")
    return new_group({**before, "list": _make_list, **after})


def _make_list() -> Callable[..., None]:
    """Return the command that lists the sessions, after recovering those of dead processes."""
    from vaultmem.operations.session_views import LIST

    def list_(context: CommandContext, request: Any) -> None:
        vault = context.open_synced(reads=True)
        recovered = _recover(vault)
        result = LIST.run(vault, request)._replace(recovered=recovered)
        print_answer(LIST, context, request, result)

    return offers(LIST)(takes("vault", "ref", "as_json")(list_))


def _recover(vault: Vault) -> Sequence[RecoveryResult]:
    from vaultmem.services.sessions.find_session import find_unsettled

    if vault.notices.stale or not find_unsettled(vault):
        return ()
    from vaultmem.services.sessions.close import recover_sessions

    with contextlib.suppress(LockTimeoutError):  # They can be recovered later.
        return recover_sessions(vault)
    return ()
