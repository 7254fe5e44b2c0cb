"""Commands are killed, or the disk fails them, at any call that changes a file: nothing is lost.

`tests/kills/campaign.py` does it, to every command that writes; here, to some of them. `make kills`
runs it at length.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CAMPAIGN = Path(__file__).parents[1] / "kills" / "campaign.py"

#: One of each kind: a file, an event of many, a decision, a branch, a session, a new repository.
SOME = ("remember", "promote", "compact", "review no", "merge", "session close", "init")


def run_campaign(folder: Path, *words: str) -> list[dict[str, Any]]:
    if not sys.platform.startswith("linux") or not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("no C compiler, or a system whose calls cannot be counted like this")
    rows = folder / "rows.json"
    subprocess.run(
        [sys.executable, CAMPAIGN, *words, "--json", rows],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    found: list[dict[str, Any]] = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["failed"] for row in found if "failed" in row] == []
    return [row for row in found if row.get("hit")]


def find_troubles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["troubles"]]


@pytest.mark.campaign
def test_what_is_killed_or_fails_loses_nothing_and_leaves_nothing_to_be_done_by_hand(
    tmp_path: Path,
) -> None:
    words = ("--kills", "12", "--faults", "12", "--jobs", "1", "--events", ",".join(SOME))

    rows = run_campaign(tmp_path, *words)

    assert find_troubles(rows) == []
    assert len([row for row in rows if row["fault"] == "kill"]) >= 10
    assert len({row["fault"] for row in rows}) >= 8


@pytest.mark.guarantee
@pytest.mark.long
def test_every_command_that_writes_survives_kills_and_faults_at_many_of_its_calls(
    tmp_path: Path,
) -> None:
    rows = run_campaign(tmp_path, "--kills", "820", "--faults", "410", "--seed", "7")

    assert find_troubles(rows) == []
    assert len(rows) >= 1_100
