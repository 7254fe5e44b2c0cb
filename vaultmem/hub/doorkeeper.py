"""Who writes through the front of a fleet passes the hub's door, and is on record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from vaultmem.errors import FaultError, ForbiddenError, RefusedError
from vaultmem.hub.request_log import describe_reason
from vaultmem.services.hub.access import find_pusher
from vaultmem.services.hub.audit import Entry, record
from vaultmem.services.hub.folder import Hub, read_hub
from vaultmem.services.hub.refusal import Update
from vaultmem.services.hub.writing import Written, write_checked
from vaultmem.services.pools.clones import Work
from vaultmem.services.pools.pool import Lane, Pool
from vaultmem.vault import VaultSettings
from vaultmem.workers.caller import Guest

Result = TypeVar("Result")


class Doorkeeper:
    """Has writes to vaults checked whose remotes are not the hub's: these have no door."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def write(
        self,
        pool: Pool,
        name: str,
        work: Work[Result],
        settings: VaultSettings,
        guest: Guest,
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

    def _end(self, name: str, guest: Guest, told: Future[Any], done: Future[Written]) -> None:
        """Put on record what came of a write, and tell whoever asked for it."""
        error = done.exception()
        written = Written(error=error) if error else done.result()
        try:
            for outcome, details in _list_entries(written):
                self._record(name, guest, "push", outcome, details)
        except Exception as fault:  # noqa: BLE001  Whoever asked is told.
            came = written.error or "written"
            written = Written(error=FaultError(str(fault), f"{came}; and that is not on record"))
        if written.error:
            told.set_exception(written.error)
        else:
            told.set_result(written.done)

    def _record(
        self, name: str, guest: Guest, what: str, outcome: str, details: Mapping[str, Any]
    ) -> None:
        who = guest.name, guest.id, guest.origin
        record(self._hub, Entry(time.time(), *who, what, (name,), outcome, details))


def _list_entries(written: Written) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the record says of a write: of what the remote has, and of what it has not."""
    error = written.error
    if written.moved or not error:
        yield "done", {"refs": _describe(written.moved), "refused": []}
    if error:
        outcome = "refused" if isinstance(error, RefusedError) else "failed"
        refused = list(written.refused) or [describe_reason(error)]
        yield outcome, {"refs": _describe(written.left), "refused": refused}


def _describe(updates: Sequence[Update]) -> list[dict[str, str]]:
    return [each._asdict() for each in updates]
