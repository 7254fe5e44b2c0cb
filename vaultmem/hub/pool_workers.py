"""The pool of a hub, and workers that run callers' requests on one vault of a pool.

A `WriteGuard` checks writes to a fleet's vaults. Writes to a hub's own vaults are checked by the
push check of the repository.
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
from vaultmem.hub.authentication import RequestLog, describe_reason
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
    """A check and log for writes to vaults whose remotes have no push check of the hub."""

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
        """Submit a checked write, as `Pool.write` does.

        The audit log records the start before any work, and the outcome before the caller gets it.
        The write finishes even if the caller has gone.

        Raises:
            ForbiddenError: the caller's token is no longer valid.
            VaultError: the hub cannot be read, or the log cannot be written; nothing is done.
        """
        pusher = find_pusher(read_hub(self._hub.folder), name, guest.id, time.time())
        if pusher is None:
            raise ForbiddenError("not written: your token does not count any more")
        self._record(name, guest, "write", "begun", {"operation": operation})
        caller_future: Future[Result] = Future()
        caller_future.set_running_or_notify_cancel()
        try:
            arguments = (work, settings, guest.person, branch, pusher)
            write_future = pool.submit(name, write_checked, *arguments, lane=Lane.WRITE)
        except Exception as error:  # noqa: BLE001  The caller gets the error.
            write_future = Future()
            write_future.set_exception(error)
        write_future.add_done_callback(partial(self._end, name, guest, caller_future))
        return caller_future

    def _end(
        self,
        name: str,
        guest: HubPrincipal,
        caller_future: Future[Any],
        write_future: Future[HubWriteResult],
    ) -> None:
        """Log the outcome of a write, and pass it to the caller."""
        error = write_future.exception()
        result = HubWriteResult(error=error) if error else write_future.result()
        try:
            for outcome, details in _list_entries(result):
                self._record(name, guest, "push", outcome, details)
        except Exception as fault:  # noqa: BLE001  The caller gets the error.
            write_outcome = result.error or "written"
            result = HubWriteResult(
                error=SystemFailureError(
                    str(fault), f"{write_outcome}; and that could not be logged"
                )
            )
        if result.error:
            caller_future.set_exception(result.error)
        else:
            caller_future.set_result(result.value)

    def _record(
        self, name: str, guest: HubPrincipal, action: str, outcome: str, details: Mapping[str, Any]
    ) -> None:
        caller_fields = guest.name, guest.id, guest.origin
        record(
            self._hub, AuditEntry(time.time(), *caller_fields, action, (name,), outcome, details)
        )


def _list_entries(result: HubWriteResult) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield audit log entries of a write: for refs the remote accepted, and refs it did not."""
    error = result.error
    if result.moved_updates or not error:
        yield "done", {"refs": _describe(result.moved_updates), "refused": []}
    if error:
        outcome = "refused" if isinstance(error, RefusedError) else "failed"
        reasons = list(result.refused) or [describe_reason(error)]
        yield outcome, {"refs": _describe(result.pending_updates), "refused": reasons}


def _describe(updates: Sequence[RefUpdate]) -> list[dict[str, str]]:
    return [each._asdict() for each in updates]


#: Marks refusals by the vault itself: those of a push check are in the log already.
_BY_VAULT = "refused before the push"

#: Tools and operations whose answers include the proposals of a caller who may only propose.
_PROPOSAL_OPERATIONS = frozenset({"recall", "pack", "context_pack", "read_note"})


class PoolWorkers(Workers):
    """`Workers` for a vault of a pool by its name; `find_pool` returns the current pool.

    A write returns when the vault's remote has it; then `on_change` is called. `write_guard`
    checks writes if the remote is not a repository of the hub.
    """

    are_here = False

    def __init__(
        self,
        find_pool: Callable[[], Pool],
        name: str,
        log: RequestLog,
        on_change: Callable[[], None],
        write_guard: WriteGuard | None,
        hub: Hub,
    ) -> None:
        self.root = Path(name)
        self._changed = on_change
        self._find_pool = find_pool
        self._name = name
        self._log = log
        self._write_guard = write_guard
        self._hub = hub

    async def read(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of `work` on the vault; log queries of agents."""
        with self._hiding():
            result = await super().read(work, caller)
        if caller.guest and caller.operation:
            query_fields = [self._name], caller.guest, caller.operation, result
            await to_thread.run_sync(self._log.add_question, *query_fields)
        return result

    async def write(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of `work` when the vault's remote has it."""
        try:
            with self._hiding():
                future = await to_thread.run_sync(self.submit_write, work, caller)
        except ForbiddenError as error:
            await self.note_refusal(caller, caller.operation, str(error))
            raise
        try:
            with self._hiding():
                result: Result = await asyncio.wrap_future(future)
        except RefusedError as error:
            if self._write_guard is None and _BY_VAULT in getattr(error, "__notes__", ()):
                await self.note_refusal(caller, caller.operation, str(error))
            raise
        self._changed()
        return result

    async def note_refusal(self, caller: Caller, operation: str, reason: str) -> None:
        """Log that a caller was refused a write."""
        if guest := caller.guest:
            operation_name = operation or guest.origin
            name = [self._name]
            await to_thread.run_sync(
                self._log.add_refusal, name, guest, "write", operation_name, reason
            )

    async def read_long(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of `work` on the vault, which can take minutes."""
        with self._hiding():
            return await super().read_long(work, caller)

    @contextlib.contextmanager
    def _hiding(self) -> Iterator[None]:
        """Hide the server's paths in errors raised in the block."""
        try:
            yield
        except VaultError as error:
            error.args = (self._hub.hide_folder(str(error)), *error.args[1:])
            raise

    def submit_read(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Submit a read to the vault's pool; answers to a proposer include their proposals."""
        is_answer = caller.operation in _PROPOSAL_OPERATIONS and not caller.ref
        own = caller.guest.branch if caller.guest and is_answer else ""
        act = partial(_act_with_proposals, own, work) if own else partial(_act, work)
        return self._find_pool().run(self._name, act, read_caller(caller))

    def submit_long(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Submit a read that can take minutes."""
        settings = read_caller(caller)
        return self._find_pool().run(self._name, partial(_act, work), settings, takes_long=True)

    def submit_write(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Submit a write, after earlier writes.

        Raises:
            ForbiddenError: the caller may only read, or may not write on the branch they name.
        """
        guest = caller.guest
        if not caller.may_write or guest is None:
            raise ForbiddenError(f"{self._name}: you may only read this vault")
        branch = choose_branch(guest, caller.ref)
        settings = read_caller(caller._replace(ref=""))
        pool, act = self._find_pool(), partial(_act, work)
        if self._write_guard is None:
            publish = partial(move_ref, self._hub.folder, self._name, guest.id, guest.origin)
            return pool.write(self._name, act, settings, guest.person, branch, publish)
        operation = caller.operation or guest.origin
        return self._write_guard.write(pool, self._name, act, settings, guest, branch, operation)

    def close(self) -> None:
        """Do nothing: the pool is shared."""


def read_caller(caller: Caller) -> VaultSettings:
    """Return the settings to open a vault for a caller, without folders: the pool sets them.

    The words of queries are not stored: every reader of the vault could see them.
    """
    settings = caller.settings(find_user_folders({}))
    settings["keeps_words"] = False
    del settings["folders"]
    return settings


def choose_branch(guest: HubPrincipal, ref: str) -> str:
    """Return the branch a principal writes on, given the one they name; "" is the vault's default.

    Raises:
        ForbiddenError: they may not write on the named branch.
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
    """Return the result of `work` on the vault with the open proposals next to branch `own`."""
    folder = own.rpartition("/")[0]
    refs = [each.ref for each in list_proposed(vault) if each.name.startswith(f"{folder}/")]
    return _act(work, view_at(vault, include=refs) if refs else vault)


#: Seconds between two checks for new repositories.
_PAUSE = 1.0

#: Seconds a clone counts as fresh: a push is visible after this time.
_FRESH_SECONDS = 0.5


class HubPool:
    """The pool of the hub's current repositories."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._sources = self._list()
        self._looked = time.monotonic()
        self._pool = LocalPool(self._sources, hub.folder / "pool", _FRESH_SECONDS)

    def find(self) -> Pool:
        """Return the pool; vaults added or removed appear within `_PAUSE` seconds."""
        with self._lock:
            if time.monotonic() - self._looked > _PAUSE:
                self._looked = time.monotonic()
                sources = self._list()
                if sources != self._sources:
                    self._sources = sources
                    self._pool.hold(sources)
        return self._pool

    def close(self) -> None:
        """Wait for running work, and close all vaults."""
        self._pool.close()

    def _list(self) -> list[VaultSource]:
        repositories = list_repositories(self._hub)
        return [VaultSource(name, str(path)) for name, path in repositories.items()]
