"""A hub's folder: what is in it, its settings, and how each start finds it whole.

hub.yaml         what it takes, for its owner to change
grants.json      who may do what (mode 0600)
claims.json      who made which ref of a machine
repositories/    a bare repository for each vault, NAME.git
removed/         those that were taken out
hooks/           the hook that every repository runs
audit/           a file a month: who asked, who wrote, what was refused
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import FaultError, NoVaultError, RefusedError, VaultError
from vaultmem.storage.atomic import make_private_folder, write_atomically
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.vault_list import is_vault_name

CONFIG_NAME = "hub.yaml"

#: The hook by which git asks the check about each push, and the module that it runs.
_HOOK, _HOOK_MODULE = "pre-receive", "vaultmem.cli.pre_receive"

VERSION = 1

_FOLDERS = ("repositories", "removed", "hooks", "audit")
_KNOWN = {*_FOLDERS, "grants.json", "claims.json", "hub.lock", "hub.lock.next"}

#: What a repository is called while it is being made.
MAKING = ".making-"

_TEXT = """\
# What this hub takes; a change counts from the next push on. Sizes are in bytes, or with K, M or
# G behind them. `vaultmem hub check` says whether this file can be read.
version: 1

# One push: its size as it is sent, and how many commits and changed files are new with it.
push_bytes: 64M
push_commits: 10000
push_files: 20000

# One note, any other file, and what all new files hold together.
note_bytes: 1M
file_bytes: 16M
total_bytes: 512M

# Branches and other refs that one push may move, and those below refs/vaultmem/rescue/ that one
# name may have in a vault.
push_refs: 50
rescues: 50

# Seconds that the check of one push may take.
seconds: 60

# Seconds of processor time for each program of git's that a fetch or a push starts.
cpu_seconds: 300
"""

_LINE = re.compile(r"([a-z_]+):[ \t]*([0-9]+[KMG]?)[ \t]*(?:#.*)?")
_SIZE = re.compile(r"([0-9]+)([KMG]?)")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Limits(NamedTuple):
    """What one push may bring, as hub.yaml has it; sizes in bytes."""

    push_bytes: int = 64 * 1024**2
    push_commits: int = 10_000
    push_files: int = 20_000
    note_bytes: int = 1024**2
    file_bytes: int = 16 * 1024**2
    total_bytes: int = 512 * 1024**2
    push_refs: int = 50
    rescues: int = 50
    seconds: int = 60
    cpu_seconds: int = 300


class Hub(NamedTuple):
    """A hub, by its folder."""

    folder: Path
    limits: Limits = Limits()

    @property
    def repositories(self) -> Path:
        """Where the bare repositories are."""
        return self.folder / "repositories"

    @property
    def hooks(self) -> Path:
        """Where the hook is that each of them runs."""
        return self.folder / "hooks"

    def hide_folder(self, text: str) -> str:
        """Return a text as others may have it: without where on the server the hub is."""
        return text.replace(f"{self.folder}/", "").replace(str(self.folder), "the hub")

    @property
    def lock(self) -> Path:
        """The file whose lock is held by who changes the hub's own files."""
        return self.folder / "hub.lock"


def make_hub(folder: Path) -> Hub:
    """Make a hub of a folder, or bring one to its end that was left half made.

    Raises:
        RefusedError: there is a hub, or something else is in the folder.
        FaultError: the disk did not take it.
    """
    if (folder / CONFIG_NAME).exists():
        raise RefusedError(f"{folder}: is a hub already; `vaultmem hub check` looks at it")
    if folder.is_dir() and (odd := {each.name for each in folder.iterdir()} - _KNOWN):
        raise RefusedError(f"{folder}: holds something else ({min(odd)}); name an empty folder")
    hub = Hub(folder.resolve())
    try:
        make_private_folder(folder)
        os.chmod(folder, 0o700)
        _make_whole(hub)
        write_atomically(folder / CONFIG_NAME, _TEXT.encode(), mode=0o600)
    except OSError as error:
        raise FaultError(f"{folder}: the hub cannot be made ({error.strerror})") from error
    return hub


def open_hub(folder: Path) -> Hub:
    """Open a hub for who serves or changes it; what a killed process left half done is mended.

    Raises:
        NoVaultError: the folder is no hub.
        VaultError: hub.yaml cannot be read, or a newer vaultmem made it.
    """
    hub = read_hub(folder)
    try:
        with hold_lock(hub.lock):
            _make_whole(hub)
    except OSError as error:
        raise FaultError(f"{folder}: the hub cannot be used ({error.strerror})") from error
    return hub


def read_hub(folder: Path) -> Hub:
    """Open a hub as it is, and change nothing.

    Raises:
        NoVaultError, VaultError: as for `open_hub`.
    """
    file = folder / CONFIG_NAME
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NoVaultError(
            f"{folder}: no hub ({CONFIG_NAME}) is there; make one with `vaultmem hub init`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or "not UTF-8"
        raise VaultError(f"{CONFIG_NAME}: cannot be read ({why})") from error
    return Hub(folder.resolve(), parse_limits(text))


def parse_limits(text: str) -> Limits:
    """Return what hub.yaml says.

    Raises:
        VaultError: an unknown key, no number, or the file of a newer version.
    """
    given: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise VaultError(
                f"{CONFIG_NAME}, line {number}: write `key: NUMBER`, with K, M or G for sizes"
            )
        if match[1] == "version":
            if int(match[2].rstrip("KMG")) > VERSION:
                raise VaultError(f"{CONFIG_NAME}: a newer vaultmem made this hub; update vaultmem")
        else:
            given[match[1]] = parse_limit(match[1], match[2], f"{CONFIG_NAME}, line {number}")
    return Limits(**given)


def parse_limit(key: str, text: str, where: str) -> int:
    """Return the value of a limit, as `64K`.

    Raises:
        VaultError: there is no such limit, or it is not a number of more than 0.
    """
    if key not in Limits._fields:
        from vaultmem.core.suggest import ask_meant

        raise VaultError(f'{where}: unknown key "{key}"{ask_meant(key, Limits._fields)}')
    match = _SIZE.fullmatch(text)
    if match is None:
        raise VaultError(f'{where}: "{key}" must be a number, with K, M or G for sizes')
    if not int(match[1]):
        raise VaultError(f'{where}: "{key}" must be more than 0')
    return int(match[1]) * _UNITS[match[2]]


def check_name(name: str) -> str:
    """Return a name for a vault or for somebody, if addresses and refs can hold it everywhere.

    Raises:
        RefusedError: they cannot.
    """
    is_odd = ".." in name or name.lower().endswith((".", ".git", ".lock"))
    if not is_vault_name(name) or is_odd:
        raise RefusedError(
            f'"{name}" is no name here; use letters and digits, with - . _ between them, 40 at most'
        )
    return name


def _make_whole(hub: Hub) -> None:
    """Make what is missing, and remove what a killed process left half made."""
    for name in _FOLDERS:
        make_private_folder(hub.folder / name)
    write_hook(hub.hooks)
    import shutil

    for left in hub.repositories.glob(f"{MAKING}*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in hub.folder.glob(".vaultmem-*.tmp"):
        left.unlink(missing_ok=True)


def write_hook(folder: Path) -> None:
    """Write the hook if it is not there as this vaultmem has it."""
    if find_hook(folder):
        write_atomically(folder / _HOOK, _make_hook(), mode=0o700)


def find_hook(folder: Path) -> str:
    """Return what is wrong with the hook in a folder, "" if nothing is."""
    file = folder / _HOOK
    if not file.is_file():
        return "the hook is missing: git takes in each push as it comes"
    if not os.access(file, os.X_OK):
        return "the hook cannot be executed: git takes in each push as it comes"
    return "" if file.read_bytes() == _make_hook() else "the hook is not this vaultmem's"


def _make_hook() -> bytes:
    python = shlex.quote(sys.executable)
    # -P: git starts it in the repository.
    return f"#!/bin/sh\n# Written by vaultmem.\nexec {python} -P -m {_HOOK_MODULE}\n".encode()
