"""The slider: the moments of a page to which one can look back."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.services.history.commits import find_moment, resolve_commit
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read
from vaultmem.web.rendering import render_page

#: Moments on a slider.
_MANY = 100


class Moments(NamedTuple):
    """Commits, oldest first, and the place of the one that is looked at; behind the last is now."""

    commits: list[Commit]
    place: int


def gather_moments(path: str, at: str, vault: Vault) -> Moments:
    """Return the moments of a note, or of the vault."""
    from vaultmem.services.history.timeline import list_moments

    if vault.head() is None:
        return Moments([], 0)
    commits = list_moments(vault, _MANY, path)
    if not at:
        return Moments(commits, len(commits))
    name = find_moment(vault) or resolve_commit(vault, at)
    for place, each in enumerate(commits):
        if each.commit == name:
            return Moments(commits, place)
    moment = read_commit(vault.history, name)
    later = (place for place, each in enumerate(commits) if each.at > moment.at)
    return Moments(commits, max(next(later, len(commits)) - 1, 0))


@answers
async def show_moments(request: Request) -> Response:
    """Show the slider of a page."""
    path, at = request.query_params.get("of", ""), request.query_params.get("at", "")
    frame, found = await read(request, partial(gather_moments, path, at))
    return render_page(request, "moments.html", vault=frame, found=found, of=path)
