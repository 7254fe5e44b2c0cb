"""The sessions in the guides are what the commands really print. `UPDATE_GOLDEN=1` writes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from console import ROOT, Machine, compare, run_page


@pytest.mark.campaign
@pytest.mark.parametrize(
    "page", ["explanation/recall", "how-to/maintenance", "how-to/import-export-backup"]
)
def test_the_sessions_of_a_guide_are_real_output(page: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    shutil.copytree(ROOT / "sample-vault", machine.home / "memory")
    machine.type("vaultmem init memory --yes")
    machine.cwd = machine.home / "memory"
    file = ROOT / f"docs/{page}.md"
    fresh = run_page(file, machine.type).replace(str(machine.home), "/home/maren")
    assert "vaultmem: error:" not in fresh
    compare(file, fresh)
