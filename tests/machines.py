"""A bare remote and clones of it, each as on a machine of its own: home, folders, a person's name.

No git is run to make them: all of it is copied from one vault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from conftest import Result
from in_process import run_here

from vaultmem.environment import read_settings
from vaultmem.storage.git.setup import build_driver_command, choose_note_paths
from vaultmem.vault import Vault, open_vault

_NAMES = ("anna", "ben", "cleo", "dora", "emil")

_REMOTE = """\
[remote "origin"]
\turl = {}
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""

_GITCONFIG = """\
[user]
\tname = {0}
\temail = {0}@example.org
[init]
\tdefaultBranch = main
"""


class Machine(NamedTuple):
    """A clone of the vault, at `root`, and the home of the person who works there."""

    name: str
    root: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        """The settings by which a process is one of this machine's."""
        folders = ("STATE", "CONFIG", "DATA")
        found = {f"XDG_{each}_HOME": str(self.home / each.lower()) for each in folders}
        return {"HOME": str(self.home), **found}

    def run(self, *words: str | os.PathLike[str], **given: Any) -> Result:
        """Run `vaultmem` here, as `run_here` does."""
        return run_here(*words, cwd=self.root, env={**self.env, **given.pop("env", {})}, **given)

    def git(self, *words: str, check: bool = True) -> str:
        """Run git as the person would and return its output."""
        env = {**os.environ, **self.env}
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, f"git {words}: {done.stderr}"
        return done.stdout.removesuffix("\n")

    def write(self, path: str, text: str) -> None:
        """Save a file as an editor would."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return (self.root / path).read_text()

    def open(self, **who: Any) -> Vault:
        """Open the vault as front ends do here; whoever does closes it."""
        settings = read_settings(variables={**os.environ, **self.env})
        return open_vault(self.root, **{**settings, **who})  # type: ignore[typeddict-item]


class Machines(NamedTuple):
    """The bare repository, and the machines that have clones of it."""

    remote: Path
    all: tuple[Machine, ...]

    def git(self, *words: str) -> str:
        """Run git in the bare repository."""
        return (
            subprocess.run(["git", *words], cwd=self.remote, capture_output=True, check=True)
            .stdout.decode("utf-8", "replace")
            .removesuffix("\n")
        )

    def make_own(self) -> None:
        """Make all machines one person's."""
        for each in self.all:
            for key, value in (("name", "anna"), ("email", "anna@example.org")):
                each.git("config", "--global", f"user.{key}", value)

    def read_all(self) -> str:
        """Return all that the remote holds, as text; also what no ref names any more."""
        return self.git("cat-file", "--batch-all-objects", "--batch", "--unordered")

    def refuse_pushes(self, script: str = "echo not today >&2; exit 1") -> Path:
        """Give the remote a hook that is asked before each push."""
        hook = self.remote / "hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)
        return hook


MakeMachines = Callable[..., Machines]


def lay_machines(seed: Path, folder: Path, count: int, with_driver: bool = True) -> Machines:
    """Make of a committed vault a bare remote and clones that are all at the same commit."""
    remote = folder / "remote.git"
    shutil.copytree(seed / ".git", remote, ignore=shutil.ignore_patterns("index", "logs", "info"))
    config = remote / "config"
    config.write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
    made = [_lay_machine(seed, folder, name, remote, with_driver) for name in _NAMES[:count]]
    return Machines(remote, tuple(made))


def _lay_machine(seed: Path, folder: Path, name: str, remote: Path, with_driver: bool) -> Machine:
    machine = Machine(name, folder / name / "vault", folder / name / "home")
    shutil.copytree(seed, machine.root, symlinks=True)
    machine.home.mkdir()
    (machine.home / ".gitconfig").write_text(_GITCONFIG.format(name))
    git = machine.root / ".git"
    driver = (
        f'[merge "vaultmem"]\n\tdriver = {_quote(build_driver_command())}\n' if with_driver else ""
    )
    core = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
    (git / "config").write_text(core + _REMOTE.format(remote) + driver)
    (git / "info/attributes").write_text(f"{choose_note_paths('')} merge=vaultmem\n" * with_driver)
    head = (git / "refs/heads/main").read_text()
    (git / "refs/remotes/origin").mkdir(parents=True)
    (git / "refs/remotes/origin/main").write_text(head)
    return machine


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def assert_equal(machines: Machines) -> None:
    """Make sure that all machines are at the remote's commit, with nothing left to commit."""
    tips = {each.name: each.git("rev-parse", "HEAD") for each in machines.all}
    assert set(tips.values()) == {machines.git("rev-parse", "main")}, tips
    for each in machines.all:
        assert each.git("status", "--porcelain") == "", each.name
