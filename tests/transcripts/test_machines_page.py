"""The sessions in docs/how-to/machines.md are what commands really print, on several machines."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from console import BLOCK, ROOT, Machine, compare

PAGE = ROOT / "docs/how-to/machines.md"
_HIDDEN = r"<!-- ([a-z]+\$ [^\n]*) -->"
_COMMAND = re.compile(r"([a-z]+)\$ (.*)")


#: What git takes for ssh, on every machine: down where the home has a file that says so.
_LINE = """\
#!/bin/sh
for last; do :; done
if [ -e "$HOME/line" ]; then
    echo "ssh: Could not resolve hostname example.org: Name or service not known" >&2
    exit 255
fi
cd {}/server && exec sh -c "$last"
"""

_SSH = "[core]\n\tsshCommand = {}/line\n[ssh]\n\tvariant = simple\n"


@pytest.mark.campaign
def test_the_sessions_of_the_page_are_real_output(tmp_path: Path) -> None:
    compare(PAGE, "".join(run_sessions(PAGE.read_text(encoding="utf-8"), tmp_path)))


def run_sessions(text: str, folder: Path) -> Iterator[str]:
    """Yield the page with the output of each `machine$ command` as it is here and now."""
    laptops: dict[str, Machine] = {}
    (folder / "line").write_text(_LINE.format(folder))
    (folder / "line").chmod(0o755)

    def type_on(name: str, command: str) -> str:
        if name not in laptops:
            person = "Ben" if name == "ben" else "Anna"
            laptops[name] = Machine(folder / name, person, _SSH.format(folder))
            if name == "desktop":
                shutil.copytree(ROOT / "sample-vault", laptops[name].home / "memory")
                laptops[name].type("vaultmem init memory --yes")
        return laptops[name].type(command).replace(str(folder), "/home")

    at = 0
    for block in re.finditer(rf"{BLOCK.pattern}|{_HIDDEN}", text, re.DOTALL):
        if hidden := block[2]:
            assert not type_on(*_COMMAND.fullmatch(hidden).groups()), hidden
            continue
        yield text[at : block.start(1)]
        for line in block[1].splitlines():
            if match := _COMMAND.fullmatch(line):
                yield f"{line}\n{type_on(*match.groups())}"
        at = block.end(1)
    yield text[at:]
