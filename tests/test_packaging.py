"""The checks that a host runs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def test_a_host_runs_every_check_that_a_change_has_to_pass() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    runs = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    here = re.findall(r"^make ([a-z-]+)", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.M)
    there = {each.split()[1] for each in runs if each.startswith("make ")}
    assert there | {"test"} == {*here, "nightly"}
    assert any("pytest" in each for each in runs)
    matrix = jobs["test"]["strategy"]["matrix"]
    assert len(matrix["os"]) == 3
    assert {"3.11", "3.12", "3.13"} <= set(matrix["python"])
