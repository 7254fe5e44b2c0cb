"""A vault's clone on this disk: made of its remote, kept where that is, made again if damaged."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.config import CONFIG_NAME
from vaultmem.core.json_values import as_named
from vaultmem.errors import FaultError, NoVaultError, VaultError, name_failure
from vaultmem.services.pools.source import Source
from vaultmem.storage.atomic import make_private_folder, write_atomically
from vaultmem.storage.git.clones import fetch_branches, make_clone, settle_clone
from vaultmem.storage.git.remote import list_branches
from vaultmem.storage.git.remotes import Remote
from vaultmem.storage.git.vault_history import History
from vaultmem.storage.lock import WRITER, hold_lock
from vaultmem.vault import UserFolders, make_key


class Freshness(NamedTuple):
    """At which commit a clone is, and when its remote was last heard of (seconds since the epoch).

    `problem` says why it could not be asked since; empty where it could.
    """

    commit: str = ""
    contacted: float = 0.0
    problem: str = ""


class Record(NamedTuple):
    """What is remembered of a clone that is whole: of what it was made, and where it stands."""

    remote: str
    branch: str
    commit: str
    branches: Mapping[str, str] = MappingProxyType({})
    contacted: float = 0.0
    problem: str = ""


class Clone:
    """One vault's folder in a pool's; `lock` keeps apart who reads it and who changes it."""

    def __init__(self, source: Source, folder: Path, folders: UserFolders) -> None:
        self.source = source
        self.root = folder / "clones" / source.name
        self.lock = folder / "locks" / source.name
        self.state = folders.state / "vaults" / make_key(self.root)
        self._record = folder / "records" / f"{source.name}.json"
        self._remote = Remote("origin", source.remote)
        for each in (self._record.parent, self.lock.parent, self.state):
            make_private_folder(each)

    def read_record(self) -> Record | None:
        """Return what is remembered; None where there is no clone, or of another remote."""
        try:
            known = Record(**json.loads(self._record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        named = self.source.branch in {"", known.branch}
        is_there = (self.root / ".git/HEAD").is_file()
        return known if named and is_there and known.remote == self.source.remote else None

    def follow(self, seconds: float, patience: float = WRITER) -> Freshness:
        """Bring the clone to where its remote is; if that cannot be asked, say so and stay.

        Raises:
            VaultError: there is no clone yet, and none could be made; somebody else is at it.
        """
        with hold_lock(self.lock, patience):
            known = self.read_record()
            try:
                return self._follow(known, seconds)
            except (VaultError, OSError) as error:
                if known is None:
                    raise
                told = str(name_failure(error))
                self._keep(known._replace(problem=told))
                return Freshness(known.commit, known.contacted, told)

    def restore(self) -> None:
        """Take back all that the clone has and its remote has not told of."""
        with hold_lock(self.lock):
            if known := self.read_record():
                settle_clone(self._open(), known.branches, known.branch)

    def drop(self) -> None:
        """Remove the clone and all that was made of it."""
        with hold_lock(self.lock):
            self._record.unlink(missing_ok=True)
            for folder in (self.root, self.state):
                shutil.rmtree(folder, ignore_errors=True)

    def _open(self) -> History:
        return History(self.root, self.state)

    def _follow(self, known: Record | None, seconds: float) -> Freshness:
        end = time.monotonic() + seconds
        if known is None:
            self.drop()
            self.state.mkdir(parents=True)
            self.root.parent.mkdir(exist_ok=True)
            history = make_clone(self.root, self._remote, self.source.branch or "main", self.state)
        else:
            history = self._open()
        listed = list_branches(history, self._remote, seconds)
        if listed.trouble:
            raise FaultError(f"its remote was not read: {listed.told}")
        branch = self.source.branch or listed.head
        if branch not in listed.branches:
            told = f"no branch {branch}" if branch else "no commit"
            raise NoVaultError(f"its remote has {told} yet")
        found = Record(self.source.remote, branch, listed.branches[branch], listed.branches)
        if known is None or (known.branches, known.branch) != (listed.branches, branch):
            if told := fetch_branches(history, self._remote, max(1.0, end - time.monotonic())):
                raise FaultError(f"its remote was not read: {told}")
            self._record.unlink(missing_ok=True)
            settle_clone(history, listed.branches, branch)
            if not (self.root / CONFIG_NAME).is_file():
                raise NoVaultError(f"no vault: its branch {branch} has no {CONFIG_NAME}")
        self._keep(found._replace(contacted=time.time()))
        return Freshness(found.commit, time.time())

    def _keep(self, record: Record) -> None:
        with contextlib.suppress(OSError):
            write_atomically(self._record, json.dumps(as_named(record)).encode(), durable=False)
