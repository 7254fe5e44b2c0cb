"""The session in docs/how-to/maintenance.md is what two panes of a terminal really show.

`UPDATE_GOLDEN=1` writes it anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/maintenance.md"

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

_BLOCK = re.compile(r"```text\n(\$ vaultmem watch\n.*?)```\n(.*?)```text\n(.*?)```", re.DOTALL)

Tmux = Callable[..., str]


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """Give a terminal of its own with two panes, both in a copy of the sample vault."""
    vault = tmp_path / "ferrylane"
    shutil.copytree(ROOT / "sample-vault", vault)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text(
        "[user]\n\tname = Maren\n\temail = maren@example.com\n"
    )
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "LANG") if key in os.environ}
    environment = {
        **kept,
        "HOME": str(tmp_path / "home"),
        "TERM": "xterm",
        "SHELL": "/bin/sh",
        "PS1": "$ ",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GIT_PAGER": "cat",
    }

    def run(*arguments: str) -> str:
        command = ["tmux", "-f", os.devnull, "-S", str(tmp_path / "tmux"), *arguments]
        return subprocess.run(
            command, cwd=vault, env=environment, capture_output=True, text=True, check=True
        ).stdout

    subprocess.run(
        ["vaultmem", "init", "--yes"], cwd=vault, env=environment, check=True, capture_output=True
    )
    run("new-session", "-d", "-x", "200", "-y", "60", "sh")
    run("split-window", "-h", "sh")
    yield run
    run("kill-server")


@pytest.mark.campaign
def test_the_session_in_the_page_is_real(tmux: Tmux, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = _BLOCK.search(text)
    assert block is not None
    written = block[1], block[3]
    commands = [line[2:] for line in written[1].splitlines() if line.startswith("$ ")]
    shown = tuple(
        pane.replace(str(tmp_path / "ferrylane"), "/home/maren/ferrylane")
        for pane in play(tmux, commands)
    )
    if os.environ.get("UPDATE_GOLDEN"):
        fresh = f"```text\n{shown[0]}```\n{block[2]}```text\n{shown[1]}```"
        PAGE.write_text(text.replace(block[0], fresh), encoding="utf-8")
        return
    assert steady(written[0]) == steady(shown[0])
    assert steady(written[1]) == steady(shown[1])


def play(tmux: Tmux, commands: list[str]) -> tuple[str, str]:
    """Watch in one pane, type the commands in the other, and return what both show."""

    def shows(pane: int) -> str:
        lines = tmux("capture-pane", "-p", "-J", "-t", f":0.{pane}").splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip().replace("^C", "") + "\n"

    def rest() -> None:
        """Wait until the commands are done and nothing more happens in either pane."""
        seen, since = "", time.monotonic()
        while time.monotonic() - since < 0.8:
            now = shows(0) + shows(1)
            if not now.endswith("$\n"):
                since = time.monotonic()
            seen, since = now, (since if now == seen else time.monotonic())
            time.sleep(0.05)

    wait_until(lambda: shows(0) == shows(1) == "$\n", 60)
    tmux("send-keys", "-t", ":0.0", "vaultmem watch", "Enter")
    wait_until(lambda: "rendered" in shows(0), 60)
    rest()
    for command in commands:
        tmux("send-keys", "-t", ":0.1", "-l", command)
        tmux("send-keys", "-t", ":0.1", "Enter")
        rest()
    tmux("send-keys", "-t", ":0.0", "C-c")
    wait_until(lambda: shows(0).endswith("\n$\n"), 60)
    return shows(0).removesuffix("$\n"), shows(1).removesuffix("$\n")


def steady(text: str) -> str:
    """Return text without what differs from run to run: ids, times, process numbers.

    How often CONTEXT.md is rendered depends on how busy the machine is.
    """
    text = re.sub(r"(?m)^rendered .*\n", "", text)
    text = re.sub(r"\b[0-9a-f]{7}\b", "0000000", text)
    text = re.sub(r"\d{2}:\d{2}:\d{2}", "00:00:00", text)
    text = re.sub(r"process \d+", "process 1", text)
    text = re.sub(r"\d{1,2} [A-Z][a-z]{2} \d{4}", "1 Jan 2026", text)
    return re.sub(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}Z)?", "2026-01-01", text)
