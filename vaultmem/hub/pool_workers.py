"""The pool of a hub, and what does for callers what they ask of one vault of a pool.

Writes to a fleet's vaults pass a doorkeeper; those to a hub's own are checked where they land.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread

from vaultmem.errors import ForbiddenError, RefusedError, SystemFailureError, VaultError
from vaultmem.hub.gate import RequestLog, describe_reason
from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.pool import Lane, LocalPool, Pool
from vaultmem.services.hub.hub_access import find_pusher
from vaultmem.services.hub.hub_folder import AuditEntry, Hub, RefUpdate, read_hub, record
from vaultmem.services.hub.repositories import list_repositories
from vaultmem.services.hub.writing import HubWriteResult, move_ref, write_checked
from vaultmem.services.merging.branches import list_proposed
from vaultmem.services.views.open_view import view_at
from vaultmem.vault import Vault, VaultSettings, find_user_folders
from vaultmem.workers import Caller, HubPrincipal, Work, Workers, in_session

Result = TypeVar("Result")


class WriteGuard:
    """Has writes to vaults checked whose remotes are not the hub's: these have no door."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def write(
        self,
        pool: Pool,
        name: str,
        work: Work[Result],
        settings: VaultSettings,
        guest: HubPrincipal,
        branch: str,
        operation: str,
    ) -> Future[Result]:
        """Have something written that the door lets pass, as `Pool.write` does.

        On record are that it begins, before anything is done, and what came of it, before anybody
        is told; so it goes to its end, also where nobody waits any more.

        Raises:
            ForbiddenError: the token of whoever writes does not count any more.
            VaultError: the hub cannot be read, or the record not be written; nothing is done.
        """
        pusher = find_pusher(read_hub(self._hub.folder), name, guest.id, time.time())
        if pusher is None:
            raise ForbiddenError("not written: your token does not count any more")
        self._record(name, guest, "write", "begun", {"operation": operation})
        told: Future[Result] = Future()
        told.set_running_or_notify_cancel()
        try:
            given = (work, settings, guest.person, branch, pusher)
            done = pool.submit(name, write_checked, *given, lane=Lane.WRITE)
        except Exception as error:  # noqa: BLE001  Whoever asked is told.
            done = Future()
            done.set_exception(error)
        done.add_done_callback(partial(self._end, name, guest, told))
        return told

    def _end(
        self, name: str, guest: HubPrincipal, told: Future[Any], done: Future[HubWriteResult]
    ) -> None:
        """Put on record what came of a write, and tell whoever asked for it."""
        error = done.exception()
        written = HubWriteResult(error=error) if error else done.result()
        try:
            for outcome, details in _list_entries(written):
                self._record(name, guest, "push", outcome, details)
        except Exception as fault:  # noqa: BLE001  Whoever asked is told.
            came = written.error or "written"
            written = HubWriteResult(
                error=SystemFailureError(str(fault), f"{came}; and that could not be logged")
            )
        if written.error:
            told.set_exception(written.error)
        else:
            told.set_result(written.done)

    def _record(
        self, name: str, guest: HubPrincipal, what: str, outcome: str, details: Mapping[str, Any]
    ) -> None:
        who = guest.name, guest.id, guest.origin
        record(self._hub, AuditEntry(time.time(), *who, what, (name,), outcome, details))


def _list_entries(written: HubWriteResult) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the record says of a write: of what the remote has, and of what it has not."""
    error = written.error
    if written.moved or not error:
        yield "done", {"refs": _describe(written.moved), "refused": []}
    if error:
        outcome = "refused" if isinstance(error, RefusedError) else "failed"
        refused = list(written.refused) or [describe_reason(error)]
        yield outcome, {"refs": _describe(written.left), "refused": refused}


def _describe(updates: Sequence[RefUpdate]) -> list[dict[str, str]]:
    return [each._asdict() for each in updates]


#: Marks what the vault itself refused: what the check of a push refuses, is in the log already.
_BY_VAULT = "refused before the push"

#: Tools and operations that search and read: for a caller who may only propose, in proposals, too.
_ANSWERS = frozenset({"recall", "pack", "context_pack", "read_note"})


class PoolWorkers(Workers):
    """What `Workers` does, for a vault of a pool by its name; `find_pool` gives it as it is now.

    What is written counts when the vault's remote has it: nobody is answered before. Then it has
    `changed`. Where that remote is no repository of the hub, `doorkeeper` checks what is pushed.
    """

    are_here = False

    def __init__(
        self,
        find_pool: Callable[[], Pool],
        name: str,
        log: RequestLog,
        changed: Callable[[], None],
        doorkeeper: WriteGuard | None,
        hub: Hub,
    ) -> None:
        self.root = Path(name)
        self._changed = changed
        self._find_pool = find_pool
        self._name = name
        self._log = log
        self._doorkeeper = doorkeeper
        self._hub = hub

    async def read(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` makes of the vault; questions of programs are heard."""
        with self._hiding():
            done = await super().read(work, caller)
        if caller.guest and caller.operation:
            question = [self._name], caller.guest, caller.operation, done
            await to_thread.run_sync(self._log.add_question, *question)
        return done

    async def write(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` did, when the vault's remote has it."""
        try:
            with self._hiding():
                submitted = await to_thread.run_sync(self.submit_write, work, caller)
        except ForbiddenError as error:
            await self.note_refusal(caller, caller.operation, str(error))
            raise
        try:
            with self._hiding():
                done: Result = await asyncio.wrap_future(submitted)
        except RefusedError as error:
            if self._doorkeeper is None and _BY_VAULT in getattr(error, "__notes__", ()):
                await self.note_refusal(caller, caller.operation, str(error))
            raise
        self._changed()
        return done

    async def note_refusal(self, caller: Caller, operation: str, told: str) -> None:
        """Write into the audit log that a caller was refused something that writes."""
        if guest := caller.guest:
            asked = operation or guest.origin
            name = [self._name]
            await to_thread.run_sync(self._log.add_refusal, name, guest, "write", asked, told)

    async def read_long(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` makes of the vault, which may take minutes."""
        with self._hiding():
            return await super().read_long(work, caller)

    @contextlib.contextmanager
    def _hiding(self) -> Iterator[None]:
        """Have no failure of a `with` say where on the server something is."""
        try:
            yield
        except VaultError as error:
            error.args = (self._hub.hide_folder(str(error)), *error.args[1:])
            raise

    def submit_read(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Have something read, where the vault is; a proposer's answers include their proposals."""
        is_answer = caller.operation in _ANSWERS and not caller.ref
        own = caller.guest.branch if caller.guest and is_answer else ""
        act = partial(_act_with_proposals, own, work) if own else partial(_act, work)
        return self._find_pool().run(self._name, act, read_caller(caller))

    def submit_long(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Have something read that may take minutes."""
        settings = read_caller(caller)
        return self._find_pool().run(self._name, partial(_act, work), settings, takes_long=True)

    def submit_write(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Have something written, after what was asked for before.

        Raises:
            ForbiddenError: this caller may only read, or not write on the branch that they name.
        """
        guest = caller.guest
        if not caller.may_write or guest is None:
            raise ForbiddenError(f"{self._name}: you may only read this vault")
        branch = choose_branch(guest, caller.ref)
        settings = read_caller(caller._replace(ref=""))
        pool, act = self._find_pool(), partial(_act, work)
        if self._doorkeeper is None:
            publish = partial(move_ref, self._hub.folder, self._name, guest.id, guest.origin)
            return pool.write(self._name, act, settings, guest.person, branch, publish)
        asked = caller.operation or guest.origin
        return self._doorkeeper.write(pool, self._name, act, settings, guest, branch, asked)

    def close(self) -> None:
        """Do nothing: the pool is others' too."""


def read_caller(caller: Caller) -> VaultSettings:
    """Return how a vault is opened for a caller; its folders are where the pool has it.

    What was asked is not kept: all who read the vault would see it, also of questions over others.
    """
    settings = caller.settings(find_user_folders({}))
    settings["keeps_words"] = False
    del settings["folders"]
    return settings


def choose_branch(guest: HubPrincipal, ref: str) -> str:
    """Return the branch that a guest writes on who names this one, "" for the vault's own.

    Raises:
        ForbiddenError: it is not theirs.
    """
    own = guest.branch.rpartition("/")[0]
    if own and ref and not ref.startswith(f"{own}/"):
        raise ForbiddenError(f"{ref}: you may only propose here, on branches below {own}/")
    return ref or guest.branch


def _act(work: Work[Result], vault: Vault) -> Result:
    try:
        return work(in_session(vault))
    except RefusedError as error:
        error.add_note(_BY_VAULT)
        raise


def _act_with_proposals(own: str, work: Work[Result], vault: Vault) -> Result:
    """Return what `work` makes of the vault and the undecided proposals next to branch `own`."""
    folder = own.rpartition("/")[0]
    refs = [each.ref for each in list_proposed(vault) if each.name.startswith(f"{folder}/")]
    return _act(work, view_at(vault, include=refs) if refs else vault)


#: Seconds for which it is not looked again whether there are other repositories.
_PAUSE = 1.0

#: Seconds for which a clone counts as fresh: what is pushed is found so soon.
_FRESH = 0.5


class HubPool:
    """Finds the pool of the repositories that there are now."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._sources = self._list()
        self._looked = time.monotonic()
        self._pool = LocalPool(self._sources, hub.folder / "pool", _FRESH)

    def find(self) -> Pool:
        """Return the pool; vaults that were added or taken out are soon so there."""
        with self._lock:
            if time.monotonic() - self._looked > _PAUSE:
                self._looked = time.monotonic()
                found = self._list()
                if found != self._sources:
                    self._sources = found
                    self._pool.hold(found)
        return self._pool

    def close(self) -> None:
        """Wait for what runs, and close all vaults."""
        self._pool.close()

    def _list(self) -> list[VaultSource]:
        found = list_repositories(self._hub)
        return [VaultSource(name, str(place)) for name, place in found.items()]
