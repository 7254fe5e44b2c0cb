"""Sessions that are generated, in the forms in which clients write them to their logs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5


class Move(NamedTuple):
    """One thing that happens: `user` or `assistant` says text, or a tool runs or edits.

    Of an edit, `text` is new and `old` is what it replaces.
    """

    kind: str
    text: str = ""
    command: str = ""
    path: str = ""
    exit: int = 0
    old: str = ""


class Question(NamedTuple):
    """What is looked for, and by which words of a turn in which session its answer is known."""

    words: str
    session: str
    answer: str


Rows = list[dict[str, Any]]


def write_log(
    folder: Path,
    client: str,
    session: str,
    moves: Iterable[Move],
    day: int,
    code: str = "/work/app",
) -> Path:
    """Write a session's log as a client does, and return the file."""
    begin = datetime(2026, 11, 1, 9, tzinfo=UTC) + timedelta(days=day)
    times = (f"{begin + timedelta(minutes=n):%Y-%m-%dT%H:%M:%S}.000Z" for n in range(10_000))
    rows = _WRITERS[client](session, code, [(next(times), move) for move in moves])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{session}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def _write_claude(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    """Return the lines of Claude Code 2.1, which are a chain of messages among other lines."""
    rows: Rows = []
    common = {"cwd": code, "sessionId": session, "version": "2.1.144", "gitBranch": "main"}
    common |= {"isSidechain": False, "userType": "external"}
    ids = [str(uuid5(NAMESPACE_OID, f"{session} {number}")) for number in range(4 * len(moves) + 2)]
    backups = {"messageId": ids[0], "trackedFileBackups": {}, "timestamp": moves[0][0]}
    rows.append({"type": "file-history-snapshot", "messageId": ids[0], "snapshot": backups})
    rows[0]["isSnapshotUpdate"] = False
    ids_left = iter(ids)
    last: list[str | None] = [None]

    def add(at: str, kind: str, content: Any, **more: Any) -> None:
        head = {"parentUuid": last[0], **common, "type": kind, "timestamp": at}
        message = {"role": kind, "content": content}
        if kind == "assistant":
            is_call = content[0]["type"] == "tool_use"
            ended = {"stop_reason": "tool_use" if is_call else "end_turn", "stop_sequence": None}
            cost = {"input_tokens": 9, "output_tokens": 9, "service_tier": "standard"}
            cost |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
            named = {"model": "claude-sonnet-4-5-20250929", "id": "msg_01", "type": "message"}
            message = {**named, **message, **ended, "usage": cost}
        last[0] = next(ids_left)
        rows.append({**head, "message": message, "uuid": last[0], **more})

    add(moves[0][0], "user", "<command-name>/clear</command-name>", isMeta=True)
    for number, (at, move) in enumerate(moves):
        if move.kind == "user":
            add(at, "user", move.text)
            continue
        add(at, "assistant", [{"type": "thinking", "thinking": "Next step.", "signature": "c2ln"}])
        if move.kind == "assistant":
            add(at, "assistant", [{"type": "text", "text": move.text}])
            continue
        is_run = move.kind == "run"
        given = (
            {"command": move.command, "description": "Run it"}
            if is_run
            else {"file_path": move.path, "old_string": move.old, "new_string": move.text}
        )
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash" if is_run else "Edit"}
        add(at, "assistant", [{**use, "input": given}])
        failed = bool(move.exit)
        told = f"Exit code {move.exit}\n{move.text}" if failed else move.text
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "is_error": failed}
        done = {"stdout": move.text, "stderr": "", "interrupted": False} if is_run else given
        more = f"Error: {told}" if failed else done
        add(at, "user", [{**result, "content": told if is_run else "Edited"}], toolUseResult=more)
    return rows


def _write_codex(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    """Return the lines of a rollout of Codex, where each message is there twice."""
    head = {"id": session, "timestamp": moves[0][0], "cwd": code, "originator": "codex_cli_rs"}
    head |= {"cli_version": "0.169.0", "source": "cli", "git": {"branch": "main"}, "type": ""}
    context = {"cwd": code, "approval_policy": "on-request", "model": "gpt-5-codex"}
    rows: Rows = []

    def add(at: str, kind: str, payload: dict[str, Any]) -> None:
        rows.append({"timestamp": at, "type": kind, "payload": payload})

    def add_item(at: str, item: str, **payload: Any) -> None:
        add(at, "response_item", {"type": item, **payload})

    def say(at: str, role: str, text: str) -> None:
        form = "output_text" if role == "assistant" else "input_text"
        add_item(at, "message", role=role, content=[{"type": form, "text": text}])

    add(moves[0][0], "session_meta", head)
    say(moves[0][0], "user", f"<environment_context>\n  <cwd>{code}</cwd>\n</environment_context>")
    add(moves[0][0], "turn_context", context)
    for number, (at, move) in enumerate(moves):
        call = f"call_{number}"
        if move.kind in {"user", "assistant"}:
            event = "user_message" if move.kind == "user" else "agent_message"
            say(at, move.kind, move.text)
            add(at, "event_msg", {"type": event, "message": move.text})
            continue
        add_item(at, "reasoning", summary=[], content=None, encrypted_content="c2ln")
        if move.kind == "run":
            given = json.dumps({"cmd": move.command, "workdir": code, "yield_time_ms": 10_000})
            add_item(at, "function_call", name="exec_command", arguments=given, call_id=call)
            told = f"Chunk ID: 4c5113\nWall time: 0.1 seconds\nProcess exited with code {move.exit}"
            told += f"\nOriginal token count: 9\nOutput:\n{move.text}"
            add_item(at, "function_call_output", call_id=call, output=told)
        else:
            lines = "".join(f"-{line}\n" for line in move.old.splitlines())
            lines += "".join(f"+{line}\n" for line in move.text.splitlines())
            patch = f"*** Begin Patch\n*** Update File: {move.path}\n@@\n{lines}*** End Patch"
            more = {"status": "completed", "call_id": call, "name": "apply_patch"}
            add_item(at, "custom_tool_call", input=patch, **more)
            told = "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess."
            add_item(at, "custom_tool_call_output", call_id=call, output=told)
        add(at, "event_msg", {"type": "token_count", "info": None})
    return rows


def _write_copilot(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    rows: Rows = []

    def add(at: str, kind: str, **data: Any) -> None:
        before = rows[-1]["id"] if rows else None
        place = {"id": f"e-{len(rows)}", "timestamp": at, "parentId": before}
        rows.append({"type": kind, "data": data, **place})

    version = {"version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.102"}
    context = {"cwd": code, "branch": "main"}
    begun = {"startTime": moves[0][0], "context": context, **version}
    add(moves[0][0], "session.start", sessionId=session, **begun)
    add(moves[0][0], "system.message", role="system", content="You are the terminal assistant.")
    for number, (at, move) in enumerate(moves):
        call = f"call_{number}"
        if move.kind == "user":
            add(at, "user.message", content=move.text, attachments=[])
            continue
        if move.kind == "assistant":
            add(at, "assistant.message", messageId=call, content=move.text, toolRequests=[])
            continue
        is_run = move.kind == "run"
        edit = {"path": move.path, "old_str": move.old, "new_str": move.text}
        given = {"command": move.command, "description": "Run it"} if is_run else edit
        name = "bash" if is_run else "edit"
        asked = [{"toolCallId": call, "name": name, "arguments": given}]
        add(at, "assistant.message", messageId=call, content="", toolRequests=asked)
        add(at, "tool.execution_start", toolCallId=call, toolName=name, arguments=given)
        done = {"success": not move.exit, "shellExecution": {"exitCode": move.exit}}
        told = {"content": move.text if is_run else "Edited"}
        add(at, "tool.execution_complete", toolCallId=call, result=told, **done)
    return rows


def _write_gemini(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    begun = {"startTime": moves[0][0], "lastUpdated": moves[0][0], "kind": "main"}
    rows: Rows = [{"sessionId": session, "projectHash": "ab", **begun}]
    for number, (at, move) in enumerate(moves):
        row: dict[str, Any] = {"id": f"m{number}", "timestamp": at, "content": move.text}
        answer = {**row, "type": "gemini", "thoughts": [], "model": "gemini-3-pro"}
        if move.kind == "user":
            rows.append({**row, "type": "user", "content": [{"text": move.text}]})
        elif move.kind == "assistant":
            rows.append(answer)
        else:
            is_run = move.kind == "run"
            output = f"{move.text}\nExit Code: {move.exit}" if is_run else "Edited"
            given = (
                {"command": move.command}
                if is_run
                else {"file_path": move.path, "old_string": move.old, "new_string": move.text}
            )
            call = {
                "id": f"t{number}",
                "name": "run_shell_command" if is_run else "replace",
                "args": given,
                "status": "error" if move.exit else "success",
                "result": [{"functionResponse": {"response": {"output": output}}}],
            }
            rows.append({**answer, "content": "", "toolCalls": [call]})
        rows.append({"$set": {"lastUpdated": at}})
    return rows


def list_hook_calls(client: str, log: Path) -> Iterator[dict[str, Any]]:
    """Yield what a client sends to its hook before each tool call of a log, but for the session.

    Claude Code sends a call's arguments as they are in its log. Codex sends a command or a patch.
    """
    base: dict[str, Any] = {"hook_event_name": "PreToolUse", "transcript_path": str(log)}
    base |= {"permission_mode": "default"}
    for row in map(json.loads, log.read_text().splitlines()):
        if client == "claude" and row["type"] == "assistant":
            for each in row["message"]["content"]:
                if each["type"] == "tool_use":
                    named = {"tool_name": each["name"], "tool_input": each["input"]}
                    yield {**base, **named, "tool_use_id": each["id"]}
        elif client == "codex" and "call_id" in row["payload"] and "name" in row["payload"]:
            made = row["payload"]
            is_run = made["type"] == "function_call"
            given = json.loads(made["arguments"])["cmd"] if is_run else made["input"]
            named = {"tool_name": "Bash" if is_run else made["name"]}
            turn = {"tool_use_id": made["call_id"], "turn_id": "1", "model": "gpt-5-codex"}
            yield {**base, **named, "tool_input": {"command": given}, **turn}


_WRITERS: dict[str, Callable[[str, str, list[tuple[str, Move]]], Rows]] = {
    "claude": _write_claude,
    "codex": _write_codex,
    "copilot": _write_copilot,
    "gemini": _write_gemini,
}

CLIENTS = tuple(_WRITERS)

_PLACES = "invoice worker, login page, ticket printer, tide table, refund job, search index"
_PLACES += ", berth calendar, crane monitor, mail queue, price importer, audit export, photo cache"
_WHERE = ("staging", "nightly", "Hamburg", "mobile")
_TRAITS = (
    ("timeout", "seconds", "The {trait} of the {place} is set to {value} {unit} now."),
    ("retries", "tries", "We settled on {value} {unit} for {trait} in the {place}."),
    ("batch size", "rows", "In the {place}, a {trait} of {value} {unit} was fastest."),
    ("cache limit", "megabytes", "{value} {unit} is the {trait} that the {place} gets."),
    ("log level", "", "Keep the {trait} of the {place} at {value}, otherwise it floods."),
    ("owner", "", "{value} owns the {place} from this week; ask them about the {trait}."),
)
_ASKED = (
    "What is the {trait} of the {place}?",
    "which {trait} did we choose for the {place}",
    "{place} {trait}",
    "How was the {trait} of the {place} settled again?",
)
_TALK = (
    "Let us look at the {place} first, it was slow yesterday.",
    "I checked the {place}: the {trait} is not the problem here.",
    "Should the {place} have another {trait}? I am not sure yet.",
    "Done. The tests of the {place} pass, and nothing else changed.",
    "Please go on with the {place} and leave the {trait} as it is for now.",
    "The {trait} came up in the review of the {place}, without a decision.",
)


def make_sessions(
    seed: int, count: int, questions: int
) -> tuple[list[tuple[str, str, list[Move]]], list[Question]]:
    """Return (client, session, moves) of sessions, and questions on what was said in them.

    Each fact is said once, and asked with the words of its subject. Other turns, of its session
    and of others, are on the same subject, or have most of its words, without the fact.
    """
    chance = random.Random(seed)
    facts = [(place, trait) for place in _PLACES.split(", ") for trait in _TRAITS]
    wanted = [(f"{where} {place}", trait) for where in _WHERE for place, trait in facts]
    chance.shuffle(wanted)
    sessions = [
        (CLIENTS[n % len(CLIENTS)], f"made-{n:02}", [*_talk(chance, 24)]) for n in range(count)
    ]
    asked = []
    for number, (place, (trait, unit, said)) in enumerate(wanted[:questions]):
        _, session, moves = sessions[number % count]
        value = f"{chance.randrange(100, 10_000)}{number:03}"
        text = " ".join(said.format(trait=trait, place=place, value=value, unit=unit).split())
        around = [each.text for each in _talk(chance, 2) if each.kind == "assistant"]
        text = " ".join([*around, text, *around])
        moves.insert(chance.randrange(len(moves)), Move(chance.choice(["user", "assistant"]), text))
        words = chance.choice(_ASKED).format(trait=trait, place=place)
        asked.append(Question(words, session, value))
    return sessions, asked


def _talk(chance: random.Random, count: int) -> Iterable[Move]:
    for number in range(count):
        place, (trait, *_) = chance.choice(_PLACES.split(", ")), chance.choice(_TRAITS)
        place = f"{chance.choice(_WHERE)} {place}" if chance.random() < 0.5 else place
        text = chance.choice(_TALK).format(place=place, trait=trait)
        kind = chance.choice(["user", "assistant", "assistant", "run", "edit"])
        name = place.replace(" ", "_")
        if kind == "run":
            code = chance.choice([0, 0, 1])
            output = f"{'1 failed' if code else '9 passed'} in tests/test_{name}.py"
            yield Move("run", output, command=f"make test-{name} N={number}", exit=code)
        elif kind == "edit":
            yield Move("edit", f"# {text}\n", path=f"/work/app/src/{name}.py")
        else:
            yield Move(kind, text)
