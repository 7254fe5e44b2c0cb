"""Sync a vault with a remote: checkpoint, fetch, merge, push, until both have the same.

The network is never waited for under the vault's lock: only the checkpoint and the merge take it.
A lock of its own keeps two syncs apart. Nothing is forced, and each step leaves a whole vault, so a
sync that is killed is simply done again.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.errors import (
    ConflictError,
    MergeConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    VaultError,
)
from vaultmem.services.branching.branches import check_idle, unstage_committed
from vaultmem.services.branching.finish import finish_merge, is_stopped
from vaultmem.services.branching.incoming import follow_commit
from vaultmem.services.branching.merge import MergeReport, merge_branch
from vaultmem.services.branching.proposals import list_decided
from vaultmem.services.reading.look import find_branch
from vaultmem.services.syncing.contact import (
    check_related,
    count_waiting,
    fetch_branch,
    find_tip,
    refuse_outside,
)
from vaultmem.services.syncing.place import Place, find_place
from vaultmem.services.syncing.record import LastSync, keep_record, name_address, read_record
from vaultmem.services.syncing.rescue import rescue_commits
from vaultmem.services.usage import begin_anew, publish
from vaultmem.services.writing.commit import commit_all
from vaultmem.services.writing.ownership import find_too_large
from vaultmem.storage.git.machine_refs import find_replaced
from vaultmem.storage.git.remote import Fate, Pushed, Trouble, push, remove_branch
from vaultmem.storage.git.remotes import add_remote
from vaultmem.storage.lock import WRITER, hold_lock
from vaultmem.vault import Vault

#: How often what others pushed meanwhile is merged and pushed again, and what is saved meanwhile
#: committed; and the seconds of the first pause between.
_ATTEMPTS = 8
_PAUSE = 0.1

_DAY = 86_400


#: Looks at what is about to be pushed, and raises to have nothing pushed: the git folder that has
#: it, the ref, and the commits from which ("" for none) and to which that is to go at the remote.
Check = Callable[[Path, str, str, str], None]


class Outcome(StrEnum):
    """What came of a sync."""

    SYNCED = "synced"
    OFFLINE = "offline"
    REFUSED = "refused"
    CONFLICT = "conflict"


class SyncReport(NamedTuple):
    """What a sync did.

    `checkpoint` is the last commit that was made before, "" if there was nothing to commit.
    `fetched` and `pushed` count commits, `waiting` those that only this machine has. `merged` is
    None where nothing had to be: then the branch may have `followed` the other, with these paths.
    `rescued` is the ref at the remote that has what could not go to the branch; `told` says why.
    `evidence` is what came of this machine's own ref ("" where it has none). `left_rebase_of` is
    the branch, if that was first brought back to where it was before a rebase that was killed.
    `token_ends` is when the token ends by which a hub lets this machine in (seconds since the
    epoch), 0 if that is not soon.
    `removed` are the proposals that were decided and are no branches of the remote any more, `kept`
    those that it did not remove, with why.
    `left_out` are files that are too large for a commit, with the reason.
    """

    outcome: Outcome
    remote: str
    branch: str
    checkpoint: str = ""
    fetched: int = 0
    merged: MergeReport | None = None
    followed: tuple[str, ...] = ()
    pushed: int = 0
    rescued: str = ""
    waiting: int = 0
    told: str = ""
    evidence: str = ""
    conflicts: tuple[object, ...] = ()
    token_ends: float = 0.0
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    left_out: Mapping[str, str] = MappingProxyType({})


def sync_remote(
    vault: Vault,
    where: str = "",
    joins: bool = False,
    patience: float = WRITER,
    ends_merges: bool = False,
    alone: bool = False,
    check: Check | None = None,
) -> SyncReport:
    """Bring the vault's branch and that of a remote to the same commit.

    `where` is a remote's name, or the address of one that the repository is given with this first
    sync. With `joins`, two histories without a common commit become one. Another sync is waited for
    `patience` seconds. With `ends_merges`, a merge at which git has stopped is settled and
    committed first, and a file on disk counts for what is staged of it; a sync that nobody asked
    for leaves that to the person who may be at it. With `alone`, nothing but the branch goes to the
    remote: not how the vault is used here, and no commit that the branch does not take. `check` is
    asked before each push of the branch.

    Raises:
        NoteNotFoundError: there is no such remote, or none at all.
        RefusedError: something looks like a credential, or the histories have nothing in common.
        PendingError: git cannot take a commit now.
        BusyError: another sync takes longer.
        VaultError: the remote cannot be used, other than that it cannot be reached.
    """
    with hold_lock(vault.state_folder / "sync.lock", patience):
        place = find_place(vault, where)
        known = read_record(vault)
        if known.agreed != name_address(place.remote):  # What is known of it is another one's.
            known = known._replace(agreed="", rescue="", evidence="", refused_at=0.0)
        try:
            sync = _Sync(vault, place, known, joins, alone, check)
            if ends_merges and is_stopped(vault):
                sync.finish_merge()
            report = sync.run(takes_staged=ends_merges)
        except VaultError as error:
            told = known._replace(remote=place.remote.name, at=vault.now(), outcome="failed")
            keep_record(vault, told._replace(told=str(error)))
            raise
        keep_record(vault, _remember(vault, sync.known, place, report))
        return report


def _remember(vault: Vault, known: LastSync, place: Place, report: SyncReport) -> LastSync:
    is_good = report.outcome is Outcome.SYNCED
    return LastSync(
        remote=place.remote.name,
        at=vault.now(),
        outcome=report.outcome,
        told=report.told,
        good_at=vault.now() if is_good else known.good_at,
        agreed=name_address(place.remote),
        rescue="" if is_good else report.rescued or known.rescue,
        evidence=known.evidence,
        refused_at=known.refused_at,
    )


class _Sync:
    """One sync, step by step."""

    def __init__(
        self,
        vault: Vault,
        place: Place,
        known: LastSync,
        joins: bool,
        alone: bool,
        check: Check | None,
    ) -> None:
        self._vault, self._place, self.known, self._joins = vault, place, known, joins
        self._alone, self._check = alone, check
        self._evidence = "", ""
        self._report = SyncReport(Outcome.SYNCED, place.remote.name, place.branch)

    def run(self, *, takes_staged: bool) -> SyncReport:
        self._save()
        if takes_staged and not find_branch(self._vault):
            unstage_committed(self._vault)
        if not self._fetch():
            return self._report
        if self._place.is_new:
            add_remote(self._vault.history, self._place.remote, self._place.branch)
        for attempt in range(_ATTEMPTS):
            try:
                with self._vault.lock():  # Nobody switches to another branch in between.
                    self._check_branch()
                    self._merge()
            except (RefusedError, MergeConflictError) as error:
                return self._give_up(error)
            except (PendingError, ConflictError):  # Somebody has saved, or committed, meanwhile.
                if attempt == _ATTEMPTS - 1:
                    raise
                self._save()
                continue
            if self._push():
                return self._report
            time.sleep(_PAUSE * 2**attempt * (0.5 + random.random()))  # noqa: S311
            if not self._fetch():
                return self._report
        raise VaultError(f"not pushed: others keep pushing to {self._place.name}; try again")

    def finish_merge(self) -> None:
        """Bring the merge to its end at which git has stopped."""
        merged = finish_merge(self._vault)
        self._report = self._report._replace(checkpoint=merged.commit, merged=merged)

    def _save(self) -> None:
        """Commit what is not, so that it can be merged with what comes."""
        if find_branch(self._vault):
            return
        check_idle(self._vault, "synced")
        saved = commit_all(self._vault)
        last = saved.commits[-1][0] if saved.commits else self._report.checkpoint
        self._report = self._report._replace(
            checkpoint=last, left_out=find_too_large(saved.skipped)
        )

    def _fetch(self) -> bool:
        """Fetch the branch; False where the remote cannot be reached."""
        told, token_ends = fetch_branch(self._vault, self._place, self.known, self._alone)
        self._report = self._report._replace(token_ends=token_ends)
        if told:
            self._end(Outcome.OFFLINE, told=told)
        return not told

    def _merge(self) -> None:
        """Take in what the other side has and we have not."""
        vault, refs = self._vault, self._vault.history.refs
        theirs, ours = find_tip(vault, self._place.tracking), self._own_tip()
        if not theirs or refs.is_ancestor(theirs, ours):
            return
        refuse_outside(vault, self._place, ours, theirs)
        fetched = refs.count_ahead(theirs, ours)[0]
        if refs.is_ancestor(ours, theirs):
            followed = follow_commit(vault, theirs)
            self._report = self._report._replace(followed=followed)
        else:
            check_related(vault, self._place, self._joins)
            merged = merge_branch(vault, self._place.tracking, self._joins)
            self._report = self._report._replace(merged=merged)
        self._report = self._report._replace(fetched=self._report.fetched + fetched)

    def _push(self) -> bool:
        """Push the branch, and how it is used here; False where others have pushed meanwhile."""
        history, place = self._vault.history, self._place
        tip, ref = self._own_tip(), f"refs/heads/{place.upstream}"
        theirs = find_tip(self._vault, place.tracking)
        wanted = {ref: tip} if tip != theirs else {}
        if wanted and self._check is not None:
            self._check(history.git_folder, ref, theirs, tip)
        evidence = self._publish()
        done = self._push_refs(wanted | evidence)
        if wanted and evidence and Fate.REFUSED in {fate for fate, _ in done.refs.values()}:
            # A host may refuse refs that it does not know, and with them all that was pushed.
            alone = self._push_refs(wanted)
            done = alone._replace(refs={**done.refs, **alone.refs})
        if done.trouble:  # It was there a moment ago.
            is_away = done.trouble in {Trouble.OFFLINE, Trouble.MISSING}
            self._end(Outcome.OFFLINE if is_away else Outcome.REFUSED, told=done.told)
            return True
        self._learn_evidence(done)
        fate, told = done.refs.get(ref, (Fate.REFUSED, "")) if wanted else (Fate.CURRENT, "")
        if fate is Fate.REFUSED:
            self._end(Outcome.REFUSED, told=told, rescued=self._rescue())
            return True
        if fate is Fate.DONE:
            self._report = self._report._replace(pushed=count_waiting(self._vault, place))
            history.git.run("update-ref", place.tracking, tip)
        if fate is Fate.MOVED:
            return False
        self._remove_decided(tip)
        return True

    def _remove_decided(self, tip: str) -> None:
        """Remove the proposals at the remote whose decision it has now."""
        history, remote = self._vault.history, self._place.remote
        for each in list_decided(self._vault):
            if history.refs.is_ancestor(each.by, tip):
                done = remove_branch(history, remote, each.name, each.commit)
                fate, told = done.refs.get(f"refs/heads/{each.name}", (Fate.MOVED, ""))
                if done.trouble or fate is Fate.REFUSED:
                    kept = (*self._report.kept, f"{each.name}: {told or done.told}")
                    self._report = self._report._replace(kept=kept)
                    continue
                tracked = f"refs/remotes/{remote.name}/{each.name}"
                if fate is Fate.DONE:
                    self._report = self._report._replace(removed=(*self._report.removed, each.name))
                    history.git.run("update-ref", "-d", tracked)
            history.git.run("update-ref", "-d", each.mark)

    def _push_refs(self, wanted: dict[str, str]) -> Pushed:
        specs = [f"{commit}:{ref}" for ref, commit in wanted.items()]
        return push(self._vault.history, self._place.remote, specs) if specs else Pushed()

    def _publish(self) -> dict[str, str]:
        """Return the ref that says how the vault is used here, where the remote lacks it.

        One that the remote has refused is tried again a day later: a hub keeps a record of it.
        """
        if 0 <= self._vault.now() - self.known.refused_at < _DAY:
            return {}
        with contextlib.suppress(VaultError):  # A sync is about notes.
            if not self._alone and (name := publish(self._vault)):
                self._evidence = name, find_tip(self._vault, name)
        name, commit = self._evidence
        return {name: commit} if commit and commit != self.known.evidence else {}

    def _learn_evidence(self, done: Pushed) -> None:
        name, commit = self._evidence
        if not commit:
            return
        fate = done.refs.get(name, (Fate.CURRENT, ""))[0]
        if fate is Fate.MOVED:
            begin_anew(self._vault)
        else:
            others = {each for ref, (each, _) in done.refs.items() if ref != name}
            is_refused = fate is Fate.REFUSED and Fate.REFUSED not in others
            refused_at = self._vault.now() if is_refused else 0.0
            self.known = self.known._replace(evidence=commit, refused_at=refused_at)
            if fate is Fate.DONE and (old := find_replaced(self._vault.history, name, commit)):
                self._push_refs({old: ""})  # If that fails, the newer one counts all the same.
        self._report = self._report._replace(evidence=fate.value)

    def _give_up(self, error: RefusedError | MergeConflictError) -> SyncReport:
        """Leave both branches as they are, and bring ours to a safe place."""
        is_conflict = isinstance(error, MergeConflictError)
        outcome = Outcome.CONFLICT if is_conflict else Outcome.REFUSED
        conflicts = error.conflicts if isinstance(error, MergeConflictError) else ()
        self._end(outcome, told=str(error), rescued=self._rescue(), conflicts=conflicts)
        return self._report

    def _rescue(self) -> str:
        if self._alone:
            return ""
        return rescue_commits(self._vault, self._place, self._own_tip(), self.known.rescue)

    def _end(self, outcome: Outcome, **facts: object) -> None:
        waiting = count_waiting(self._vault, self._place)
        self._report = self._report._replace(outcome=outcome, waiting=waiting, **facts)  # type: ignore[arg-type]

    def _check_branch(self) -> None:
        here = find_branch(self._vault) or self._vault.history.head().branch
        if here != self._place.branch:
            raise VaultError(
                f"not synced: {here or 'no branch'} was checked out meanwhile; try again"
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
