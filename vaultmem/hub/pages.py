"""The pages of a hub itself: signing in, and all vaults with a search over them."""

from __future__ import annotations

from typing import Any, NamedTuple, cast
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from vaultmem.core.json_values import as_plain
from vaultmem.errors import RefusedError
from vaultmem.hub.guests import LIFETIME, Guests
from vaultmem.hub.overall import Overall
from vaultmem.hub.vault_apps import BASE as VAULTS
from vaultmem.operations.finding import (
    FINDING,
    PackRequest,
    Recall,
    answer_data,
    make_ask,
    make_pack_ask,
    pack_answer_data,
    show_texts,
)
from vaultmem.operations.operation import BASE, Given, Operation, read_request
from vaultmem.services.finding.ask import Ask, tell_how_sure
from vaultmem.services.finding.vault_set import VaultSet
from vaultmem.services.hub.grants import Grant, Scope, may
from vaultmem.services.pools.status import VaultStats
from vaultmem.web.api.given import read_given
from vaultmem.web.asking import answers, read_count, read_form
from vaultmem.web.pages.search import ShownHit, show_hit
from vaultmem.web.rendering import render_page
from vaultmem.web.site import Site

#: Notes on a page.
_LIMIT = 20

#: Hits that are passed over at most.
_FURTHEST = 1_000


class VaultRow(NamedTuple):
    """A vault as it is listed: what may be done in it, and how it is."""

    name: str
    scope: Scope
    stats: VaultStats | None
    problem: str

    @property
    def address(self) -> str:
        """Where its pages are."""
        return f"{VAULTS}{quote(self.name)}/"


def find_scope(grant: Grant, name: str) -> Scope:
    """Return the most that somebody may do in a vault that they may read."""
    return next(each for each in reversed(Scope) if may(grant, name, each))


async def list_vaults(request: Request) -> list[VaultRow]:
    """Return the vaults that whoever asks may read, and how they are."""
    overall: Overall = request.app.state.overall
    grant: Grant = request.state.grant
    found = await overall.count(grant)
    return [
        VaultRow(
            name,
            find_scope(grant, name),
            stats := found.results.get(name),
            overall.hub.hide_folder(stats.problem if stats else found.missing.get(name, "")),
        )
        for name in overall.list_names(grant)
    ]


@answers
async def show_vaults(request: Request) -> Response:
    """Show the vaults that somebody may read, or what answers a question in all of them."""
    overall: Overall = request.app.state.overall
    query = request.query_params.get("q", "")[:1_000]
    hits: list[ShownHit] = []
    doubts: list[str] = []
    rows: list[VaultRow] = []
    has_more, offset = False, read_count(request.query_params.get("offset", ""), _FURTHEST) or 0
    if query.strip():
        asked = Ask(query, _LIMIT, offset, suggests=True, waits=False, counts=False)
        found = await overall.recall(request.state.grant, asked, (), "page")
        hits, has_more = list(map(show_hit, found.answer.hits)), found.answer.has_more
        doubts = tell_how_sure(found.answer)
        doubts += [f"{name}: not asked ({why})" for name, why in found.missing.items()]
    else:
        rows = await list_vaults(request)
    return render_page(
        request,
        "hub.html",
        grant=request.state.grant,
        rows=rows,
        query=query,
        hits=hits,
        doubts=doubts,
        offset=offset,
        next_offset=offset + _LIMIT if has_more else 0,
        place=lambda name: f"{VAULTS}{quote(name)}",
    )


@answers
async def sign_in(request: Request) -> Response:
    """Ask for a token, and let a browser in that shows one."""
    if request.method == "GET":
        return _ask_for_token(request, 200, "")
    guests: Guests = request.app.state.guests
    site: Site = request.app.state.site
    token = (await read_form(request)).get("token", "").strip()
    grant = await to_thread.run_sync(guests.find, token)
    if grant is None:
        patient = await to_thread.run_sync(guests.turn_away, request.state.address)
        told = "That token does not count (any more)." if patient else "Too many; wait a minute."
        return _ask_for_token(request, 403 if patient else 429, told)
    answer = RedirectResponse("/", 303)
    secure = site.scheme == "https"
    answer.set_cookie(
        site.cookie,
        guests.make_cookie(grant),
        max_age=LIFETIME,
        httponly=True,
        samesite="lax",
        secure=secure,
    )
    return answer


@answers
async def sign_out(request: Request) -> Response:
    """Let the browser forget who it is."""
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(request.app.state.site.cookie)
    return answer


def _ask_for_token(request: Request, status: int, told: str) -> Response:
    return render_page(request, "sign_in.html", status, title="Sign in", told=told)


@answers
async def show_list(request: Request) -> Response:
    """Answer with the vaults that somebody may read, and how they are."""
    rows = [
        {
            "name": row.name,
            "address": row.address,
            "scope": row.scope,
            "problem": row.problem or None,
        }
        | ({"notes": row.stats.notes, "commit": row.stats.commit} if row.stats else {})
        for row in await list_vaults(request)
    ]
    return JSONResponse(as_plain({"vaults": rows}))


async def _recall(overall: Overall, request: Request, given: Given) -> dict[str, Any]:
    asked = read_request(Recall, given)
    _check_project(asked.project)
    found = await overall.recall(request.state.grant, make_ask(asked), asked.vaults, "api")
    no_vault = cast(VaultSet, None)  # Texts are at hand; none is looked at.
    shown = show_texts(asked)(no_vault, found.answer) or ()
    return {**answer_data(found.answer._replace(shown=shown)), "missing": found.missing}


async def _pack(overall: Overall, request: Request, given: Given) -> dict[str, Any]:
    asked = read_request(PackRequest, given)
    _check_project(asked.project)
    found = await overall.pack(request.state.grant, make_pack_ask(asked), asked.vaults, "api")
    return {**pack_answer_data(found.answer), "missing": found.missing}


def _check_project(name: str) -> None:
    """Reject a project: it is one vault's.

    Raises:
        RefusedError: one is named.
    """
    if name:
        raise RefusedError("project: names a project of one vault; use /v/NAME of that vault")


def _make_route(operation: Operation) -> Route:
    ask = _recall if operation.path == "/recall" else _pack

    @answers
    async def endpoint(request: Request) -> Response:
        given = await read_given(operation, request)
        overall: Overall = request.app.state.overall
        return JSONResponse(as_plain(await ask(overall, request, given)))

    return Route(BASE + operation.path, endpoint, methods=[operation.method])


ROUTES = [Route(f"{BASE}/vaults", show_list), *map(_make_route, FINDING)]
