"""Sessions of Claude Code and Codex, recorded as these clients write them: transcript and hooks.

The forms of lines and of hooks' input are the clients' own (tests/core/test_transcripts.py names
them one by one); what is said and done in them is made up.
"""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_NOUNS = "ferry ticket harbour parser socket widget module vector buffer legacy format handler"
_WORDS = _NOUNS.split()


class Recording:
    """One session of a client: what it writes into its transcript while it lasts."""

    agent = ""

    def __init__(self, session: str, workspace: Path, folder: Path, at: datetime) -> None:
        self.session, self.workspace, self.at = session, workspace, at
        self.file = folder / self.file_name()
        self.chance, self.calls = random.Random(session), 0
        self.begin()

    def file_name(self) -> str:
        return f"{self.session}.jsonl"

    def add(self, *lines: dict[str, Any]) -> None:
        with open(self.file, "a", encoding="utf-8") as file:
            for line in lines:
                self.at += timedelta(seconds=7)
                file.write(json.dumps({**line, "timestamp": f"{self.at:%Y-%m-%dT%H:%M:%S}.000Z"}))
                file.write("\n")

    def next_call(self) -> str:
        self.calls += 1
        return f"call_{self.session[:4]}_{self.calls}"

    def noise(self, calls: int, lines: int = 60) -> None:
        """Look around, as agents do: much output that is of no use to anybody."""
        for number in range(calls):
            name = f"src/{self.chance.choice(_WORDS)}_{number}.py"
            text = "\n".join(
                f"{n}: {' '.join(self.chance.choices(_WORDS, k=9))} error warning TODO?"
                for n in range(lines)
            )
            self.run(f"sed -n '1,{lines}p' {name}", text)
            if number % 9 == 4:
                self.say(f"I look at {name} next, to see how it is called.")

    def write(self, path: str, text: str) -> None:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists()
        file.write_text(text)
        self.wrote(path, is_new)

    def begin(self) -> None: ...
    def ask(self, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def run(self, command: str, output: str, code: int = 0) -> None: ...
    def wrote(self, path: str, is_new: bool) -> None: ...
    def plan(self, steps: dict[str, str]) -> None: ...
    def helper(self, prompt: str, answer: str) -> None: ...
    def compact(self, summary: str) -> None: ...


class ClaudeRecording(Recording):
    """As Claude Code 2.1 writes it."""

    agent = "claude-code"

    def line(self, kind: str, content: object, **more: Any) -> dict[str, Any]:
        return {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "cwd": str(self.workspace),
            "sessionId": self.session,
            "version": "2.1.197",
            "gitBranch": "main",
            "type": kind,
            "message": {"role": kind, "content": content},
            **more,
        }

    def begin(self) -> None:
        self.add({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}})
        text = "<command-name>/model</command-name>\n<command-message>model</command-message>"
        self.add(self.line("user", text), self.line("user", "Be careful.", isMeta=True))

    def ask(self, text: str) -> None:
        self.add(self.line("user", f"{text}\n<system-reminder>Plan mode is off.</system-reminder>"))

    def say(self, text: str) -> None:
        self.add(self.line("assistant", [{"type": "text", "text": text}]))

    def call(self, name: str, **given: Any) -> str:
        call = self.next_call()
        part = {"type": "tool_use", "id": call, "name": name, "input": given}
        thought = {"type": "thinking", "thinking": "Should I?", "signature": "x"}
        self.add(self.line("assistant", [thought]), self.line("assistant", [part]))
        return call

    def result(self, call: str, text: str, used: object, failed: bool = False) -> None:
        part = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}
        self.add(self.line("user", [part], toolUseResult=used))

    def run(self, command: str, output: str, code: int = 0) -> None:
        call = self.call("Bash", command=command, description="Run it")
        if code:
            text = f"Exit code {code}\n{output}"
            self.result(call, text, f"Error: {text}", failed=True)
        else:
            used = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            self.result(call, output, used)

    def wrote(self, path: str, is_new: bool) -> None:
        place = str(self.workspace / path)
        if is_new:
            call = self.call("Write", file_path=place, content="...")
            self.result(call, f"File created: {place}", {"type": "create", "filePath": place})
        else:
            call = self.call("Edit", file_path=place, old_string="a", new_string="b")
            self.result(call, f"The file {place} has been updated.", {"filePath": place})

    def plan(self, steps: dict[str, str]) -> None:
        todos = [{"content": s, "status": state, "activeForm": s} for s, state in steps.items()]
        self.result(self.call("TodoWrite", todos=todos), "Todos have been modified.", {})

    def helper(self, prompt: str, answer: str) -> None:
        call = self.call("Task", description="Look", prompt=prompt, subagent_type="Explore")
        self.add(
            self.line("user", prompt, isSidechain=True, agentId="a1"),
            self.line("assistant", [{"type": "text", "text": answer}], isSidechain=True),
        )
        self.result(call, "It looked.", {"status": "completed"})

    def compact(self, summary: str) -> None:
        told = f"This session is being continued from a previous conversation. {summary}"
        self.add(
            {**self.line("system", ""), "subtype": "compact_boundary"},
            self.line("user", told, isCompactSummary=True, isVisibleInTranscriptOnly=True),
        )


class CodexRecording(Recording):
    """As Codex 0.169 writes it."""

    agent = "codex"

    def file_name(self) -> str:
        return f"rollout-2026-11-16T09-00-00-{self.session}.jsonl"

    def item(self, kind: str, **payload: Any) -> dict[str, Any]:
        return {"type": "response_item", "payload": {"type": kind, **payload}}

    def event(self, kind: str, **payload: Any) -> dict[str, Any]:
        return {"type": "event_msg", "payload": {"type": kind, **payload}}

    def message(self, role: str, text: str) -> dict[str, Any]:
        form = "output_text" if role == "assistant" else "input_text"
        return self.item("message", role=role, content=[{"type": form, "text": text}])

    def begin(self) -> None:
        head = {"id": self.session, "cwd": str(self.workspace), "source": "cli"}
        git = {"branch": "main", "commit_hash": "0" * 40}
        around = f"<environment_context>\n  <cwd>{self.workspace}</cwd>\n</environment_context>"
        rules = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>"
        self.add(
            {"type": "session_meta", "payload": {**head, "git": git, "cli_version": "0.169.0"}},
            self.message("developer", "<permissions instructions>ask</permissions instructions>"),
            self.message("user", rules),
            self.message("user", around),
        )

    def ask(self, text: str) -> None:
        self.add(
            {"type": "turn_context", "payload": {"cwd": str(self.workspace), "model": "gpt-6"}},
            self.message("user", text),
            self.event("user_message", message=text, images=[]),
        )

    def say(self, text: str) -> None:
        self.add(
            self.item("reasoning", summary=[], encrypted_content="gAAAA"),
            self.event("agent_message", message=text),
            self.message("assistant", text),
            self.event("token_count", info={}),
        )

    def run(self, command: str, output: str, code: int = 0) -> None:
        call = self.next_call()
        given = json.dumps({"cmd": command, "workdir": str(self.workspace)})
        head = f"Chunk ID: 4c5113\nWall time: 0.3 seconds\nProcess exited with code {code}\n"
        self.add(
            self.item("function_call", name="exec_command", arguments=given, call_id=call),
            self.item("function_call_output", call_id=call, output=f"{head}Output:\n{output}"),
        )

    def wrote(self, path: str, is_new: bool) -> None:
        call, deed = self.next_call(), "Add" if is_new else "Update"
        patch = f"*** Begin Patch\n*** {deed} File: {path}\n@@\n+x\n*** End Patch\n"
        done = f"Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated: {path}\n"
        self.add(
            self.item("custom_tool_call", name="apply_patch", input=patch, call_id=call),
            self.item("custom_tool_call_output", call_id=call, output=done),
        )

    def plan(self, steps: dict[str, str]) -> None:
        listed = [{"step": step, "status": state} for step, state in steps.items()]
        given, call = json.dumps({"plan": listed}), self.next_call()
        self.add(self.item("function_call", name="update_plan", arguments=given, call_id=call))
        self.add(self.item("function_call_output", call_id=call, output="Plan updated"))

    def helper(self, prompt: str, answer: str) -> None:
        """Record a helper, which has a transcript of its own."""
        file = self.file.with_name(f"rollout-2026-11-16T09-30-00-{self.session}-helper.jsonl")
        source = {"subagent": {"thread_spawn": {"parent_thread_id": self.session}}}
        head = {"id": f"{self.session}-helper", "cwd": str(self.workspace), "source": source}
        lines = [
            {"type": "session_meta", "payload": head},
            self.message("user", prompt),
            self.message("assistant", answer),
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def compact(self, summary: str) -> None:
        self.add({"type": "compacted", "payload": {"message": summary, "replacement_history": []}})


RECORDINGS: dict[str, type[Recording]] = {
    each.agent: each for each in (ClaudeRecording, CodexRecording)
}
