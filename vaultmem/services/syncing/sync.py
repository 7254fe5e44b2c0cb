"""Sync a vault with a remote: checkpoint, fetch, merge, push, until both are equal.

Only the checkpoint and the merge hold the vault's lock; the network does not. A lock of its own
prevents parallel syncs. Pushes are never forced, and a killed sync can be repeated.
"""

from __future__ import annotations

import contextlib
import platform
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from vaultmem.errors import (
    ConflictError,
    MergeConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    VaultError,
)
from vaultmem.services.changes.commit import commit_all
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import find_pending, find_too_large
from vaultmem.services.merging.branches import (
    PROPOSALS,
    check_idle,
    list_decided,
    unstage_committed,
)
from vaultmem.services.merging.file_conflicts import MergeReport
from vaultmem.services.merging.merge import follow_commit, merge_branch, plan_merge
from vaultmem.services.merging.text_conflicts import finish_merge, is_stopped
from vaultmem.services.syncing.sync_place import (
    LastSync,
    SyncTarget,
    count_waiting,
    digest_address,
    find_place,
    find_tip,
    format_init,
    read_record,
    store_record,
)
from vaultmem.services.usage import (
    begin_anew,
    evidence_refspecs,
    import_usage,
    publish,
)
from vaultmem.services.views.open_view import find_branch
from vaultmem.storage.git.checkout import find_differences
from vaultmem.storage.git.machine_refs import find_replaced
from vaultmem.storage.git.remote import (
    PushOutcome,
    PushResult,
    RemoteError,
    add_remote,
    fetch,
    push,
    remove_branch,
)
from vaultmem.storage.lock import WRITER, hold_lock
from vaultmem.vault import Vault

#: Attempts to merge and push if others push meanwhile, and the first pause between them in seconds.
_ATTEMPTS = 8
_PAUSE = 0.1

_DAY = 86_400

#: Refs at the remote for commits that their branch rejects; below it: machine, branch and time.
_RESCUE_PREFIX = "refs/vaultmem/rescue/"


class SyncOutcome(StrEnum):
    """The outcome of a sync."""

    SYNCED = "synced"
    OFFLINE = "offline"
    REFUSED = "refused"
    CONFLICT = "conflict"


@dataclass
class SyncResult:
    """The report of a sync.

    `checkpoint` is the last commit made before, "" if nothing was to commit. `fetched` and `pushed`
    count commits; `waiting` counts those only on this machine. `merged`: None if no merge was
    needed; `followed` are then the paths of a fast-forward. `rescued` is the ref at the remote with
    commits that the branch rejected; `message` is the reason. `evidence` is the outcome for this
    machine's usage ref ("" for none). `token_ends` is the expiry of the hub's token (seconds since
    the epoch), 0 if not soon. `removed` are decided proposals removed at the remote;
    `kept_proposals` those it did not remove, with reasons. `left_out` are files too large for a
    commit, with the reason.
    """

    outcome: SyncOutcome
    remote: str
    branch: str
    checkpoint: str = ""
    fetched: int = 0
    merged: MergeReport | None = None
    followed: tuple[str, ...] = ()
    pushed: int = 0
    rescued: str = ""
    waiting: int = 0
    message: str = ""
    evidence: str = ""
    conflicts: tuple[object, ...] = ()
    token_ends: float = 0.0
    removed: tuple[str, ...] = ()
    kept_proposals: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


class SyncPlan(NamedTuple):
    """The plan of a sync: the number of uncommitted files, and of commits in both directions.

    `merge`: None if not needed.
    """

    remote: str
    branch: str
    uncommitted: int
    fetched: int
    waiting: int
    merge: MergeReport | None
    message: str = ""


def sync_remote(
    vault: Vault,
    where: str = "",
    joins: bool = False,
    patience: float = WRITER,
    ends_merges: bool = False,
) -> SyncResult:
    """Bring the vault's branch and a remote's to the same commit.

    `where` is a remote's name, or an address that is added as a remote. `joins` allows two
    histories without a common commit. `patience` is how many seconds to wait for another sync. With
    `ends_merges`, a stopped merge is resolved and committed first, and outdated staged files are
    unstaged. A background sync leaves that to the user.

    Raises:
        NoteNotFoundError: there is no such remote, or none at all.
        RefusedError: something looks like a credential, or the histories have nothing in common.
        PendingError: git cannot commit now.
        LockTimeoutError: another sync takes longer.
        VaultError: the remote cannot be used, except if it is offline.
    """
    with hold_lock(vault.state_folder / "sync.lock", patience):
        place = find_place(vault, where)
        last_sync = read_record(vault)
        if last_sync.agreed != digest_address(place.remote):  # The record is of another remote.
            last_sync = last_sync._replace(agreed="", rescue="", evidence="", refused_at=0.0)
        try:
            sync = _Sync(vault, place, last_sync, joins)
            if ends_merges and is_stopped(vault):
                sync.finish_merge()
            report = sync.run(takes_staged=ends_merges)
        except VaultError as error:
            failure = last_sync._replace(remote=place.remote.name, at=vault.now(), outcome="failed")
            store_record(vault, failure._replace(told=str(error)))
            raise
        store_record(vault, _remember(vault, sync.known, place, report))
        return report


def plan_sync(vault: Vault, where: str = "", joins: bool = False) -> SyncPlan:
    """Fetch, and return the plan of a sync; no branch or file is changed.

    Raises:
        VaultError: as for `sync_remote`.
    """
    with hold_lock(vault.state_folder / "sync.lock"):
        place = find_place(vault, where)
        uncommitted = 0 if find_branch(vault) else len(find_pending(vault).files)
        reason = _fetch_branch(vault, place, read_record(vault))[0]
        theirs, refs = find_tip(vault, place.tracking), vault.history.refs
        ours = find_tip(vault, f"refs/heads/{place.branch}")
        fetched = refs.count_ahead(theirs, ours)[0] if ours and theirs else 0
        is_diverged = fetched and not refs.is_ancestor(ours, theirs)
        if is_diverged:
            _check_related(vault, place, joins)
        merge = plan_merge(vault, place.tracking, joins, True) if is_diverged else None
        waiting = count_waiting(vault, place)
        return SyncPlan(
            place.remote.name, place.branch, uncommitted, fetched, waiting, merge, reason
        )


def _remember(vault: Vault, last_sync: LastSync, place: SyncTarget, report: SyncResult) -> LastSync:
    is_good = report.outcome is SyncOutcome.SYNCED
    return LastSync(
        remote=place.remote.name,
        at=vault.now(),
        outcome=report.outcome,
        told=report.message,
        good_at=vault.now() if is_good else last_sync.good_at,
        agreed=digest_address(place.remote),
        rescue="" if is_good else report.rescued or last_sync.rescue,
        evidence=last_sync.evidence,
        refused_at=last_sync.refused_at,
    )


class _Sync:
    """One sync, step by step."""

    def __init__(self, vault: Vault, place: SyncTarget, last_sync: LastSync, joins: bool) -> None:
        self._vault, self._place, self.known, self._joins = vault, place, last_sync, joins
        self._evidence = "", ""
        self._report = SyncResult(SyncOutcome.SYNCED, place.remote.name, place.branch)

    def run(self, *, takes_staged: bool) -> SyncResult:
        self._save()
        if takes_staged and not find_branch(self._vault):
            unstage_committed(self._vault)
        if not self._fetch():
            return self._report
        if self._place.is_new:
            add_remote(self._vault.history, self._place.remote, self._place.branch)
        for attempt in range(_ATTEMPTS):
            try:
                operate(self._vault, "nothing was merged", self._merge)
            except (RefusedError, MergeConflictError) as error:
                self._give_up(error)
                return self._report
            if self._push():
                return self._report
            time.sleep(_PAUSE * 2**attempt * (0.5 + random.random()))  # noqa: S311
            if not self._fetch():
                return self._report
        raise VaultError(f"not pushed: others keep pushing to {self._place.name}; try again")

    def finish_merge(self) -> None:
        """Finish a merge that git has stopped."""
        report = finish_merge(self._vault)
        self._report.checkpoint, self._report.merged = report.commit, report

    def _save(self) -> bool:
        """Commit uncommitted changes before a merge; return whether there were any.

        A branch that is not checked out has none.
        """
        if find_branch(self._vault):
            return False
        check_idle(self._vault, "synced")
        report = commit_all(self._vault)
        if report.commits:
            self._report.checkpoint = report.commits[-1][0]
        self._report.left_out = find_too_large(report.skipped)
        return bool(report.commits)

    def _fetch(self) -> bool:
        """Fetch the branch; return False if the remote cannot be reached."""
        reason, token_ends = _fetch_branch(self._vault, self._place, self.known)
        self._report.token_ends = token_ends
        if reason:
            self._end(SyncOutcome.OFFLINE, reason)
        return not reason

    def _merge(self, operation: Transaction) -> None:
        """Merge the other side's new commits, unless another branch was checked out."""
        operation.retries_conflicts = True
        self._check_branch()
        vault, refs = self._vault, self._vault.history.refs
        theirs, ours = find_tip(vault, self._place.tracking), self._own_tip()
        if not theirs or refs.is_ancestor(theirs, ours):
            return
        _reject_outside(vault, self._place, ours, theirs)
        fetched = refs.count_ahead(theirs, ours)[0]
        try:
            if refs.is_ancestor(ours, theirs):
                self._report.followed = follow_commit(vault, theirs)
            else:
                _check_related(vault, self._place, self._joins)
                self._report.merged = merge_branch(vault, self._place.tracking, self._joins)
        except PendingError as error:
            if self._save():  # It is a commit now, so that the next attempt merges it.
                raise ConflictError(str(error)) from error
            raise
        self._report.fetched += fetched

    def _push(self) -> bool:
        """Push the branch and usage data; return False if others have pushed meanwhile."""
        history, place = self._vault.history, self._place
        tip, ref = self._own_tip(), f"refs/heads/{place.upstream}"
        theirs = find_tip(self._vault, place.tracking)
        refs_to_push = {ref: tip} if tip != theirs else {}
        evidence = self._publish()
        result = self._push_refs(refs_to_push | evidence)
        if (
            refs_to_push
            and evidence
            and PushOutcome.REFUSED in {fate for fate, _ in result.refs.values()}
        ):
            # Some hosts reject unknown refs, and with them the whole push.
            branch_result = self._push_refs(refs_to_push)
            result = branch_result._replace(refs={**result.refs, **branch_result.refs})
        is_away = result.trouble in {RemoteError.OFFLINE, RemoteError.MISSING}
        if result.trouble and not refs_to_push and not is_away:  # Only usage data was rejected.
            result = PushResult(dict.fromkeys(evidence, (PushOutcome.REFUSED, result.message)))
        if result.trouble:  # It worked for the fetch.
            self._end(SyncOutcome.OFFLINE if is_away else SyncOutcome.REFUSED, result.message)
            return True
        self._learn_evidence(result)
        fate, message = (
            result.refs.get(ref, (PushOutcome.REFUSED, ""))
            if refs_to_push
            else (PushOutcome.CURRENT, "")
        )
        if fate is PushOutcome.REFUSED:
            self._end(SyncOutcome.REFUSED, message, self._rescue())
            return True
        if fate is PushOutcome.DONE:
            self._report.pushed = count_waiting(self._vault, place)
            history.git.run("update-ref", place.tracking, tip)
        if fate is PushOutcome.MOVED:
            return False
        self._remove_decided(tip)
        return True

    def _remove_decided(self, tip: str) -> None:
        """Remove proposals at the remote whose decision it has now."""
        history, remote = self._vault.history, self._place.remote
        for each in list_decided(self._vault):
            if history.refs.is_ancestor(each.decision_commit, tip):
                result = remove_branch(history, remote, each.name, each.commit)
                fate, message = result.refs.get(f"refs/heads/{each.name}", (PushOutcome.MOVED, ""))
                if result.trouble or fate is PushOutcome.REFUSED:
                    self._report.kept_proposals += (f"{each.name}: {message or result.message}",)
                    continue
                tracking_ref = f"refs/remotes/{remote.name}/{each.name}"
                if fate is PushOutcome.DONE:
                    self._report.removed += (each.name,)
                    history.git.run("update-ref", "-d", tracking_ref)
            history.git.run("update-ref", "-d", each.mark)

    def _push_refs(self, refs: dict[str, str]) -> PushResult:
        specs = [f"{commit}:{ref}" for ref, commit in refs.items()]
        return push(self._vault.history, self._place.remote, specs) if specs else PushResult()

    def _publish(self) -> dict[str, str]:
        """Return this machine's usage ref and commit, if the remote lacks it.

        If the remote has rejected it, wait a day: a hub logs each attempt.
        """
        if 0 <= self._vault.now() - self.known.refused_at < _DAY:
            return {}
        with contextlib.suppress(VaultError):  # A sync is about notes.
            if name := publish(self._vault):
                self._evidence = name, find_tip(self._vault, name)
        name, commit = self._evidence
        return {name: commit} if commit and commit != self.known.evidence else {}

    def _learn_evidence(self, result: PushResult) -> None:
        name, commit = self._evidence
        if not commit:
            return
        fate = result.refs.get(name, (PushOutcome.CURRENT, ""))[0]
        if fate is PushOutcome.MOVED:
            begin_anew(self._vault)
        else:
            others = {each for ref, (each, _) in result.refs.items() if ref != name}
            is_refused = fate is PushOutcome.REFUSED and PushOutcome.REFUSED not in others
            refused_at = self._vault.now() if is_refused else 0.0
            self.known = self.known._replace(evidence=commit, refused_at=refused_at)
            if fate is PushOutcome.DONE and (
                old := find_replaced(self._vault.history, name, commit)
            ):
                self._push_refs({old: ""})  # If that fails, the newer one counts all the same.
        self._report.evidence = fate.value

    def _give_up(self, error: RefusedError | MergeConflictError) -> None:
        """Leave both branches unchanged, and push ours to a rescue ref."""
        outcome = SyncOutcome.REFUSED
        if isinstance(error, MergeConflictError):
            outcome, self._report.conflicts = SyncOutcome.CONFLICT, error.conflicts
        self._end(outcome, str(error), self._rescue())

    def _rescue(self) -> str:
        """Push our commit to a rescue ref; return it, "" if even that was rejected.

        An earlier rescue ref is reused, if the remote accepts that.
        """
        commit = self._own_tip()
        machine = re.sub(r"[^A-Za-z0-9-]+", "-", platform.node()).strip("-") or "machine"
        at = time.strftime("%Y%m%dT%H%M%S", time.localtime(self._vault.now()))
        new_ref = f"{_RESCUE_PREFIX}{machine}/{self._place.branch}-{at}-{commit[:7]}"
        for ref in filter(None, (self.known.rescue, new_ref)):
            result = self._push_refs({ref: commit})
            if result.refs.get(ref, (PushOutcome.REFUSED, ""))[0] in {
                PushOutcome.DONE,
                PushOutcome.CURRENT,
            }:
                return ref
        return ""

    def _end(self, outcome: SyncOutcome, message: str, rescued: str = "") -> None:
        report = self._report
        report.outcome, report.message, report.rescued = outcome, message, rescued
        report.waiting = count_waiting(self._vault, self._place)

    def _check_branch(self) -> None:
        branch = find_branch(self._vault) or self._vault.history.head().branch
        if branch != self._place.branch:
            raise VaultError(
                f"not synced: {branch or 'no branch'} was checked out meanwhile; try again"
            )

    def _own_tip(self) -> str:
        head = self._vault.history.head()
        if head.branch != self._place.branch:
            return self._vault.history.refs.branch_tip(self._place.branch)
        if not head.commit:
            raise NoteNotFoundError(
                "not synced: nothing is committed here yet; write a note first, or begin with "
                "`git clone URL` instead"
            )
        return head.commit


def _fetch_branch(vault: Vault, place: SyncTarget, last_sync: LastSync) -> tuple[str, float]:
    """Fetch the branch, proposals, and other machines' usage data.

    Return why the remote was not reached, "" if it was; and a hub token's expiry, as in
    `FetchResult`.

    Raises:
        VaultError: it cannot be used at all.
    """
    spec = f"+refs/heads/{place.upstream}:{place.tracking}"
    prune = f"refs/remotes/{place.remote.name}/{PROPOSALS}"
    proposal_spec = f"+refs/heads/{PROPOSALS}*:{prune}*"
    others = (proposal_spec, *evidence_refspecs(vault))
    result = fetch(vault.history, place.remote, [spec, *others], prune=prune)
    token_ends = result.token_ends
    if is_absent := result.is_absent:  # Nothing was fetched then.
        result = fetch(vault.history, place.remote, others)
    if result.trouble:
        is_known = bool(last_sync.agreed) and last_sync.agreed == digest_address(place.remote)
        return _reject_unless_offline(place, result.trouble, result.message, is_known), 0.0
    if is_absent and find_tip(vault, place.tracking):
        vault.history.git.run("update-ref", "-d", place.tracking)
    import_usage(vault)
    return "", token_ends


def _check_related(vault: Vault, place: SyncTarget, joins: bool) -> None:
    """Check that both sides have a common commit, or are to be joined.

    Raises:
        VaultError: no common commit is known here.
    """
    refs = vault.history.refs
    if joins or refs.merge_base(f"refs/heads/{place.branch}", place.tracking):
        return
    if refs.is_shallow():
        raise VaultError(
            f"not synced: this clone is shallow and has no commit that {place.name} has; "
            "`git fetch --unshallow` gets it"
        )
    raise VaultError(
        f"not synced: this vault and {place.name} were made apart, and have no commit in common; "
        "`vaultmem sync --allow-unrelated-histories` makes one vault of both and keeps all notes"
    )


def _reject_outside(vault: Vault, place: SyncTarget, ours: str, theirs: str) -> None:
    """Reject changes outside a vault that is a folder of a larger repository.

    Raises:
        VaultError: others changed files outside the vault.
    """
    prefix, base = vault.history.prefix, vault.history.refs.merge_base(ours, theirs)
    changes = find_differences(vault.history, base, theirs) if prefix and base else ()
    outside_paths = [path for path, _, _ in changes if not path.startswith(prefix)]
    if outside_paths:
        raise VaultError(
            f"not synced: {place.name} has changes outside of the vault "
            f"({outside_paths[0]} and so on); "
            "run `git pull --no-rebase --no-edit`, then `vaultmem sync`"
        )


def _reject_unless_offline(
    place: SyncTarget, trouble: RemoteError, message: str, is_known: bool
) -> str:
    """Return why a remote could not be reached.

    Raises:
        VaultError: it was reached, but rejects us or is not a repository.
    """
    remote = place.remote
    is_unplugged = trouble is RemoteError.MISSING and remote.folder is not None and is_known
    if trouble is RemoteError.OFFLINE or is_unplugged:
        again = "; the remote is not added: check the address, and run `vaultmem sync URL` again"
        return message + again if place.is_new else message
    name = remote.name if not place.is_new else remote.display_url
    if trouble is RemoteError.SIGN_IN:
        raise VaultError(
            f"{name}: does not let this machine in ({message}); repeat `git ls-remote {name}` "
            "until git asks for no password (an ssh key in the agent, or a credential helper)"
        )
    if trouble is RemoteError.MISSING:
        raise VaultError(
            f"{name}: no repository is at {remote.display_url} ({message}); "
            f"make an empty one there ({format_init(place.branch)}, or on the server's page), "
            "or correct the address"
        )
    raise VaultError(f"{name}: git could not reach it: {message}")
