"""Work that takes longer than somebody waits for a page: begun once, and asked after by pages."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request

from vaultmem.errors import VaultError
from vaultmem.vault import Vault
from vaultmem.web.asking import make_caller
from vaultmem.workers.workers import Workers

#: Is told how much is done, of how much.
TellProgress = Callable[[int, int], None]

#: Work that tells how far it is.
LongWork = Callable[[TellProgress, Vault], Any]


class Progress(NamedTuple):
    """How far work is: `share` from 0 to 1; `problem` is why it ended before its end."""

    share: float
    is_done: bool
    problem: str = ""


class Jobs:
    """The work under way in a process, by name, and what came of what ended last."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._begun: dict[str, Future[Any]] = {}
        self._shares: dict[str, float] = {}

    def start(self, name: str, request: Request, work: LongWork) -> None:
        """Have work done that reads, unless that of this name is under way already."""
        before = self._begun.get(name)
        if before is not None and not before.done():
            return
        self._shares[name] = 0.0
        told = partial(work, partial(self._tell, name) if self._workers.are_here else _tell_nobody)
        self._begun[name] = self._workers.submit_long(told, make_caller(request))

    def find(self, name: str) -> Progress | None:
        """Return how far the work of a name is, None if it was never begun."""
        begun = self._begun.get(name)
        if begun is None:
            return None
        if not begun.done():
            return Progress(self._shares[name], is_done=False)
        error = begun.exception()
        if error is None:
            return Progress(1.0, is_done=True)
        told = str(error) if isinstance(error, VaultError) else "an error inside vaultmem"
        return Progress(1.0, is_done=True, problem=told)

    def _tell(self, name: str, done: int, total: int) -> None:
        self._shares[name] = done / total if total else 1.0


def _tell_nobody(done: int, total: int) -> None:
    """Tell nobody how far work is that another process may do."""
