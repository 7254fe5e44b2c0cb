"""What a container is made of and how it runs, read as text: no engine runs these tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from vaultmem.cli.app import build_commands

ROOT = Path(__file__).parents[1]


def read_steps() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with what follows it."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (x.partition(" ") for x in text.split("\n"))]


def test_the_image_has_what_it_copies_and_runs_as_nobody_else() -> None:
    steps = read_steps()
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"]
    for word, rest in steps:
        if word == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert any(fnmatch(source, each) for each in kept), source
    bases = [rest for word, rest in steps if word == "FROM"]
    assert all(re.match(r"python:\d+\.\d+\.\d+-slim-\w+( AS \w+)?$", each) for each in bases)
    assert [rest for word, rest in steps if word == "USER"] == ["$UID"]
    assert len([rest for word, rest in steps if word == "HEALTHCHECK"]) == 1


def test_the_image_runs_a_command_that_there_is() -> None:
    (words,) = (json.loads(rest) for word, rest in read_steps() if word == "CMD")
    command = build_commands().commands[words[1]]
    command.make_context("serve", words[2:])
    assert ("VOLUME", '["/vault", "/state"]') in read_steps()


def test_the_container_may_do_little_and_is_reached_from_this_machine() -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["vault"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert [volume.rpartition(":")[2] for volume in service["volumes"]] == ["/vault", "/state"]


def test_the_linter_has_no_complaint() -> None:
    found = shutil.which("hadolint", path=Path(sys.executable).parent)
    if found is None:
        pytest.skip("no hadolint: `make .venv/installed-test` installs it")
    subprocess.run([found, ROOT / "Dockerfile"], check=True)
