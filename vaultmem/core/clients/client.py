"""Which clients there are, where each keeps its settings, and what it wants to be told.

Places and forms are those of the clients' own manuals; a path begins at the user's home, or at
the project's folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

#: The name under which a client knows the vault.
ENTRY = "vaultmem"


class ClientName(StrEnum):
    """A program that speaks the Model Context Protocol."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    VSCODE = "vscode"
    GEMINI = "gemini"
    CLAUDE_DESKTOP = "claude-desktop"


class Client(NamedTuple):
    """A client: its files (empty where it has none of that scope), and the key of its servers.

    `user` is by platform ("linux", "darwin", "win32"), or the same for all under "".
    """

    name: ClientName
    project: str
    user: Mapping[str, str]
    key: str
    typed: bool = False
    hooks: str = ""

    def user_file(self, platform: str) -> str:
        """Return the user's file on a platform, as `sys.platform` has it."""
        return self.user.get(platform, self.user.get("", ""))


CLIENTS: dict[ClientName, Client] = {
    each.name: each
    for each in (
        Client(
            ClientName.CLAUDE_CODE,
            ".mcp.json",
            {"": ".claude.json"},
            "mcpServers",
            typed=True,
            hooks=".claude/settings.json",
        ),
        Client(ClientName.CODEX, ".codex/config.toml", {"": ".codex/config.toml"}, "mcp_servers"),
        Client(ClientName.CURSOR, ".cursor/mcp.json", {"": ".cursor/mcp.json"}, "mcpServers"),
        Client(
            ClientName.VSCODE,
            ".vscode/mcp.json",
            {
                "": ".config/Code/User/mcp.json",
                "darwin": "Library/Application Support/Code/User/mcp.json",
                "win32": "AppData/Roaming/Code/User/mcp.json",
            },
            "servers",
            typed=True,
        ),
        Client(
            ClientName.GEMINI, ".gemini/settings.json", {"": ".gemini/settings.json"}, "mcpServers"
        ),
        Client(
            ClientName.CLAUDE_DESKTOP,
            "",
            {
                "": ".config/Claude/claude_desktop_config.json",
                "darwin": "Library/Application Support/Claude/claude_desktop_config.json",
                "win32": "AppData/Roaming/Claude/claude_desktop_config.json",
            },
            "mcpServers",
        ),
    )
}

#: Claude Code's events, and our word for each.
HOOKS = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreCompact": "pre-compact",
    "SessionEnd": "session-end",
}


def make_entry(client: Client, command: list[str], root: str) -> dict[str, Any]:
    """Return what a client is told: how to start the server, and under whose name it writes."""
    arguments = [*command[1:], "mcp", "--vault", root, "--agent", client.name.value]
    entry = {"command": command[0], "args": arguments}
    return {"type": "stdio", **entry} if client.typed else entry


def make_hook(command: list[str], root: str, event: str) -> dict[str, Any]:
    """Return the settings of Claude Code for one event."""
    words = [*command, "hook", HOOKS[event], "--vault", root]
    return {"hooks": [{"type": "command", "command": shlex.join(words)}]}
