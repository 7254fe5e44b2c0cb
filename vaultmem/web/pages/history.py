"""All versions of a note with what changed from one to the next, and a way back to each.

And a commit: who made it, when and why, and what it changed, word by word.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.services.history.diff import ShownCommit
from vaultmem.services.history.trace import Version
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, go_back, read, read_form, read_page, read_path, write
from vaultmem.web.changes import ShownChange, show_changes
from vaultmem.web.rendering import link_note, render_page

#: Versions on a page.
_PAGE = 20


class HistoryPage(NamedTuple):
    """A note's versions, newest first, each with what changed in it."""

    path: str
    versions: list[tuple[Version, ShownChange]]
    has_older: bool


def gather_history(path: str, page: int, whole: bool, vault: Vault) -> HistoryPage:
    """Return a page (from 0) of a note's versions."""
    from vaultmem.services.history.commits import find_moment
    from vaultmem.services.history.trace import trace_note

    trace = trace_note(vault, path, _PAGE + 1, find_moment(vault), page * _PAGE)
    versions = trace.versions[:_PAGE]
    changes = show_changes((each.operation for each in versions), whole)
    listed = list(zip(versions, changes, strict=True))
    return HistoryPage(trace.path, listed, len(trace.versions) > _PAGE)


def _restore(path: str, commit: str, vault: Vault) -> tuple[str, str]:
    """Write a note as it was, as one commit; return what is told of it, and that commit."""
    from vaultmem.services.history.restore import restore_note

    done = restore_note(vault, path, commit, commits=True)
    if not done.is_changed:
        return f"{done.path} is as it was then.", ""
    return f"{done.path} is as it was in {done.commit[:7]}.", done.commits[-1][0]


@answers
async def show_history(request: Request) -> Response:
    """Show the versions of a note."""
    path, given = read_path(request, "/history/"), request.query_params
    page = read_page(given)
    frame, found = await read(request, partial(gather_history, path, page, "all" in given))
    return render_page(request, "history.html", vault=frame, found=found, page=page)


@answers
async def restore(request: Request) -> Response:
    """Write a note as it once was, and go back to it."""
    form = await read_form(request)
    path = form.get("path", "")
    told, commit = await write(request, partial(_restore, path, form.get("commit", "")))
    return go_back(request, link_note(path), told, commit)


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
