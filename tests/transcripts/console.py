"""The sessions in documents: what each `$ command` of a page prints, here and now."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from calendar import month_abbr
from collections.abc import Callable
from pathlib import Path

from process_server import run_forked
from terminal import answer_at_terminal

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)

_HIDDEN = r"<!-- \$ ([^\n]*) -->"

_PLACES = ("STATE", "CONFIG", "DATA")


class Machine:
    """A machine in a page: a home, and a shell that stays in a folder."""

    def __init__(self, home: Path, person: str, settings: str = "") -> None:
        self.home = self.cwd = home
        self._streams = [home.with_suffix(f".{kind}") for kind in ("in", "out", "err")]
        home.mkdir()
        (home / ".gitconfig").write_text(
            f"[user]\n\tname = {person}\n\temail = {person.lower()}@example.org\n"
            f"[init]\n\tdefaultBranch = main\n{settings}"
        )
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        places = {f"XDG_{kind}_HOME": str(home / f".{kind.lower()}") for kind in _PLACES}
        self.env = {
            **kept,
            **places,
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def type(self, command: str, answers: str = "") -> str:
        """Give a command, type these lines as it asks, and return what the person sees."""
        words = shlex.split(command.replace("~/", f"{self.home}/"))
        if answers:
            asked = answer_at_terminal(words, answers, self.cwd, self.env)
            return asked.stdout + asked.stderr
        if words[0] == "cd" and len(words) == 2:
            self.cwd = self.cwd / words[1]
            return ""
        if words[0] == "export":
            self.env |= dict(word.split("=", 1) for word in words[1:])
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


def compare(page: Path, fresh: str) -> None:
    """Have a page's sessions be those of a fresh run of it; write them there if that is asked."""
    text = page.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(fresh, encoding="utf-8")
        text = fresh
    for written, printed in zip(BLOCK.findall(text), BLOCK.findall(fresh), strict=True):
        assert steady(written) == steady(printed), printed


def run_page(page: Path, type_: Callable[[str], str]) -> str:
    """Return a page with the output of each `$ command` as it is here and now.

    A command in a comment (`<!-- $ command -->`) is given where it stands, and not shown. An id of
    six letters behind an option of `review` stands for the first that was printed before.
    """
    printed = ""

    def run(command: str) -> str:
        nonlocal printed
        if ids := re.findall(r"(?m)^[0-9a-f]{6}(?=  )", printed):
            command = re.sub(r"(?<=--other )[0-9a-f]{6}$", ids[0], command)
        printed = type_(command)
        return f"$ {command}\n{printed}"

    def refresh(block: re.Match[str]) -> str:
        if hidden := block[2]:
            assert "error:" not in run(hidden), hidden
            return block[0]
        commands = [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(map(run, commands)) + "```"

    text = page.read_text(encoding="utf-8")
    return re.sub(rf"{BLOCK.pattern}|{_HIDDEN}", refresh, text, flags=re.DOTALL)


def steady(text: str) -> str:
    """Return text without what differs from run to run: ids, dates, and the tokens they count."""
    text = re.sub(r"\d+ of (\d+) tokens, flat memory \d+, [\d.]+x", r"0 of \1 tokens", text)
    text = re.sub(r"\b\d{8}T\d{6}-[0-9a-f]{8}\b", "receipt", text)
    text = re.sub(r"\b([0-9a-f]{40}|[0-9a-f]{7,8})\b", "0000000", text)
    text = re.sub(r"(?i)\b(process) \d+", r"\1 1", text)
    text = re.sub(r"\(\d+ KiB\)", "(9 KiB)", text)
    text = re.sub(r"\bvmhub_[\w-]+", "vmhub_0", text)
    text = re.sub(r"(?<=by the id )[0-9a-f]{8}", "00000000", text)
    text = re.sub(r"\b\d+ days old\b", "9 days old", text)
    text = re.sub(r"\bvaults/[0-9a-f]{32}\b", "vaults/0", text)
    text = re.sub(r"\[[0-9a-f]{4,7}(?= \| |\])", "[0000", text)
    text = re.sub(r"(?<=@)[0-9a-f]{10}\+[0-9a-f]{10}", "0000000+0000000", text)
    text = re.sub(r"(?<=changed since )[0-9a-f]{4}\b", "0000", text)
    text = re.sub(rf"\b\d+ (?:{'|'.join(month_abbr[1:])})(?: \d{{4}})?\b", "1 Jan", text)
    text = re.sub(r"(?<=[0-9])T[0-9:]{5,8}(?=Z?\b)", "", text)
    text = re.sub(r"(?m)^[0-9a-f]{6}(?=  )|(?<=--reject )[0-9a-f]{6}", "000000", text)
    text = re.sub(r"(?<=--other )[0-9a-f]{6}$", "000000", text, flags=re.MULTILINE)
    text = re.sub(r"\bsha256 [0-9a-f]+|\b[0-9a-f]{12}$", "sha256", text, flags=re.MULTILINE)
    text = re.sub(r"(?m)^((?:> )?- )\d\d:\d\d ", r"\g<1>00:00 ", text)
    text = re.sub(r"refs/vaultmem/rescue/\S+", "refs/vaultmem/rescue/", text)
    return re.sub(r"\d{4}-\d{2}-\d{2}(Z| \d{2}:\d{2}(:\d{2})?)?", "2026-01-01", text)
