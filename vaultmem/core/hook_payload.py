"""Parse an agent's hook event from JSON, and render the answer in the agent's format.

Only the event is required; values of another type are ignored, because clients change their
formats more often than their meaning. Names are from the clients' documentation. Behaviour was
observed in Claude Code 2.1.197, Codex 0.169.0 (with Claude Code's formats), Gemini CLI 0.61.0 and
Copilot CLI 1.0.102:

- Claude Code: code.claude.com/docs/en/hooks; Codex: developers.openai.com/codex/hooks
- Gemini CLI: google-gemini/gemini-cli, docs/hooks/reference.md
- Copilot CLI: docs.github.com/en/copilot/reference/hooks-reference
- Cursor: cursor.com/docs/agent/hooks
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple

from vaultmem.core.sessions.session import map_session_id
from vaultmem.core.transcripts.event import read_patch
from vaultmem.errors import RefusedError

#: Most characters of context that an agent accepts.
MAX_CONTEXT = 10_000

#: Most bytes of an event; a prompt can contain a whole file.
MAX_PAYLOAD = 8 * 1024 * 1024


class HookEvent(StrEnum):
    """A hook event, by vaultmem's name."""

    SESSION_START = "session-start"
    PROMPT = "prompt"
    PRE_COMPACT = "pre-compact"
    SESSION_END = "session-end"
    STOP = "stop"
    BEFORE_TOOL = "before-tool"
    TOOL_FAILURE = "tool-failure"
    SUBAGENT_START = "subagent-start"
    POST_COMPACT = "post-compact"


class HookFormat(StrEnum):
    """The format of an answer: a client's, plain text, or JSON."""

    CLAUDE = "claude"
    COPILOT = "copilot"
    CURSOR = "cursor"
    TEXT = "text"
    JSON = "json"


#: Formats with an answer to every event.
_GENERIC_FORMATS = {HookFormat.TEXT, HookFormat.JSON}

#: Fields that identify a format.
_SIGNS = {
    "conversation_id": HookFormat.CURSOR,
    "cursor_version": HookFormat.CURSOR,
    "sessionId": HookFormat.COPILOT,
}

#: Clients' names of events whose answer becomes context; Gemini CLI's name is the last.
_TAKES_CONTEXT = {
    HookEvent.SESSION_START: ("SessionStart",),
    HookEvent.PROMPT: ("UserPromptSubmit", "BeforeAgent"),
    HookEvent.BEFORE_TOOL: ("PreToolUse",),
    HookEvent.TOOL_FAILURE: ("PostToolUseFailure",),
    HookEvent.SUBAGENT_START: ("SubagentStart",),
}

#: Marks around the start context in the first prompt of Gemini CLI.
_CONTEXT = ("<hook_context>", "</hook_context>")


class HookPayload(NamedTuple):
    """The values of an event; `source` is why a session starts, `reason` why it ends.

    `form` is the client's format, and `name` the client's name of the event. For a tool, `files`
    are the files that it changes, and `command` is the command that it runs.
    """

    session: str = ""
    folder: str = ""
    transcript: str = ""
    source: str = ""
    prompt: str = ""
    reason: str = ""
    form: HookFormat = HookFormat.CLAUDE
    name: str = ""
    files: tuple[str, ...] = ()
    command: str = ""


def parse_payload(data: bytes) -> HookPayload:
    """Return the values of an event; empty data is an event without values.

    Raises:
        RefusedError: the data is larger than 8 MiB, or not a JSON object.
    """
    if len(data) > MAX_PAYLOAD:
        raise RefusedError(f"the event is larger than {MAX_PAYLOAD:,} bytes")
    if not data.strip():
        return HookPayload()
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the event is not JSON ({type(error).__name__})") from None
    if not isinstance(values, dict):
        raise RefusedError("the event is not a JSON object")

    def text(*names: str) -> str:
        return next((v for n in names if isinstance(v := values.get(n), str)), "")

    session = text("session_id", "sessionId", "conversation_id", "session")
    return HookPayload(
        session=map_session_id(session) if session else "",
        folder=text("cwd", "folder") or _first(values.get("workspace_roots")),
        transcript=text("transcript_path", "transcriptPath", "transcript"),
        source=text("source"),
        prompt=_without_context(text("prompt", "user_prompt")),
        reason=text("reason", "trigger"),
        form=next((form for sign, form in _SIGNS.items() if sign in values), HookFormat.CLAUDE),
        name=text("hook_event_name"),
        **_read_tool(values.get("tool_input")),
    )


def _read_tool(tool_input: object) -> dict[str, Any]:
    """Return the files that a tool changes and the command that it runs."""
    if not isinstance(tool_input, dict):
        return {}
    command = tool_input.get("command")
    command = command if isinstance(command, str) else ""
    if patched := read_patch(command):  # Codex sends a patch as a command.
        return {"files": tuple(path for path, _ in patched)}
    file = next(filter(None, map(tool_input.get, ("file_path", "notebook_path"))), "")
    return {"files": (file,) if isinstance(file, str) and file else (), "command": command}


def _first(roots: object) -> str:
    return roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""


def _without_context(prompt: str) -> str:
    """Return the user's prompt without vaultmem's start context, which is not a query."""
    begin, end = _CONTEXT
    return prompt.partition(end)[2].lstrip() if prompt.startswith(begin) else prompt


def write_payload(payload: HookPayload) -> bytes:
    """Return a payload as JSON that `parse_payload` reads, without its prompt."""
    values: dict[str, Any] = {
        next((sign for sign, form in _SIGNS.items() if form is payload.form), "session"): (
            payload.session
        ),
        "folder": payload.folder,
        "transcript": payload.transcript,
        "source": payload.source,
        "reason": payload.reason,
    }
    return json.dumps({key: value for key, value in values.items() if value}).encode("ascii")


def render_answer(
    event: HookEvent, form: HookFormat | None, context: str, payload: HookPayload
) -> str:
    """Return the answer to an event; the default format is the client's.

    The answer is "" if the client accepts no context for the event.
    """
    form = form or payload.form
    if not context or (form not in _GENERIC_FORMATS and event not in _TAKES_CONTEXT):
        return ""
    if form is HookFormat.TEXT:
        return context
    answer: dict[str, Any] = {"event": event.value, "context": context}
    if form is HookFormat.COPILOT:
        answer = {"additionalContext": context}
    elif form is HookFormat.CURSOR:  # It accepts no context for prompts.
        answer = {"additional_context": context} if event is HookEvent.SESSION_START else {}
    elif form is HookFormat.CLAUDE:
        names = _TAKES_CONTEXT[event]
        name = payload.name if payload.name in names else names[0]
        answer = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}
    return json.dumps(answer, ensure_ascii=False) if answer else ""
