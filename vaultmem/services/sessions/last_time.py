"""Find the last session in a workspace, and tell what it came to."""

from __future__ import annotations

from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.sessions.last_time import render_last_time
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.sessions.identify import find_workspace
from vaultmem.services.sessions.read import list_facts, read_session
from vaultmem.services.sessions.touched_files import trace_files
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vaultmem.core.sessions.session import Session

#: Sessions that are looked at, and that are told of besides the last one.
_LOOKED_AT, _EARLIER = 12, 2


def tell_last_time(vault: Vault, budget: int, workspace: Path | None = None, but: str = "") -> str:
    """Return what the last session in a workspace came to, whichever agent's it was; "" if none.

    One in which nothing was done to the work, a question in passing, yields to one before it.
    The session `but` is passed over. The vault must be in sync.
    """
    place = find_workspace(workspace or vault.here)
    found = [*islice(_list_here(vault, place, but), _LOOKED_AT)]
    worked = [each for each in found if each.facts.has_work] or found
    if not worked:
        return ""
    last, *earlier = worked[: _EARLIER + 1]
    return render_last_time(last, trace_files([last], place), earlier, budget)


def _list_here(vault: Vault, workspace: Path, but: str) -> Iterator[Session]:
    """Yield the sessions of a workspace of this name that tell anything, the last one first."""
    for facts in list_facts(vault):
        if facts.workspace == workspace.name and facts.id != but:
            try:
                session = read_session(vault, PurePosixPath(facts.path))
            except (NoteNotFoundError, RefusedError):
                continue
            if session.is_shown and (session.facts.goal or session.summary or session.touched):
                yield session
