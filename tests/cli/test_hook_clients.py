"""Events as each client tells them: what it gets back, and that nothing of it stops the agent."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, RunCli
from support import git, wait_until

from vaultmem.core.hook_payload import HookPayload, parse_payload, write_payload
from vaultmem.errors import RefusedError

NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/refunds.md": "# Refunds\n\nRefunds are queued, one job each.\n",
}
ASKED = "how are refunds queued?"
_BASE = {"session_id": "a-1", "transcript_path": "/none/a-1.jsonl"}
_CURSOR = {
    "conversation_id": "a-1",
    "generation_id": "g-1",
    "model": "m",
    "cursor_version": "3.7.21",
    "user_email": None,
    "transcript_path": None,
}

#: What each client sends, but for its folder: recorded from Claude Code 2.1.197, Codex 0.169.0,
#: Gemini CLI 0.61.0 and Copilot CLI 1.0.102; Cursor's as its manual has them.
PAYLOADS: dict[str, dict[str, dict[str, Any]]] = {
    "claude-code": {
        "session-start": {**_BASE, "hook_event_name": "SessionStart", "source": "startup"},
        "prompt": {
            **_BASE,
            "prompt_id": "p-1",
            "permission_mode": "default",
            "hook_event_name": "UserPromptSubmit",
            "prompt": ASKED,
        },
        "stop": {
            **_BASE,
            "hook_event_name": "Stop",
            "stop_hook_active": False,
            "last_assistant_message": "One job each.",
            "background_tasks": [],
        },
        "session-end": {**_BASE, "hook_event_name": "SessionEnd", "reason": "other"},
    },
    "codex": {
        "session-start": {
            **_BASE,
            "hook_event_name": "SessionStart",
            "model": "m",
            "permission_mode": "bypassPermissions",
            "source": "startup",
        },
        "prompt": {
            **_BASE,
            "turn_id": "t-1",
            "hook_event_name": "UserPromptSubmit",
            "model": "m",
            "permission_mode": "default",
            "prompt": ASKED,
        },
        "pre-compact": {**_BASE, "turn_id": "t-1", "hook_event_name": "PreCompact", "model": "m"},
        "session-end": {**_BASE, "hook_event_name": "SessionEnd", "reason": "other"},
    },
    "gemini": {
        "session-start": {
            **_BASE,
            "hook_event_name": "SessionStart",
            "timestamp": "2026-11-23T09:52:56.491Z",
            "source": "startup",
        },
        "prompt": {
            **_BASE,
            "hook_event_name": "BeforeAgent",
            "timestamp": "2026-11-23T09:52:56.522Z",
            "prompt": f"<hook_context>The ferry leaves at noon.</hook_context>\n\n{ASKED}",
        },
        "stop": {
            **_BASE,
            "hook_event_name": "AfterAgent",
            "prompt": ASKED,
            "prompt_response": "One job each.",
            "stop_hook_active": False,
        },
        "session-end": {**_BASE, "hook_event_name": "SessionEnd", "reason": "exit"},
    },
    "copilot": {
        "session-start": {
            "sessionId": "a-1",
            "timestamp": 1795427691395,
            "source": "new",
            "initialPrompt": ASKED,
        },
        "prompt": {"sessionId": "a-1", "timestamp": 1795427691477, "prompt": ASKED},
        "stop": {
            "sessionId": "a-1",
            "timestamp": 1795427691540,
            "transcriptPath": "/none/events.jsonl",
            "stopReason": "end_turn",
            "stop_hook_active": False,
        },
        "session-end": {"sessionId": "a-1", "timestamp": 1795427691556, "reason": "complete"},
    },
    "cursor": {
        "session-start": {
            **_CURSOR,
            "session_id": "a-1",
            "hook_event_name": "sessionStart",
            "is_background_agent": False,
            "composer_mode": "agent",
        },
        "prompt": {**_CURSOR, "hook_event_name": "beforeSubmitPrompt", "prompt": ASKED},
        "stop": {**_CURSOR, "hook_event_name": "stop", "status": "completed", "loop_count": 0},
        "session-end": {
            **_CURSOR,
            "session_id": "a-1",
            "hook_event_name": "sessionEnd",
            "reason": "user_close",
        },
    },
}


def place(client: str, given: dict[str, Any], folder: Path) -> str:
    """Return a payload as its client sends it from a folder."""
    where: dict[str, object] = {"cwd": str(folder)}
    if client == "cursor":
        where = {"workspace_roots": [str(folder)]}
    return json.dumps({**given, **where})


def read_context(client: str, event: str, told: str) -> str:
    """Return the context in an answer, which has nothing that its client would refuse."""
    answer = json.loads(told)
    if client == "copilot":
        assert answer.keys() == {"additionalContext"}
        return str(answer["additionalContext"])
    if client == "cursor":
        assert answer.keys() == {"additional_context"}
        return str(answer["additional_context"])
    assert answer.keys() == {"hookSpecificOutput"}
    inside = answer["hookSpecificOutput"]
    assert inside.keys() == {"hookEventName", "additionalContext"}
    assert inside["hookEventName"] == PAYLOADS[client][event]["hook_event_name"]
    return str(inside["additionalContext"])


@pytest.mark.campaign
@pytest.mark.parametrize("client", PAYLOADS)
def test_each_client_is_answered_in_its_own_form(
    client: str, make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault(NOTES)

    def hook(event: str) -> str:
        given = place(client, PAYLOADS[client][event], tmp_path)
        done = run_cli("hook", event, "--vault", root, stdin=given)
        assert (done.code, done.err) == (0, "")
        return done.out

    assert "> The ferry leaves at noon." in read_context(
        client, "session-start", hook("session-start")
    )
    note = (root / "sessions/a-1.md").read_text()
    assert f"agent: {'claude-code' if client in {'codex', 'gemini'} else client}" in note
    assert f"workspace: {tmp_path.name}" in note or str(tmp_path) in note
    told_anew = NOTES["notes/refunds.md"] + "\nSince May.\n"  # The start told it as it was.
    (root / "notes/refunds.md").write_text(told_anew)
    asked = hook("prompt")
    if client == "cursor":  # It adds nothing to a prompt.
        assert asked == ""
    else:
        context = read_context(client, "prompt", asked)
        assert "> Refunds are queued, one job each." in context
        assert "ferry" not in context
    for event in PAYLOADS[client].keys() - {"session-start", "prompt"}:
        assert hook(event) == ""
    wait_until(lambda: "session-close" in git(root, "log", "-1", "--format=%s"), 40)
    who = git(root, "log", "-1", "--format=%an").strip()
    assert who == ("claude-code" if client in {"codex", "gemini"} else client)


@pytest.mark.campaign
def test_a_client_that_is_killed_keeps_what_was_said_up_to_its_last_turn(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root, file = make_vault(NOTES), tmp_path / "t.jsonl"
    given = {"session_id": "a-1", "cwd": str(tmp_path), "transcript_path": str(file)}
    run_cli("connect", "claude-code", "--hooks", "--vault", root)
    assert "Stop" in json.loads((Path.home() / ".claude/settings.json").read_text())["hooks"]
    run_cli("hook", "session-start", "--vault", root, stdin=json.dumps(given))
    for number in (1, 2):
        line = {
            "type": "user",
            "sessionId": "a-1",
            "cwd": str(tmp_path),
            "message": {"role": "user", "content": f"request {number}"},
        }
        with open(file, "a") as out:
            out.write(json.dumps(line) + "\n")
        run_cli("hook", "stop", "--vault", root, stdin=json.dumps(given))
        kept = root / "transcripts/a-1.jsonl"
        wait_until(lambda: kept.exists() and f"request {number}" in kept.read_text(), 40)  # noqa: B023
    assert [kept.read_text().count(f"request {number}") for number in (1, 2)] == [1, 1]


def test_an_end_of_which_nothing_was_said_leaves_no_session(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    for event in ("stop", "session-end"):
        given = place("claude-code", PAYLOADS["claude-code"][event], tmp_path)
        done = run_cli("hook", event, "--wait", "--vault", root, stdin=given)
        assert (done.code, done.out) == (0, "")
    assert not (root / "sessions").exists()


def test_what_is_passed_on_says_the_same(tmp_path: Path) -> None:
    for client, events in PAYLOADS.items():
        for given in events.values():
            payload = parse_payload(place(client, given, tmp_path).encode())
            assert (payload.session, payload.folder) == ("a-1", str(tmp_path))
            passed = parse_payload(write_payload(payload))
            assert passed == payload._replace(prompt="", name="")


@pytest.mark.campaign
def test_no_shape_of_a_payload_is_trouble(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    """Change what clients send at random, and let one hook in sixty really run."""
    root = make_vault(NOTES)
    chance = random.Random(11)
    strange = [None, 7, True, [], [3], {}, "", "../../x", "\ud800", "x" * 5_000, {"a": [None]}]
    for number in range(1_200):
        client = chance.choice([*PAYLOADS])
        event = chance.choice([*PAYLOADS[client]])
        given = {**PAYLOADS[client][event], "cwd": str(tmp_path), "workspace_roots": ["/none"]}
        for _ in range(chance.randint(1, 4)):
            given[chance.choice([*given, "sessionId", "conversation_id", "prompt"])] = (
                chance.choice(strange)
            )
        text = json.dumps(given)
        if chance.random() < 0.2:
            text = text[: chance.randrange(len(text))]
        with contextlib.suppress(RefusedError):  # The hook stays silent for it.
            assert isinstance(parse_payload(text.encode()), HookPayload)
        if number % 60 == 0 and event in {"session-start", "prompt"}:
            done = run_cli("hook", event, "--vault", root, stdin=text)
            assert (done.code, done.err) == (0, "")
            assert not done.out or isinstance(json.loads(done.out), dict)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["prompt", "more"],
        ["prompt", "--vault"],
        ["prompt", "--an-option-of-tomorrow"],
        ["prompt", "--effort=high", "--format", "text"],
        ["prompt", "--format", "tomorrow"],
        ["--wait"],
        ["stop", "--new", "x"],
    ],
)
def test_wrong_words_are_told_to_the_doctor_alone(
    words: list[str], make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    done = run_cli("hook", *words, stdin=json.dumps({"prompt": ASKED}), cwd=root)
    assert (done.code, done.out, done.err) == (0, "", "")
    told = run_cli("doctor", cwd=root).out
    assert "something went wrong" in told
    assert f"`vaultmem {' '.join(['hook', *words])}` is not a hook's command; " in told
