"""An event of many notes is whole or absent, wherever the process that makes it is killed.

`tests/kills/campaign.py` does the event in a process that ends right before its n-th call that
changes a file, and lets somebody else's command come next.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).parents[1] / "kills"
EVENTS = ("curate", "compact", "dream", "merge", "mv", "import")
OTHERS = ("dedup", "promote", "forget", "prime")


@pytest.fixture(scope="session")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts calls, built for this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler, or a system whose calls cannot be counted like this")
    library = tmp_path_factory.mktemp("killer") / "killer.so"
    source = KILLS / "killer.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return library


def kill(killer: Path, event: str, kills: int, folder: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, KILLS / "campaign.py", event, str(kills), folder / event],
        env={**os.environ, "LD_PRELOAD": str(killer), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_that_is_killed_is_whole_or_absent(
    killer: Path, home: Path, tmp_path: Path, event: str
) -> None:
    found = kill(killer, event, 3, tmp_path)

    assert found["other"] == []
    assert found["kills"] == 3


@pytest.mark.long
@pytest.mark.parametrize("event", [*EVENTS, *OTHERS])
def test_an_event_that_is_killed_at_300_calls_is_always_whole_or_absent(
    killer: Path, home: Path, tmp_path: Path, event: str
) -> None:
    found = kill(killer, event, 300, tmp_path)

    print(f"\n{event}: {found}")
    assert found["other"] == []
    assert event in OTHERS or int(str(found["kills"])) >= 295
    assert found["whole"]
    assert found["absent"]
