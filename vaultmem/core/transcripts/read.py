"""Read a line of a transcript, whichever client wrote it."""

from __future__ import annotations

import json
from typing import Any

from vaultmem.core.transcripts.claude import is_claude, read_claude
from vaultmem.core.transcripts.codex import read_codex
from vaultmem.core.transcripts.copilot import is_copilot, read_copilot
from vaultmem.core.transcripts.event import Event, Kind, Source
from vaultmem.core.transcripts.gemini import is_gemini, read_gemini

NOTHING = Source()


def read_line(data: bytes, known: Source = NOTHING) -> tuple[Event, ...] | None:
    """Return what a line tells; None if it is broken or no line of these forms.

    `known` is whose transcript it is, as `join_source` gathered it from the lines before.
    """
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict):
        return None
    if is_gemini(whole) or (known.agent == "gemini" and "id" in whole):
        return tuple(read_gemini(whole, known))
    if not isinstance(whole.get("type"), str):
        return None
    if is_copilot(whole):
        return tuple(read_copilot(whole))
    if isinstance(whole.get("payload"), dict):
        return tuple(read_codex(whole, known))
    return tuple(read_claude(whole)) if is_claude(whole) else None


def join_source(known: Source, told: Source) -> Source:
    """Return whose transcript it is after a line: what was told first, and the first folder."""
    return Source(
        session=known.session or told.session,
        folder=known.folder or told.folder,
        branch=told.branch or known.branch,
        agent=known.agent or told.agent,
        is_side=told.is_side if not known.agent else known.is_side,
    )


def describe_turn(event: Event) -> tuple[str, str] | None:
    """Return a session's turn as who speaks and what; None for what is no turn of it.

    What a helper of the agent did is its own talk, and what a client says is nobody's.
    """
    role = _ROLES.get(event.kind)
    if role is None or event.source.is_side or not event.text.strip():
        return None
    return role, event.text


_ROLES: dict[Any, str] = {
    Kind.REQUEST: "user",
    Kind.ANSWER: "assistant",
    Kind.CALL: "tool",
    Kind.RESULT: "result",
}
