"""Read a line of Codex's transcripts (~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl).

Each line is {timestamp, type, payload}. `response_item` is what the model was sent and said;
`event_msg` says the same for the screen and is passed over. Sources: openai/codex, codex-rs/
protocol/src/protocol.rs (RolloutItem) and models.rs (ResponseItem); versions 0.46 to 0.169.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from vaultmem.core.transcripts.event import (
    Event,
    Kind,
    Source,
    as_text,
    dict_of,
    dicts_of,
    read_patch,
    steps_of,
    strip_added,
    text_of,
)

#: How a command ended: in the head of its output, or in output that is JSON.
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})", re.MULTILINE)
_EXIT_FIELD = re.compile(r'\\?"exit_code\\?": ?(-?\d{1,10})')
_OUTPUT = re.compile(r"^Output:$", re.MULTILINE)
_FAILED = re.compile(r"\A(?:Script failed|aborted by user|apply_patch verification failed|failed )")

#: In a script that the model wrote, its commands and patches: `tools.exec_command({"cmd": "ls"})`.
_SCRIPTED = re.compile(r'tools\.(?:exec|shell)_command\(\{[^{}]*?"?cmd"?:\s*("(?:[^"\\]|\\.)*")')
_PATCH = re.compile(r'"(?:\*\*\* Begin Patch)(?:[^"\\]|\\.)*"')


def read_codex(whole: dict[str, Any], known: Source) -> Iterator[Event]:
    """Yield what a line tells; at least one event. `known` is what lines before it told."""
    payload = dict_of(whole, "payload")
    plain = Event(Kind.META, known._replace(agent="codex"), text_of(whole, "timestamp"))
    if whole["type"] == "session_meta":
        plain = plain._replace(source=_read_head(payload, known))
    elif whole["type"] == "turn_context" and (folder := text_of(payload, "cwd")):
        plain = plain._replace(source=plain.source._replace(folder=folder))
    found: list[Event] = []
    if whole["type"] == "response_item":
        found = [*_read_item(payload, plain)]
    elif whole["type"] == "compacted" and (text := text_of(payload, "message")):
        found = [plain._replace(kind=Kind.SUMMARY, text=text)]
    yield from found or [plain]


def _read_head(payload: dict[str, Any], known: Source) -> Source:
    """Return whose transcript it is; of one that was forked, the first head is its own."""
    if known.session:
        return known
    side = payload.get("thread_source") == "subagent" or "subagent" in dict_of(payload, "source")
    branch = text_of(dict_of(payload, "git"), "branch")
    return Source(text_of(payload, "id"), text_of(payload, "cwd"), branch, "codex", side)


def _read_item(payload: dict[str, Any], plain: Event) -> Iterator[Event]:
    kind = text_of(payload, "type")
    if kind == "message":
        role, parts = text_of(payload, "role"), dicts_of(payload.get("content"))
        texts = [text_of(part, "text") for part in parts]
        if role == "user":  # Of several parts, each may be the client's.
            texts = [strip_added(text) for text in texts]
        text = "\n".join(filter(None, texts)).strip()
        if text and role in {"user", "assistant"}:
            said = Kind.REQUEST if role == "user" else Kind.ANSWER
            yield plain._replace(kind=said, text=text)
    elif kind in {"function_call", "custom_tool_call", "local_shell_call"}:
        yield from _read_call(payload, plain)
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        yield _read_result(payload, plain)


def _read_call(payload: dict[str, Any], plain: Event) -> Iterator[Event]:
    name = text_of(payload, "name") or "shell"
    asked = payload.get("arguments") or payload.get("input") or payload.get("action")
    given = _decode(asked)
    call = plain._replace(kind=Kind.CALL, tool=name, call=text_of(payload, "call_id"))
    if name == "update_plan":
        yield call._replace(text=f"{name} {as_text(asked)}", steps=steps_of(given.get("plan")))
        return
    command = _command(given)
    text = asked if isinstance(asked, str) else command
    patch = "\n".join(_loads(each) for each in _PATCH.findall(text)) or command or text
    patch = as_text(given["input"]) if name == "apply_patch" and "input" in given else patch
    commands = [_loads(each) for each in _SCRIPTED.findall(text)] if name == "exec" else []
    files = read_patch(patch)
    shown = call._replace(text=f"{name} {as_text(asked)}")
    if not files:
        shown = shown._replace(command="\n".join(commands) or command)
    yield shown._replace(path=files[0][0], deed=files[0][1]) if files else shown
    yield from (call._replace(path=path, deed=deed) for path, deed in files[1:])


def _command(given: dict[str, Any]) -> str:
    """Return the command of a call; of one that a shell is to read, what it reads."""
    words = given.get("cmd", given.get("command"))
    if isinstance(words, list):
        listed = [each for each in words if isinstance(each, str)]
        is_shell = len(listed) > 2 and listed[1] in {"-c", "-lc", "-Command", "/c"}
        return listed[2] if is_shell else " ".join(listed)
    return words if isinstance(words, str) else ""


def _read_result(payload: dict[str, Any], plain: Event) -> Event:
    text = as_text(payload.get("output"))
    head = text[: mark.end()] if (mark := _OUTPUT.search(text)) else text[:400]
    codes = _EXIT.findall(head)
    if text.startswith(("{", "Script ")):
        codes += _EXIT_FIELD.findall(text)
    # A script runs several commands: one that failed matters.
    code = next((int(each) for each in codes if int(each)), 0) if codes else None
    return plain._replace(
        kind=Kind.RESULT,
        text=as_text(_decode(text).get("output", text)) if text.startswith("{") else text,
        call=text_of(payload, "call_id"),
        exit=code,
        is_error=bool(code) or bool(_FAILED.match(text)),
    )


def _decode(asked: object) -> dict[str, Any]:
    if isinstance(asked, str):
        try:
            asked = json.loads(asked)
        except (ValueError, RecursionError):
            return {}
    return asked if isinstance(asked, dict) else {}


def _loads(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:  # JavaScript knows more escapes than JSON.
        return text[1:-1]
