"""The group `session`: begin one, write it down, end it, look at it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import typer

from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.shared import Here, make_command, offers, print_answer, takes
from vaultmem.errors import BusyError
from vaultmem.operations import session_views, sessions
from vaultmem.operations.tasks import FAMILY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.services.sessions.recover import Recovered
    from vaultmem.vault import Vault

NAME = "session"


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    add_commands(
        app,
        make_command(sessions.START, "start"),
        make_command(sessions.RESUME, "resume"),
        make_command(sessions.FORK, "fork"),
        make_command(sessions.MARK_RESTORE, "mark_restore"),
        make_command(sessions.CLOSE, "close"),
        make_command(sessions.NOTE, "note"),
        make_command(sessions.DECIDE, "decide"),
        make_command(sessions.TOUCH, "touch"),
        make_command(sessions.TURN, "turn"),
        make_command(sessions.SUMMARIZE, "summarize"),
        make_command(session_views.SHOW, "show"),
        list_,
        make_command(session_views.SEARCH, "search"),
        make_command(session_views.CHAIN, "chain"),
        make_command(FAMILY, "family"),
        make_command(session_views.STATS, "stats"),
        make_command(session_views.RESTORE, "restore"),
        make_command(session_views.WHICH, "which"),
    )
    parent.add_typer(app, name=NAME, help="Keep sessions: what an agent did, and where it stands.")


@offers(session_views.LIST)
@takes("vault", "ref", "as_json")
def list_(here: Here, asked: session_views.ListRequest) -> None:
    """Print the sessions, and recover before it those whose process is gone."""
    opened = here.open_synced(reads=True)
    recovered = _recover(opened)
    done = session_views.LIST.run(opened, asked)._replace(recovered=recovered)
    print_answer(session_views.LIST, here, asked, done)


def _recover(opened: Vault) -> Sequence[Recovered]:
    from vaultmem.services.sessions.read import find_unsettled

    if opened.notices.stale or not find_unsettled(opened):
        return ()
    from vaultmem.services.sessions.recover import recover_sessions

    with contextlib.suppress(BusyError):  # They can be recovered another time.
        return recover_sessions(opened)
    return ()
