"""The sessions in README, the tutorial and other pages are what the commands really print."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from console import ROOT, Machine, compare, run_page
from obsidian_vault import write_files

README = ROOT / "README.md"
OBSIDIAN = ROOT / "docs/how-to/obsidian.md"
TUTORIAL = ROOT / "docs/tutorial.md"


def test_the_readme_session_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    for line in read_lines("connect your agent"):
        if line.startswith("vaultmem "):
            assert "error:" not in machine.type(line), line
    compare_page(README, machine)


@pytest.mark.campaign
def test_the_tutorial_is_real_output(tmp_path: Path) -> None:
    compare_page(TUTORIAL, Machine(tmp_path / "home", "Maren"))


@pytest.mark.campaign
def test_the_session_in_obsidians_page_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    machine.cwd = machine.home / "Harbour"
    machine.cwd.mkdir()
    write_files(machine.cwd)
    compare_page(OBSIDIAN, machine)


@pytest.mark.campaign
def test_the_day_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    shutil.copytree(ROOT / "sample-vault", machine.home / "memory")
    machine.cwd = machine.home / "memory"
    machine.type("vaultmem init --yes")
    machine.type(f"git init -q --bare {tmp_path}/origin.git")
    machine.type(f"git remote add origin {tmp_path}/origin.git")
    page = ROOT / "docs/how-to/a-day.md"
    assert len(page.read_text(encoding="utf-8").split()) <= 600
    compare_page(page, machine)


@pytest.mark.campaign
def test_the_session_in_the_page_of_projects_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    shutil.copytree(ROOT / "sample-vault", machine.home / "memory")
    machine.type("vaultmem init memory --yes")
    page = ROOT / "docs/how-to/projects.md"
    compare_page(page, machine)
    assert len(page.read_text(encoding="utf-8").split()) <= 700


@pytest.mark.campaign
def test_the_session_in_the_page_of_truth_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    machine.type("vaultmem init memory --yes")
    page = ROOT / "docs/how-to/truth.md"
    shown = re.sub("<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(shown.split()) <= 900
    compare_page(page, machine)


@pytest.mark.campaign
def test_the_session_in_the_page_of_past_sessions_is_real_output(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    machine.type("vaultmem init memory --yes")
    page = ROOT / "docs/how-to/past-sessions.md"
    shown = re.sub("<!--.*?-->|```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(shown.split()) <= 400
    compare_page(page, machine)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "page",
    [
        "explanation/recall",
        "how-to/agents",
        "how-to/everyday",
        "how-to/history",
        "how-to/import-export-backup",
        "how-to/maintenance",
    ],
)
def test_the_sessions_of_a_page_are_real_output(page: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    shutil.copytree(ROOT / "sample-vault", machine.home / "memory")
    machine.type("vaultmem init memory --yes")
    machine.cwd = machine.home / "memory"
    file = ROOT / f"docs/{page}.md"
    compare(file, run_page(file, machine.type).replace(str(machine.home), "/home/maren"))


def compare_page(page: Path, machine: Machine) -> None:
    fresh = run_page(page, machine.type).replace(str(machine.home), "/home/maren")
    assert "vaultmem: error:" not in fresh
    compare(page, fresh)


def read_lines(heading: str) -> list[str]:
    """Return the commands of the first indented block after these words of README."""
    _, _, text = README.read_text(encoding="utf-8").partition(heading)
    block = re.search(r"\n\n((?:    .*\n)+)", text)
    assert block, heading
    return [line.partition("  #")[0].strip() for line in block[1].splitlines()]


@pytest.mark.campaign
def test_the_first_lines_for_claude_code_and_obsidian_work(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", "Maren")
    machine.cwd = machine.home / "Notes"
    machine.cwd.mkdir()
    (machine.cwd / "Day.md").write_text("Something you wrote about.\n")
    shown = []
    for heading in ("connect your agent", "**With Claude Code**", "**With Obsidian**"):
        for line in read_lines(heading):
            if line.startswith("vaultmem ") and line != "vaultmem watch":
                asks = line == "vaultmem init"
                shown.append(machine.type(line, "y\nn\n" * asks))
    assert not [each for each in shown if "error:" in each]
    assert "memory" in (machine.home / ".claude.json").read_text()
    assert "Day.md" in shown[-1]


def test_every_command_is_named_in_the_page_of_commands() -> None:
    from vaultmem.cli.commands import read_rows

    text = (ROOT / "docs/how-to/everyday.md").read_text(encoding="utf-8")
    for name, _, _ in read_rows():
        assert re.search(rf"\b{name}\b", text), name
