"""The README's session is what the commands really print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from calendar import month_abbr
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def test_the_readme_session_is_real_output(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    fresh = run_session(text, tmp_path)
    if os.environ.get("UPDATE_GOLDEN"):
        README.write_text(fresh, encoding="utf-8")
        text = fresh
    blocks = zip(_BLOCK.findall(text), _BLOCK.findall(fresh), strict=True)
    for written, printed in blocks:
        assert steady(written) == steady(printed)


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


def run_session(text: str, folder: Path) -> str:
    """Return the README with the output of each `$ command` as it is here and now."""
    vault = folder / "ferrylane"
    shutil.copytree(ROOT / "sample-vault", vault)
    home = folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Maren\n\temail = maren@example.com\n")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VAULTMEM")}
    environment = {
        **kept,
        "HOME": str(home),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command], cwd=vault, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return f"$ {command}\n{done.stdout}"

    def refresh(block: re.Match[str]) -> str:
        commands = [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(map(run, commands)) + "```"

    return _BLOCK.sub(refresh, text).replace(str(vault), "/home/maren/ferrylane")


def steady(text: str) -> str:
    """Return text without what differs from run to run: ids, dates, and the tokens they count."""
    text = re.sub(r"\d+ of (\d+) tokens, flat memory \d+, [\d.]+x", r"0 of \1 tokens", text)
    text = re.sub(r"\b[0-9a-f]{7}([0-9a-f]{33})?\b", "0000000", text)
    text = re.sub(r"\[[0-9a-f]{4,7}(?= \| |\])", "[0000", text)
    text = re.sub(rf"\b\d+ (?:{'|'.join(month_abbr[1:])})(?: \d{{4}})?\b", "1 Jan", text)
    text = re.sub(r"created: [-0-9T:]+", "created: 2026-01-01", text)
    return re.sub(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}Z| \d{2}:\d{2})?", "2026-01-01", text)
