"""Environments of other SDKs, each set up once from its registry and kept in .build/sdks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / ".build" / "sdks"

#: Seconds that a set-up may take.
PATIENCE = 600


def need_python(*packages: str) -> Path:
    """Return a Python that has these packages; the test is skipped where they cannot be had."""
    folder = HOME / _name(sys.version, packages)
    binary = folder / "bin" / "python"
    install = [str(binary), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    _need(folder, [sys.executable, "-m", "venv", str(folder)], install)
    return binary


def need_node(*packages: str) -> Path:
    """Return a folder with these packages for Node.js, as `need_python` does."""
    if not (npm := shutil.which("npm")):
        pytest.skip("npm is not installed")
    folder = HOME / _name("node", packages)
    options = ["--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    _need(folder, [npm, "install", *options, *packages])
    return folder


def _name(what: str, packages: tuple[str, ...]) -> str:
    return hashlib.sha256(repr((what, packages)).encode()).hexdigest()[:12]


def _need(folder: Path, *commands: list[str]) -> None:
    ready = folder / "ready"
    if ready.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plain = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    for command in commands:
        try:
            done = subprocess.run(
                command, env=plain, capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"{command[-1]}: not installed in {PATIENCE} s")
        if done.returncode:
            last = [*done.stderr.strip().splitlines(), f"it ended with {done.returncode}"][-1]
            pytest.skip(f"{command[-1]} cannot be installed here: {last}")
    ready.touch()
