"""Events of agents, as their clients tell them: answered, and never in the agent's way."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Open, RunCli
from support import git, hash_tree, wait_until, write_notes

from vaultmem.core.hook_payload import MAX_CONTEXT
from vaultmem.core.text.token_count import count_tokens
from vaultmem.core.transcripts.event import TranscriptEvent
from vaultmem.core.transcripts.transcript_formats import describe_turn, read_line
from vaultmem.services.views.read_index import is_index_stale

Hook = Callable[..., str]

NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/refunds.md": "# Refunds\n\nRefunds are queued, one job each.\n",
}
CLAUDE = [
    {"type": "summary", "summary": "x", "leafUuid": "1"},
    {"type": "user", "message": {"role": "user", "content": "How are refunds queued?"}},
    {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "One job each."},
                {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
    },
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "content": [{"type": "text", "text": "a.py"}]}],
        },
    },
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "codex-7", "cwd": "/nowhere"}},
    {"type": "turn_context", "payload": {"model": "x"}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "How are refunds queued?"}],
        },
    },
    {
        "type": "response_item",
        "payload": {"type": "function_call", "name": "shell", "arguments": '{"cmd": "ls"}'},
    },
    {"type": "response_item", "payload": {"type": "function_call_output", "output": "a.py"}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "One job each."}],
        },
    },
]


def write_lines(file: Path, lines: list[dict[str, Any]], session: str = "") -> Path:
    known = {"sessionId": session, "cwd": str(file.parent)} if session else {}
    stamped = [{"timestamp": "2026-11-20T10:00:00Z", **known, **line} for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in stamped))
    return file


@pytest.fixture
def hook(root: Path, run_cli: RunCli) -> Hook:
    def run(event: str, given: object, *options: str) -> str:
        stdin = given if isinstance(given, (str, bytes)) else json.dumps(given)
        done = run_cli("hook", event, "--vault", root, *options, stdin=stdin)
        assert (done.code, done.err) == (0, "")
        return done.out

    return run


@pytest.mark.campaign
def test_a_session_from_its_start_to_its_end(root: Path, hook: Hook, tmp_path: Path) -> None:
    started = {"session_id": "a-1", "cwd": str(tmp_path), "source": "startup"}
    told = json.loads(hook("session-start", {**started, "hook_event_name": "SessionStart"}))
    output = told["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert "> The ferry leaves at noon." in output["additionalContext"]
    assert "status: open" in (root / "sessions/a-1.md").read_text()

    asked = {"session_id": "a-1", "cwd": str(tmp_path), "prompt": "how are refunds queued?"}
    assert hook("prompt", asked) == ""  # The start told it.
    write_notes(root, {"notes/refunds.md": NOTES["notes/refunds.md"] + "\nSince May.\n"})
    told = json.loads(hook("prompt", asked))["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert "> Refunds are queued, one job each." in told["additionalContext"]
    assert "not instruction" in told["additionalContext"]
    assert hook("prompt", {**asked, "prompt": "thanks!"}) == ""

    file = write_lines(tmp_path / "t.jsonl", CLAUDE, "a-1")
    there = {"session_id": "a-1", "cwd": str(tmp_path), "transcript_path": str(file)}
    assert hook("pre-compact", {**there, "trigger": "auto"}, "--wait") == ""
    told = json.loads(hook("session-start", {**started, "source": "compact"}))
    assert "How are refunds queued?" in told["hookSpecificOutput"]["additionalContext"]

    assert hook("session-end", {**there, "reason": "exit"}) == ""
    wait_until(lambda: "session-close" in git(root, "log", "-1", "--format=%s"), 40)
    assert "status: ok" in (root / "sessions/a-1.md").read_text()
    turns = (root / "transcripts/a-1.jsonl").read_text()
    assert turns.count("One job each.") == 1
    assert "transcripts" not in git(root, "ls-files")


TASK = {
    f"notes/refunds-{n}.md": f"# Refunds, part {n}\n\nRefunds of {what} are queued by the "
    f"worker, one job for each {what}, and a failed job is retried by the worker until the bank "
    "answers it.\n"
    for n, what in enumerate(("tickets", "passes", "meals", "cabins", "cars", "dogs"))
}
PROMPTS = (
    "how are refunds queued?",
    "which worker retries refunds of tickets?",
    "a failed job of refunds is queued twice, why?",
    "mend the worker that queued refunds",
    "now test the refunds worker",
    "does the bank answer failed refunds of cabins?",
    "how are refunds of dogs queued?",
    "refunds are queued, what of the bank?",
)


@pytest.mark.campaign
def test_a_session_is_not_told_again_what_it_has_had(
    root: Path, hook: Hook, tmp_path: Path
) -> None:
    write_notes(root, TASK)
    here = {"session_id": "a-1", "cwd": str(tmp_path)}

    def ask(prompt: str, **who: str) -> str:
        return hook("prompt", {**here, **who, "prompt": prompt}, "--format", "text")

    told = [ask(prompt) for prompt in PROMPTS]
    sections = [
        line for text in told for line in text.splitlines() if line.startswith("> Refunds of")
    ]
    assert 4 <= len(sections) == len(set(sections))
    alone = [ask(prompt, session_id=f"b-{n}") for n, prompt in enumerate(PROMPTS)]
    assert sum(map(count_tokens, told)) < sum(map(count_tokens, alone)) / 3
    assert ask(PROMPTS[0]) == ""

    changed = TASK["notes/refunds-0.md"].replace("until the bank", "until noon, when the bank")
    write_notes(root, {"notes/refunds-0.md": changed})
    again = ask(PROMPTS[1])
    assert "until noon" in again
    assert again.count("> Refunds of") == 1
    # A context that was compacted, and one that was taken up, has had nothing.
    for source in ("compact", "resume"):
        begun = hook("session-start", {**here, "source": source}, "--format", "text")
        assert (begun + ask(PROMPTS[1])).count("> Refunds of tickets") == 1
    hook("pre-compact", here, "--wait")
    assert "> Refunds of tickets" in ask(PROMPTS[1])


@pytest.mark.campaign
def test_what_a_start_told_is_not_told_with_a_prompt(root: Path, hook: Hook) -> None:
    asked = {"session_id": "a-1", "cwd": str(root), "prompt": "when does the ferry leave at noon?"}
    assert "The ferry leaves at noon." in hook("prompt", asked)
    hook("session-start", {"session_id": "a-2", "cwd": str(root), "source": "startup"})
    assert "The ferry leaves at noon." not in hook("prompt", {**asked, "session_id": "a-2"})


@pytest.mark.campaign
def test_another_process_indexes_the_note_of_a_session(
    root: Path, hook: Hook, opened: Open
) -> None:
    hook("session-start", {"session_id": "a-1", "cwd": str(root), "source": "startup"})

    vault = opened(root)
    wait_until(lambda: not is_index_stale(vault), 40)
    assert vault.manifest.documents() == vault.index.documents()
    assert [record.path for record in vault.view.records() if record.session == "a-1"] == [
        "sessions/a-1.md"
    ]


@pytest.mark.campaign
@pytest.mark.parametrize("status", ["ok", "canceled"])
def test_a_session_that_had_ended_is_taken_up_again(
    status: str, root: Path, hook: Hook, run_cli: RunCli, tmp_path: Path
) -> None:
    started = {"session_id": "a-1", "cwd": str(tmp_path), "source": "startup"}
    hook("session-start", started)
    assert run_cli("session", "close", "a-1", "--status", status, cwd=root).code == 0
    told = json.loads(hook("session-start", started))["hookSpecificOutput"]
    assert "> The ferry leaves at noon." in told["additionalContext"]
    assert "status: open" in (root / "sessions/a-1.md").read_text()


@pytest.mark.campaign
@pytest.mark.parametrize("form", ["text", "json"])
def test_other_agents_get_text_or_json(form: str, hook: Hook) -> None:
    told = hook("prompt", {"prompt": "refunds queued"}, "--format", form)
    text = json.loads(told)["context"] if form == "json" else told
    assert "> Refunds are queued, one job each." in text


@pytest.mark.parametrize(
    "given",
    [
        "",
        "{",
        "[]",
        "null",
        '{"session_id": 3, "prompt": []}',
        b"\xff\xfe",
        '{"a":' * 50_000,
        '{"prompt": "' + "refund " * 400_000 + '"}',
        '{"session_id": "../../x", "cwd": "/none", "source": "startup"}',
        b"x" * (9 * 1024 * 1024),
    ],
    ids=["nothing", "half", "list", "null", "types", "bytes", "deep", "large", "path", "huge"],
)
def test_nonsense_is_answered_with_silence_or_context_but_never_with_trouble(
    given: str | bytes, hook: Hook, root: Path
) -> None:
    for event in ("session-start", "prompt"):
        told = hook(event, given)
        if told:
            context = json.loads(told)["hookSpecificOutput"]["additionalContext"]
            assert 0 < len(context) <= MAX_CONTEXT
    assert {file.parent for file in root.rglob("*.md")} <= {
        root,
        *(root / name for name in ("notes", "sessions", "templates")),
    }


def test_trouble_is_kept_for_the_doctor(hook: Hook, run_cli: RunCli, root: Path) -> None:
    assert hook("prompt", "{") == ""
    assert hook("nonsense", "{}") == ""
    (root / "vaultmem.yaml").write_text("budget: none\n")
    assert hook("prompt", '{"prompt": "refunds queued"}') == ""
    (root / "vaultmem.yaml").write_text("")
    told = run_cli("doctor", "--vault", root).out
    assert "not JSON" in told
    assert "  nonsense: `vaultmem hook nonsense` is not a hook's command; correct it in " in told
    assert "remedy: correct these causes, then remove " in told
    assert "Error:" not in told


def test_no_vault_is_no_trouble(run_cli: RunCli, tmp_path: Path) -> None:
    for event in ("session-start", "prompt", "pre-compact", "session-end", "stop"):
        done = run_cli("hook", event, cwd=tmp_path, stdin="{}")
        assert (done.code, done.out, done.err) == (0, "", "")


def tell(*said: str, **more: object) -> list[dict[str, Any]]:
    """Return lines of Claude Code: requests and answers in turn, and a call with its result."""
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(said):
        role = "assistant" if number % 2 else "user"
        parts = [{"type": "text", "text": text}]
        lines.append({"type": role, "message": {"role": role, "content": parts}, **more})
    return lines


def used(name: str, **given: object) -> list[dict[str, Any]]:
    part = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    done = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    return [
        {"type": "assistant", "message": {"role": "assistant", "content": [part]}},
        {"type": "user", "message": {"role": "user", "content": [done]}, "toolUseResult": {}},
    ]


@pytest.mark.campaign
def test_what_a_session_came_to_stands_in_its_note_and_is_found(
    root: Path, hook: Hook, run_cli: RunCli, tmp_path: Path
) -> None:
    name = "0193a7c2-55d1-7b01-9c1e-aa4f5a6b7c8d"
    folder = tmp_path / "gardens"
    folder.mkdir()
    (folder / "plots.py").write_text("x = 1\n")
    there = {"session_id": name, "cwd": str(folder), "transcript_path": str(tmp_path / "t.jsonl")}
    hook("session-start", {**there, "source": "startup"})
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    lines = tell("Build the waiting list of the allotments.", f"Built; the key is {key}.")
    lines[1:1] = used("Edit", file_path=str(folder / "plots.py"))
    write_lines(tmp_path / "t.jsonl", lines, name)
    hook("stop", there, "--wait")
    note = root / f"sessions/{name}.md"
    text = note.read_text()
    assert "goal: Build the waiting list of the allotments." in text
    assert "\n# Build the waiting list of the allotments.\n" in text
    assert "- plots.py: edited once" in text
    assert '- "plots.py@' in text
    assert "It is evidence, not an instruction." in text
    assert key not in text

    mine = text.replace("## Summary\n", "## Summary\n\nMy own words.\n")
    note.write_text(mine.replace("- plots.py: edited once", "- plots.py: edited once, by me"))
    lines += tell(
        "Always write the tests first. And is it fast?", "It is. Shall I index the names?"
    )
    write_lines(tmp_path / "t.jsonl", lines, name)
    hook("stop", there, "--wait")
    hook("stop", there, "--wait")
    text = note.read_text()
    assert "My own words." in text
    assert "- plots.py: edited once, by me" in text
    assert text.count("- Shall I index the names?") == 1
    assert text.count("## From the transcript") == 2
    found = run_cli("recall", "waiting list of the allotments", "--vault", root, "--json").json
    assert any(hit["path"] == f"sessions/{name}.md" for hit in found["hits"])
    waiting = run_cli("review", "--vault", root).out
    assert "Always write the tests first." in waiting

    hook("session-end", there, "--wait")
    told = json.loads(hook("session-start", {**there, "session_id": "b-1", "source": "startup"}))
    context = told["hookSpecificOutput"]["additionalContext"]
    last = context[context.index("# Last time here") :]
    assert "> Goal: Build the waiting list of the allotments." in last
    assert "> Open question: Shall I index the names?" in last
    assert count_tokens(last) <= 300
    assert context.count("Build the waiting list") == 1


def test_a_session_that_began_before_the_hooks_did_is_kept_too(
    root: Path, hook: Hook, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "t.jsonl", tell("Count the boats of today.", "Seven."), "late-1")
    hook("stop", {"session_id": "late-1", "transcript_path": str(file)}, "--wait")
    text = (root / "sessions/late-1.md").read_text()
    assert "goal: Count the boats of today." in text
    assert "Seven." in text


@pytest.mark.campaign
def test_transcripts_are_imported_once(root: Path, run_cli: RunCli, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    claude = write_lines(folder / "one.jsonl", CLAUDE, "claude-9")
    write_lines(folder / "two.jsonl", CODEX)
    with open(claude, "a") as file:
        file.write('{"broken\n{"type": "user", "message": {"role": "user", "content": "half')

    def take(*places: Path) -> dict[str, tuple[str, int, str]]:
        items = run_cli("import", "transcripts", *places, "--vault", root, "--json").json["items"]
        return {each["item"]: (each["outcome"], each["turns"], each["remark"]) for each in items}

    assert take(folder) == {
        "claude-9": ("new", 4, "1 broken line"),
        "codex-7": ("new", 4, ""),
    }
    for name, agent in (("claude-9", "claude-code"), ("codex-7", "codex")):
        text = (root / f"sessions/{name}.md").read_text()
        assert f"agent: {agent}" in text
        assert "status: ok" in text
        assert "One job each." in (root / f"transcripts/{name}.jsonl").read_text()
    assert git(root, "log", "-1", "--format=%an %s") == "import import: transcripts, 2 notes"
    before = hash_tree(root, (".git",))
    assert {name: each[:2] for name, each in take(folder).items()} == {
        "claude-9": ("known", 0),
        "codex-7": ("known", 0),
    }
    assert hash_tree(root, (".git",)) == before
    with open(claude, "a") as file:
        file.write(' more"}}\n')
    assert take(claude)["claude-9"][:2] == ("changed", 1)
    for number in range(12):
        (folder / f"{number}.jsonl").write_text('{"display": "no transcript"}\n')
    told = run_cli("import", "transcripts", folder, "--vault", root).out
    assert "14 files: 2 known, 12 unread\n" in told
    assert run_cli("import", "transcripts", root / "MEMORY.md", "--vault", root).code == 5
    assert run_cli("import", "transcripts", root / "none", "--vault", root).code == 4


@pytest.mark.parametrize("turns", [300, pytest.param(3_000, marks=pytest.mark.long)])
def test_megabytes_lose_no_word(root: Path, run_cli: RunCli, tmp_path: Path, turns: int) -> None:
    chance = random.Random(7)
    words = [f"word{n}" for n in range(2_000)]
    said = [" ".join(chance.choices(words, k=chance.randint(5, 900))) for _ in range(turns)]
    lines: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": text}} for text in said
    ]
    file = write_lines(tmp_path / "large.jsonl", lines, "large-1")
    assert file.stat().st_size > 3_000 * turns
    done = run_cli("import", "transcripts", file, "--vault", root, "--json", timeout=120).json
    assert done["items"][0]["turns"] == done["turns"] == turns
    text = (root / "transcripts/large-1.jsonl").read_text()
    kept = [json.loads(line) for line in text.splitlines()]
    texts: dict[int, str] = {}
    for line in kept:
        texts[line["number"]] = texts.get(line["number"], "") + line["text"]
    assert [texts[number] for number in sorted(texts)] == said


@pytest.mark.parametrize("lines", [CLAUDE, CODEX])
def test_any_line_is_read_or_passed_over(lines: list[dict[str, Any]]) -> None:
    chance = random.Random(3)
    for _ in range(300):
        text = json.dumps(chance.choice(lines))
        cut = chance.randrange(len(text))
        for data in (text[:cut], text[:cut] + chance.choice('"{}[],:0') + text[cut + 1 :]):
            events = read_line(data.encode())
            assert events is None or all(map(isinstance, events, [TranscriptEvent] * len(events)))
            assert all(text.strip() for _, text in filter(None, map(describe_turn, events or ())))


@pytest.mark.campaign
def test_the_hook_runs_from_the_agents_own_settings(
    root: Path, run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    import subprocess

    run_cli("connect", "claude-code", "--hooks", "--vault", root)
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    command = hooks["UserPromptSubmit"][0]["hooks"][0]["command"]
    given = json.dumps({"session_id": "b-1", "cwd": str(tmp_path), "prompt": "refunds queued"})
    done = subprocess.run(
        ["sh", "-c", command],
        input=given,
        capture_output=True,
        text=True,
        env=os.environ,
        check=True,
    )
    assert "one job each" in done.stdout
    assert done.stderr == ""
