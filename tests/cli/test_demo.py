"""`vaultmem demo`: a week of history to look at, and nothing left of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from conftest import RunCli
from in_process import run_here
from support import wait_until


def list_files(*folders: Path) -> set[Path]:
    return {file for folder in folders for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have processes make temporary folders in one of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.mark.campaign
def test_a_demo_shows_a_wrong_belief_and_leaves_nothing(
    home: Path, temporary: Path, run_cli: RunCli
) -> None:
    before = list_files(home)

    others = {"VAULTMEM_VAULT": str(home), "VAULTMEM_REF": "none", "CLAUDECODE": "1"}
    done = run_cli("demo", "--no-open", cwd=home, env=others)

    assert (done.code, done.err) == (0, "")
    assert "## Instructions" in done.out
    assert re.search(r"first bad commit .*\n.* codex, session s-0510, supersede\n", done.out)
    assert list_files(home, temporary) == before


def test_a_demo_is_kept_in_a_new_folder_only(home: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.md").write_text("mine\n")

    done = run_here("demo", "--no-open", "--keep", taken, cwd=tmp_path)

    assert (done.code, done.err) == (
        5,
        f"vaultmem: error: {taken}: is not empty; name a new folder\n",
    )
    assert [file.name for file in taken.iterdir()] == ["mine.md"]


@pytest.mark.long
def test_a_demo_opens_the_page_and_ends_with_it(home: Path, temporary: Path) -> None:
    opened = home / "opened"
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    before = list_files(home)
    process = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", "demo"],
        env={**os.environ, "BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: opened.exists() and opened.read_text(), 60)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/enter\?code=\S+\n", opened.read_text())
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "bisect --good HEAD~4" in out
    assert list_files(home, temporary) == before | {opened}


@pytest.mark.campaign
def test_a_demo_in_a_terminal_without_a_screen_prints_the_link(home: Path, temporary: Path) -> None:
    before = list_files(home)
    keyboard, terminal = os.openpty()
    unset = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}
    process = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", "demo"],
        env={name: value for name, value in os.environ.items() if name not in unset},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    seen = b""
    while not (found := re.search(rb"page  (http://127\.0\.0\.1:\d+/enter\?code=\S+)", seen)):
        seen += os.read(keyboard, 4096)
    with urlopen(found[1].decode()) as page:
        assert b"<!doctype html>" in page.read()
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # The terminal's end.
        while os.read(keyboard, 4096):
            pass
    assert process.wait(60) == 0
    os.close(keyboard)
    assert list_files(home, temporary) == before
