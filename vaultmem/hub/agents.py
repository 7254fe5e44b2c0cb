"""What agents are offered over all vaults that they may read: to find in all, the rest in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vaultmem.core.json_values import as_plain
from vaultmem.core.packs.division import tell_missing
from vaultmem.errors import RefusedError
from vaultmem.hub.overall import Overall
from vaultmem.hub.pool_workers import PoolWorkers
from vaultmem.operations.schemas import text
from vaultmem.services.hub.grants import Grant, Scope, may
from vaultmem.workers.caller import Caller
from vaultmem.workers.kept_vault import Work

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.tool import Answer, Tool

#: Gives the workers of a vault, and in whose name somebody is answered there.
FindVault = Callable[[str, Grant], tuple[PoolWorkers, Caller]]

_VAULT = text("The vault to work in, by its name.", 40, 1)

#: What a question over several vaults is not given: commits are one vault's.
_OF_ONE = {"at", "include_refs", "ref"}

_INSTEAD = "name one vault's own address for this: /v/NAME/mcp"


def build_overall(
    overall: Overall, grant: Grant, find_vault: FindVault, subscribers: Subscribers
) -> Server[Any]:
    """Return a server for somebody, of all vaults that they may read."""
    from vaultmem.mcp_server.server import TOOLS, build_with

    writes = any(may(grant, name, Scope.PROPOSE) for name in overall.list_names(grant))
    tools = [_offer(tool) for tool in TOOLS if writes or not tool.writes]

    async def call(tool: Tool, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
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
