"""Read a line of Copilot CLI's transcripts (~/.copilot/session-state/SESSION/events.jsonl).

Each line is {type, data, id, timestamp, parentId}, and `agentId` where a helper of the agent
speaks. Source: session-events.schema.json in its package, version 1.0.102, and files it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vaultmem.core.transcripts.event import (
    Deed,
    Event,
    Kind,
    Source,
    as_text,
    dict_of,
    read_patch,
    strip_added,
    text_of,
)

_DEEDS = {"create": Deed.CREATED, "edit": Deed.EDITED, "str_replace_editor": Deed.EDITED}
_SHELLS = {"bash", "powershell"}

#: Who else than the user a user's message may be from; behind these is which one.
_NOT_USERS = ("agent-", "skill-", "system")


def is_copilot(whole: dict[str, Any]) -> bool:
    """Tell whether a line has the form of Copilot CLI's."""
    return "parentId" in whole and isinstance(whole.get("data"), dict)


def read_copilot(whole: dict[str, Any]) -> Iterator[Event]:
    """Yield what a line tells; at least one event."""
    data = dict_of(whole, "data")
    place = dict_of(data, "context")
    source = Source(
        text_of(data, "sessionId"),
        text_of(place, "cwd"),
        text_of(place, "branch"),
        "copilot",
        bool(text_of(whole, "agentId")),
    )
    plain = Event(Kind.META, source, text_of(whole, "timestamp"))
    found = list(_read(text_of(whole, "type"), data, plain))
    yield from found or [plain]


def _read(kind: str, data: dict[str, Any], plain: Event) -> Iterator[Event]:
    text = text_of(data, "content").strip()
    if kind == "user.message":
        text = strip_added(text)
        if text and not text_of(data, "source").startswith(_NOT_USERS):
            yield plain._replace(kind=Kind.REQUEST, text=text)
    elif kind == "assistant.message":
        if text:
            yield plain._replace(kind=Kind.ANSWER, text=text)
    elif kind == "session.title_changed":
        yield plain._replace(kind=Kind.TITLE, text=text_of(data, "title"))
    elif kind == "tool.execution_start":
        yield from _read_call(data, plain._replace(call=text_of(data, "toolCallId")))
    elif kind == "tool.execution_complete":
        yield _read_result(data, plain._replace(call=text_of(data, "toolCallId")))


def _read_call(data: dict[str, Any], plain: Event) -> Iterator[Event]:
    name, given = text_of(data, "toolName"), dict_of(data, "arguments")
    told = as_text(data.get("arguments"))
    first = plain._replace(
        kind=Kind.CALL,
        text=f"{name} {told}",
        tool=name,
        path=text_of(given, "path"),
        deed=_DEEDS.get(name),
        command=text_of(given, "command") if name in _SHELLS else "",
    )
    patch = read_patch(text_of(given, "input", "patch") or told)
    if not patch:
        yield first
    for number, (path, deed) in enumerate(patch):
        yield first._replace(path=path, deed=deed, text="" if number else first.text)


def _read_result(data: dict[str, Any], plain: Event) -> Event:
    code = dict_of(data, "shellExecution").get("exitCode")
    ended = code if isinstance(code, int) else 0 if data.get("success") is True else None
    return plain._replace(
        kind=Kind.RESULT,
        text=text_of(dict_of(data, "result"), "content")
        or text_of(dict_of(data, "error"), "message"),
        exit=ended,
        is_error=ended != 0,
    )
