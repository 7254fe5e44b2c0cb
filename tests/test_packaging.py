"""What is built for distributions, and the checks that a host is to run."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]

LOCK = """
[[packages]]
name = "click"
sdist = { url = "https://files.example.org/click-8.tar.gz", hashes = { sha256 = "c0ffee" } }
[[packages]]
name = "numpy"
sdist = { url = "https://files.example.org/numpy-2.tar.gz", hashes = { sha256 = "beef" } }
"""


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


def test_a_formula_names_each_source_with_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock.toml").write_text(LOCK)
    (tmp_path / "vaultmem.tar.gz").write_bytes(b"source")
    names = [str(tmp_path / name) for name in ("vaultmem.tar.gz", "lock.toml", "out.rb")]
    monkeypatch.setattr(sys, "argv", ["formula.py", *names])
    runpy.run_path(str(ROOT / "packaging/formula.py"), run_name="__main__")
    text = (tmp_path / "out.rb").read_text()
    assert re.findall(r'^  resource "(.*)" do$', text, re.M) == ["click"]
    assert re.findall(r'sha256 "(.{6})', text) == ["41cf67", "c0ffee"]
    assert f'url "{(tmp_path / "vaultmem.tar.gz").as_uri()}"' in text
