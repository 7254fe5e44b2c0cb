"""The API over all vaults: which there are, and what answers a question in all of them."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vaultmem.core.json_values import as_plain
from vaultmem.hub.overall import Overall
from vaultmem.hub.pages import list_vaults
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
from vaultmem.services.finding.vault_set import VaultSet
from vaultmem.web.api.given import read_given
from vaultmem.web.asking import answers


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
    found = await overall.recall(request.state.grant, make_ask(asked), asked.vaults, "api")
    no_vault = cast(VaultSet, None)  # Texts are at hand; none is looked at.
    shown = show_texts(asked)(no_vault, found.answer) or ()
    return {**answer_data(found.answer._replace(shown=shown)), "missing": found.missing}


async def _pack(overall: Overall, request: Request, given: Given) -> dict[str, Any]:
    asked = read_request(PackRequest, given)
    found = await overall.pack(request.state.grant, make_pack_ask(asked), asked.vaults, "api")
    return {**pack_answer_data(found.answer), "missing": found.missing}


def _make_route(operation: Operation) -> Route:
    ask = _recall if operation.path == "/recall" else _pack

    @answers
    async def endpoint(request: Request) -> Response:
        given = await read_given(operation, request)
        overall: Overall = request.app.state.overall
        return JSONResponse(as_plain(await ask(overall, request, given)))

    return Route(BASE + operation.path, endpoint, methods=[operation.method])


ROUTES = [Route(f"{BASE}/vaults", show_list), *map(_make_route, FINDING)]
