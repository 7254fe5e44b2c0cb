"""What agents write down of a session themselves: lines of JSON, in two known forms.

Claude Code: `{"type": "user" | "assistant", "message": {"role", "content"}, "timestamp",
"sessionId", "cwd"}`, content a text or a list of parts. Codex: `{"timestamp", "type":
"session_meta" | "response_item", "payload"}`, the payload a message with parts, a call, or what a
call returned. Everything else in such a file is about the program, not about what was said.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from vaultmem.core.sessions.turns import Turn


class AgentLine(NamedTuple):
    """What one line tells: turns, and the session's id, folder and agent where it has them."""

    turns: tuple[Turn, ...] = ()
    session: str = ""
    folder: str = ""
    agent: str = ""


def parse_agent_line(data: bytes) -> AgentLine | None:
    """Return what a line tells; None if it is broken or no line of these forms."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict) or not isinstance(whole.get("type"), str):
        return None
    if isinstance(whole.get("payload"), dict):
        return _read_codex(whole, whole["payload"])
    return _read_claude(whole)


def _read_claude(whole: dict[str, Any]) -> AgentLine:
    facts = (_text(whole, "sessionId"), _text(whole, "cwd"), "claude-code")
    message = whole.get("message")
    if whole["type"] not in {"user", "assistant"} or not isinstance(message, dict):
        return AgentLine((), *facts)
    at = _text(whole, "timestamp")
    role = _text(message, "role") or str(whole["type"])
    content = message.get("content")
    if isinstance(content, str):
        return AgentLine((Turn(role, content, at),) if content.strip() else (), *facts)
    parts = content if isinstance(content, list) else []
    turns = (_read_part(role, part, at) for part in parts if isinstance(part, dict))
    return AgentLine(tuple(turn for turn in turns if turn is not None), *facts)


def _read_codex(whole: dict[str, Any], payload: dict[str, Any]) -> AgentLine:
    if whole["type"] == "session_meta":
        return AgentLine((), _text(payload, "id"), _text(payload, "cwd"), "codex")
    at, kind = _text(whole, "timestamp"), payload.get("type")
    if whole["type"] != "response_item":
        return AgentLine(agent="codex")
    turns: list[Turn] = []
    if kind == "message":
        parts = payload.get("content")
        texts = [
            _text(part, "text")
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, dict)
        ]
        turns = [Turn(_text(payload, "role") or "user", "\n".join(texts), at)]
    elif kind in {"function_call", "custom_tool_call", "local_shell_call"}:
        asked = payload.get("arguments") or payload.get("input") or payload.get("action")
        turns = [Turn("tool", f"{_text(payload, 'name') or kind} {_plain(asked)}", at)]
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        turns = [Turn("result", _plain(payload.get("output")), at)]
    return AgentLine(tuple(turn for turn in turns if turn.text.strip()), agent="codex")


def _read_part(role: str, part: dict[str, Any], at: str) -> Turn | None:
    kind = part.get("type")
    if kind == "text":
        text, role = _text(part, "text"), role
    elif kind == "tool_use":
        text, role = f"{_text(part, 'name')} {_plain(part.get('input'))}", "tool"
    elif kind == "tool_result":
        text, role = _plain(part.get("content")), "result"
    else:  # What a model thinks is signed for its maker, and pictures are no text.
        return None
    return Turn(role, text, at) if text.strip() else None


def _plain(value: object) -> str:
    """Return a value as text: texts as they are, lists of text parts joined, else JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        texts = [_text(part, "text") for part in value]
        if any(texts):
            return "\n".join(filter(None, texts))
    return json.dumps(value, ensure_ascii=False)


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
