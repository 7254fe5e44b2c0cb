"""An agent's event as JSON, and the answer as the agent wants it.

The fields are those of Claude Code's hooks. Everything but the event is optional, and what has
another type counts as not given: agents change their forms more often than their meaning.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple

from vaultmem.core.sessions.session import map_session_id
from vaultmem.errors import RefusedError

#: Characters of context that an agent takes at most.
MAX_CONTEXT = 10_000

#: Bytes of an event that are read; a prompt may hold a whole file.
MAX_PAYLOAD = 8 * 1024 * 1024


class HookEvent(StrEnum):
    """An event, by our word for it."""

    SESSION_START = "session-start"
    PROMPT = "prompt"
    PRE_COMPACT = "pre-compact"
    SESSION_END = "session-end"
    STOP = "stop"


class HookFormat(StrEnum):
    """How an answer is written: for Claude Code, as bare text, or as JSON of our own."""

    CLAUDE = "claude"
    TEXT = "text"
    JSON = "json"


#: What Claude Code calls the events whose answer it adds to the context.
_TAKES_CONTEXT = {HookEvent.SESSION_START: "SessionStart", HookEvent.PROMPT: "UserPromptSubmit"}


class HookPayload(NamedTuple):
    """What an event says; `source` is why a session starts, `reason` why it ends."""

    session: str = ""
    folder: str = ""
    transcript: str = ""
    source: str = ""
    prompt: str = ""
    reason: str = ""


def parse_payload(data: bytes) -> HookPayload:
    """Return what an event says; nothing at all is an event without details.

    Raises:
        RefusedError: it is larger than 8 MiB, or no JSON object.
    """
    if len(data) > MAX_PAYLOAD:
        raise RefusedError(f"the event is larger than {MAX_PAYLOAD:,} bytes")
    if not data.strip():
        return HookPayload()
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the event is no JSON ({type(error).__name__})") from None
    if not isinstance(given, dict):
        raise RefusedError("the event is no JSON object")

    def text(*names: str) -> str:
        return next((v for n in names if isinstance(v := given.get(n), str)), "")

    return HookPayload(
        session=map_session_id(session) if (session := text("session_id", "session")) else "",
        folder=text("cwd", "folder"),
        transcript=text("transcript_path", "transcript"),
        source=text("source"),
        prompt=text("prompt", "user_prompt"),
        reason=text("reason", "trigger"),
    )


def write_payload(payload: HookPayload) -> bytes:
    """Return a payload as JSON that `parse_payload` reads, without its prompt."""
    given: dict[str, Any] = {
        "session": payload.session,
        "folder": payload.folder,
        "transcript": payload.transcript,
        "source": payload.source,
        "reason": payload.reason,
    }
    return json.dumps({key: value for key, value in given.items() if value}).encode("ascii")


def render_answer(event: HookEvent, form: HookFormat, context: str) -> str:
    """Return the answer to an event; empty where there is nothing that the agent would take."""
    if not context or (form is HookFormat.CLAUDE and event not in _TAKES_CONTEXT):
        return ""
    if form is HookFormat.TEXT:
        return context
    if form is HookFormat.JSON:
        return json.dumps({"event": event.value, "context": context}, ensure_ascii=False)
    told = {"hookEventName": _TAKES_CONTEXT[event], "additionalContext": context}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)
