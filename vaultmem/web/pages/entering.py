"""The door: a one-time code becomes a browser's session."""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from vaultmem.web.codes import take_code
from vaultmem.web.refusing import refuse
from vaultmem.web.rendering import render_page
from vaultmem.web.site import Site
from vaultmem.web.visits import Visits


async def enter(request: Request) -> Response:
    """Let a browser in that has a code which counts.

    It goes on by itself: a redirect would still count as the visit of whoever made the link, and
    would have no cookie.
    """
    site: Site = request.app.state.site
    visits: Visits = request.app.state.visits
    code = request.query_params.get("code", "")
    if not await to_thread.run_sync(partial(take_code, site.folder, code)):
        told = "This link was used already, or is too old; `vaultmem serve --link` prints another."
        return refuse(request, 403, told)
    answer = render_page(request, "entered.html", title="Come in")
    answer.set_cookie(site.cookie, visits.begin(), httponly=True, samesite="strict")
    return answer
