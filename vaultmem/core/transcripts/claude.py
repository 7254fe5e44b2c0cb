"""Read a line of Claude Code's transcripts (~/.claude/projects/FOLDER/SESSION.jsonl).

The form is Claude Code's own and nowhere documented; this is what versions 2.0 to 2.1 write.
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

_EXIT = re.compile(r"\A(?:Error: )?Exit code (\d{1,3})\b")
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_DEEDS = {
    "Write": Deed.WROTE,
    "Edit": Deed.EDITED,
    "MultiEdit": Deed.EDITED,
    "NotebookEdit": Deed.EDITED,
}


def is_claude(whole: dict[str, Any]) -> bool:
    """Tell whether a line has the form of Claude Code's."""
    known = {"user", "assistant", "summary", "file-history-snapshot"}
    return "sessionId" in whole or whole["type"] in known


def read_claude(whole: dict[str, Any]) -> Iterator[Event]:
    """Yield what a line tells; at least one event, which has the session and its folder."""
    source = Source(
        session=text_of(whole, "sessionId"),
        folder=text_of(whole, "cwd"),
        branch=text_of(whole, "gitBranch"),
        agent="claude-code",
        is_side=whole.get("isSidechain") is True,
    )
    plain = Event(Kind.META, source, text_of(whole, "timestamp"))
    found = list(_read(whole, plain))
    yield from found or [plain]


def _read(whole: dict[str, Any], plain: Event) -> Iterator[Event]:
    kind, message = whole["type"], dict_of(whole, "message")
    if kind == "summary" or kind in _TITLES:
        if text := text_of(whole, _TITLES.get(kind, kind)):
            yield plain._replace(kind=Kind.TITLE, text=text)
    elif kind == "attachment":  # What the user typed while the agent was at work.
        yield from _read_queued(dict_of(whole, "attachment"), plain)
    elif kind == "user" and whole.get("isCompactSummary") is True:
        yield plain._replace(kind=Kind.SUMMARY, text=as_text(message.get("content")))
    elif kind == "user" and whole.get("isMeta") is not True:
        yield from _read_user(message.get("content"), dict_of(whole, "toolUseResult"), plain)
    elif kind == "assistant":
        yield from _read_assistant(whole, message, plain)


def _read_queued(attached: dict[str, Any], plain: Event) -> Iterator[Event]:
    by_person = text_of(dict_of(attached, "origin"), "kind") in {"", "human"}
    if attached.get("type") != "queued_command" or attached.get("isMeta") is True or not by_person:
        return
    if text := strip_added(as_text(attached.get("prompt"))):
        yield plain._replace(kind=Kind.REQUEST, text=text)


def _read_user(content: object, used: dict[str, Any], plain: Event) -> Iterator[Event]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else dicts_of(content)
    said = [text for p in parts if p.get("type") == "text" and (text := strip_added(as_text([p])))]
    if said:
        yield plain._replace(kind=Kind.REQUEST, text="\n\n".join(said))
    for part in parts:
        if part.get("type") == "tool_result":
            text = as_text(part.get("content"))
            failed = part.get("is_error") is True
            code = _EXIT.match(text)
            done = Deed.CREATED if used.get("type") == "create" else None
            yield plain._replace(
                kind=Kind.RESULT,
                text=text,
                call=text_of(part, "tool_use_id"),
                path=text_of(used, "filePath") if done else "",
                deed=done,
                exit=int(code[1]) if failed and code else 0 if used and not failed else None,
                is_error=failed,
            )


def _read_assistant(
    whole: dict[str, Any], message: dict[str, Any], plain: Event
) -> Iterator[Event]:
    # What the client says in the model's place: that the service failed, or that it was stopped.
    if whole.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        return
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else dicts_of(content)
    for part in parts:
        if part.get("type") == "text" and (text := text_of(part, "text").strip()):
            if not text.startswith("API Error"):
                yield plain._replace(kind=Kind.ANSWER, text=text)
        elif part.get("type") == "tool_use":
            yield _read_call(part, plain)


def _read_call(part: dict[str, Any], plain: Event) -> Event:
    name, given = text_of(part, "name"), dict_of(part, "input")
    return plain._replace(
        kind=Kind.CALL,
        text=f"{name} {as_text(part.get('input'))}",
        tool=name,
        call=text_of(part, "id"),
        path=text_of(given, "file_path", "notebook_path"),
        deed=_DEEDS.get(name),
        command=text_of(given, "command") if name in {"Bash", "PowerShell"} else "",
        steps=steps_of(given.get("todos")) if name == "TodoWrite" else None,
    )
