"""Older and other SDKs, and a framework of agents, use a server as its own SDK does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from environments import need_node, need_python

from vaultmem.mcp_server.tool_server import TOOLS

pytestmark = pytest.mark.sdks

NOTES = {"notes/pier.md": "# Pier\n\nThe pier is of oak.\n", "notes/rope.md": "Of hemp.\n"}

CLIENTS = Path(__file__).parent / "clients"


def run(root: Path, *client: str | Path, **env: str) -> dict[str, Any]:
    """Run a client on a server of a vault, and return what it saw."""
    server = [sys.executable, "-P", "-m", "vaultmem", "mcp", "--vault", root, "--agent", "other"]
    command = list(map(str, [*client, *server]))
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check_seen(seen: dict[str, Any], root: Path) -> None:
    """See that a client has had of a server what there is."""
    assert seen["tools"] == [tool.name for tool in TOOLS]
    assert "> The pier is of oak." in seen["told"]
    assert "agent: other\nsession: " in (root / seen["path"]).read_text()
    assert '"query" is missing' in seen["refused"]
    assert "vaultmem://note/notes/rope.md" in seen["resources"]
    assert "> The pier is of oak." in seen["read"]
    assert seen["prompts"] == ["resume", "curate", "end-session"]
    assert seen["completed"] == ["notes/pier.md"]
    assert seen["unknown"] == -32602


def test_the_older_sdk(make_vault: Make) -> None:
    root, python = make_vault(NOTES), need_python("mcp==1.30.0")
    seen = run(root, python, CLIENTS / "mcp_1.py")
    check_seen(seen, root)
    assert seen["protocol"] == "2025-11-25"


def test_the_sdk_in_typescript(make_vault: Make) -> None:
    root, packages = make_vault(NOTES), need_node("@modelcontextprotocol/sdk@1")
    check_seen(run(root, "node", CLIENTS / "typescript.mjs", PACKAGES=str(packages)), root)


def test_fastmcp(make_vault: Make) -> None:
    root, python = make_vault(NOTES), need_python("fastmcp>=4,<5")
    check_seen(run(root, python, CLIENTS / "fast.py"), root)


def test_an_agent_with_strict_schemas_calls_every_tool(make_vault: Make) -> None:
    root, python = make_vault(NOTES), need_python("openai-agents>=0.24,<0.25")
    seen = run(root, python, CLIENTS / "openai_agents.py")
    assert seen["said"] == "Done."
    assert {name for name, _ in seen["told"]} == {tool.name for tool in TOOLS}
    for name, told in seen["told"]:
        assert "Error" not in told, (name, told)
    changed = [told for name, told in seen["told"] if name == "update_note"]
    assert all(told.startswith("Changed ") for told in changed), changed
