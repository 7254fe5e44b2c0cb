"""A fleet from the command line: its front door, and what is left of it when it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from remotes import make_remotes

from vaultmem.services.hub.folder import make_hub
from vaultmem.services.hub.grants import Kind, Scope, make_grant

pytestmark = pytest.mark.fleet


def list_descendants(process: int) -> set[int]:
    """Return the processes that a process has started, and those that they have."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(each.parent.name)] = int(fields[1])
    found = {process}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def is_alive(process: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_a_front_door_answers_for_a_fleet_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    make_remotes(tmp_path, ["crew", "pier"])
    hub = make_hub(tmp_path / "door")
    scopes = {Scope.READ: ["*"]}
    _, token = make_grant(hub, "Maren", Kind.PERSON, scopes, time.time(), ["maren@example.org"])
    words = ["fleet", "serve", "--engine", "ray", "--shards", "2", "--port", "0"]
    words += ["--hub", str(hub.folder), "--remotes", str(tmp_path), "--folder", str(tmp_path / "f")]
    before = set(Path("/tmp").glob("vaultmem-ray-*"))
    served = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert served.stdout is not None
    told = [served.stdout.readline() for _ in range(4)]
    assert told[0].startswith("Serving 2 vaults as process"), served.communicate(timeout=30)
    page = re.search(r"http://\S+", told[1])
    assert page

    def get(path: str) -> str:
        asked = urllib.request.Request(f"{page[0]}{path}")
        asked.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return str(answer.read().decode())

    assert "crew moors at berth" in get("v/crew/api/v1/recall?query=crew+berth")
    assert {"crew", "pier"} <= set(re.findall(r"crew|pier", get("api/v1/recall?query=moors")))
    assert "vaultmem_pool_ready_vaults 2\n" in get("metrics")
    started = list_descendants(served.pid)
    assert len(started) > 3

    os.killpg(served.pid, signal.SIGINT)  # As a terminal does.
    out, err = served.communicate(timeout=30)
    assert (served.returncode, out, err) == (0, "", "")
    end = time.monotonic() + 10
    while left := {each for each in started if is_alive(each)}:
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert set(Path("/tmp").glob("vaultmem-ray-*")) <= before


def test_an_address_where_no_cluster_is_is_told_at_once() -> None:
    pytest.importorskip("ray")
    began = time.monotonic()
    words = [sys.executable, "-m", "vaultmem", "fleet", "status", "--address", "127.0.0.1:9"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert time.monotonic() - began < 20
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:9: no cluster is reached there" in done.stderr
    assert len(done.stderr.splitlines()) == 1
