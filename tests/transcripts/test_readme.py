"""The sessions in README and in the tutorial are what the commands really print."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from console import ROOT, Machine, compare, run_page

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs/tutorial.md"


def test_the_readme_session_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    machine.cwd = machine.home / "ferrylane"
    shutil.copytree(ROOT / "sample-vault", machine.cwd)
    compare_page(README, machine)


def test_the_tutorial_is_real_output(tmp_path: Path) -> None:
    compare_page(TUTORIAL, Machine(tmp_path / "home", "Maren"))


def compare_page(page: Path, machine: Machine) -> None:
    fresh = run_page(page, machine.type).replace(str(machine.home), "/home/maren")
    assert "vaultmem: error:" not in fresh
    compare(page, fresh)


def test_what_the_readme_shows_of_the_watcher_is_in_its_page() -> None:
    """The page's session is real: another test makes it."""
    page = (ROOT / "docs/how-to/watching.md").read_text(encoding="utf-8")
    panes = re.findall(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(panes) == 2
    for pane in panes:
        assert f"```console\n{pane}" in page


def test_every_command_is_named_in_the_readme() -> None:
    from vaultmem.cli.commands import read_rows

    text = README.read_text(encoding="utf-8")
    for name, _, _ in read_rows():
        assert re.search(rf"\b{name}\b", text), name
