"""The MCP Inspector's command line lists and calls everything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Make
from environments import need_node
from support import git

Ask = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.sdks

NOTES = {
    "notes/pier.md": "# Pier\n\nThe pier is of oak.\n",
    "notes/rope.md": "---\nstate: candidate\n---\nRope is of hemp.\n",
}


@pytest.fixture
def inspect(make_vault: Make) -> Ask:
    """Return a function that runs the Inspector once, by method and options, on one vault."""
    root = make_vault(NOTES)
    packages = need_node("@modelcontextprotocol/inspector@0.15.0")
    inspector = packages / "node_modules/.bin/mcp-inspector"
    server = [sys.executable, "-P", "-m", "vaultmem", "mcp", "--vault", str(root)]

    def ask(method: str, *options: str) -> dict[str, Any]:
        command = [str(inspector), "--cli", *server, "--agent", "inspector", "--method", method]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return {"root": root, **json.loads(done.stdout)}

    return ask


def call(inspect: Ask, tool: str, **given: Any) -> dict[str, Any]:
    """Call a tool that has to answer, and return its data."""
    words = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in given.items()]
    options = [part for word in words for part in ("--tool-arg", word)]
    done = inspect("tools/call", "--tool-name", tool, *options)
    assert not done.get("isError"), done
    found: dict[str, Any] = done["structuredContent"]
    return found


def test_the_inspector_calls_every_tool_and_reads_everything(inspect: Ask) -> None:
    assert len(inspect("tools/list")["tools"]) == 11
    assert "> The pier is of oak." in call(inspect, "recall", query="pier oak")["message"]
    assert "> The pier is of oak." in call(inspect, "context_pack", query="pier")["message"]
    path = call(inspect, "remember", text="Bollards are of iron.", tags=["iron"])["path"]
    note = call(inspect, "read_note", path=path)
    new = {"old_text": "iron", "new_text": "steel", "blob": note["blob"]}
    changed = call(inspect, "update_note", path=path, **new)
    assert changed["path"] == path
    assert "promoted  notes/rope.md" in call(inspect, "promote", paths=["rope"])["message"]
    call(inspect, "session", action="start", session="day-1", goal="Mend the pier")
    closed = call(inspect, "session", action="close", session="day-1", summary="Done.")
    assert closed["status"] == "ok"
    assert (
        "paint-the-pier" in call(inspect, "task", action="add", title="Paint the pier")["message"]
    )
    call(inspect, "checkpoint", note="inspected")
    assert "inspector" in call(inspect, "history", action="log", limit=1)["message"]
    assert path in call(inspect, "forget", path=path, reason="inspected")["message"]
    refused = inspect("tools/call", "--tool-name", "read_note", "--tool-arg", "path=../x")
    assert refused["isError"]
    listed = inspect("resources/list")
    assert "bollards" in git(listed["root"], "log", "-1", "--format=%s")
    assert "vaultmem://note/notes/pier.md" in {each["uri"] for each in listed["resources"]}
    for uri in ("vaultmem://note/notes/pier.md", "vaultmem://pack/pier"):
        text = inspect("resources/read", "--uri", uri)["contents"][0]["text"]
        assert "> The pier is of oak." in text
    assert len(inspect("resources/templates/list")["resourceTemplates"]) == 2
    names = [each["name"] for each in inspect("prompts/list")["prompts"]]
    assert names == ["resume", "curate", "end-session"]
    for name in names:
        about = ("--prompt-name", name, "--prompt-args", "about=pier")
        assert ": pier" in inspect("prompts/get", *about)["messages"][0]["content"]["text"]
