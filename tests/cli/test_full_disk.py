"""A disk that is really full: the state folder stands on a small one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make, RunCli


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    """Put the state folder on a disk of 2 MB."""
    folder = home / "state"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder]
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path, left: int) -> Path:
    """Leave so many bytes of a disk free."""
    status = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(bytes(status.f_bavail * status.f_frsize - left))
    return filler


@pytest.mark.guarantee
@pytest.mark.parametrize("left", [0, 8_192, 61_440, 151_552])
def test_a_full_state_folder_says_whether_the_note_was_written(
    small_disk: Path, make_vault: Make, run_cli: RunCli, left: int
) -> None:
    root = make_vault({"notes/crane.md": "# Crane\n\nThe crane lifts 40 t.\n"})
    assert run_cli("recall", "crane", cwd=root).code == 0
    filler = fill(small_disk, left)

    done = run_cli("remember", "The bollard at pier 9 is loose.", cwd=root)

    is_there = len(list((root / "notes/inbox").glob("*.md"))) == 1
    assert done.code == (0 if is_there else 1), done.err
    assert is_there or "nothing was written" in done.err or "no note was written" in done.err
    still = run_cli("recall", "crane", cwd=root)
    if left > 8_192:  # Without any room, SQLite opens no database, not even to read.
        assert (still.code, "lifts 40 t" in still.out) == (0, True), still.err
    filler.unlink()
    found = run_cli("recall", "bollard", cwd=root)
    assert found.code == 0
    assert ("pier 9" in found.out) == is_there
    assert run_cli("checkpoint", "after", cwd=root).code == 0
