"""Find the last session in a workspace, and tell what it came to."""

from __future__ import annotations

from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.sessions.last_time import render_last_time
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.sessions.identify import find_place, find_workspace
from vaultmem.services.sessions.read import list_facts, read_session
from vaultmem.services.sessions.touched_files import trace_files
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vaultmem.core.sessions.session import Session, Workspace

#: Sessions that are looked at, and that are told of besides the last one.
_LOOKED_AT, _EARLIER = 12, 2


def tell_last_time(vault: Vault, budget: int, workspace: Path | None = None, but: str = "") -> str:
    """Return what the last session in a workspace came to, whichever agent's it was; "" if none.

    A workspace is a project wherever its folder is, else a folder. Other sessions that are open in
    it, as in another work tree, are named.

    One in which nothing was done to the work, a question in passing, yields to one before it.
    The session `but` is passed over. The vault must be in sync.
    """
    folder, place = find_workspace(workspace or vault.here), find_place(vault, workspace)
    found = [*islice(_list_here(vault, place, but), _LOOKED_AT)]
    worked = [each for each in found if each.facts.has_work] or found
    if not worked:
        return ""
    last, *others = worked
    still_open = [each for each in others if each.facts.is_open][:_EARLIER]
    earlier = [each for each in others if not each.facts.is_open][:_EARLIER]
    fates = trace_files([last], folder, place)
    return render_last_time(last, fates, earlier, budget, still_open)


def _list_here(vault: Vault, place: Workspace, but: str) -> Iterator[Session]:
    """Yield the sessions of a place that tell anything, the last one first."""
    for facts in list_facts(vault):
        if place.has(facts) and facts.id != but:
            try:
                session = read_session(vault, PurePosixPath(facts.path))
            except (NoteNotFoundError, RefusedError):
                continue
            if session.is_shown and (session.facts.goal or session.summary or session.touched):
                yield session
