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
from typing import Any

import pytest
from remotes import make_remotes

from vaultmem.errors import NoteNotFoundError
from vaultmem.services.hub.grants import GrantKind, GrantScope, make_grant
from vaultmem.services.hub.hub_folder import make_hub

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vaultmem", "fleet", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_fleet_is_started_served_and_stopped(cluster: Any, tmp_path: Path) -> None:
    make_remotes(tmp_path, ["crew", "pier"])
    at = ("--address", cluster.address)
    done = run("start", str(tmp_path), *at, "--folder", str(tmp_path / "f/{node}"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 vaults, 2 ready; 3 nodes")
    hub = make_hub(tmp_path / "door")
    scopes = {GrantScope.READ: ["*"]}
    _, token = make_grant(
        hub, "Maren", GrantKind.PERSON, scopes, time.time(), ["maren@example.org"]
    )
    words = ["serve", f"ray:{cluster.address}", "--hub", str(hub.folder), "--port", "0"]
    served = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", "fleet", *words],
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
    os.killpg(served.pid, signal.SIGINT)  # As a terminal does.
    out, err = served.communicate(timeout=30)
    assert (served.returncode, out, err) == (0, "", "")
    assert run("stop", *at).stdout == "The fleet of 2 vaults has ended.\n"
    gone = run("status", f"ray:{cluster.address}")
    assert gone.returncode == NoteNotFoundError.exit_code
    assert "`vaultmem fleet start` starts one" in gone.stderr


def test_an_address_where_no_cluster_is_is_told_at_once() -> None:
    pytest.importorskip("ray")
    began = time.monotonic()
    done = run("status", "ray:127.0.0.1:9")
    assert time.monotonic() - began < 20
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:9: no cluster is reached there" in done.stderr
    assert len(done.stderr.splitlines()) == 1
