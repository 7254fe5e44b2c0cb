"""Read a line of Gemini CLI's transcripts (~/.gemini/tmp/PROJECT/chats/session-*.jsonl).

The first line tells the session; each other is a message, told anew whenever it gets more, or
`$set` and `$rewindTo`. Source: google-gemini/gemini-cli, packages/core/src/services/
chatRecordingService.ts, version 0.61. The one-piece .json of versions before is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vaultmem.core.transcripts.event import (
    Deed,
    Event,
    Kind,
    Source,
    as_text,
    dict_of,
    dicts_of,
    steps_of,
    strip_added,
    text_of,
)

_EXIT = re.compile(r"^Exit Code: (\d{1,3})", re.MULTILINE)
_DEEDS = {"write_file": Deed.WROTE, "replace": Deed.EDITED}


def is_gemini(whole: dict[str, Any]) -> bool:
    """Tell whether a line has the form of Gemini CLI's."""
    return "projectHash" in whole or "$set" in whole or whole.get("type") == "gemini"


def read_gemini(whole: dict[str, Any], known: Source) -> Iterator[Event]:
    """Yield what a line tells; at least one event. `known` is what lines before it told."""
    source = known._replace(agent="gemini")
    if "projectHash" in whole and not known.session:
        side = whole.get("kind") == "subagent"
        source = source._replace(session=text_of(whole, "sessionId"), is_side=side)
    plain = Event(Kind.META, source, text_of(whole, "timestamp", "startTime"))
    found = list(_read(whole, plain))
    yield from found or [plain]


def _read(whole: dict[str, Any], plain: Event) -> Iterator[Event]:
    text = as_text(whole.get("content")).strip()
    told = plain._replace(call=text_of(whole, "id"))
    if summary := text_of(dict_of(whole, "$set"), "summary"):
        yield plain._replace(kind=Kind.TITLE, text=summary)
    elif whole.get("type") == "user":
        if text := strip_added(text):
            yield told._replace(kind=Kind.REQUEST, text=text)
    elif whole.get("type") == "gemini":
        if text:
            yield told._replace(kind=Kind.ANSWER, text=text)
        for call in dicts_of(whole.get("toolCalls")):
            yield from _read_call(call, plain)


def _read_call(told: dict[str, Any], plain: Event) -> Iterator[Event]:
    name, given = text_of(told, "name"), dict_of(told, "args")
    at = text_of(told, "timestamp") or plain.at
    plain = plain._replace(at=at, call=text_of(told, "id"))
    yield plain._replace(
        kind=Kind.CALL,
        text=f"{name} {as_text(given)}",
        tool=name,
        path=text_of(given, "file_path"),
        deed=_DEEDS.get(name),
        command=text_of(given, "command") if name == "run_shell_command" else "",
        steps=steps_of(given.get("todos")) if name == "write_todos" else None,
    )
    text = "\n".join(map(_result_text, dicts_of(told.get("result"))))
    code = _EXIT.search(text)
    failed = text_of(told, "status") in {"error", "cancelled"}
    yield plain._replace(
        kind=Kind.RESULT,
        text=text,
        exit=int(code[1]) if code else None if failed else 0,
        is_error=failed or bool(code and int(code[1])),
    )


def _result_text(part: dict[str, Any]) -> str:
    answer = dict_of(dict_of(part, "functionResponse"), "response")
    return text_of(answer, "output", "error") or text_of(part, "text")
