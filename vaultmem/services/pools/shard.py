"""What has the clones of some vaults on one disk, and does what is asked of them, in one thread."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError, name_failure
from vaultmem.services.pools.clone import Clone, Freshness
from vaultmem.services.pools.source import Source, check_sources
from vaultmem.services.reading.look import look_at
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.syncing.place import ORIGIN
from vaultmem.services.syncing.sync import Outcome, sync_remote
from vaultmem.services.writing.commit import commit_event
from vaultmem.services.writing.divide import Event
from vaultmem.storage.git.remote import LONGEST
from vaultmem.storage.lock import hold_lock
from vaultmem.vault import UserFolders, Vault, VaultSettings, find_user_folders, open_vault

T = TypeVar("T")
P = ParamSpec("P")

#: What is done with a vault, or with several beside one.
Work = Callable[[Vault], T]

#: Vaults that are kept open, and seconds for which a remote that was asked is not asked again.
MOST_OPEN = 256
FRESH_FOR = 5.0


class VaultStats(NamedTuple):
    """How a vault of a pool is: what it holds, bytes on disk, and how far its remote was followed.

    `age` is in seconds since its remote was last heard of, -1 if never. `problem` says why it was
    not since, or why there is no clone.
    """

    notes: int = 0
    sections: int = 0
    tokens: int = 0
    clone_bytes: int = 0
    index_bytes: int = 0
    commit: str = ""
    age: float = -1.0
    problem: str = ""


class Shard:
    """The vaults of a pool that are on one disk, for one thread: databases belong to that.

    Several may share a `folder`, in threads or processes. A vault that was heard of within
    `fresh_for` seconds is read as it is; a remote is waited for `seconds`.
    """

    def __init__(
        self,
        folder: Path,
        most_open: int = MOST_OPEN,
        fresh_for: float = FRESH_FOR,
        seconds: float = LONGEST,
    ) -> None:
        user = find_user_folders(dict(os.environ))
        self.folder = folder.absolute()
        self._folders = UserFolders(self.folder / "state", user.config, self.folder / "data")
        self._most_open, self._fresh_for, self._seconds = most_open, fresh_for, seconds
        self._clones: dict[str, Clone] = {}
        self._fresh: dict[str, tuple[float, Freshness]] = {}
        self._open: dict[str, tuple[Vault, str]] = {}
        self._held = contextlib.ExitStack()
        self._using: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The vaults that it has."""
        return list(self._clones)

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""
        wanted = check_sources(sources)
        for name in [name for name, clone in self._clones.items() if name not in wanted]:
            self._close(name)
            self._clones.pop(name).drop()
        for name, source in wanted.items():
            known = self._clones.get(name)
            if known is None or known.source != source:
                self._close(name)
                self._clones[name] = Clone(source, self.folder, self._folders)
                self._fresh.pop(name, None)

    def serve(
        self, work: Callable[Concatenate[Shard, P], T], *args: P.args, **given: P.kwargs
    ) -> T:
        """Return what a function makes of the shard; what it opened is let go of afterwards."""
        try:
            return work(self, *args, **given)
        finally:
            self._held.close()
            self._using.clear()
            while len(self._open) > self._most_open:
                self._close(next(iter(self._open)))

    def bring(self, name: str, anew: bool = False) -> Freshness:
        """Clone a vault, or follow its remote if that was not asked lately, or `anew`.

        Raises:
            NoteNotFoundError: it has no such vault.
            VaultError: there is no clone, and none could be made.
        """
        clone = self._find(name)
        at, known = self._fresh.get(name, (0.0, Freshness()))
        if not anew and at and time.monotonic() - at < self._fresh_for:
            if known.commit:
                return known
            raise VaultError(known.problem)
        try:
            found = clone.follow(self._seconds)
        except (VaultError, OSError) as error:
            found = Freshness(problem=str(name_failure(error)))
            raise
        finally:
            self._fresh[name] = time.monotonic(), found
        return found

    def open(self, name: str, settings: VaultSettings) -> Vault:
        """Return a vault, in sync, where `settings` look; it counts until `serve` ends.

        Raises:
            VaultError: as for `bring`; or it cannot be read.
        """
        self.bring(name)
        clone = self._find(name)
        self._held.enter_context(hold_lock(clone.lock, shared=True))
        vault = self._lend(name, settings)
        return look_at(vault) if vault.ref else vault

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
        for name in names:
            try:
                opened.append(self.open(name, settings))
            except (VaultError, OSError) as error:
                told[name] = str(name_failure(error))
        if not opened:
            raise VaultError("; ".join(f"{name}: {why}" for name, why in told.items()))
        opened[0].beside = tuple(opened[1:])
        return opened[0]

    def read(self, name: str, work: Work[T], settings: VaultSettings) -> T:
        """Return what `work` makes of a vault."""
        return work(self.open(name, settings))

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
        the vault's if need be.

        Raises:
            RefusedError: the remote does not take it; with its words.
            VaultError: `work` failed, or the remote cannot be reached.
        """
        clone = self._find(name)
        with hold_lock(clone.lock):
            self.bring(name, anew=True)
            vault = self._lend(name, _sign(settings, identity, branch))
            try:
                return self._land(vault, work, branch)
            except BaseException:
                clone.restore()
                raise
            finally:
                self.bring(name, anew=True)
                self._close(name)
                self._lend(name, {})  # What others read of it is what it is now.

    def _land(self, vault: Vault, work: Work[T], branch: str) -> T:
        refs = vault.history.refs
        if branch and branch not in {each.name for each in refs.branches()}:
            refs.create_branch(branch, vault.history.head().commit)
        done = work(look_at(vault) if vault.ref else vault)
        if not vault.ref:
            commit_event(vault, Event("checkpoint", "", vault.author, intent="checkpoint"))
        report = sync_remote(vault, ORIGIN, alone=True)
        if report.outcome is not Outcome.SYNCED:
            raise RefusedError(f"not written, its remote does not take it: {report.told}")
        return done

    def stats(self, names: Collection[str] = ()) -> dict[str, VaultStats]:
        """Return how each vault is, or these; no remote is asked."""
        return {name: self._count(name) for name in names or self._clones}

    def close(self) -> None:
        """Close what is open."""
        self._held.close()
        for name in list(self._open):
            self._close(name)

    def _find(self, name: str) -> Clone:
        if name not in self._clones:
            raise NoteNotFoundError(f"{name}: no vault of that name")
        return self._clones[name]

    def _lend(self, name: str, settings: VaultSettings) -> Vault:
        """Return a Vault that uses what is open of its clone, in sync."""
        clone = self._find(name)
        record = clone.read_record()
        commit = record.commit if record else ""
        known = self._open.pop(name, None)
        if known is not None and known[1] != commit:
            known[0].close()
            known = None
        if known is None:
            own = open_vault(clone.root, folders=self._folders)
            sync_vault(own)
            known = own, commit
        self._open[name] = known
        self._using.add(name)
        given = settings.copy()
        given["folders"], given["config"] = self._folders, known[0].config
        vault = open_vault(clone.root, **given)
        vault.share_storage(known[0])
        vault.name = name
        return vault

    def _close(self, name: str) -> None:
        if known := self._open.pop(name, None):
            with contextlib.suppress(VaultError, OSError):
                known[0].close()

    def _count(self, name: str) -> VaultStats:
        clone, record = self._find(name), self._find(name).read_record()
        _, fresh = self._fresh.get(name, (0.0, Freshness()))
        if record is None:
            return VaultStats(problem=fresh.problem or "not cloned yet")
        problem, notes, tokens, sections = record.problem, 0, 0, 0
        try:
            with hold_lock(clone.lock, shared=True):
                vault = self._lend(name, {})
                notes, tokens = vault.view.totals()
                sections = vault.index.snapshot().size
        except (VaultError, OSError) as error:
            problem = problem or str(name_failure(error))
        return VaultStats(
            notes=notes,
            sections=sections,
            tokens=tokens,
            clone_bytes=_weigh(clone.root),
            index_bytes=_weigh(clone.state),
            commit=record.commit,
            age=max(0.0, time.time() - record.contacted),
            problem=problem,
        )


def _sign(settings: VaultSettings, identity: str, branch: str) -> VaultSettings:
    """Return settings for writing on a branch, with a person's commits in somebody's name."""
    signed: VaultSettings = {**settings, "ref": branch}
    if identity:
        name, _, mail = identity.partition("<")
        named = {"GIT_AUTHOR_NAME": name.strip(), "GIT_AUTHOR_EMAIL": mail.rstrip("> ").strip()}
        signed["environment"] = {**settings.get("environment", {}), **named}
    return signed


def _weigh(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(_list_sizes(folder))


def _list_sizes(folder: Path) -> Iterator[int]:
    for place, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(place, file)).st_blocks * 512
