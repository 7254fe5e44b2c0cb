"""A tool: what a client is told of it, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.plain import as_plain
from vaultmem.mcp_server.schemas import Schema

if TYPE_CHECKING:
    from vaultmem.vault import Vault


def see_at(vault: Vault, given: dict[str, Any]) -> Vault:
    """Return the vault at the moment that the arguments name, else on its branch as it is now."""
    if not (given.get("at") or vault.ref):
        return vault
    from vaultmem.services.reading.look import look_at

    return look_at(vault, given.get("at", ""))


class Answer(NamedTuple):
    """What a tool says: text for the model, and the same as data.

    Some clients show their model the data alone, others the text alone. So `told`, the text if not
    given, stands in the data too: labels and quotation marks must reach every model.
    """

    text: str
    data: dict[str, Any]
    told: str | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the data with what is told."""
        return {"told": self.text if self.told is None else self.told, **self.data}


def run_tool(
    run: Callable[[Vault, dict[str, Any]], Answer], given: dict[str, Any], vault: Vault
) -> tuple[str, dict[str, Any]]:
    """Return what a tool answers, as text and as data of plain types."""
    answer = run(vault, given)
    return answer.text, as_plain(answer.as_data())


class Tool(NamedTuple):
    """One tool.

    `writes` keeps it from servers that only read; its answers then come one after the other.
    `destroys` and `repeatable` are what clients are told before they call it.
    """

    name: str
    title: str
    description: str
    takes: Schema
    gives: Schema
    run: Callable[[Vault, dict[str, Any]], Answer]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True
