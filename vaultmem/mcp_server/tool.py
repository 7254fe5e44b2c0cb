"""A tool: what a client is told of it, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vaultmem.mcp_server.schemas import Schema

if TYPE_CHECKING:
    from vaultmem.vault import Vault


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says: text for the model, and the same as data."""

    text: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
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
