"""Slots for git programs, so that no caller keeps all of them from others."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from vaultmem.hub.cgi import RefusedRequestError

#: Programs at once of callers that have one already: in all, and of one; and the seconds for which
#: a request waits for a slot. Reading and writing count apart.
_MANY, _MANY_OF_ONE = 16, 6
_WAIT = 20.0

#: Programs at once, up to which a caller that has none gets one. Some are kept for pushes.
_MOST, _KEPT_FOR_PUSHES = 48, 16

#: Bodies of one caller that may be on their way at once.
_ARRIVING = 16

_FULL = "too many ask at once; ask again in a minute"


class Caller(NamedTuple):
    """A caller by name, for reading or for writing: both count apart."""

    name: str
    writes: bool


class ProgramSlots:
    """Count programs that run and bodies that are awaited, in all and for each caller."""

    def __init__(self) -> None:
        self._free = asyncio.Condition()
        self._busy: Counter[Caller] = Counter()
        self._arriving: Counter[Caller] = Counter()

    @contextlib.contextmanager
    def await_body(self, caller: Caller) -> Iterator[None]:
        """Count a body that is on its way for the time of a `with`.

        Raises:
            RefusedRequestError: too many of this caller are.
        """
        if self._arriving[caller] >= _ARRIVING:
            raise RefusedRequestError(503, _FULL)
        self._arriving[caller] += 1
        try:
            yield
        finally:
            self._arriving[caller] -= 1
            self._arriving += Counter()  # Drops what is 0.

    @contextlib.asynccontextmanager
    async def take(self, caller: Caller) -> AsyncIterator[None]:
        """Have a place for the time of a `with`.

        Raises:
            RefusedRequestError: none was free for 20 seconds.
        """
        async with self._free:
            try:
                async with asyncio.timeout(_WAIT):
                    await self._free.wait_for(lambda: self._has_room(caller))
            except TimeoutError:
                raise RefusedRequestError(503, _FULL) from None
            self._busy[caller] += 1
        try:
            yield
        finally:
            await asyncio.shield(self._leave(caller))

    def _has_room(self, caller: Caller) -> bool:
        total, own = self._busy.total(), self._busy[caller]
        if own:
            return total < _MANY and own < _MANY_OF_ONE
        return total < (_MOST if caller.writes else _MOST - _KEPT_FOR_PUSHES)

    async def _leave(self, caller: Caller) -> None:
        async with self._free:
            self._busy[caller] -= 1
            self._busy += Counter()
            self._free.notify_all()
