"""Tell what a sync would do."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.services.branching.merge import MergePlan, plan_merge
from vaultmem.services.reading.look import find_branch
from vaultmem.services.syncing.contact import check_related, count_waiting, fetch_branch, find_tip
from vaultmem.services.syncing.place import find_place
from vaultmem.services.syncing.record import read_record
from vaultmem.services.writing.ownership import find_pending
from vaultmem.storage.lock import hold_lock
from vaultmem.vault import Vault


class SyncPlan(NamedTuple):
    """What a sync would do: with how many files not committed, and commits either way.

    `merge` is None where nothing would have to be merged.
    """

    remote: str
    branch: str
    uncommitted: int
    fetched: int
    waiting: int
    merge: MergePlan | None
    told: str = ""


def plan_sync(vault: Vault, where: str = "", joins: bool = False) -> SyncPlan:
    """Fetch, and return what a sync would do; no branch and no file is changed.

    Raises:
        VaultError: as for `sync_remote`.
    """
    with hold_lock(vault.state_folder / "sync.lock"):
        place = find_place(vault, where)
        uncommitted = 0 if find_branch(vault) else len(find_pending(vault).files)
        told = fetch_branch(vault, place, read_record(vault)).told
        theirs, refs = find_tip(vault, place.tracking), vault.history.refs
        ours = find_tip(vault, f"refs/heads/{place.branch}")
        fetched = refs.count_ahead(theirs, ours)[0] if ours and theirs else 0
        apart = fetched and not refs.is_ancestor(ours, theirs)
        if apart:
            check_related(vault, place, joins)
        merge = plan_merge(vault, place.tracking, joins) if apart else None
        waiting = count_waiting(vault, place)
        return SyncPlan(place.remote.name, place.branch, uncommitted, fetched, waiting, merge, told)
