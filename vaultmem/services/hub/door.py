"""The check of a push, before anything of it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.grants import Grant, Scope, may
from vaultmem.services.hub.refusal import Refusal, Update
from vaultmem.storage.git.bare import BareGit


class Visit(NamedTuple):
    """Who pushes what to which vault of a hub; `git` sees the objects that are not taken in yet."""

    hub: Hub
    vault: str
    grant: Grant
    git: BareGit


def check_push(visit: Visit, updates: Sequence[Update]) -> list[Refusal]:
    """Return what of a push is refused, each with the remedy; all of it is, if anything is.

    Raises:
        BusyError: the check takes longer than hub.yaml allows.
        FaultError: git cannot read what was pushed.
    """
    if not may(visit.grant, visit.vault, Scope.PROPOSE):
        return [Refusal(visit.vault, "you may not write here", "ask its owner for a grant")]
    return []
