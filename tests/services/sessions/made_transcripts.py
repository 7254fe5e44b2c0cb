"""Sessions that are generated, in the forms in which clients write them to their logs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple


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
    rows: Rows = []

    def add(at: str, kind: str, content: Any) -> None:
        head = {"type": kind, "sessionId": session, "cwd": code, "timestamp": at}
        rows.append({**head, "message": {"role": kind, "content": content}})

    for number, (at, move) in enumerate(moves):
        if move.kind == "user":
            add(at, "user", move.text)
        elif move.kind == "assistant":
            add(at, "assistant", [{"type": "text", "text": move.text}])
        else:
            is_run = move.kind == "run"
            given = (
                {"command": move.command}
                if is_run
                else {"file_path": move.path, "old_string": move.old, "new_string": move.text}
            )
            use = {"type": "tool_use", "id": f"t{number}", "name": "Bash" if is_run else "Edit"}
            add(at, "assistant", [{**use, "input": given}])
            failed = bool(move.exit)
            told = f"Exit code {move.exit}\n{move.text}" if failed else move.text
            result = {"type": "tool_result", "tool_use_id": f"t{number}"}
            add(
                at,
                "user",
                [{**result, "content": told if is_run else "Edited", "is_error": failed}],
            )
    return rows


def _write_codex(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    head = {"id": session, "cwd": code, "type": ""}
    rows: Rows = [{"timestamp": moves[0][0], "type": "session_meta", "payload": head}]

    def add(at: str, item: str, **payload: Any) -> None:
        rows.append(
            {"timestamp": at, "type": "response_item", "payload": {"type": item, **payload}}
        )

    for number, (at, move) in enumerate(moves):
        call = f"c{number}"
        if move.kind in {"user", "assistant"}:
            form = "input_text" if move.kind == "user" else "output_text"
            add(at, "message", role=move.kind, content=[{"type": form, "text": move.text}])
        elif move.kind == "run":
            given = json.dumps({"cmd": move.command})
            add(at, "function_call", name="exec_command", arguments=given, call_id=call)
            output = f"Process exited with code {move.exit}\nOutput:\n{move.text}"
            add(at, "function_call_output", call_id=call, output=output)
        else:
            lines = "".join(f"-{line}\n" for line in move.old.splitlines())
            lines += "".join(f"+{line}\n" for line in move.text.splitlines())
            patch = f"*** Begin Patch\n*** Update File: {move.path}\n@@\n{lines}*** End Patch"
            add(at, "custom_tool_call", name="apply_patch", input=patch, call_id=call)
            add(at, "custom_tool_call_output", call_id=call, output="Exit code: 0\nOutput:\nok")
    return rows


def _write_copilot(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    rows: Rows = []

    def add(at: str, kind: str, **data: Any) -> None:
        rows.append({"type": kind, "data": data, "id": "i", "timestamp": at, "parentId": None})

    add(moves[0][0], "session.start", sessionId=session, context={"cwd": code})
    for number, (at, move) in enumerate(moves):
        call = f"c{number}"
        if move.kind in {"user", "assistant"}:
            add(at, f"{move.kind}.message", content=move.text)
            continue
        is_run = move.kind == "run"
        edit = {"path": move.path, "old_str": move.old, "new_str": move.text}
        given = {"command": move.command} if is_run else edit
        name = "bash" if is_run else "edit"
        add(at, "tool.execution_start", toolCallId=call, toolName=name, arguments=given)
        done = {"success": not move.exit, "shellExecution": {"exitCode": move.exit}}
        told = {"content": move.text if is_run else "Edited"}
        add(at, "tool.execution_complete", toolCallId=call, result=told, **done)
    return rows


def _write_gemini(session: str, code: str, moves: list[tuple[str, Move]]) -> Rows:
    rows: Rows = [{"sessionId": session, "projectHash": "ab", "startTime": moves[0][0]}]
    for number, (at, move) in enumerate(moves):
        row: dict[str, Any] = {"id": f"m{number}", "timestamp": at, "content": move.text}
        if move.kind == "user":
            rows.append({**row, "type": "user", "content": [{"text": move.text}]})
        elif move.kind == "assistant":
            rows.append({**row, "type": "gemini"})
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
            rows.append({**row, "type": "gemini", "content": "", "toolCalls": [call]})
    return rows


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
