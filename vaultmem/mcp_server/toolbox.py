"""The ten tools, in the order in which clients list them."""

from __future__ import annotations

from vaultmem.mcp_server.events import CHECKPOINT, PROMOTE
from vaultmem.mcp_server.finding import CONTEXT_PACK, RECALL
from vaultmem.mcp_server.history import HISTORY
from vaultmem.mcp_server.notes import FORGET, READ_NOTE, REMEMBER, UPDATE_NOTE
from vaultmem.mcp_server.sessions import SESSION
from vaultmem.mcp_server.tool import Tool

TOOLS: tuple[Tool, ...] = (
    RECALL,
    CONTEXT_PACK,
    REMEMBER,
    READ_NOTE,
    UPDATE_NOTE,
    FORGET,
    PROMOTE,
    SESSION,
    CHECKPOINT,
    HISTORY,
)
