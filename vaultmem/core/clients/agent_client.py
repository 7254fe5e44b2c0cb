"""The known agent clients and their settings files.

Each client is a row of data; the code for settings names none of them. Paths and formats are from
the clients' own manuals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import RefusedError

#: The vault's name in a client's settings.
ENTRY = "vaultmem"

#: In an entry: the program, its arguments, and both in one list. In a hook: its command line.
PROGRAM, ARGUMENTS, WORDS, COMMAND = "<program>", "<arguments>", "<words>", "<command>"

#: In a hook: its timeout in seconds or milliseconds.
SECONDS, MILLISECONDS = "<seconds>", "<milliseconds>"

_COMMAND_ENTRY = {"command": PROGRAM, "args": ARGUMENTS}
_STDIO = {"type": "stdio", **_COMMAND_ENTRY}
_OPENCODE = {"type": "local", "command": WORDS, "enabled": True}


class Hooks(NamedTuple):
    """A client's hooks: a JSON file with a list of commands for each event.

    `events` maps the client's event names to ours. `item` is the list item for one command, with
    `COMMAND` in it; if `item` has a list of its own, that contains the commands. `head` are other
    values of a new file. `matchers` map the client's event names to the tools at which the command
    runs. `note` is a message for the user.
    """

    user: tuple[str, ...]
    project: str
    events: Mapping[str, str]
    item: Mapping[str, Any]
    head: Mapping[str, Any] = {}
    key: tuple[str, ...] = ("hooks",)
    matchers: Mapping[str, str] = {}
    note: str = ""


class AutoMemory(NamedTuple):
    """A client's own memory: files that it writes by itself, in `place`.

    `key` is its setting for another folder, in the `user`'s settings or in a `project`'s settings
    on this machine only; "" if its manual has none.
    """

    place: str
    user: tuple[str, ...] = ()
    project: str = ""
    key: str = ""


class AgentClient(NamedTuple):
    """A client: its settings files (see `places`; empty if it has none of a scope) and format.

    `key` is the path of its servers, `entry` the value for one of them. `hooks` are its hooks if
    known. `paste` is where the user adds an entry that we do not write. `memory` is its own memory,
    if its manual describes one.
    """

    name: str
    user: tuple[str, ...]
    project: str = ""
    key: tuple[str, ...] = ("mcpServers",)
    entry: Mapping[str, Any] = _COMMAND_ENTRY
    hooks: Hooks | None = None
    paste: str = ""
    memory: AutoMemory | None = None


#: Events of Claude Code and Codex, and their format of a command.
_CODEX_EVENTS = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreCompact": "pre-compact",
    "Stop": "stop",
    "SessionEnd": "session-end",
    "PreToolUse": "before-tool",
}
_CLAUDE_EVENTS = {
    **_CODEX_EVENTS,
    "PostToolUseFailure": "tool-failure",
    "SubagentStart": "subagent-start",
    "PostCompact": "post-compact",
}
_GROUP = {"hooks": [{"type": "command", "command": COMMAND, "timeout": SECONDS}]}
_CLAUDE_TOOLS = "Edit|MultiEdit|Write|NotebookEdit|Bash"

CLIENTS: dict[str, AgentClient] = {
    each.name: each
    for each in (
        # code.claude.com/docs/en/mcp, /settings (CLAUDE_CONFIG_DIR: /env-vars) and /hooks
        AgentClient(
            "claude-code",
            ("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
            ".mcp.json",
            entry=_STDIO,
            hooks=Hooks(
                ("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
                ".claude/settings.json",
                _CLAUDE_EVENTS,
                _GROUP,
                matchers={"PreToolUse": _CLAUDE_TOOLS, "PostToolUseFailure": "Bash"},
            ),
            # code.claude.com/docs/en/memory; no project's shared settings may have it
            memory=AutoMemory(
                "~/.claude/projects/PROJECT/memory",
                ("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
                ".claude/settings.local.json",
                "autoMemoryDirectory",
            ),
        ),
        # developers.openai.com/codex/mcp and /hooks, openai/codex docs/config.md (CODEX_HOME)
        AgentClient(
            "codex",
            ("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
            ".codex/config.toml",
            ("mcp_servers",),
            hooks=Hooks(
                ("$CODEX_HOME/hooks.json", "~/.codex/hooks.json"),
                ".codex/hooks.json",
                _CODEX_EVENTS,
                _GROUP,
                matchers={"PreToolUse": "Bash|apply_patch"},
                note="Codex runs the hooks once you have looked at them, by /hooks.",
            ),
            memory=AutoMemory("~/.codex/memories"),  # developers.openai.com/codex/memories
        ),
        # cursor.com/docs/context/mcp, cursor.com/docs/agent/hooks
        AgentClient(
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
                {"command": COMMAND, "timeout": SECONDS},
                head={"version": 1},
            ),
        ),
        # code.visualstudio.com/docs/copilot/reference/mcp-configuration
        AgentClient(
            "vscode", ("$APPS/Code/User/mcp.json",), ".vscode/mcp.json", ("servers",), _STDIO
        ),
        # google-gemini/gemini-cli docs/tools/mcp-server.md, docs/reference/configuration.md,
        # docs/hooks/reference.md
        AgentClient(
            "gemini",
            ("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
            ".gemini/settings.json",
            # It sends a compression event at every turn, even without one.
            hooks=Hooks(
                ("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
                ".gemini/settings.json",
                {
                    "SessionStart": "session-start",
                    "BeforeAgent": "prompt",
                    "AfterAgent": "stop",
                    "SessionEnd": "session-end",
                },
                {"hooks": [{"type": "command", "command": COMMAND, "timeout": MILLISECONDS}]},
            ),
            # geminicli.com/docs/cli/auto-memory: files that the user has to approve
            memory=AutoMemory("~/.gemini/GEMINI.md"),
        ),
        # modelcontextprotocol.io/docs/develop/connect-local-servers
        AgentClient("claude-desktop", ("$APPS/Claude/claude_desktop_config.json",)),
        # opencode.ai/docs/mcp-servers and /config
        AgentClient(
            "opencode",
            (
                "$OPENCODE_CONFIG",
                "$XDG_CONFIG_HOME/opencode/opencode.json",
                "~/.config/opencode/opencode.json",
            ),
            "opencode.json",
            ("mcp",),
            _OPENCODE,
        ),
        # docs.github.com/en/copilot/how-tos/copilot-cli and /reference/hooks-reference,
        # `copilot mcp --help` of 1.0.102
        AgentClient(
            "copilot",
            ("$COPILOT_HOME/mcp-config.json", "~/.copilot/mcp-config.json"),
            ".github/mcp.json",
            entry={"type": "local", **_COMMAND_ENTRY, "tools": ["*"]},
            hooks=Hooks(
                ("$COPILOT_HOME/hooks/vaultmem.json", "~/.copilot/hooks/vaultmem.json"),
                ".github/hooks/vaultmem.json",
                {
                    "sessionStart": "session-start",
                    "userPromptSubmitted": "prompt",
                    "preCompact": "pre-compact",
                    "agentStop": "stop",
                    "sessionEnd": "session-end",
                },
                {"type": "command", "command": COMMAND, "timeoutSec": SECONDS},
                head={"version": 1},
            ),
        ),
        # docs.windsurf.com/windsurf/cascade/mcp
        AgentClient("windsurf", ("~/.codeium/windsurf/mcp_config.json",)),
        # zed-industries/zed docs/src/ai/mcp.md, docs/src/configuring-zed.md
        AgentClient(
            "zed",
            (
                "$APPDATA/Zed/settings.json",
                "$XDG_CONFIG_HOME/zed/settings.json",
                "~/.config/zed/settings.json",
            ),
            key=("context_servers",),
            entry={"source": "custom", **_COMMAND_ENTRY},
        ),
        # docs.cline.bot/getting-started/config: editor, terminal and SDK share one since 4.0
        AgentClient(
            "cline",
            (
                "$CLINE_DIR/data/settings/cline_mcp_settings.json",
                "~/.cline/data/settings/cline_mcp_settings.json",
            ),
        ),
        # docs.roocode.com/features/mcp/using-mcp-in-roo
        AgentClient(
            "roo",
            ("$CODE/rooveterinaryinc.roo-cline/settings/mcp_settings.json",),
            ".roo/mcp.json",
        ),
        # Kilo-Org/kilocode packages/kilo-docs/pages/automate/mcp/using-in-kilo-code.md
        AgentClient(
            "kilo",
            ("$XDG_CONFIG_HOME/kilo/kilo.json", "~/.config/kilo/kilo.json"),
            ".kilo/kilo.json",
            ("mcp",),
            _OPENCODE,
        ),
        # docs.continue.dev/customize/deep-dives/mcp: one file for each server
        AgentClient(
            "continue",
            ("~/.continue/mcpServers/vaultmem.json",),
            ".continue/mcpServers/vaultmem.json",
        ),
        # junie.jetbrains.com/docs/junie-cli-mcp-configuration.html, and its plugin's
        AgentClient("junie", ("~/.junie/mcp/mcp.json",), ".junie/mcp/mcp.json"),
        # jetbrains.com/help/ai-assistant/mcp.html
        AgentClient("jetbrains", (), paste="Settings | Tools | AI Assistant | MCP"),
        # ampcode.com/manual#configuration
        AgentClient(
            "amp", ("~/.config/amp/settings.json",), ".amp/settings.json", ("amp.mcpServers",)
        ),
        # kiro.dev/docs/mcp/configuration
        AgentClient("kiro", ("~/.kiro/settings/mcp.json",), ".kiro/settings/mcp.json"),
        # QwenLM/qwen-code docs/users/features/mcp.md, docs/users/configuration/settings.md
        AgentClient(
            "qwen", ("$QWEN_HOME/settings.json", "~/.qwen/settings.json"), ".qwen/settings.json"
        ),
        # lmstudio.ai/docs/app/mcp
        AgentClient("lmstudio", ("~/.lmstudio/mcp.json",)),
        # block/goose documentation/docs/guides/config-files.md
        AgentClient(
            "goose",
            (
                "$APPDATA/Block/goose/config/config.yaml",
                "$XDG_CONFIG_HOME/goose/config.yaml",
                "~/.config/goose/config.yaml",
            ),
            key=("extensions",),
            entry={
                "name": ENTRY,
                "description": "The memory that is kept for you, as notes",
                "type": "stdio",
                "enabled": True,
                "cmd": PROGRAM,
                "args": ARGUMENTS,
                "timeout": 300,
            },
        ),
    )
}


def find_client(name: str) -> AgentClient:
    """Return the client of a name.

    Raises:
        RefusedError: there is none.
    """
    if name not in CLIENTS:
        near = suggest_similar(name, CLIENTS.keys(), f"; it knows {', '.join(CLIENTS)}")
        raise RefusedError(f'connect: "{name}" is not a client that vaultmem knows{near}')
    return CLIENTS[name]


# Paths of a client's files on this machine: from its own variables, the system's, or the home.

#: Folders that differ by system: of desktop programs, and of extensions of VS Code.
_FOLDERS: dict[str, dict[str, tuple[str, ...]]] = {
    "APPS": {
        "darwin": ("~/Library/Application Support",),
        "win32": ("$APPDATA", "~/AppData/Roaming"),
        "": ("$XDG_CONFIG_HOME", "~/.config"),
    },
    "CODE": {"": ("$APPS/Code/User/globalStorage",)},
}


def find_place(
    places: Iterable[str], home: str, platform: str, environment: Mapping[str, str]
) -> str:
    """Return the first place whose variable is set, expanded; "" if none is set.

    A place begins with `$VARIABLE/`, with `~/` for the home, or with the name of a folder above.
    `platform` is `sys.platform`.
    """
    for place in places:
        first, _, rest = place.partition("/")
        by_system = _FOLDERS.get(first[1:])
        if first == "~":
            folder = home
        elif by_system:
            options = by_system.get(platform, by_system[""])
            folder = find_place(options, home, platform, environment)
        else:
            folder = environment.get(first[1:], "")
        if folder:
            return f"{folder.rstrip('/')}/{rest}".rstrip("/")
    return ""
