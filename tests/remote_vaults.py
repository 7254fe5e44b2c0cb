"""Bare repositories of vaults, each history written by one git process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.services.fleet.clone import VaultSource


class Told(NamedTuple):
    """A commit: whose words, what they are by path (None removes a note), and when."""

    agent: str
    notes: Mapping[str, str | None]
    at: int
    session: str = ""


class Remotes:
    """A folder of bare repositories, of which a pool has clones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources: list[VaultSource] = []
        folder.mkdir()
        self._empty = folder / "empty.git"
        _git("init", "--quiet", "--bare", "--initial-branch=main", "--template=", self._empty)

    def make(self, name: str, *commits: Told) -> VaultSource:
        """Make a vault's repository; the first commit has its settings too."""
        shutil.copytree(self._empty, self.folder / f"{name}.git")
        source = VaultSource(name, str(self.folder / f"{name}.git"))
        self.sources.append(source)
        settings = commits[0]._replace(notes={"vaultmem.yaml": "", **commits[0].notes})
        self._write(source, [settings, *commits[1:]], is_new=True)
        return source

    def add(self, name: str, *commits: Told) -> None:
        """Add commits to a vault."""
        self._write(next(each for each in self.sources if each.name == name), commits)

    def _write(self, source: VaultSource, commits: Sequence[Told], is_new: bool = False) -> None:
        stream: list[bytes] = []
        for place, each in enumerate(commits):
            who = f"{each.agent or 'Ida'} <{each.agent or 'ida'}@example.org> {each.at} +0000"
            trailers = f"Vault-Event: remember\nAgent-Id: {each.agent}\n"
            trailers += f"Session-Id: {each.session}\n" if each.session else ""
            message = f"remember\n\n{trailers}" if each.agent else "notes\n"
            stream += [f"commit refs/heads/main\ncommitter {who}\n".encode(), _data(message)]
            if not is_new and not place:
                stream.append(b"from refs/heads/main^0\n")
            for path, text in each.notes.items():
                if text is None:
                    stream.append(f"D {path}\n".encode())
                else:
                    stream += [f"M 644 inline {path}\n".encode(), _data(text)]
        _git(
            "-C",
            source.remote,
            "fast-import",
            "--quiet",
            "--date-format=raw",
            given=b"".join(stream),
        )


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n%s\n" % (len(data), data)


def _git(*arguments: str | Path, given: bytes = b"") -> None:
    subprocess.run(["git", *map(str, arguments)], input=given, check=True, capture_output=True)
