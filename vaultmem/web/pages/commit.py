"""A commit: who made it, when and why, and what it changed, word by word."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.services.history.diff import ShownCommit
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read
from vaultmem.web.changes import ShownChange, show_changes
from vaultmem.web.rendering import render_page

#: Files that are compared, and that are named; of the first commit of a large vault each is new.
_FILES, _NAMED = 20, 500


class CommitPage(NamedTuple):
    """A commit and its changes; `more` counts the files that are not even named."""

    shown: ShownCommit
    changes: list[ShownChange]
    more: int


def gather_commit(name: str, whole: bool, vault: Vault) -> CommitPage:
    """Return what a commit changed; `whole`: in however many lines."""
    from vaultmem.services.history.diff import show_commit

    found = show_commit(vault, name, _FILES)
    named = found._replace(others=found.others[:_NAMED])
    more = len(found.others) - len(named.others)
    return CommitPage(named, list(show_changes(found.operations, whole)), more)


@answers
async def show_commit(request: Request) -> Response:
    """Show a commit."""
    name, whole = request.path_params["name"], "all" in request.query_params
    frame, page = await read(request, partial(gather_commit, name, whole))
    return render_page(request, "commit.html", vault=frame, page=page)
