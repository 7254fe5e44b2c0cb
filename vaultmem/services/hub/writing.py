"""The check of what is written through the API, MCP and pages, where the vault's clone is.

In a hub, `move_ref` moves the refs of its repositories. The remotes of a fleet are other hosts', so
`write_checked` has each push to them checked before.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.errors import ForbiddenError, SystemFailureError, VaultError
from vaultmem.services.fleet.clones import Clones, Work
from vaultmem.services.hub.door import ask_door, check_push
from vaultmem.services.hub.hub_access import PushIdentity, access_hub
from vaultmem.services.hub.hub_folder import KEPT, TOLD, RefUpdate, Refusal, cut_refusals, read_hub
from vaultmem.services.hub.receiving import check_updates, record_push
from vaultmem.services.hub.visit import ReceivedPush
from vaultmem.services.syncing.sync_place import ORIGIN
from vaultmem.storage.git.bare import BareGit
from vaultmem.storage.git.commit_draft import RefMovedError
from vaultmem.storage.lock import make_environment
from vaultmem.vault import VaultSettings

_HEADS = "refs/heads/"
_NONE = "0" * 40


def move_ref(
    folder: Path, vault: str, id: str, origin: str, clone: Path, ref: str, old: str, new: str
) -> None:
    """Move a ref of a hub's repository for the grant of an id, if the check accepts that.

    The commits are in a clone, by its git folder. They are copied when they are checked and in the
    audit log, and the ref moves only from where it was: "" for a new one, and to "" is removed.

    Raises:
        ForbiddenError: it is refused.
        RefMovedError: another push has moved the ref.
        VaultError: it could not be checked, or git failed.
    """
    hub = read_hub(folder)
    access = access_hub(hub, vault, id, origin, time.time())
    environment = {k: v for k, v in make_environment({}).items() if not k.startswith("GIT_")}
    own = BareGit(hub.repositories / f"{vault}.git", environment, hub.limits.seconds)
    git = own.with_objects(clone / "objects")
    update = RefUpdate(ref, old or _NONE, new or _NONE)
    refusals, late = check_updates(access, git, [update])
    if refusals:
        raise reject_write(refusals)
    if late:
        raise RefMovedError
    if new:
        own.copy_objects(git, new, old)
    try:
        own.run("update-ref", "-m", "vaultmem: write", ref, update.new, update.old)
    except SystemFailureError:
        if own.list_refs().get(ref, _NONE) == update.old:
            raise
        pusher = access.find()
        record_push(access, pusher.grant.name if pusher else "", "late", [update])
        raise RefMovedError from None


def reject_write(refusals: Sequence[Refusal]) -> ForbiddenError:
    """Return the error for a write that the check refuses."""
    told = "; ".join(cut_refusals(refusals, TOLD))
    return ForbiddenError(f"not written, the hub's door does not let it pass: {told}")


class HubWriteResult(NamedTuple):
    """What came of a write: what was `done`, or the `error` for which it was not.

    `moved` are the refs that the remote has where it was to have them, `left` the one that it has
    not, and `refused` is why the door did not let that pass.
    """

    done: Any = None
    error: BaseException | None = None
    moved: tuple[RefUpdate, ...] = ()
    left: tuple[RefUpdate, ...] = ()
    refused: tuple[str, ...] = ()


def write_checked(
    clones: Clones,
    name: str,
    work: Work[Any],
    settings: VaultSettings,
    identity: str,
    branch: str,
    pusher: PushIdentity,
) -> HubWriteResult:
    """Write to a vault as `Clones.write` does, if the door lets pass what would be pushed."""
    door = _Door(pusher)
    done = error = None
    try:
        done = clones.write(name, work, settings, identity, branch, door.check)
    except Exception as failure:  # noqa: BLE001  Whoever asked is told, and it is on record.
        error = failure
    there: Mapping[str, str] = {}
    with contextlib.suppress(VaultError, OSError):
        record = clones.find(name).record
        there = record.branches if record else {}
    moved = tuple(each for each in door.asked if door.has_moved(each, there))
    left = tuple(each for each in door.asked[-1:] if each not in moved)
    return HubWriteResult(done, error, moved, left, tuple(cut_refusals(door.refused, KEPT)))


class _Door:
    """Checks the pushes of one write."""

    def __init__(self, pusher: PushIdentity) -> None:
        self._pusher = pusher
        self.asked: list[RefUpdate] = []
        self.refused: list[Refusal] = []

    def check(self, git_folder: Path, ref: str, old: str, new: str) -> None:
        """Have a push checked, as the `Check` of a sync.

        Raises:
            ForbiddenError: it is refused.
        """
        self.asked.append(RefUpdate(ref, old or _NONE, new))
        environment = {k: v for k, v in make_environment({}).items() if not k.startswith("GIT_")}
        git = BareGit(git_folder, environment, self._pusher.limits.seconds)
        visit = ReceivedPush(self._pusher, git, self.asked[-1:], ORIGIN)
        self.refused = ask_door(visit, partial(check_push, visit, {}))
        if self.refused:
            raise reject_write(self.refused)

    def has_moved(self, update: RefUpdate, branches: Mapping[str, str]) -> bool:
        """Tell whether the remote has done this, by its branches or by what was to come next."""
        next_ones = ((each.ref, each.old) for each in self.asked)
        is_there = branches.get(update.ref.removeprefix(_HEADS)) == update.new
        return is_there or (update.ref, update.new) in next_ones
