"""What has the clones of some vaults on one disk, and does what is asked of them, in one thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from vaultmem.config import CONFIG_NAME, read_config
from vaultmem.errors import (
    BusyError,
    DamagedError,
    FaultError,
    NoVaultError,
    VaultError,
    name_failure,
)
from vaultmem.services.pools.clone import Freshness
from vaultmem.services.pools.clones import Clones
from vaultmem.services.pools.landing import begin_vault, forget_waiting, land, sign
from vaultmem.services.pools.source import Source
from vaultmem.services.pools.stats import VaultStats, count_vault
from vaultmem.services.reading.look import look_at
from vaultmem.services.reading.sync import sync_vault
from vaultmem.storage.file_limit import raise_file_limit
from vaultmem.storage.lock import hold_lock
from vaultmem.vault import UserFolders, Vault, VaultSettings, find_user_folders, open_vault

T = TypeVar("T")
P = ParamSpec("P")

#: What is done with a vault, or with several beside one.
Work = Callable[[Vault], T]

#: Vaults that are kept open, and seconds for which a remote that was asked is not asked again.
MOST_OPEN = 1_000
FRESH_FOR = 5.0

#: Files that an open vault takes: its database with two beside it, segments of its index, a lock;
#: and how many a process has for all else.
_FILES_EACH, _OTHER_FILES = 6, 256

#: Where an index keeps for which commit of the clone it was made.
_AT = "pool_commit"

_NOTHING: VaultSettings = {}


class _Opened(NamedTuple):
    """A vault that is open, and of which clone (`made`) at which commit it was in sync."""

    vault: Vault
    made: str
    commit: str


class _ChangedError(Exception):
    """Somebody changed the files of a clone."""


def choose_most_open(wanted: int = MOST_OPEN) -> int:
    """Return how many vaults may be open in this process; its limit of files is raised for it."""
    files = raise_file_limit(wanted * _FILES_EACH + _OTHER_FILES)
    return max(1, min(wanted, (files - _OTHER_FILES) // _FILES_EACH))


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
        self._most_open = choose_most_open() if most_open is None else most_open
        self.clones = Clones(self.folder, self._folders, fresh_for, now)
        self._open: dict[str, _Opened] = {}
        #: What questions over several shards have open here, each by its own name.
        self.questions: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The vaults that it has."""
        return self.clones.names

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""
        for name in self._open.keys() - {each.name for each in sources}:
            self._close(name)
        self.clones.hold(sources)

    def bring(self, name: str, anew: bool = False) -> Freshness:
        """Clone a vault, or follow its remote if that was not asked lately, or `anew`.

        Raises:
            NoteNotFoundError: it has no such vault.
            VaultError: there is no clone, and none could be made.
        """
        return self.clones.bring(name, anew)

    def serve(
        self, work: Callable[Concatenate[Shard, P], T], *args: P.args, **given: P.kwargs
    ) -> T:
        """Return what a function makes of the shard; what it opened is let go of afterwards."""
        try:
            return work(self, *args, **given)
        finally:
            self.clones.let_go()
            while len(self._open) > self._most_open:
                self._close(next(iter(self._open)))

    def open(self, name: str, settings: VaultSettings) -> Vault:
        """Return a vault, in sync, where `settings` look; it counts until `serve` ends.

        While somebody writes to it, it is read as its remote had it before.

        Raises:
            VaultError: as for `bring`; or it cannot be read.
        """
        self.bring(name)
        try:
            return self._open_here(name, settings)
        except _ChangedError:
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
        opened = []
        self.clones.bring_all(names)
        for name in names:
            try:
                opened.append(self.open(name, settings))
            except (VaultError, OSError) as error:
                told[name] = str(name_failure(error))
        if not opened:
            raise VaultError("; ".join(f"{name}: {why}" for name, why in told.items()))
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
    ) -> T:
        """Return what `work` did to a vault, once its remote has it; else nothing of it stays.

        What it left is committed in the name of whoever `settings` say; a person's commits are
        `identity`'s (`Name <mail>`). With `branch`, it lands there, and the branch is made from
        the vault's if need be. A remote without a commit gets a first one.

        Raises:
            RefusedError: the remote does not take it; with its words.
            VaultError: `work` failed, or the remote cannot be reached.
        """
        clone = self.clones.find(name)
        with hold_lock(clone.lock):
            self._make_ready(name, settings)
            clone.unsettle()
            vault = self._lend(name, sign(settings, identity, branch))
            vault.state.put(_AT, "")
            landed: dict[str, str] = {}
            try:
                done, commit = land(vault, work)
                landed[branch or vault.history.head().branch] = commit
            except BaseException:
                with contextlib.suppress(VaultError, OSError):
                    forget_waiting(vault)
                raise
            finally:
                clone.restore(landed)
                self._close(name)
                self._lend(name, _NOTHING)  # For those who read it, too.
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
        for name in list(self._open):
            self._close(name)
        self.clones.close()

    def _open_here(self, name: str, settings: VaultSettings = _NOTHING) -> Vault:
        """Return a vault as it is here; at its commit, where its files are being changed."""
        if self.clones.keep(name):
            vault = self._lend(name, settings)
            return look_at(vault) if vault.ref else vault
        record = self.clones.find(name).record
        if record is None:
            raise BusyError("its clone is being made; ask again")
        vault = self._lend(name, settings, syncs=False)
        return look_at(vault, "" if vault.ref else record.commit)

    def _lend(self, name: str, settings: VaultSettings, syncs: bool = True) -> Vault:
        """Return a Vault that uses what is open of its clone, in sync.

        Raises:
            _ChangedError: the files are not those that the clone was left with.
        """
        clone = self.clones.find(name)
        record = clone.record
        if record is None or not (clone.root / CONFIG_NAME).is_file():
            raise NoVaultError(f"no vault: its remote has no {CONFIG_NAME}")
        known = self._open.pop(name, None)
        if known is not None and known.made != record.made:
            _end(known)
            known = None
        if known is None:
            known = _Opened(open_vault(clone.root, folders=self._folders), record.made, "")
        if syncs and known.commit != record.commit:
            known.vault.config = read_config(clone.root)
            _sync(known.vault, record.commit)
            known = known._replace(commit=record.commit)
        self._open[name] = known
        given = settings.copy()
        given["folders"], given["config"] = self._folders, known.vault.config
        vault = open_vault(clone.root, **given)
        vault.share_storage(known.vault)
        vault.name = name
        return vault

    def _mend(self, name: str) -> None:
        self._close(name)
        self.clones.mend(name)

    def _make_ready(self, name: str, settings: VaultSettings) -> None:
        """Have the clone of a vault be where its remote is, which has to be reached."""
        try:
            found = self.bring(name, anew=True)
        except NoVaultError:
            given = settings.copy()
            given["folders"], given["ref"] = self._folders, ""
            begin_vault(self.clones.find(name), given)
            found = self.bring(name, anew=True)
        if found.problem:
            raise VaultError(f"not written: {found.problem}")

    def _close(self, name: str) -> None:
        if known := self._open.pop(name, None):
            _end(known)


def _sync(vault: Vault, commit: str) -> None:
    """Bring the index up to a clone's files, which are those of a commit.

    Raises:
        _ChangedError: they were indexed as they are at that commit, and are others now.
    """
    expected = vault.state.get(_AT) == commit
    done = sync_vault(vault)
    if expected and (done.added or done.changed or done.removed):
        vault.state.put(_AT, "")
        raise _ChangedError
    vault.state.put(_AT, commit)


def _end(opened: _Opened) -> None:
    with contextlib.suppress(VaultError, OSError):
        opened.vault.close()
