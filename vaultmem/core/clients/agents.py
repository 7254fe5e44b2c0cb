"""Identify the calling agent by variables that agents set for their commands.

Variables that a user's terminal in the same editor also has are left out ($CURSOR_TRACE_ID,
$TERM_PROGRAM). Rows are plain tuples, and nothing is imported, so that commands start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The name of a caller that gave none and is not a user at a terminal.
UNNAMED = "unnamed"

#: An agent's name, as for `connect`; its variables; and the variable of its session. Comments name
#: the documentation, or the release in whose shell they were seen.
AGENTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # code.claude.com/docs/en/env-vars; 2.1.197, which sets both for MCP servers and hooks too
    ("claude-code", ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID"), "CLAUDE_CODE_SESSION_ID"),
    # openai/codex, codex-rs/core/src/spawn.rs; 0.169.0
    ("codex", ("CODEX_THREAD_ID", "CODEX_CI", "CODEX_SANDBOX"), "CODEX_THREAD_ID"),
    # google-gemini/gemini-cli, docs/tools/shell.md; 0.61.0
    ("gemini", ("GEMINI_CLI",), ""),
    # Copilot CLI 1.0.102
    ("copilot", ("COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"), "COPILOT_AGENT_SESSION_ID"),
    # cursor.com/docs/agent/terminal
    ("cursor", ("CURSOR_AGENT",), "CURSOR_SESSION_ID"),
    # anomalyco/opencode, packages/opencode/src/index.ts; 1.18.33
    ("opencode", ("OPENCODE",), "OPENCODE_SESSION_ID"),
    # QwenLM/qwen-code, docs/tools/shell.md; 0.15.10, whose shell is a terminal
    ("qwen", ("QWEN_CODE",), ""),
    # block/goose, documentation/docs/guides/environment-variables.md
    ("goose", ("GOOSE_TERMINAL",), "AGENT_SESSION_ID"),
    # docs.cline.bot, on pagers in its terminal
    ("cline", ("CLINE_ACTIVE",), ""),
)

#: Other self-identification: github.com/agentsmd/agents.md/issues/136, and the README of
#: `@vercel/detect-agent`. The first is a common word, so only these values count.
_AGENT, _NAMES = "AGENT", ("amp", "goose")
_AI_AGENT = "AI_AGENT"

#: Variables with an agent's session, by priority.
SESSION_VARIABLES = (*(session for _, _, session in AGENTS if session), "CLAUDE_SESSION_ID")

#: All variables that are read here.
VARIABLES = (
    *(each for row in AGENTS for each in row[1]),
    *SESSION_VARIABLES,
    _AGENT,
    _AI_AGENT,
)


def find_agent(environment: Mapping[str, str]) -> str:
    """Return the agent whose variables an environment has, "" if it has none."""
    for name, signs, _ in AGENTS:
        if any(map(environment.get, signs)):
            return name
    if environment.get(_AGENT) in _NAMES:
        return environment[_AGENT]
    return _read_name(environment.get(_AI_AGENT, ""))


def _read_name(value: str) -> str:
    """Return the name in `claude-code_2-1-197_agent` or `devin@1`; values like `1` have none."""
    name = ""
    for letter in value.strip().lower()[:40]:
        if not (letter.isascii() and (letter.isalnum() or letter == "-")):
            break
        name += letter
    if not value.strip():
        return ""
    return name if name[:1].isalpha() and name != "true" else UNNAMED
