"""The sessions that agents hold open over HTTP, so that the end of an MCP session closes them."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from vaultmem.errors import VaultError

#: The header that names an MCP session.
SESSION_HEADER = "mcp-session-id"

#: Actions of the tool after which a session is held.
_TAKEN = {"start", "resume"}

#: Arguments of the tool that say where a session is kept.
_WHERE = ("vault", "ref")


class HeldSessions:
    """Which MCP sessions began a session, or took one up.

    `leave` closes a session, by its id and the arguments that say where it is kept.
    """

    def __init__(self) -> None:
        self.leave: Callable[[dict[str, Any]], Awaitable[object]] | None = None
        self._held: dict[tuple[tuple[str, str], ...], set[str]] = {}

    def note(self, client: str, given: dict[str, Any], session: str) -> None:
        """Note that an MCP session has called the tool, with the session that this was about."""
        if client and given["action"] in _TAKEN:
            where = [(name, str(given[name])) for name in _WHERE if name in given]
            self._held.setdefault((("session", session), *where), set()).add(client)

    async def release(self, client: str) -> None:
        """Close the sessions that an ended MCP session held and that no other one holds."""
        for session, holders in list(self._held.items()):
            holders.discard(client)
            if not holders:
                del self._held[session]
                if self.leave is not None:
                    with contextlib.suppress(VaultError):  # It has ended, or is recovered later.
                        await self.leave(dict(session))
