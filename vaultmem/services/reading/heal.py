"""Read a vault again where its index or database prove to be damaged in the midst of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from vaultmem.errors import DamagedError
from vaultmem.services.reading.sync import sync_vault
from vaultmem.vault import Vault

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Read = Callable[Concatenate[Vault, _P], _T]

#: How often it is read again: once for the database, once for the index.
_ATTEMPTS = 2

#: Whether something around this reads again already: numbers of documents read before a database
#: was built anew say nothing afterwards.
_is_inside: ContextVar[bool] = ContextVar("is_inside", default=False)


def heals(read: _Read[_P, _T]) -> _Read[_P, _T]:
    """Let what only reads a vault sync it and read again, where what it read proves damaged.

    A vault that looks at commits is not mended by a sync of the folder: there a DamagedError says
    that it is to be opened anew.
    """

    @wraps(read)
    def reading(vault: Vault, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return read_healed([vault], lambda: read(vault, *args, **kwargs))

    return reading


def read_healed(vaults: Sequence[Vault], read: Callable[[], _T]) -> _T:
    """Return what is read of some vaults, as `heals` does for one."""
    if _is_inside.get():
        return read()
    token = _is_inside.set(True)
    try:
        return _try(vaults, read)
    finally:
        _is_inside.reset(token)


def _try(vaults: Sequence[Vault], read: Callable[[], _T]) -> _T:
    in_folders = all(each.view.is_work_tree for each in vaults)
    for _ in range(_ATTEMPTS):
        try:
            found = read()
            if all(each.index.is_as_read() for each in vaults):
                return found
        except DamagedError:
            if not in_folders:
                raise
        except Exception:
            if all(each.index.is_as_read() for each in vaults):
                raise  # It is no matter of a file that somebody wrote to.
        if not in_folders:
            raise DamagedError("the index was damaged; run the command again")
        for each in vaults:
            sync_vault(each)
    return read()
