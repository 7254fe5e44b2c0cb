"""Queries over all vaults that a caller can read: pages, API and MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from vaultmem.core.packs.vault_parts import describe_missing
from vaultmem.core.text.json_values import as_plain
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.hub.authentication import RequestLog
from vaultmem.hub.pool_workers import PoolWorkers, read_caller
from vaultmem.hub.principals import LIFETIME, Principals, make_visitor
from vaultmem.hub.vault_apps import BASE as VAULTS
from vaultmem.hub.vault_apps import make_caller
from vaultmem.operations.declaration import BASE, Given, Operation, read_request
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
from vaultmem.operations.schemas import text
from vaultmem.services.fleet.clone import VaultStats
from vaultmem.services.fleet.pool import PerVaultResults, Pool, PoolAnswer
from vaultmem.services.hub.grants import Grant, GrantScope, may
from vaultmem.services.hub.hub_folder import Hub
from vaultmem.services.packs.build import AskPack
from vaultmem.services.search.run_query import Query, describe_match_strength
from vaultmem.services.search.vault_set import VaultSet
from vaultmem.storage.user_files import is_vault_name
from vaultmem.web.api.api_reading import find_rows, write_table
from vaultmem.web.api.routes import read_given
from vaultmem.web.page_requests import answers, read_count, read_form
from vaultmem.web.pages.search_page import ShownHit, show_hit
from vaultmem.web.rendering import Site, render_page
from vaultmem.workers import Caller, HubPrincipal, Work

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.tool import Tool, ToolAnswer


T = TypeVar("T")

#: Name that selects all vaults, as in a user's list.
ALL_VAULTS = "all"

#: Seconds to wait for the vaults of a query.
_QUERY_SECONDS = 30.0

#: Most vaults whose notes are counted for a list: each one has to be opened.
_MAX_COUNTED_VAULTS = 100

#: Seconds a list of vaults waits for vaults that were never opened.
_REFRESH_SECONDS = 3.0


class CrossVaultQueries:
    """Queries of a grant's holder over the vaults of a pool, written into the audit log."""

    def __init__(
        self,
        hub: Hub,
        find_pool: Callable[[], Pool],
        log: RequestLog,
        environment: Mapping[str, str],
    ) -> None:
        self.hub = hub
        self.environment = environment
        self._find_pool = find_pool
        self._log = log

    def list_names(self, grant: Grant) -> list[str]:
        """Return the names of the vaults that a grant can read."""
        return [name for name in self._find_pool().names if may(grant, name, GrantScope.READ)]

    def choose(self, grant: Grant, vaults: Iterable[str]) -> list[str]:
        """Return the wanted vaults; all if none is named.

        Raises:
            NoteNotFoundError: there is no such vault, or the grant cannot read it.
            RefusedError: the grant can read no vault.
        """
        readable_names, names = self.list_names(grant), list(dict.fromkeys(vaults))
        if unknown_name := next(
            (each for each in names if each not in {*readable_names, ALL_VAULTS}), ""
        ):
            raise NoteNotFoundError(f"{unknown_name}: this hub has no such vault, or not for you")
        if not readable_names:
            raise RefusedError("this hub has no vault that you may read; ask its owner")
        return readable_names if ALL_VAULTS in names or not names else names

    async def choose_for(
        self, grant: Grant, vaults: Iterable[str], origin: str, operation: str
    ) -> list[str]:
        """Return the vaults of `choose`; log its refusals.

        Raises:
            NoteNotFoundError, RefusedError: as `choose` does.
        """
        names = list(vaults)
        try:
            return self.choose(grant, names)
        except NoteNotFoundError as error:
            await self.note_refusal(grant, names, origin, "ask", operation, error)
            raise

    async def note_refusal(
        self,
        grant: Grant,
        vaults: Iterable[str],
        origin: str,
        action: str,
        operation: str,
        reason: object,
    ) -> None:
        """Log that a caller was refused something."""
        guest = HubPrincipal(grant.name, grant.id, origin=origin)
        names = [each for each in vaults if is_vault_name(each)]
        await to_thread.run_sync(self._log.add_refusal, names, guest, action, operation, reason)

    async def count(self, grant: Grant) -> PerVaultResults[VaultStats]:
        """Return the stats of each readable vault; an empty result above a hundred vaults."""
        names = self.list_names(grant)
        if not 0 < len(names) <= _MAX_COUNTED_VAULTS:
            return PerVaultResults({}, {})
        return await to_thread.run_sync(self._count, names)

    def _count(self, names: list[str]) -> PerVaultResults[VaultStats]:
        pool = self._find_pool()
        stats = pool.stats(names, _QUERY_SECONDS)
        if unknown := [name for name, each in stats.results.items() if not each.commit]:
            pool.refresh(unknown, _REFRESH_SECONDS)
            stats = pool.stats(names, _QUERY_SECONDS)
        return stats

    async def ask(
        self,
        ask: Callable[..., PoolAnswer[T]],
        grant: Grant,
        query: Query | AskPack,
        vaults: Iterable[str],
        origin: str,
    ) -> PoolAnswer[T]:
        """Run `Pool.recall` or `Pool.pack` over the wanted vaults, and log the query."""
        operation = ask.__name__
        names = await self.choose_for(grant, vaults, origin, operation)
        if len(names) > 1 and (query.at or query.refs):
            raise RefusedError("at and include_refs name commits of one vault; name that one")
        visitor = make_visitor(grant, "", origin)
        settings = read_caller(make_caller(visitor, self.environment))
        work = partial(ask, self._find_pool(), names, query, settings, _QUERY_SECONDS)
        answer = await to_thread.run_sync(work)
        missing = {name: self.hub.hide_folder(reason) for name, reason in answer.missing.items()}
        answer = answer._replace(missing=missing)
        assert visitor.guest is not None  # noqa: S101
        await to_thread.run_sync(self._log.add_question, names, visitor.guest, operation, answer)
        return answer


#: Returns the workers of a vault, and the caller for a grant there.
FindVault = Callable[[str, Grant], tuple[PoolWorkers, Caller]]

_VAULT = text("The vault to work in, by its name.", 40, 1)

#: Arguments that a query over several vaults does not have: they belong to one vault.
_OF_ONE = {"at", "include_refs", "ref", "project"}

_SINGLE_VAULT_REMEDY = "name one vault's own address for this: /v/NAME/mcp"


def build_overall(
    overall: CrossVaultQueries, grant: Grant, find_vault: FindVault, subscribers: Subscribers
) -> Server[Any]:
    """Return an MCP server over all vaults that a grant can read."""
    from vaultmem.mcp_server.tool_server import TOOLS, build_with

    can_write = any(may(grant, name, GrantScope.PROPOSE) for name in overall.list_names(grant))
    tools = [_offer(tool) for tool in TOOLS if can_write or not tool.writes]

    async def call(
        tool: Tool, arguments: dict[str, Any], _folder: object = None
    ) -> tuple[str, dict[str, Any]]:
        if ask := _QUESTIONS.get(tool.name):
            return await ask(overall, grant, arguments)
        from vaultmem.mcp_server.tool_server import call_tool

        own = dict(arguments)
        (name,) = await overall.choose_for(grant, [own.pop("vault")], "mcp", tool.name)
        workers, caller = find_vault(name, grant)
        return await call_tool(workers, caller, tool, own)

    async def read(_: Work[Any]) -> Any:
        raise RefusedError(_SINGLE_VAULT_REMEDY)

    async def withhold(tool: str, reason: str) -> None:
        await overall.note_refusal(grant, [], "mcp", "write", tool, reason)

    return build_with(tools, call, read, subscribers, withhold)


def _offer(tool: Tool) -> Tool:
    """Return a tool with its arguments for all vaults."""
    schema = tool.input_schema
    own = schema["properties"]
    if tool.name in _QUESTIONS:
        arguments = {name: each for name, each in own.items() if name not in _OF_ONE}
        arguments["vaults"] = {**own["vaults"], "description": "Only these, by name; else all."}
        return tool._replace(input_schema={**schema, "properties": arguments})
    required = ["vault", *schema.get("required", ())]
    properties = {"vault": _VAULT, **own}
    return tool._replace(input_schema={**schema, "properties": properties, "required": required})


async def _recall(
    overall: CrossVaultQueries, grant: Grant, arguments: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    from vaultmem.mcp_server.search_tools import describe_hits, fit_hits, read_recall
    from vaultmem.operations.declaration import BUDGET
    from vaultmem.operations.finding import make_ask

    request = read_recall(arguments)
    answer = await overall.ask(Pool.recall, grant, make_ask(request), request.vaults, "mcp")
    missing_text = describe_missing(answer.missing)
    texts = fit_hits(answer.answer, {}, "short", arguments.get("budget", BUDGET), missing_text)
    return _describe(
        describe_hits(answer.answer._replace(shown=texts), request.offset, missing_text), arguments
    )


async def _pack(
    overall: CrossVaultQueries, grant: Grant, arguments: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    from vaultmem.mcp_server.search_tools import format_pack_answer
    from vaultmem.operations.declaration import read_request
    from vaultmem.operations.finding import PackRequest, make_pack_ask

    request = read_request(PackRequest, arguments)
    answer = await overall.ask(Pool.pack, grant, make_pack_ask(request), request.vaults, "mcp")
    return _describe(format_pack_answer(answer.answer, ()), arguments)


def _describe(answer: ToolAnswer, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return answer.text, as_plain(answer.as_data(arguments.get("detail", False)))


_QUESTIONS = {"recall": _recall, "context_pack": _pack}


# The pages of a hub itself: sign-in, and the list of vaults with a search over them.

#: Notes on a page.
_LIMIT = 20

#: Largest offset of hits.
_MAX_OFFSET = 1_000


class VaultRow(NamedTuple):
    """A row in the list of vaults: the caller's permission, and the vault's stats."""

    name: str
    scope: GrantScope
    stats: VaultStats | None
    problem: str

    @property
    def address(self) -> str:
        """The address of its pages."""
        return f"{VAULTS}{quote(self.name)}/"


def find_scope(grant: Grant, name: str) -> GrantScope:
    """Return the highest permission of a grant in a vault it can read."""
    return next(each for each in reversed(GrantScope) if may(grant, name, each))


async def list_vaults(request: Request) -> list[VaultRow]:
    """Return the vaults that the caller can read, with their stats."""
    overall: CrossVaultQueries = request.app.state.overall
    grant: Grant = request.state.grant
    results = await overall.count(grant)
    return [
        VaultRow(
            name,
            find_scope(grant, name),
            stats := results.results.get(name),
            overall.hub.hide_folder(stats.problem if stats else results.missing.get(name, "")),
        )
        for name in overall.list_names(grant)
    ]


@answers
async def show_vaults(request: Request) -> Response:
    """Show the vaults that the caller can read, or the hits of a query over them."""
    overall: CrossVaultQueries = request.app.state.overall
    query = request.query_params.get("q", "")[:1_000]
    hits: list[ShownHit] = []
    doubts: list[str] = []
    rows: list[VaultRow] = []
    has_more, offset = False, read_count(request.query_params.get("offset", ""), _MAX_OFFSET) or 0
    if query.strip():
        vault_query = Query(query, _LIMIT, offset, suggests=True, waits=False, counts=False)
        answer = await overall.ask(Pool.recall, request.state.grant, vault_query, (), "page")
        hits, has_more = list(map(show_hit, answer.answer.hits)), answer.answer.has_more
        doubts = describe_match_strength(answer.answer)
        doubts += [f"{name}: not asked ({reason})" for name, reason in answer.missing.items()]
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
    """Show the sign-in form, or sign a browser in by its token."""
    if request.method == "GET":
        return _ask_for_token(request, 200, "")
    guests: Principals = request.app.state.guests
    site: Site = request.app.state.site
    token = (await read_form(request)).get("token", "").strip()
    grant = await to_thread.run_sync(guests.find, token)
    if grant is None:
        may_retry = await to_thread.run_sync(guests.turn_away, request.state.address)
        message = (
            "That token does not count (any more)." if may_retry else "Too many; wait a minute."
        )
        return _ask_for_token(request, 403 if may_retry else 429, message)
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
    """Delete the browser's cookie."""
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(request.app.state.site.cookie)
    return answer


def _ask_for_token(request: Request, status: int, message: str) -> Response:
    return render_page(request, "sign_in.html", status, title="Sign in", told=message)


@answers
async def show_list(request: Request) -> Response:
    """Answer with the vaults that the caller can read, and their stats."""
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


async def _recall_page(
    overall: CrossVaultQueries, request: Request, arguments: Given
) -> dict[str, Any]:
    recall_request = read_request(Recall, arguments)
    _check_project(recall_request.project)
    grant: Grant = request.state.grant
    answer = await overall.ask(
        Pool.recall, grant, make_ask(recall_request), recall_request.vaults, "api"
    )
    no_vault = cast(VaultSet, None)  # The texts are in the answer; no vault is read.
    texts = show_texts(recall_request)(no_vault, answer.answer) or ()
    return {**answer_data(answer.answer._replace(shown=texts)), "missing": answer.missing}


async def _pack_page(
    overall: CrossVaultQueries, request: Request, arguments: Given
) -> dict[str, Any]:
    pack_request = read_request(PackRequest, arguments)
    _check_project(pack_request.project)
    grant: Grant = request.state.grant
    answer = await overall.ask(
        Pool.pack, grant, make_pack_ask(pack_request), pack_request.vaults, "api"
    )
    return {**pack_answer_data(answer.answer), "missing": answer.missing}


def _check_project(name: str) -> None:
    """Reject a project name: projects belong to one vault.

    Raises:
        RefusedError: a project is named.
    """
    if name:
        raise RefusedError("project: names a project of one vault; use /v/NAME of that vault")


def _make_route(operation: Operation) -> Route:
    ask = _recall_page if operation.path == "/recall" else _pack_page

    @answers
    async def endpoint(request: Request) -> Response:
        arguments = await read_given(operation, request)
        overall: CrossVaultQueries = request.app.state.overall
        rows = find_rows(operation)
        is_table = rows and arguments.pop("format", "json") == "csv"
        plain = as_plain(await ask(overall, request, arguments))
        if is_table:
            return Response(write_table(plain[rows]), media_type="text/csv")
        return JSONResponse(plain)

    return Route(BASE + operation.path, endpoint, methods=[operation.method])


ROUTES = [Route(f"{BASE}/vaults", show_list), *map(_make_route, FINDING)]
