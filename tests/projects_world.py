"""Code repositories for tests of projects, and the ways in which clients work in them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from conftest import RunCli

from vaultmem.core.notes.frontmatter import read_frontmatter

#: What a client of MCP does with its connection.
Scene = Callable[[Any], Awaitable[Any]]


def run_git(folder: Path, *words: str) -> str:
    """Run git as a developer would, and return its output."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {words}: {done.stderr}"
    return done.stdout.strip()


def make_repository(folder: Path, text: str = "print()\n", remote: str = "") -> Path:
    """Make a repository with one commit, and return its folder."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q")
    (folder / "main.py").write_text(f"# {folder.name}\n{text}")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", f"Begin {folder.name}")
    if remote:
        run_git(folder, "remote", "add", "origin", remote)
    return folder


def make_code(folder: Path, text: str) -> Path:
    """Make a repository with the one file `src/limit.py`, and return its folder."""
    (folder / "src").mkdir(parents=True)
    run_git(folder, "init", "-q")
    (folder / "src/limit.py").write_text(text)
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", "Begin")
    return folder


def run_hook(
    run_cli: RunCli, root: Path, event: str, folder: Path, session: str, **given: Any
) -> str:
    """Run a hook as a client does, in a process, and return the context that it answers with."""
    env = given.pop("env", {})
    payload = {"session_id": session, "cwd": str(folder), **given}
    words = ["hook", event, "--vault", str(root), "--format", "text", "--wait"]
    done = run_cli(*words, cwd=folder, stdin=json.dumps(payload), env=env)
    assert (done.code, done.err) == (0, ""), done
    return done.out


def write_transcript(file: Path, folder: Path, session: str, *said: tuple[str, str]) -> Path:
    """Write a transcript as Claude Code does, with what was said by user and assistant."""
    lines = []
    for number, (role, text) in enumerate(said):
        content: Any = text if role == "user" else [{"type": "text", "text": text}]
        lines.append(
            {
                "type": role,
                "sessionId": session,
                "cwd": str(folder),
                "timestamp": f"2026-11-20T10:00:{number:02}Z",
                "uuid": f"{session}-{number}",
                "message": {"role": role, "content": content},
            }
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def work_in(
    run_cli: RunCli, root: Path, folder: Path, session: str, goal: str, **given: Any
) -> str:
    """Have a session from its start to its end through the hooks; return what its start told."""
    told = run_hook(run_cli, root, "session-start", folder, session, source="startup", **given)
    transcript = write_transcript(
        folder.parent / f"{session}.jsonl", folder, session, ("user", goal), ("assistant", "Done.")
    )
    ending = {"transcript_path": str(transcript), **given}
    run_hook(run_cli, root, "session-end", folder, session, **ending)
    return told


def read_project(note: Path) -> str:
    """Return the project that a note names, "" for a global one."""
    prop = read_frontmatter(note.read_text()).get("project")
    return str(prop.value) if prop else ""


def play_in(root: Path, folder: Path, scene: Scene, roots: list[Path] | None = None) -> Any:
    """Run a scene with a client of MCP, whose server is a process that is started in a folder.

    With `roots`, the client lists them where the server asks.
    """
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp_types import ListRootsResult, Root

    async def list_roots(_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=each.as_uri()) for each in roots or ()])

    async def run() -> Any:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "vaultmem", "mcp", "--vault", str(root)],
            env=dict(os.environ),
            cwd=folder,
        )
        given: dict[str, Any] = {} if roots is None else {"list_roots_callback": list_roots}
        async with Client(stdio_client(server), mode="legacy", **given) as client:
            return await scene(client)

    return asyncio.run(run())
