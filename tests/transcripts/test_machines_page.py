"""The sessions in docs/how-to/machines.md are what commands really print, on several machines."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from process_server import run_forked
from test_readme import ROOT, steady

PAGE = ROOT / "docs/how-to/machines.md"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_HIDDEN = r"<!-- ([a-z]+\$ [^\n]*) -->"
_COMMAND = re.compile(r"([a-z]+)\$ (.*)")


class Laptop:
    """A machine in the page: whoever works there has a home, and a shell that stays in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.home = self.cwd = folder / name
        self._streams = [self.home.with_suffix(f".{kind}") for kind in ("in", "out", "err")]
        self.home.mkdir()
        person = "Ben" if name == "ben" else "Anna"
        (self.home / ".gitconfig").write_text(
            f"[user]\n\tname = {person}\n\temail = {person.lower()}@example.org\n"
            f"[core]\n\tsshCommand = {folder}/line\n[ssh]\n\tvariant = simple\n"
            "[init]\n\tdefaultBranch = main\n"
        )
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        places = {f"XDG_{kind}_HOME": str(self.home / f".{kind.lower()}") for kind in _PLACES}
        self.env = {
            **kept,
            **places,
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def type(self, command: str) -> str:
        """Give a command, and return what the person sees."""
        words = shlex.split(command.replace("~/", f"{self.home}/"))
        if words[0] == "cd" and len(words) == 2:
            self.cwd = self.cwd / words[1]
            return ""
        if words[0] == "vaultmem" and not set("|;<>&") & set(command):
            for stream in self._streams:
                stream.write_text("")
            run_forked(words[1:], self.cwd, self.env, tuple(self._streams), 60)
            return "".join(stream.read_text() for stream in self._streams[1:])
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.cwd,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout


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

_PLACES = ("STATE", "CONFIG", "DATA")


def test_the_sessions_of_the_page_are_real_output(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    fresh = "".join(run_sessions(text, tmp_path))
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(fresh, encoding="utf-8")
        text = fresh
    for written, printed in zip(_BLOCK.findall(text), _BLOCK.findall(fresh), strict=True):
        assert calm(written) == calm(printed)


def run_sessions(text: str, folder: Path) -> Iterator[str]:
    """Yield the page with the output of each `machine$ command` as it is here and now."""
    laptops: dict[str, Laptop] = {}
    (folder / "line").write_text(_LINE.format(folder))
    (folder / "line").chmod(0o755)

    def type_on(name: str, command: str) -> str:
        if name not in laptops:
            laptops[name] = Laptop(folder, name)
            if name == "desktop":
                shutil.copytree(ROOT / "sample-vault", laptops[name].home / "memory")
                laptops[name].type("vaultmem init memory")
        return laptops[name].type(command).replace(str(folder), "/home")

    at = 0
    for block in re.finditer(rf"{_BLOCK.pattern}|{_HIDDEN}", text, re.DOTALL):
        if hidden := block[2]:
            assert not type_on(*_COMMAND.fullmatch(hidden).groups()), hidden
            continue
        yield text[at : block.start(1)]
        for line in block[1].splitlines():
            if match := _COMMAND.fullmatch(line):
                yield f"{line}\n{type_on(*match.groups())}"
        at = block.end(1)
    yield text[at:]


def calm(text: str) -> str:
    """Return text without what differs from run to run."""
    text = re.sub(r"(?<=[0-9])T[0-9:]{8}\b", "", text)
    text = re.sub(r"(?m)^[0-9a-f]{6}(?=  )|(?<=--reject )[0-9a-f]{6}", "000000", text)
    return re.sub(r"refs/vaultmem/rescue/\S+", "refs/vaultmem/rescue/", steady(text))
