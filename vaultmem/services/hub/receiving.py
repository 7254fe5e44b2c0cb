"""Receive a push: find its user, check it, and log the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from vaultmem.services.hub.hub_access import PushAccess, find_access, is_hosts_own
from vaultmem.services.hub.hub_folder import (
    MAX_LOGGED_REFUSALS,
    MAX_REPORTED_REFUSALS,
    AuditEntry,
    Hub,
    RefUpdate,
    Refusal,
    cut_refusals,
    record,
)
from vaultmem.services.hub.push_checks import check_push, run_push_check
from vaultmem.services.hub.pushed_refs import claim_of, read_claims, store_claims
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.storage.git.bare import BareGit

#: The remedy if another push came first.
FETCH_FIRST = "fetch first (`vaultmem sync`, or `git pull`), then push again"


_NONE = "0" * 40


class PushAnswer(NamedTuple):
    """The answer to git's client, as lines, and whether its push is refused."""

    lines: list[str]
    is_refused: bool


def receive(
    repository: Path,
    environment: Mapping[str, str],
    lines: bytes,
    now: float,
    limit_time: Callable[[int], object] = lambda _: None,
    access_file: str = "",
) -> PushAnswer:
    """Check a push for git's pre-receive hook; the audit log has it on return.

    A ref that another push has moved meanwhile is `late`: git rejects only that ref, and the answer
    asks to fetch first.

    `lines` are a hook's input: old, new and ref. `limit_time` gets the seconds that the check may
    take, and must raise LockTimeoutError after them; 0 ends the limit. `access_file` is the `file`
    of `find_access`.

    Raises:
        VaultError: the pusher is unknown, or the check failed; the push is rejected.
    """
    refs = (line.rstrip(b"\n").rpartition(b" ")[2] for line in BytesIO(lines))
    if is_hosts_own(environment, refs):
        return PushAnswer([], False)
    access = find_access(repository, environment, access_file, now)
    most = max(access.hub.limits.push_refs + 1, MAX_LOGGED_REFUSALS)  # Above it, all are refused.
    updates = [_parse(line) for line in islice(BytesIO(lines), most)]
    git = BareGit(repository, environment, access.hub.limits.seconds)
    refusals, late_updates = check_updates(access, git, updates, limit_time)
    remarks = [
        f"{each.ref}: another push came first; {FETCH_FIRST}"
        for each in late_updates[:MAX_REPORTED_REFUSALS]
    ]
    return PushAnswer(cut_refusals(refusals, MAX_REPORTED_REFUSALS) or remarks, bool(refusals))


def check_updates(
    access: PushAccess,
    git: BareGit,
    updates: Sequence[RefUpdate],
    limit_time: Callable[[int], object] = lambda _: None,
) -> tuple[list[Refusal], list[RefUpdate]]:
    """Check and log updates; return the refusals, and the updates that are late.

    Raises:
        VaultError: grants or claims cannot be read, or the log not be written.
    """
    pusher = access.find()
    visit = ReceivedPush(pusher, git, updates) if pusher else None
    refusals, late_updates = [access.stranger], list[RefUpdate]()
    if visit:
        limit_time(visit.limits.seconds)
        try:
            refusals = run_push_check(visit, partial(_check, access.hub, visit))
        finally:
            limit_time(0)
    if not refusals and access.find() is None:
        refusals = [access.stranger]  # It was revoked meanwhile.
    if visit and not refusals:
        current_refs = visit.list_refs()
        late_updates = [each for each in updates if current_refs.get(each.ref, _NONE) != each.old]
    name = pusher.grant.name if pusher else ""
    timely_updates = [each for each in updates if each not in late_updates]
    record_push(access, name, "refused" if refusals else "done", timely_updates, refusals)
    record_push(access, name, "late", late_updates)
    return refusals, late_updates


def record_push(
    access: PushAccess,
    name: str,
    outcome: str,
    updates: Sequence[RefUpdate],
    refusals: Sequence[Refusal] = (),
) -> None:
    """Log the outcome of some updates, if there are any."""
    if updates:
        refs = [each._asdict() for each in updates[:MAX_LOGGED_REFUSALS]]
        details = {"refs": refs, "refused": cut_refusals(refusals, MAX_LOGGED_REFUSALS)}
        fields = name, access.id, access.origin
        record(
            access.hub, AuditEntry(access.now, *fields, "push", (access.vault,), outcome, details)
        )


def _check(hub: Hub, visit: ReceivedPush) -> list[Refusal]:
    refusals = check_push(visit, read_claims(hub, visit.vault))
    if not refusals:
        claims = [(claim_of(each.ref), each) for each in visit.updates]
        new_claims = {
            name: visit.grant.name for name, each in claims if name and not each.is_removal
        }
        removed_claims = [name for name, each in claims if each.is_removal and name == each.ref]
        if new_claims or removed_claims:
            store_claims(hub, visit.vault, new_claims, removed_claims)
    return refusals


def _parse(line: bytes) -> RefUpdate:
    old, new, ref = line.decode("utf-8", "surrogateescape").removesuffix("\n").split(" ", 2)
    return RefUpdate(ref, old, new)
