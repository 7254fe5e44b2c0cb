"""How many programs of git's run at once, so that nobody keeps them all from others."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from vaultmem.hub.cgi import RefusedRequestError

#: Programs at once of those who have one already, in all and for each; and the seconds for which
#: others wait for one. Reading and writing count apart.
_MANY, _MANY_OF_ONE = 16, 6
_WAIT = 20.0

#: Programs at once: whoever has none may have one while there are less. Some are kept for pushes.
_MOST, _KEPT_FOR_PUSHES = 48, 16

#: Bodies of one who asks that may be on their way at once.
_ARRIVING = 16

_FULL = "too many ask at once; ask again in a minute"


class Asker(NamedTuple):
    """Who asks, and whether to write: both count apart."""

    name: str
    writes: bool


class ProgramSlots:
    """How many programs run at once and how many bodies are awaited, in all and for each caller."""

    def __init__(self) -> None:
        self._free = asyncio.Condition()
        self._busy: Counter[Asker] = Counter()
        self._arriving: Counter[Asker] = Counter()

    @contextlib.contextmanager
    def await_body(self, who: Asker) -> Iterator[None]:
        """Count a body that is on its way for the time of a `with`.

        Raises:
            RefusedRequestError: too many of this caller are.
        """
        if self._arriving[who] >= _ARRIVING:
            raise RefusedRequestError(503, _FULL)
        self._arriving[who] += 1
        try:
            yield
        finally:
            self._arriving[who] -= 1
            self._arriving += Counter()  # Who has none is not counted any more.

    @contextlib.asynccontextmanager
    async def take(self, who: Asker) -> AsyncIterator[None]:
        """Have a place for the time of a `with`.

        Raises:
            RefusedRequestError: none was free for 20 seconds.
        """
        async with self._free:
            try:
                async with asyncio.timeout(_WAIT):
                    await self._free.wait_for(lambda: self._has_room(who))
            except TimeoutError:
                raise RefusedRequestError(503, _FULL) from None
            self._busy[who] += 1
        try:
            yield
        finally:
            await asyncio.shield(self._leave(who))

    def _has_room(self, who: Asker) -> bool:
        total, own = self._busy.total(), self._busy[who]
        if own:
            return total < _MANY and own < _MANY_OF_ONE
        return total < (_MOST if who.writes else _MOST - _KEPT_FOR_PUSHES)

    async def _leave(self, who: Asker) -> None:
        async with self._free:
            self._busy[who] -= 1
            self._busy += Counter()
            self._free.notify_all()
