"""The check of writes through the API, MCP and pages, on the machine with the vault's clone.

In a hub, `move_ref` moves refs of its repositories. A fleet's remotes are on other hosts, so
`write_checked` checks each push to them first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.errors import ForbiddenError, SystemFailureError
from vaultmem.services.fleet.clones import Clones, Work, push_ref
from vaultmem.services.hub.hub_access import PushIdentity, access_hub
from vaultmem.services.hub.hub_folder import (
    MAX_LOGGED_REFUSALS,
    MAX_REPORTED_REFUSALS,
    RefUpdate,
    Refusal,
    cut_refusals,
    read_hub,
)
from vaultmem.services.hub.push_checks import check_push, run_push_check
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.services.hub.receiving import check_updates, record_push
from vaultmem.services.syncing.sync_place import ORIGIN
from vaultmem.storage.git.bare import BareGit
from vaultmem.storage.git.commit_draft import RefMovedError
from vaultmem.storage.lock import make_environment
from vaultmem.vault import VaultSettings

_NONE = "0" * 40


def move_ref(
    folder: Path, vault: str, id: str, origin: str, clone: Path, ref: str, old: str, new: str
) -> None:
    """Move a ref of a hub's repository for a grant id, if the check accepts it.

    The commits are in `clone`, a git folder; they are copied after they are checked and logged. The
    ref moves only from `old`. An empty `old` creates it, an empty `new` removes it.

    Raises:
        ForbiddenError: the check rejects it.
        RefMovedError: another push has moved the ref.
        VaultError: it could not be checked, or git failed.
    """
    hub = read_hub(folder)
    access = access_hub(hub, vault, id, origin, time.time())
    own = BareGit(hub.repositories / f"{vault}.git", _make_environment(), hub.limits.seconds)
    git = own.with_objects(clone / "objects")
    update = RefUpdate(ref, old or _NONE, new or _NONE)
    refusals, late_updates = check_updates(access, git, [update])
    if refusals:
        raise reject_write(refusals)
    if late_updates:
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
    """Return the error for a write that the check rejects."""
    reasons = "; ".join(cut_refusals(refusals, MAX_REPORTED_REFUSALS))
    return ForbiddenError(f"not written: the hub's push check rejects it: {reasons}")


class HubWriteResult(NamedTuple):
    """The result of a write (`value`), or its `error`.

    `moved_updates` are the refs that the remote accepted, `pending_updates` the one it does not
    have. `refused` are the push check's reasons.
    """

    value: Any = None
    error: BaseException | None = None
    moved_updates: tuple[RefUpdate, ...] = ()
    pending_updates: tuple[RefUpdate, ...] = ()
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
    """Write to a vault as `Clones.write` does, if the check accepts the push."""
    moved_updates: list[RefUpdate] = []
    pending_updates: list[RefUpdate] = []
    refusals: list[Refusal] = []

    def publish(git_folder: Path, ref: str, old: str, new: str) -> None:
        update = RefUpdate(ref, old or _NONE, new or _NONE)
        pending_updates[:] = [update]
        git = BareGit(git_folder, _make_environment(), pusher.limits.seconds)
        visit = ReceivedPush(pusher, git, pending_updates, ORIGIN)
        refusals[:] = run_push_check(visit, partial(check_push, visit, {}))
        if refusals:
            raise reject_write(refusals)
        push_ref(clones.find(name), git_folder, ref, old, new)
        moved_updates.append(update)
        pending_updates.clear()

    result = error = None
    try:
        result = clones.write(name, work, settings, identity, branch, publish)
    except Exception as failure:  # noqa: BLE001  The caller gets it, and it is logged.
        error = failure
    reasons = cut_refusals(refusals, MAX_LOGGED_REFUSALS)
    return HubWriteResult(
        result, error, tuple(moved_updates), tuple(pending_updates), tuple(reasons)
    )


def _make_environment() -> dict[str, str]:
    """Return the environment of git programs, without this process's GIT_ variables."""
    return {k: v for k, v in make_environment({}).items() if not k.startswith("GIT_")}
