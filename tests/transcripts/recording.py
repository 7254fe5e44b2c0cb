"""A program: record a session on `vaultmem demo`'s vault as docs/pictures/session.svg."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

FILE = Path(__file__).parents[2] / "docs/pictures/session.svg"
COLUMNS = 108

COMMANDS = (
    'vaultmem recall "how are refunds handled?" -n 2',
    "vaultmem log",
    'vaultmem bisect --good HEAD~4 -- "staging database" --contains "PostgreSQL 16"',
)

#: As rich has it, without the fonts that it would have a reader's browser get from elsewhere.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    """Run the commands at a terminal, in a home of their own, and draw what it showed."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ
        }
        env = {**kept, "HOME": folder, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        vault = home / "ferrylane"
        type_in(home, env, f"vaultmem demo --no-open --keep {vault}")
        for line in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (line, "bold")))
            console.print(Text.from_ansi(type_in(vault, env, line)))
    svg = console.export_svg(title="ferrylane", code_format=FORMAT, unique_id="session")
    FILE.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")


def type_in(where: Path, env: dict[str, str], line: str) -> str:
    """Give a command at a terminal, and return what it wrote there."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-P", "-m", *shlex.split(line)]
    process = subprocess.Popen(
        words, cwd=where, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # Nobody has the terminal any more.
            break
        if not data:
            break
        shown += data
    os.close(ours)
    if process.wait():
        sys.exit(f"{line}: {shown.decode()}")
    return shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()
