"""The README's lines, in fresh homes, with the system's own Python: installing, the first hour."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.name != "posix", reason="lines of a shell")]


def read_lines() -> list[str]:
    """Return the lines of README that install."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^    (.* install '\.\[.*)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install uv and pipx where nothing else is."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    got = subprocess.run([folder / "bin/pip", "install", "-q", "uv", "pipx"], check=False)
    if got.returncode:
        pytest.skip("uv and pipx cannot be had: no network")
    for name in ("python", "python3", "pip", "pip3"):
        (folder / "bin" / name).unlink(missing_ok=True)  # The system's are found.
    return folder / "bin"


def sh(line: str, where: Path, home: Path, tools: Path) -> str:
    kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_", "UV_"))}
    path = f"{home}/.local/bin:{home}/.vaultmem/bin:{tools}:/usr/local/bin:/usr/bin:/bin"
    env = {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}
    done = subprocess.run(
        line, shell=True, cwd=where, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("source", ["clone", "tag"])
def test_a_line_of_readme_installs_a_command_that_works(
    tmp_path: Path, tools: Path, number: int, source: str
) -> None:
    line = read_lines()[number]
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    if source == "tag":
        subprocess.run(["git", "tag", "v0"], cwd=clone, check=True)
        line = line.replace("'.[", "'vaultmem-notes[").replace(
            "]'", f"] @ git+file://localhost{clone}@v0'"
        )

    sh(line, clone if source == "clone" else tmp_path, home, tools)

    sh("git config --global user.name Maren", tmp_path, home, tools)
    sh("git config --global user.email maren@example.org", tmp_path, home, tools)
    sh("vaultmem init notes", tmp_path, home, tools)
    sh("vaultmem remember 'The ferry leaves at nine.'", tmp_path / "notes", home, tools)
    assert "at nine" in sh("vaultmem pack ferry", tmp_path / "notes", home, tools)


def read_first_hour() -> list[str]:
    """Return README's lines for a user of Claude Code who has Python, git and make alone."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    start = re.sub(r"```.*?```", "", text[: text.index("**With Obsidian**")], flags=re.DOTALL)
    lines = re.findall(r"^    (\S.*?)(?: +#.*)?$", start, re.MULTILINE)
    lines = [line for line in lines if not line.startswith(("uv ", "pipx "))]
    return sorted(lines, key=lambda line: line.startswith("vaultmem "))  # Installed before used.


MCP = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"newcomer","version":"1"}}}\n'
)


@pytest.mark.parametrize("suite", ["--collect-only -m ''", ""], ids=["short", "whole"])
def test_ten_commands_of_readme_lead_from_nothing_to_a_connected_client(
    tmp_path: Path, suite: str
) -> None:
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    lines = read_first_hour()
    assert len(lines) <= 10, lines
    told, exports = {}, ""
    for line in lines:
        if line.startswith("export "):
            exports += f"{line}; "
        typed = f"timeout -s INT 90 {line} || test $? = 124" if line == "vaultmem demo" else line
        told[line] = newcomer(exports + typed, clone, home, PYTEST_ADDOPTS=suite)

    assert "<!-- vaultmem: " in told["make demo"]
    assert re.search(r"[0-9]+ (passed|tests collected)", told["make test"])
    assert "first bad commit" in told["vaultmem demo"]
    assert "remembered" in told[lines[-1]]
    known = json.loads((home / ".claude.json").read_text())["mcpServers"]["vaultmem"]
    served = newcomer(shlex.join([known["command"], *known["args"]]), home, home, given=MCP)
    assert json.loads(served.splitlines()[0])["result"]["serverInfo"]["name"] == "vaultmem"
    assert str(home / "memory") in newcomer(
        exports + "vaultmem connect --status", home / "memory", home
    )


def newcomer(line: str, where: Path, home: Path, given: str = "", **more: str) -> str:
    """Type a line in a bare home, at a terminal unless something is given."""
    kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_"))}
    bare = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    master, slave = os.openpty()
    try:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=where,
            env={**kept, **bare, **more},
            **({"input": given} if given else {"stdin": slave}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if not given else None,
            text=True,
            check=False,
        )
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 0, f"{line}: {done.stdout}"
    return done.stdout
