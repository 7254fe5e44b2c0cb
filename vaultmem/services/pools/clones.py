"""The clones of a shard: made, kept where their remotes are, and held while they are read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from vaultmem.errors import BusyError, NoteNotFoundError, VaultError, name_failure
from vaultmem.services.pools.clone import Clone, Freshness
from vaultmem.services.pools.source import Source, check_sources
from vaultmem.storage.git.remote import LONGEST
from vaultmem.storage.lock import WRITER, hold_lock
from vaultmem.vault import UserFolders

#: Seconds after which a remote on a network is asked again that did not answer.
_AGAIN_AFTER = 15.0

#: Remotes that are talked with at once, and seconds that a question to many waits for them.
_AT_ONCE, _WAITS = 8, 2.0


class Clones:
    """Clones in a folder by their vaults' names; a remote is not asked again for `fresh_for` s."""

    def __init__(
        self, folder: Path, folders: UserFolders, fresh_for: float, now: Callable[[], float]
    ) -> None:
        self._make = partial(Clone, folder=folder, folders=folders, now=now)
        self._fresh_for = fresh_for
        self._clones: dict[str, Clone] = {}
        self._fresh: dict[str, tuple[float, Freshness]] = {}
        self._brought: set[str] = set()
        self._held: dict[str, contextlib.ExitStack] = {}
        self._helpers = ThreadPoolExecutor(_AT_ONCE, "vaultmem-follow")
        self._following: dict[str, Future[Freshness]] = {}

    @property
    def names(self) -> list[str]:
        """The vaults that it is to have."""
        return list(self._clones)

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these from now on; clones of others that it had are removed."""
        wanted = check_sources(sources)
        for name in self._clones.keys() - wanted.keys():
            self._fresh.pop(name, None)
            self._clones.pop(name).forget()
        for name, source in wanted.items():
            if name not in self._clones or self._clones[name].source != source:
                self._fresh.pop(name, None)
                self._clones[name] = self._make(source)

    def find(self, name: str) -> Clone:
        """Return a vault's clone, made or not.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        if name not in self._clones:
            raise NoteNotFoundError(f"{name}: no vault of that name")
        return self._clones[name]

    def tell_problem(self, name: str) -> str:
        """Return why a vault has no clone, as far as it is known."""
        return self._fresh.get(name, (0.0, Freshness()))[1].problem or "not cloned yet"

    def bring(self, name: str, anew: bool = False) -> Freshness:
        """Clone a vault, or follow its remote if that was not asked lately, or `anew`.

        Raises:
            NoteNotFoundError: it has no such vault.
            VaultError: there is no clone, and none could be made.
        """
        clone = self.find(name)
        record = clone.record
        if name in self._held and record:
            return record.freshness
        if not anew and not self._is_due(name):
            if record is None:
                raise VaultError(self.tell_problem(name))
            return record.freshness
        try:
            found = clone.follow(LONGEST if record is None else WRITER if anew else 0.0)
        except BusyError:  # They bring it to where it is to be.
            if record is None:
                raise
            return record.freshness
        except (VaultError, OSError) as error:
            self._learn(name, Freshness(problem=str(name_failure(error))))
            raise name_failure(error) from error
        self._learn(name, found)
        return found

    def bring_all(self, names: Collection[str], anew: bool = False) -> None:
        """Clone vaults that are not there, several at once, and follow the remotes of others.

        What takes long with a vault that is there goes on meanwhile. What goes wrong is told by
        `bring`.
        """
        free = [name for name in names if name not in self._held]
        due = [name for name in free if anew or self._is_due(name)]
        awaited: list[str] = []
        others: list[str] = []
        for name in due:
            clone = self.find(name)
            is_there = clone.record is not None
            if is_there and clone.remote.folder is not None:
                with contextlib.suppress(VaultError):
                    self.bring(name, anew)
                continue
            if (running := self._following.get(name)) is None or running.done():
                self._following[name] = self._helpers.submit(clone.follow)
            (others if is_there else awaited).append(name)
        wait([self._following[name] for name in awaited])
        wait([self._following[name] for name in others], None if anew else _WAITS)
        for name in [each for each in due if each in self._following]:
            if self._following[name].done():
                try:
                    self._learn(name, self._following.pop(name).result())
                except (VaultError, OSError) as error:
                    self._learn(name, Freshness(problem=str(name_failure(error))))

    def keep(self, name: str) -> bool:
        """Keep off whoever would change a clone, until `let_go`; False if somebody is at it."""
        if name not in self._held:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(self.find(name).reading())
                except BusyError:
                    return False
                self._held[name] = stack.pop_all()
        return True

    def mend(self, name: str) -> None:
        """Have a clone made whole that proved to be damaged, or was changed by somebody."""
        clone = self.find(name)
        if name in self._held:
            self._held.pop(name).close()
        with hold_lock(clone.change):
            if clone.is_whole():
                clone.unsettle()
            else:
                clone.drop()
            self.bring(name, anew=True)

    def is_kept(self, name: str) -> bool:
        """Tell whether it is kept as it is."""
        return name in self._held

    def let_go(self, names: Collection[str] | None = None) -> None:
        """Let others change these again, or all; then what was just asked is asked again, too."""
        for name in list(self._held if names is None else names):
            if name in self._held:
                self._held.pop(name).close()
        if names is None:
            self._brought.clear()

    def close(self) -> None:
        """Wait for remotes that are being read."""
        self.let_go()
        self._helpers.shutdown(cancel_futures=True)

    def _is_due(self, name: str) -> bool:
        """Tell whether a vault's remote is to be asked."""
        at, known = self._fresh.get(name, (0.0, Freshness()))
        clone = self.find(name)
        record = clone.record
        if not at or (record is None) == bool(known.commit) or (record and not record.settled):
            return True
        is_away = known.problem and clone.remote.folder is None
        wait = max(self._fresh_for, _AGAIN_AFTER) if is_away else self._fresh_for
        return name not in self._brought and time.monotonic() - at >= wait

    def _learn(self, name: str, found: Freshness) -> None:
        self._fresh[name] = time.monotonic(), found
        self._brought.add(name)
