"""`vaultmem hub serve`: one command and one folder, from nothing to a team at work."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
from conftest import Make, RunCli
from support import git, wait_until

pytestmark = pytest.mark.campaign


@contextlib.contextmanager
def _serving(hub: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a hub, and yield the process and what it said before it was asked for anything."""
    command = [sys.executable, "-P", "-m", "vaultmem", "hub", "serve", str(hub), "--port", "0"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = ""
        try:
            while "vaultmem sync" not in told:
                line = server.stdout.readline()
                assert line, told
                told += line
            yield server, told
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0


def test_from_an_empty_folder_to_a_teammate(
    make_vault: Make, run_cli: RunCli, tmp_path: Path, home: Path
) -> None:
    vault, hub = make_vault({"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"}), tmp_path / "hub"
    with _serving(hub, "--owner", "ada") as (_, told):
        (token,) = re.findall(r"^  (vmhub_\S+)$", told, re.MULTILINE)
        (page,) = re.findall(r"^page  (http://\S+)/$", told, re.MULTILINE)
        assert f"vaultmem hub add team --from VAULT --hub {hub}" in told
        assert all(len(line) <= 100 for line in told.replace(str(hub), "~/hub").splitlines())

        run_cli("hub", "add", "team", "--from", vault, "--hub", hub)
        scopes = ("--person", "--email", "Ben <ben@example.org>", "--write", "team")
        granted = run_cli("hub", "grant", "ben", *scopes, "--hub", hub)
        (bens,) = re.findall(r"vmhub_\S+", granted.out)
        address = f"{page.replace('http://', f'http://ben:{bens}@')}/git/team.git"
        clone = tmp_path / "team"
        git(tmp_path, "clone", "-q", address, str(clone))
        git(clone, "config", "user.email", "ben@example.org")
        git(clone, "config", "user.name", "Ben")
        assert run_cli("remember", "The crane lifts twelve tonnes.", cwd=clone).code == 0
        synced = run_cli("sync", cwd=clone)
        assert synced.code == 0, synced.err
        asked = {"query": "crane", "vaults": "team"}
        with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
            ask = partial(client.get, f"{page}/api/v1/recall", params=asked)
            found = ask().json()
            print(found)  # On busy cores the first answer was an error once; it is not known which.
            found = wait_until(lambda: (again := ask().json()).get("hits") and again)
        assert [hit["title"] for hit in found["hits"]] == ["The crane lifts twelve tonnes"]

        second = run_cli("hub", "serve", hub, "--port", "0")
        assert second.code == 5
        assert "another process serves this hub" in second.err

    with _serving(hub) as (_, told):
        assert "vmhub_" not in told
        (page,) = re.findall(r"^page  (http://\S+)/$", told, re.MULTILINE)
        with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
            assert client.get(f"{page}/api/v1/vaults").json()["vaults"][0]["name"] == "team"


def test_a_port_that_is_taken_makes_no_owner(run_cli: RunCli, tmp_path: Path, home: Path) -> None:
    with _serving(tmp_path / "one") as (_, told):
        (port,) = re.findall(r"^page  http://\S+:(\d+)/$", told, re.MULTILINE)
        refused = run_cli("hub", "serve", tmp_path / "two", "--port", port)
        assert refused.code == 5
        assert "name another one with --port" in refused.err
    with _serving(tmp_path / "two") as (_, told):
        assert "vmhub_" in told
    assert os.listdir(tmp_path / "two")


def test_who_has_no_address_is_asked_for_one(run_cli: RunCli, tmp_path: Path, home: Path) -> None:
    (home / ".gitconfig").unlink()
    refused = run_cli("hub", "serve", tmp_path / "hub", "--port", "0")
    assert refused.code == 1
    assert "name it with --email ADDRESS" in refused.err
    with _serving(tmp_path / "hub", "--email", "ada@example.org") as (_, told):
        assert "vmhub_" in told
