"""The group `session`: begin one, write it down, end it, look at it."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from vaultmem.cli.quick_typer import new_group
from vaultmem.cli.shared import CommandContext, list_operation_commands, offers, print_answer, takes
from vaultmem.errors import LockTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vaultmem.services.sessions.close import RecoveryResult
    from vaultmem.vault import Vault

NAME = "session"


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
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
    app = new_group({**before, "list": _make_list, **after})
    parent.add_typer(app, name=NAME, help="Keep sessions: what an agent did, and what is open.")


def _make_list() -> Callable[..., None]:
    """Return the command that prints the sessions; it recovers those whose process is gone."""
    from vaultmem.operations.session_views import LIST

    def list_(here: CommandContext, asked: Any) -> None:
        opened = here.open_synced(reads=True)
        recovered = _recover(opened)
        done = LIST.run(opened, asked)._replace(recovered=recovered)
        print_answer(LIST, here, asked, done)

    return offers(LIST)(takes("vault", "ref", "as_json")(list_))


def _recover(opened: Vault) -> Sequence[RecoveryResult]:
    from vaultmem.services.sessions.find_session import find_unsettled

    if opened.notices.stale or not find_unsettled(opened):
        return ()
    from vaultmem.services.sessions.close import recover_sessions

    with contextlib.suppress(LockTimeoutError):  # They can be recovered another time.
        return recover_sessions(opened)
    return ()
