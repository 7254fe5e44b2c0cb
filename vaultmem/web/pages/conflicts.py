"""What two sides of a merge said differently; each decision is one commit, with undo."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.merging.text import Choice
from vaultmem.errors import RefusedError
from vaultmem.services.branching.conflicts import Unsettled, list_conflicts, resolve_conflicts
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, go_back, read, read_form, write
from vaultmem.web.rendering import make_link, render_page

#: Conflicts on a page.
_LIMIT = 50


class Shown(NamedTuple):
    """The conflicts that are shown, and how many there are."""

    conflicts: list[Unsettled]
    waiting: int


def gather_conflicts(vault: Vault) -> Shown:
    """Return the first of the conflicts that stand in notes."""
    found = list_conflicts(vault)
    return Shown(found[:_LIMIT], len(found))


@answers
async def show_conflicts(request: Request) -> Response:
    """Show what two sides said differently, side by side."""
    frame, shown = await read(request, gather_conflicts)
    return render_page(request, "conflicts.html", vault=frame, shown=shown)


@answers
async def resolve(request: Request) -> Response:
    """Decide one conflict, and go back to the others."""
    form = await read_form(request)
    try:
        choice, number = Choice(form.get("choice", "")), int(form.get("number", ""))
    except ValueError:
        raise RefusedError("choose ours, theirs or both of a conflict") from None
    done = await write(request, partial(_resolve, form.get("path", ""), choice, number))
    return go_back(request, make_link("/conflicts"), f"{done[0]}: {choice}.", done[1])


def _resolve(path: str, choice: Choice, number: int, vault: Vault) -> tuple[str, str]:
    done = resolve_conflicts(vault, path, choice, number)
    return done.path, done.report.commit
