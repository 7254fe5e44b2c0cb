"""A terminal at which nobody types: what stands for the person who gives a command in a test."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sitting_at_terminal() -> Iterator[None]:
    """Let standard input be a terminal's for the time of a `with`, and of all processes started.

    Whoever reads from it is at its end at once.
    """
    keyboard, screen = os.openpty()
    settings = termios.tcgetattr(screen)
    settings[3] &= ~termios.ICANON
    settings[6][termios.VMIN] = settings[6][termios.VTIME] = 0
    termios.tcsetattr(screen, termios.TCSANOW, settings)
    with _standing_in(screen):
        yield
    os.close(keyboard)


def answer_at_terminal(
    command: Sequence[str], answers: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `vaultmem` where a person types these lines, and its output goes into pipes."""
    keyboard, screen = os.openpty()
    os.write(keyboard, answers.encode())
    try:
        return subprocess.run(
            [sys.executable, "-m", *command],
            stdin=screen,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=cwd,
            env=env,
            check=False,
        )
    finally:
        os.close(screen)
        os.close(keyboard)


@contextmanager
def having_no_terminal() -> Iterator[None]:
    """Let there be no terminal for the time of a `with`: an agent gives the commands."""
    with _standing_in(os.open(os.devnull, os.O_RDONLY)):
        yield


@contextmanager
def _standing_in(opened: int) -> Iterator[None]:
    before = os.dup(0)
    os.dup2(opened, 0)
    os.close(opened)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
