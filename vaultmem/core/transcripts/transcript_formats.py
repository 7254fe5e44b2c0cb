"""Read transcripts of Claude Code, Codex, Copilot and Gemini, line by line.

Claude Code's format is undocumented; this is the output of versions 2.0 to 2.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from vaultmem.core.transcripts.event import (
    EventKind,
    FileEffect,
    TranscriptEvent,
    TranscriptSource,
    as_text,
    dict_of,
    dicts_of,
    read_patch,
    read_patch_changes,
    steps_of,
    strip_added,
    text_of,
)

_EXIT = re.compile(r"\A(?:Error: )?Exit code (\d{1,3})\b")
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_CLAUDE_DEEDS = {
    "Write": FileEffect.WROTE,
    "Edit": FileEffect.EDITED,
    "MultiEdit": FileEffect.EDITED,
    "NotebookEdit": FileEffect.EDITED,
}


def is_claude(entry: dict[str, Any]) -> bool:
    """Return whether a line has Claude Code's format."""
    kinds = {"user", "assistant", "summary", "file-history-snapshot"}
    return "sessionId" in entry or entry["type"] in kinds


def read_claude(entry: dict[str, Any]) -> Iterator[TranscriptEvent]:
    """Yield the events of a line; at least one, with the session and its folder."""
    source = TranscriptSource(
        session=text_of(entry, "sessionId"),
        folder=text_of(entry, "cwd"),
        branch=text_of(entry, "gitBranch"),
        agent="claude-code",
        is_side=entry.get("isSidechain") is True,
    )
    plain = TranscriptEvent(EventKind.META, source, text_of(entry, "timestamp"))
    events = list(_read(entry, plain))
    yield from events or [plain]


def _read(entry: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    kind, message = entry["type"], dict_of(entry, "message")
    if kind == "summary" or kind in _TITLES:
        if text := text_of(entry, _TITLES.get(kind, kind)):
            yield plain._replace(kind=EventKind.TITLE, text=text)
    elif kind == "attachment":  # Typed by the user while the agent worked.
        yield from _read_queued(dict_of(entry, "attachment"), plain)
    elif kind == "user" and entry.get("isCompactSummary") is True:
        yield plain._replace(kind=EventKind.SUMMARY, text=as_text(message.get("content")))
    elif kind == "user" and entry.get("isMeta") is not True:
        yield from _read_user(message.get("content"), dict_of(entry, "toolUseResult"), plain)
    elif kind == "assistant":
        yield from _read_assistant(entry, message, plain)


def _read_queued(attachment: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    by_person = text_of(dict_of(attachment, "origin"), "kind") in {"", "human"}
    if (
        attachment.get("type") != "queued_command"
        or attachment.get("isMeta") is True
        or not by_person
    ):
        return
    if text := strip_added(as_text(attachment.get("prompt"))):
        yield plain._replace(kind=EventKind.REQUEST, text=text)


def _read_user(
    content: object, result: dict[str, Any], plain: TranscriptEvent
) -> Iterator[TranscriptEvent]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else dicts_of(content)
    texts = [text for p in parts if p.get("type") == "text" and (text := strip_added(as_text([p])))]
    if texts:
        yield plain._replace(kind=EventKind.REQUEST, text="\n\n".join(texts))
    for part in parts:
        if part.get("type") == "tool_result":
            text = as_text(part.get("content"))
            is_error = part.get("is_error") is True
            code = _EXIT.match(text)
            deed = FileEffect.CREATED if result.get("type") == "create" else None
            yield plain._replace(
                kind=EventKind.RESULT,
                text=text,
                call=text_of(part, "tool_use_id"),
                path=text_of(result, "filePath") if deed else "",
                deed=deed,
                exit=int(code[1]) if is_error and code else 0 if result and not is_error else None,
                is_error=is_error,
            )


def _read_assistant(
    entry: dict[str, Any], message: dict[str, Any], plain: TranscriptEvent
) -> Iterator[TranscriptEvent]:
    # Messages of the client in place of the model's: service errors and interruptions.
    if entry.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        return
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else dicts_of(content)
    for part in parts:
        if part.get("type") == "text" and (text := text_of(part, "text").strip()):
            if not text.startswith("API Error"):
                yield plain._replace(kind=EventKind.ANSWER, text=text)
        elif part.get("type") == "tool_use":
            yield _read_call(part, plain)


def _read_call(part: dict[str, Any], plain: TranscriptEvent) -> TranscriptEvent:
    name, arguments = text_of(part, "name"), dict_of(part, "input")
    return plain._replace(
        kind=EventKind.CALL,
        text=f"{name} {as_text(part.get('input'))}",
        tool=name,
        call=text_of(part, "id"),
        path=text_of(arguments, "file_path", "notebook_path"),
        deed=_CLAUDE_DEEDS.get(name),
        command=text_of(arguments, "command") if name in {"Bash", "PowerShell"} else "",
        change=_read_change(arguments),
        steps=steps_of(arguments.get("todos")) if name == "TodoWrite" else None,
    )


def _read_change(arguments: dict[str, Any]) -> tuple[str, str] | None:
    """Return the texts before and after an edit, or None for other calls."""
    before, after = (
        text_of(arguments, "old_string", "old_str"),
        text_of(arguments, "new_string", "new_str"),
    )
    return (before, after) if before or after else None


# Read a line of Codex's transcripts (~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl).
#
# Each line is {timestamp, type, payload}. `response_item` is the model's input or output;
# `event_msg` repeats it for the screen and is ignored. Sources: openai/codex, codex-rs/
# protocol/src/protocol.rs (RolloutItem) and models.rs (ResponseItem); versions 0.46 to 0.169.

#: A command's exit code, in the head of its output or in JSON output.
_CODEX_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})", re.MULTILINE)
_EXIT_FIELD = re.compile(r'\\?"exit_code\\?": ?(-?\d{1,10})')
_OUTPUT = re.compile(r"^Output:$", re.MULTILINE)
_FAILURE_PREFIX = re.compile(
    r"\A(?:Script failed|aborted by user|apply_patch verification failed|failed )"
)

#: Commands and patches in a script of the model: `tools.exec_command({"cmd": "ls"})`.
_SCRIPTED = re.compile(r'tools\.(?:exec|shell)_command\(\{[^{}]*?"?cmd"?:\s*("(?:[^"\\]|\\.)*")')
_PATCH = re.compile(r'"(?:\*\*\* Begin Patch)(?:[^"\\]|\\.)*"')


def read_codex(entry: dict[str, Any], known_source: TranscriptSource) -> Iterator[TranscriptEvent]:
    """Yield the events of a line, at least one; `known_source` is the source from earlier lines."""
    payload = dict_of(entry, "payload")
    plain = TranscriptEvent(
        EventKind.META, known_source._replace(agent="codex"), text_of(entry, "timestamp")
    )
    if entry["type"] == "session_meta":
        plain = plain._replace(source=_read_head(payload, known_source))
    elif entry["type"] == "turn_context" and (folder := text_of(payload, "cwd")):
        plain = plain._replace(source=plain.source._replace(folder=folder))
    events: list[TranscriptEvent] = []
    if entry["type"] == "response_item":
        events = [*_read_item(payload, plain)]
    elif entry["type"] == "compacted" and (text := text_of(payload, "message")):
        events = [plain._replace(kind=EventKind.SUMMARY, text=text)]
    yield from events or [plain]


def _read_head(payload: dict[str, Any], known_source: TranscriptSource) -> TranscriptSource:
    """Return the transcript's source; in a forked transcript the first head counts."""
    if known_source.session:
        return known_source
    side = payload.get("thread_source") == "subagent" or "subagent" in dict_of(payload, "source")
    branch = text_of(dict_of(payload, "git"), "branch")
    return TranscriptSource(text_of(payload, "id"), text_of(payload, "cwd"), branch, "codex", side)


def _read_item(payload: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    kind = text_of(payload, "type")
    if kind == "message":
        role, parts = text_of(payload, "role"), dicts_of(payload.get("content"))
        texts = [text_of(part, "text") for part in parts]
        if role == "user":  # Each part can be an addition of the client.
            texts = [strip_added(text) for text in texts]
        text = "\n".join(filter(None, texts)).strip()
        if text and role in {"user", "assistant"}:
            event_kind = EventKind.REQUEST if role == "user" else EventKind.ANSWER
            yield plain._replace(kind=event_kind, text=text)
    elif kind in {"function_call", "custom_tool_call", "local_shell_call"}:
        yield from _read_codex_call(payload, plain)
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        yield _read_result(payload, plain)


def _read_codex_call(payload: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    name = text_of(payload, "name") or "shell"
    raw_arguments = payload.get("arguments") or payload.get("input") or payload.get("action")
    arguments = _decode(raw_arguments)
    call = plain._replace(kind=EventKind.CALL, tool=name, call=text_of(payload, "call_id"))
    if name == "update_plan":
        yield call._replace(
            text=f"{name} {as_text(raw_arguments)}", steps=steps_of(arguments.get("plan"))
        )
        return
    command = _command(arguments)
    text = raw_arguments if isinstance(raw_arguments, str) else command
    patch = "\n".join(_loads(each) for each in _PATCH.findall(text)) or command or text
    patch = as_text(arguments["input"]) if name == "apply_patch" and "input" in arguments else patch
    commands = [_loads(each) for each in _SCRIPTED.findall(text)] if name == "exec" else []
    files = read_patch(patch)
    call_with_text = call._replace(text=f"{name} {as_text(raw_arguments)}")
    if not files:
        yield call_with_text._replace(command="\n".join(commands) or command)
    changes = read_patch_changes(patch)
    for number, (path, deed) in enumerate(files):
        first = call if number else call_with_text
        yield first._replace(path=path, deed=deed, change=changes.get(path))


def _command(arguments: dict[str, Any]) -> str:
    """Return the command of a call; for a shell call, the script that the shell reads."""
    words = arguments.get("cmd", arguments.get("command"))
    if isinstance(words, list):
        parts = [each for each in words if isinstance(each, str)]
        is_shell = len(parts) > 2 and parts[1] in {"-c", "-lc", "-Command", "/c"}
        return parts[2] if is_shell else " ".join(parts)
    return words if isinstance(words, str) else ""


def _read_result(payload: dict[str, Any], plain: TranscriptEvent) -> TranscriptEvent:
    text = as_text(payload.get("output"))
    head = text[: mark.end()] if (mark := _OUTPUT.search(text)) else text[:400]
    codes = _CODEX_EXIT.findall(head)
    if text.startswith(("{", "Script ")):
        codes += _EXIT_FIELD.findall(text)
    # A script runs several commands; the first failure counts.
    code = next((int(each) for each in codes if int(each)), 0) if codes else None
    return plain._replace(
        kind=EventKind.RESULT,
        text=as_text(_decode(text).get("output", text)) if text.startswith("{") else text,
        call=text_of(payload, "call_id"),
        exit=code,
        is_error=bool(code) or bool(_FAILURE_PREFIX.match(text)),
    )


def _decode(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _loads(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:  # JavaScript has more escapes than JSON.
        return text[1:-1]


# Read a line of Copilot CLI's transcripts (~/.copilot/session-state/SESSION/events.jsonl).
#
# Each line is {type, data, id, timestamp, parentId}, with `agentId` for subagents. Source:
# session-events.schema.json in its package, version 1.0.102, and files it wrote.

_COPILOT_DEEDS = {
    "create": FileEffect.CREATED,
    "edit": FileEffect.EDITED,
    "str_replace_editor": FileEffect.EDITED,
}
_SHELLS = {"bash", "powershell"}

#: Prefixes of the sources of user messages that are not from the user.
_NOT_USERS = ("agent-", "skill-", "system")


def is_copilot(entry: dict[str, Any]) -> bool:
    """Return whether a line has Copilot CLI's format."""
    return "parentId" in entry and isinstance(entry.get("data"), dict)


def read_copilot(entry: dict[str, Any]) -> Iterator[TranscriptEvent]:
    """Yield the events of a line; at least one."""
    data = dict_of(entry, "data")
    place = dict_of(data, "context")
    source = TranscriptSource(
        text_of(data, "sessionId"),
        text_of(place, "cwd"),
        text_of(place, "branch"),
        "copilot",
        bool(text_of(entry, "agentId")),
    )
    plain = TranscriptEvent(EventKind.META, source, text_of(entry, "timestamp"))
    events = list(_read_copilot(text_of(entry, "type"), data, plain))
    yield from events or [plain]


def _read_copilot(
    kind: str, data: dict[str, Any], plain: TranscriptEvent
) -> Iterator[TranscriptEvent]:
    text = text_of(data, "content").strip()
    if kind == "user.message":
        text = strip_added(text)
        if text and not text_of(data, "source").startswith(_NOT_USERS):
            yield plain._replace(kind=EventKind.REQUEST, text=text)
    elif kind == "assistant.message":
        if text:
            yield plain._replace(kind=EventKind.ANSWER, text=text)
    elif kind == "session.title_changed":
        yield plain._replace(kind=EventKind.TITLE, text=text_of(data, "title"))
    elif kind == "tool.execution_start":
        yield from _read_copilot_call(data, plain._replace(call=text_of(data, "toolCallId")))
    elif kind == "tool.execution_complete":
        yield _read_copilot_result(data, plain._replace(call=text_of(data, "toolCallId")))


def _read_copilot_call(data: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    name, arguments = text_of(data, "toolName"), dict_of(data, "arguments")
    arguments_text = as_text(data.get("arguments"))
    first = plain._replace(
        kind=EventKind.CALL,
        text=f"{name} {arguments_text}",
        tool=name,
        path=text_of(arguments, "path"),
        deed=_COPILOT_DEEDS.get(name),
        command=text_of(arguments, "command") if name in _SHELLS else "",
        change=_read_change(arguments),
    )
    patch_text = text_of(arguments, "input", "patch") or first.text
    patch, changes = read_patch(patch_text), read_patch_changes(patch_text)
    if not patch:
        yield first
    for number, (path, deed) in enumerate(patch):
        text = "" if number else first.text
        yield first._replace(path=path, deed=deed, text=text, change=changes.get(path))


def _read_copilot_result(data: dict[str, Any], plain: TranscriptEvent) -> TranscriptEvent:
    code = dict_of(data, "shellExecution").get("exitCode")
    exit_code = code if isinstance(code, int) else 0 if data.get("success") is True else None
    return plain._replace(
        kind=EventKind.RESULT,
        text=text_of(dict_of(data, "result"), "content")
        or text_of(dict_of(data, "error"), "message"),
        exit=exit_code,
        is_error=exit_code != 0,
    )


# Read a line of Gemini CLI's transcripts (~/.gemini/tmp/PROJECT/chats/session-*.jsonl).
#
# The first line describes the session. Each other line is a message, repeated when it grows, or
# `$set` and `$rewindTo`. Source: google-gemini/gemini-cli, packages/core/src/services/
# chatRecordingService.ts, version 0.61. The single-document .json of older versions is not read.

_GEMINI_EXIT = re.compile(r"^Exit Code: (\d{1,3})", re.MULTILINE)
_GEMINI_DEEDS = {"write_file": FileEffect.WROTE, "replace": FileEffect.EDITED}


def is_gemini(entry: dict[str, Any]) -> bool:
    """Return whether a line has Gemini CLI's format."""
    return "projectHash" in entry or "$set" in entry or entry.get("type") == "gemini"


def read_gemini(entry: dict[str, Any], known_source: TranscriptSource) -> Iterator[TranscriptEvent]:
    """Yield the events of a line, at least one; `known_source` is the source from earlier lines."""
    source = known_source._replace(agent="gemini")
    if "projectHash" in entry and not known_source.session:
        side = entry.get("kind") == "subagent"
        source = source._replace(session=text_of(entry, "sessionId"), is_side=side)
    plain = TranscriptEvent(EventKind.META, source, text_of(entry, "timestamp", "startTime"))
    events = list(_read_gemini(entry, plain))
    yield from events or [plain]


def _read_gemini(entry: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    text = as_text(entry.get("content")).strip()
    message = plain._replace(call=text_of(entry, "id"))
    if summary := text_of(dict_of(entry, "$set"), "summary"):
        yield plain._replace(kind=EventKind.TITLE, text=summary)
    elif entry.get("type") == "user":
        if text := strip_added(text):
            yield message._replace(kind=EventKind.REQUEST, text=text)
    elif entry.get("type") == "gemini":
        if text:
            yield message._replace(kind=EventKind.ANSWER, text=text)
        for call in dicts_of(entry.get("toolCalls")):
            yield from _read_gemini_call(call, plain)


def _read_gemini_call(call: dict[str, Any], plain: TranscriptEvent) -> Iterator[TranscriptEvent]:
    name, arguments = text_of(call, "name"), dict_of(call, "args")
    at = text_of(call, "timestamp") or plain.at
    plain = plain._replace(at=at, call=text_of(call, "id"))
    yield plain._replace(
        kind=EventKind.CALL,
        text=f"{name} {as_text(arguments)}",
        tool=name,
        path=text_of(arguments, "file_path"),
        deed=_GEMINI_DEEDS.get(name),
        command=text_of(arguments, "command") if name == "run_shell_command" else "",
        change=_read_change(arguments) if name in _GEMINI_DEEDS else None,
        steps=steps_of(arguments.get("todos")) if name == "write_todos" else None,
    )
    text = "\n".join(map(_result_text, dicts_of(call.get("result"))))
    code = _GEMINI_EXIT.search(text)
    is_error = text_of(call, "status") in {"error", "cancelled"}
    yield plain._replace(
        kind=EventKind.RESULT,
        text=text,
        exit=int(code[1]) if code else None if is_error else 0,
        is_error=is_error or bool(code and int(code[1])),
    )


def _result_text(part: dict[str, Any]) -> str:
    answer = dict_of(dict_of(part, "functionResponse"), "response")
    return text_of(answer, "output", "error") or text_of(part, "text")


# Read a line of a transcript of any client.

EMPTY_SOURCE = TranscriptSource()


def read_line(
    data: bytes, known_source: TranscriptSource = EMPTY_SOURCE
) -> tuple[TranscriptEvent, ...] | None:
    """Return the events of a line; None if it is broken or has an unknown format.

    `known_source` is the transcript's source, collected from earlier lines by `join_source`.
    """
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    if is_gemini(entry) or (known_source.agent == "gemini" and "id" in entry):
        return tuple(read_gemini(entry, known_source))
    if not isinstance(entry.get("type"), str):
        return None
    if is_copilot(entry):
        return tuple(read_copilot(entry))
    if isinstance(entry.get("payload"), dict):
        return tuple(read_codex(entry, known_source))
    return tuple(read_claude(entry)) if is_claude(entry) else None


def join_source(known_source: TranscriptSource, line_source: TranscriptSource) -> TranscriptSource:
    """Return the transcript's source after a line: the first values win, except for the branch."""
    return TranscriptSource(
        session=known_source.session or line_source.session,
        folder=known_source.folder or line_source.folder,
        branch=line_source.branch or known_source.branch,
        agent=known_source.agent or line_source.agent,
        is_side=line_source.is_side if not known_source.agent else known_source.is_side,
    )


def describe_turn(event: TranscriptEvent) -> tuple[str, str] | None:
    """Return an event as (role, text); None if it is not a turn of the session.

    Events of subagents and messages of the client are not turns.
    """
    role = _ROLES.get(event.kind)
    if role is None or event.source.is_side or not event.text.strip():
        return None
    return role, event.text


_ROLES: dict[Any, str] = {
    EventKind.REQUEST: "user",
    EventKind.ANSWER: "assistant",
    EventKind.CALL: "tool",
    EventKind.RESULT: "result",
}
