"""Questions over all vaults that somebody may read, and the MCP server that agents ask them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from vaultmem.core.json_values import as_plain
from vaultmem.core.packs.division import tell_missing
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.hub.guests import make_visitor
from vaultmem.hub.pool_workers import PoolWorkers, read_caller
from vaultmem.hub.request_log import RequestLog
from vaultmem.hub.vault_apps import make_caller
from vaultmem.operations.schemas import text
from vaultmem.services.finding.ask import Ask, QueryResult
from vaultmem.services.finding.pack import AskPack, PackAnswer
from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.grants import Grant, Scope, may
from vaultmem.services.pools.pool import Pool, PoolAnswer
from vaultmem.services.pools.question import Each
from vaultmem.services.pools.status import VaultStats
from vaultmem.storage.vault_list import is_vault_name
from vaultmem.workers.caller import Caller, Guest
from vaultmem.workers.kept_vault import Work

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.tool import Answer, Tool

#: Stands for all vaults, as in a user's list.
ALL = "all"

#: Seconds for which the vaults of a question are waited for.
_PATIENCE = 30.0

#: Vaults that are counted for a list: of more, each would have to be opened for it.
_COUNTED = 100

#: Seconds for which a list of vaults waits for those that nobody has asked yet.
_SOON = 3.0


class Overall:
    """Asks the vaults of a pool in somebody's name, and lets it be heard."""

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
        """Return the vaults that somebody may read."""
        return [name for name in self._find_pool().names if may(grant, name, Scope.READ)]

    def choose(self, grant: Grant, wanted: Iterable[str]) -> list[str]:
        """Return those that they want of these; all where they name none.

        Raises:
            NoteNotFoundError: there is no such vault, or not for them.
            RefusedError: there is none at all.
        """
        known, named = self.list_names(grant), list(dict.fromkeys(wanted))
        if strange := next((each for each in named if each not in {*known, ALL}), ""):
            raise NoteNotFoundError(f"{strange}: this hub has no such vault, or not for you")
        if not known:
            raise RefusedError("this hub has no vault that you may read; ask its owner")
        return known if ALL in named or not named else named

    async def choose_for(
        self, grant: Grant, wanted: Iterable[str], origin: str, operation: str
    ) -> list[str]:
        """Return what `choose` does; what that refuses is in the audit log.

        Raises:
            NoteNotFoundError, RefusedError: as `choose` does.
        """
        named = list(wanted)
        try:
            return self.choose(grant, named)
        except NoteNotFoundError as error:
            await self.note_refusal(grant, named, origin, "ask", operation, error)
            raise

    async def note_refusal(
        self,
        grant: Grant,
        vaults: Iterable[str],
        origin: str,
        what: str,
        operation: str,
        why: object,
    ) -> None:
        """Write into the audit log that a caller was refused something."""
        guest = Guest(grant.name, grant.id, origin=origin)
        named = [each for each in vaults if is_vault_name(each)]
        await to_thread.run_sync(self._log.add_refusal, named, guest, what, operation, why)

    async def count(self, grant: Grant) -> Each[VaultStats]:
        """Return how each vault is that somebody may read; nothing of more than a hundred."""
        names = self.list_names(grant)
        if not 0 < len(names) <= _COUNTED:
            return Each({}, {})
        return await to_thread.run_sync(self._count, names)

    def _count(self, names: list[str]) -> Each[VaultStats]:
        pool = self._find_pool()
        found = pool.stats(names, _PATIENCE)
        if unknown := [name for name, each in found.results.items() if not each.commit]:
            pool.refresh(unknown, _SOON)
            found = pool.stats(names, _PATIENCE)
        return found

    async def recall(
        self, grant: Grant, asked: Ask, wanted: Iterable[str], origin: str
    ) -> PoolAnswer[QueryResult]:
        """Return what answers a question, of all these vaults as of one."""
        given = (grant, asked, wanted, origin)
        found: PoolAnswer[QueryResult] = await self._ask(Pool.recall, "recall", *given)
        return found

    async def pack(
        self, grant: Grant, asked: AskPack, wanted: Iterable[str], origin: str
    ) -> PoolAnswer[PackAnswer]:
        """Return a pack of all these vaults as of one."""
        given = (grant, asked, wanted, origin)
        found: PoolAnswer[PackAnswer] = await self._ask(Pool.pack, "pack", *given)
        return found

    async def _ask(
        self,
        ask: Callable[..., Any],
        operation: str,
        grant: Grant,
        asked: Ask | AskPack,
        wanted: Iterable[str],
        origin: str,
    ) -> Any:
        names = await self.choose_for(grant, wanted, origin, operation)
        if len(names) > 1 and (asked.at or asked.refs):
            raise RefusedError("at and include_refs name commits of one vault; name that one")
        visitor = make_visitor(grant, "", origin)
        settings = read_caller(make_caller(visitor, self.environment))
        work = partial(ask, self._find_pool(), names, asked, settings, _PATIENCE)
        done = await to_thread.run_sync(work)
        missing = {name: self.hub.hide_folder(why) for name, why in done.missing.items()}
        done = done._replace(missing=missing)
        assert visitor.guest is not None  # noqa: S101
        await to_thread.run_sync(self._log.add_question, names, visitor.guest, operation, done)
        return done


#: Gives the workers of a vault, and in whose name somebody is answered there.
FindVault = Callable[[str, Grant], tuple[PoolWorkers, Caller]]

_VAULT = text("The vault to work in, by its name.", 40, 1)

#: What a question over several vaults is not given: commits are one vault's.
_OF_ONE = {"at", "include_refs", "ref", "project"}

_INSTEAD = "name one vault's own address for this: /v/NAME/mcp"


def build_overall(
    overall: Overall, grant: Grant, find_vault: FindVault, subscribers: Subscribers
) -> Server[Any]:
    """Return a server for somebody, of all vaults that they may read."""
    from vaultmem.mcp_server.server import TOOLS, build_with

    writes = any(may(grant, name, Scope.PROPOSE) for name in overall.list_names(grant))
    tools = [_offer(tool) for tool in TOOLS if writes or not tool.writes]

    async def call(
        tool: Tool, given: dict[str, Any], _folder: object = None
    ) -> tuple[str, dict[str, Any]]:
        if ask := _QUESTIONS.get(tool.name):
            return await ask(overall, grant, given)
        from vaultmem.mcp_server.server import call_tool

        own = dict(given)
        (name,) = await overall.choose_for(grant, [own.pop("vault")], "mcp", tool.name)
        workers, caller = find_vault(name, grant)
        return await call_tool(workers, caller, tool, own)

    async def read(_: Work[Any]) -> Any:
        raise RefusedError(_INSTEAD)

    async def withhold(tool: str, told: str) -> None:
        await overall.note_refusal(grant, [], "mcp", "write", tool, told)

    return build_with(tools, call, read, subscribers, withhold)


def _offer(tool: Tool) -> Tool:
    """Return a tool as it is offered over all vaults."""
    takes = tool.takes
    own = takes["properties"]
    if tool.name in _QUESTIONS:
        kept = {name: each for name, each in own.items() if name not in _OF_ONE}
        kept["vaults"] = {**own["vaults"], "description": "Only these, by name; else all."}
        return tool._replace(takes={**takes, "properties": kept})
    required = ["vault", *takes.get("required", ())]
    properties = {"vault": _VAULT, **own}
    return tool._replace(takes={**takes, "properties": properties, "required": required})


async def _recall(
    overall: Overall, grant: Grant, given: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    from vaultmem.mcp_server.finding import fit_hits, read_recall, tell_hits
    from vaultmem.operations.finding import make_ask
    from vaultmem.operations.operation import BUDGET

    asked = read_recall(given)
    found = await overall.recall(grant, make_ask(asked), asked.vaults, "mcp")
    beside = tell_missing(found.missing)
    shown = fit_hits(found.answer, {}, "short", given.get("budget", BUDGET), beside)
    return _tell(tell_hits(found.answer._replace(shown=shown), asked.offset, beside), given)


async def _pack(
    overall: Overall, grant: Grant, given: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    from vaultmem.mcp_server.finding import tell_pack
    from vaultmem.operations.finding import PackRequest, make_pack_ask
    from vaultmem.operations.operation import read_request

    asked = read_request(PackRequest, given)
    found = await overall.pack(grant, make_pack_ask(asked), asked.vaults, "mcp")
    return _tell(tell_pack(found.answer, ()), given)


def _tell(answer: Answer, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return answer.text, as_plain(answer.as_data(given.get("detail", False)))


_QUESTIONS = {"recall": _recall, "context_pack": _pack}
