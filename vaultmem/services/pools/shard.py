"""What has the clones of some vaults on one disk, and does what is asked of them, in one thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from vaultmem.core.packs.division import tell_missing
from vaultmem.errors import (
    BusyError,
    DamagedError,
    FaultError,
    NoVaultError,
    VaultError,
    name_failure,
)
from vaultmem.services.pools.clone import Clone, Freshness
from vaultmem.services.pools.clones import Clones
from vaultmem.services.pools.landing import begin_vault, forget_waiting, land, sign
from vaultmem.services.pools.opened import (
    ChangedFilesError,
    OpenVaults,
    choose_most_open,
    expect_changes,
)
from vaultmem.services.pools.source import Source
from vaultmem.services.pools.stats import VaultStats, count_vault
from vaultmem.services.reading.look import look_at
from vaultmem.services.syncing.sync import Check
from vaultmem.storage.lock import hold_lock
from vaultmem.vault import UserFolders, Vault, VaultSettings, find_user_folders

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: What is done with a vault, or with several beside one.
Work = Callable[[Vault], T]

#: Vaults that are kept open, and seconds for which a remote that was asked is not asked again.
MOST_OPEN = 1_000
FRESH_FOR = 5.0

_TOO_MANY = "this process may not have the files of so many vaults open; raise `ulimit -n`"

_NOTHING: VaultSettings = {}


class Shard:
    """The vaults of a pool that are on one disk, for one thread: databases belong to that.

    Several may share a `folder`, in threads or processes. A vault whose remote was heard of within
    `fresh_for` seconds is read as it is. Trust is what the process's user has said of clones here.
    """

    def __init__(
        self,
        folder: Path,
        most_open: int | None = None,
        fresh_for: float = FRESH_FOR,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder.absolute()
        own = find_user_folders({}).config
        self._folders = UserFolders(self.folder / "state", own, self.folder / "data")
        self._most_open = choose_most_open(MOST_OPEN) if most_open is None else most_open
        self.clones = Clones(self.folder, self._folders, fresh_for, now)
        self._open = OpenVaults(self._folders)
        #: What questions over several shards have open here, each by its own name.
        self.questions: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The vaults that it has."""
        return self.clones.names

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""
        self._open.close(set(self.names) - {each.name for each in sources})
        self.clones.hold(sources)

    def bring(self, name: str, anew: bool = False) -> Freshness:
        """Clone a vault, or follow its remote if that was not asked lately, or `anew`.

        Raises:
            NoteNotFoundError: it has no such vault.
            VaultError: there is no clone, and none could be made.
        """
        return self.clones.bring(name, anew)

    def serve(self, work: Callable[[Shard, *Args], T], *args: *Args) -> T:
        """Return what a function makes of the shard; what it opened is let go of afterwards."""
        try:
            return work(self, *args)
        finally:
            self.clones.let_go()
            self._open.close_all_but(self._most_open)

    def open(self, name: str, settings: VaultSettings) -> Vault:
        """Return a vault, in sync, where `settings` look; it counts until `serve` ends.

        While somebody writes to it, it is read as its remote had it before.

        Raises:
            VaultError: as for `bring`; or it cannot be read.
        """
        self.bring(name)
        try:
            return self._open_here(name, settings)
        except ChangedFilesError:
            self._mend(name)
            return self._open_here(name, settings)

    def group(
        self, names: Sequence[str], settings: VaultSettings, missing: dict[str, str] | None = None
    ) -> Vault:
        """Return the first of several vaults with the others beside it, as `open` has each.

        Those that cannot be had are left out, and go into `missing` with why.

        Raises:
            VaultError: none of them can be had.
        """
        told = {} if missing is None else missing
        opened: list[Vault] = []
        self.clones.bring_all(names)
        room = choose_most_open(len(names))
        for name in names:
            try:
                if len(opened) == room:
                    raise VaultError(_TOO_MANY)
                opened.append(self.open(name, settings))
            except (VaultError, OSError) as error:
                told[name] = str(name_failure(error))
        if not opened:
            raise VaultError(" ".join(tell_missing(told)))
        opened[0].beside = tuple(opened[1:])
        opened[0].apart = len(opened) > 1
        return opened[0]

    def read(self, name: str, work: Work[T], settings: VaultSettings) -> T:
        """Return what `work` makes of a vault; again, where that proves to be damaged."""
        is_kept = self.clones.is_kept(name)
        try:
            try:
                return work(self.open(name, settings))
            except (DamagedError, FaultError):
                self._mend(name)
                return work(self.open(name, settings))
        finally:
            if not is_kept:
                self.clones.let_go([name])

    def write(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings,
        identity: str = "",
        branch: str = "",
        check: Check | None = None,
    ) -> T:
        """Return what `work` did to a vault, once its remote has it; else nothing of it stays.

        What it left is committed in the name of whoever `settings` say; a person's commits are
        `identity`'s (`Name <mail>`). With `branch`, it lands there, and the branch is made from
        the vault's if need be. A remote without a commit gets a first one. `check` is asked before
        each push.

        Raises:
            RefusedError: the remote does not take it, or `check`; with the words of either.
            VaultError: `work` failed, or the remote cannot be reached.
        """
        clone = self.clones.find(name)
        signed = sign(settings, identity, branch)
        with hold_lock(clone.change):
            self._make_ready(name, signed, check)
            clone.unsettle()
            vault = self._open_to_write(clone, signed)
            landed: dict[str, str] = {}
            try:
                done, landed = land(vault, work, check)
            except BaseException:
                with contextlib.suppress(VaultError, OSError):
                    forget_waiting(vault)
                raise
            finally:
                clone.restore(landed)
                self._open.close([name])
                self._open.lend(clone, _NOTHING)  # For those who read it, too.
            return done

    def stats(self, names: Collection[str] = ()) -> dict[str, VaultStats]:
        """Return how each vault is, or these; no remote is asked."""
        found = {}
        for name in names or self.names:
            clone = self.clones.find(name)
            found[name] = count_vault(clone, partial(self._open_here, name))
            if clone.record is None:
                found[name] = VaultStats(problem=self.clones.tell_problem(name))
            self.clones.let_go([name])
        return found

    def close(self) -> None:
        """Close what is open, and wait for remotes that are being read."""
        self._open.close()
        self.clones.close()

    def _open_here(self, name: str, settings: VaultSettings = _NOTHING) -> Vault:
        """Return a vault as it is here; at its commit, where its files are being changed."""
        clone = self.clones.find(name)
        if self.clones.keep(name):
            vault = self._open.lend(clone, settings)
            return look_at(vault) if vault.ref else vault
        record = clone.record
        if record is None:
            raise BusyError("its clone is being made; ask again")
        vault = self._open.lend(clone, settings, syncs=False)
        return look_at(vault, "" if vault.ref else record.commit)

    def _open_to_write(self, clone: Clone, settings: VaultSettings) -> Vault:
        try:
            vault = self._open.lend(clone, settings)
        except ChangedFilesError:
            clone.restore()
            vault = self._open.lend(clone, settings)
        expect_changes(vault)
        return vault

    def _mend(self, name: str) -> None:
        self._open.close([name])
        self.clones.mend(name)

    def _make_ready(self, name: str, settings: VaultSettings, check: Check | None) -> None:
        """Have the clone of a vault be where its remote is, which has to be reached."""
        try:
            found = self.bring(name, anew=True)
        except NoVaultError:
            given = settings.copy()
            given["folders"], given["ref"] = self._folders, ""
            begin_vault(self.clones.find(name), given, check)
            found = self.bring(name, anew=True)
        if found.problem:
            raise VaultError(f"not written: {found.problem}")
