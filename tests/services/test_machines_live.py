"""Clones of one vault live through rounds of edits, kills and cut lines: nothing is lost.

`tests/machines_campaign/campaign.py` does it; `make machines` runs it at length.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parents[1] / "machines_campaign" / "campaign.py"
NONE = ("lost", "markers", "yaml", "twins", "unequal", "freer", "rescues")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed in groups")
def test_what_machines_do_is_on_all_of_them_in_the_end(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ("--rounds", "12", "--machines", "3", "--ways", "sync,rebase", "--json", file)
    subprocess.run([sys.executable, CAMPAIGN, *words], capture_output=True, check=False)

    rows = [json.loads(line) for line in file.read_text().splitlines()]

    assert [row["failed"] for row in rows if "failed" in row] == []
    assert [(row["way"], row["resident"], {n: row[n] for n in NONE}) for row in rows] == [
        (row["way"], row["resident"], {key: [] for key in NONE}) for row in rows
    ]
    assert len(rows) == 4
