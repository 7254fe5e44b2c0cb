"""Which clients there are, where each keeps its settings, and what it wants to be told.

A client is a row of data: nothing that reads or writes settings knows one of them by name. Places
and forms are those of the clients' own manuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from vaultmem.errors import RefusedError

#: The name under which a client knows the vault.
ENTRY = "vaultmem"

#: In an entry: the program, what it is given, and both in one list. In a hook: its command line.
PROGRAM, ARGUMENTS, WORDS, COMMAND = "<program>", "<arguments>", "<words>", "<command>"

_STDIO = {"type": "stdio", "command": PROGRAM, "args": ARGUMENTS}
_PLAIN = {"command": PROGRAM, "args": ARGUMENTS}


class Hooks(NamedTuple):
    """How a client runs commands at its events: a JSON file with a list for each event.

    `events` are its names for ours. `item` is what stands in a list for one command, which is its
    `COMMAND`; where `item` has a list of its own, that holds the commands. `head` is what a file
    has besides that has nothing in it yet. `note` is what their owner has to know.
    """

    user: tuple[str, ...]
    project: str
    events: Mapping[str, str]
    item: Mapping[str, Any]
    head: Mapping[str, Any] = {}
    key: tuple[str, ...] = ("hooks",)
    note: str = ""


class Client(NamedTuple):
    """A client: its files (see `places`; none where it has none of that scope) and their form.

    `key` is where its servers are, `entry` what stands there for one of them. `hooks` are its
    hooks where they are known.
    """

    name: str
    user: tuple[str, ...]
    project: str = ""
    key: tuple[str, ...] = ("mcpServers",)
    entry: Mapping[str, Any] = _PLAIN
    hooks: Hooks | None = None


#: Claude Code's events, which are Codex's too, and how both have a command at one.
_CLAUDE_EVENTS = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreCompact": "pre-compact",
    "Stop": "stop",
    "SessionEnd": "session-end",
}
_GROUP = {"hooks": [{"type": "command", "command": COMMAND}]}

CLIENTS: dict[str, Client] = {
    each.name: each
    for each in (
        Client(
            "claude-code",
            ("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
            ".mcp.json",
            entry=_STDIO,
            hooks=Hooks(
                ("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
                ".claude/settings.json",
                _CLAUDE_EVENTS,
                _GROUP,
            ),
        ),
        Client(
            "codex",
            ("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
            ".codex/config.toml",
            ("mcp_servers",),
            hooks=Hooks(
                ("$CODEX_HOME/hooks.json", "~/.codex/hooks.json"),
                ".codex/hooks.json",
                _CLAUDE_EVENTS,
                _GROUP,
                note="Codex runs the hooks once you have looked at them, by /hooks.",
            ),
        ),
        Client(
            "cursor",
            ("~/.cursor/mcp.json",),
            ".cursor/mcp.json",
            hooks=Hooks(
                ("~/.cursor/hooks.json",),
                ".cursor/hooks.json",
                {
                    "sessionStart": "session-start",
                    "preCompact": "pre-compact",
                    "stop": "stop",
                    "sessionEnd": "session-end",
                },
                {"command": COMMAND},
                head={"version": 1},
            ),
        ),
        Client(
            "vscode",
            ("$APPS/Code/User/mcp.json",),
            ".vscode/mcp.json",
            ("servers",),
            _STDIO,
        ),
        Client(
            "gemini",
            ("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
            ".gemini/settings.json",
            # It tells of a compression at every turn, whether there is one or not.
            hooks=Hooks(
                ("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
                ".gemini/settings.json",
                {
                    "SessionStart": "session-start",
                    "BeforeAgent": "prompt",
                    "AfterAgent": "stop",
                    "SessionEnd": "session-end",
                },
                _GROUP,
            ),
        ),
        Client("claude-desktop", ("$APPS/Claude/claude_desktop_config.json",)),
    )
}


def find_client(name: str) -> Client:
    """Return the client of a name.

    Raises:
        RefusedError: none has it.
    """
    if name not in CLIENTS:
        known = ", ".join(CLIENTS)
        raise RefusedError(f'connect: "{name}" is no client; known are {known}')
    return CLIENTS[name]
