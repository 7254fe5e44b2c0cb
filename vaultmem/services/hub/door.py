"""The check of a push, before git accepts it.

Dangerous files, other users' names and credentials must be in no pushed commit, since a clone has
all commits. Invalid file names and conflict markers can be fixed by a later commit; they must not
be in the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from vaultmem.errors import LockTimeoutError, VaultError
from vaultmem.services.hub.contents import (
    check_contents,
    check_each,
    check_form,
    check_markers,
    check_names,
    check_scope,
    check_sizes,
    check_strays,
)
from vaultmem.services.hub.grants import GrantKind, GrantScope
from vaultmem.services.hub.hub_folder import RefUpdate, Refusal
from vaultmem.services.hub.pushed_refs import RefPurpose, check_refs, find_place
from vaultmem.services.hub.visit import ReceivedPush
from vaultmem.services.hub.writers import check_writers
from vaultmem.storage.git.commit_draft import EMPTY_TREE
from vaultmem.storage.git.pushed import NewCommit, PushedChange, TooMuchError, read_difference

_BRANCHES = {RefPurpose.VAULT, RefPurpose.BRANCH}

_LESS = "push less at once: fewer commits, or fewer files"


def ask_door(visit: ReceivedPush, check: Callable[[], list[Refusal]]) -> list[Refusal]:
    """Return the refusals of `check`; if it fails, refuse the push. Closes the visit's objects."""
    try:
        return check()
    except LockTimeoutError:
        why = f"its check takes longer than {visit.limits.seconds} seconds"
        return [Refusal("the push", why, _LESS)]
    except VaultError as error:
        why = str(error).replace(str(visit.git.repository), visit.vault)
        return [Refusal("the push", f"could not be checked ({why})", "try again")]
    except MemoryError:
        return [Refusal("the push", "its check takes more memory than it may", _LESS)]
    finally:
        visit.objects.close()


def check_push(visit: ReceivedPush, claims: Mapping[str, str]) -> list[Refusal]:
    """Return the refusals of a push, with remedies; any one rejects the whole push.

    `claims` maps refs of machines to their users.

    Raises:
        LockTimeoutError: git took too long.
        SystemFailureError: git cannot read the pushed objects.
    """
    if not visit.may(GrantScope.PROPOSE):
        return [Refusal(visit.vault, "you may not write here", "ask its owner for a grant")]
    if found := [*check_refs(visit, claims)] or [*check_strays(visit, visit.updates)]:
        return found
    moved = [(find_place(visit, each.ref), each) for each in visit.updates if not each.is_removal]
    shared = [each for place, each in moved if place is not RefPurpose.MACHINE]
    own = [each for place, each in moved if place is RefPurpose.MACHINE]
    try:
        news = [each.new for each in shared]
        commits = visit.read_commits([*news, *visit.known]) if news else []  # New to the hub.
        found = [*_check_commits(visit, commits), *_check_machines(visit, own)]
        # Too large files are not read; forbidden files are reported first.
        if not found:
            new = {each.commit: each for each in commits}
            found = [told for place, each in moved for told in _check_move(visit, place, each, new)]
        return found
    except TooMuchError as error:
        return [Refusal("the push", str(error), "push less at once, an earlier commit first")]


def _check_commits(visit: ReceivedPush, commits: Sequence[NewCommit]) -> Iterator[Refusal]:
    yield from check_writers(visit, commits)
    yield from check_each(commits)
    too_large = list(check_sizes(visit, commits))
    yield from too_large
    if not too_large:
        yield from check_contents(visit, commits)


def _check_machines(visit: ReceivedPush, updates: Sequence[RefUpdate]) -> Iterator[Refusal]:
    """Check commits of usage data that machines share.

    Readers trust the author, so all commits new to the ref are checked: commits that the hub has in
    other refs might be another user's.
    """
    if not updates:
        return
    news, olds = [each.new for each in updates], [each.old for each in updates if not each.is_new]
    commits = visit.read_commits([*news, "--not", *olds])
    yield from check_writers(visit, commits)
    yield from check_each(commits)
    yield from check_form(commits)
    too_large = list(check_sizes(visit, commits, visit.limits.note_bytes))
    yield from too_large
    if not too_large:
        yield from check_contents(visit, commits)


def _check_move(
    visit: ReceivedPush, place: RefPurpose | None, update: RefUpdate, new: Mapping[str, NewCommit]
) -> Iterator[Refusal]:
    """Check the changes of a branch or proposal: in total, and by each commit new to it.

    The commits in `new` are new to the hub.
    """
    if place not in {*_BRANCHES, RefPurpose.PROPOSAL}:
        return
    base = visit.tip if update.is_new else update.old
    without = [name for name in (base, visit.tip) if name]
    steps = _find_steps(update.new, without, new)
    if steps is None:
        steps = visit.read_commits([update.new, "--not", *without])
    if [each.parents for each in steps] == [(base,)]:
        whole = list(steps[0].changes)
    else:
        whole = read_difference(visit.git, base or EMPTY_TREE, update.new, visit.bounds)
    yield from check_names(visit, update.new, whole)
    yield from check_markers(visit, whole)
    yield from _check_agents(visit, steps, new)
    if visit.owns:
        return
    scope = GrantScope.PROPOSE if place is RefPurpose.PROPOSAL else GrantScope.WRITE
    changes = [change for commit in steps for change in commit.changes]
    # A merge can bring back older versions of files.
    if place is not RefPurpose.PROPOSAL:
        changes += whole
    elif any(len(commit.parents) > 1 for commit in steps):
        changes += _find_proposed(visit, update.new)
    yield from check_scope(visit, scope, changes)


def _find_steps(
    tip: str, without: Sequence[str], new: Mapping[str, NewCommit]
) -> list[NewCommit] | None:
    """Return the commits up to a tip that `without` do not reach; None if one is not in `new`."""
    reached, waiting = set[str](), [tip]
    while waiting:
        name = waiting.pop()
        if name in without or name in reached:
            continue
        if name not in new:
            return None
        reached.add(name)
        waiting += new[name].parents
    return [each for each in new.values() if each.commit in reached]


def _check_agents(
    visit: ReceivedPush, commits: Sequence[NewCommit], new: Container[str]
) -> Iterator[Refusal]:
    """Check all commits of an agent's push; of a person's, only those that name an agent."""
    is_agent = visit.grant.kind is GrantKind.AGENT
    if by_agents := [each for each in commits if is_agent or each.agents]:
        from vaultmem.services.hub.agent_pushes import check_agents  # Most pushes have none.

        yield from check_agents(visit, by_agents, new)


def _find_proposed(visit: ReceivedPush, new: str) -> list[PushedChange]:
    """Return the total changes of a proposal since it last merged the vault's branch."""
    out = visit.git.run("merge-base", "--all", new, visit.tip, fine=(0, 1)) if visit.tip else b""
    bases = out.decode().split() or [EMPTY_TREE]
    found = [read_difference(visit.git, base, new, visit.bounds) for base in bases]
    common = set.intersection(*({change.path for change in each} for each in found))
    return [change for change in found[0] if change.path in common]
