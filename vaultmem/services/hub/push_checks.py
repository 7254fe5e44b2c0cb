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
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.services.hub.writers import check_writers
from vaultmem.storage.git.commit_draft import EMPTY_TREE
from vaultmem.storage.git.pushed import NewCommit, PushedChange, TooMuchError, read_difference

_BRANCHES = {RefPurpose.VAULT, RefPurpose.BRANCH}

_LESS = "push less at once: fewer commits, or fewer files"


def run_push_check(visit: ReceivedPush, check: Callable[[], list[Refusal]]) -> list[Refusal]:
    """Return the refusals of `check`; if it fails, refuse the push. Closes the visit's objects."""
    try:
        return check()
    except LockTimeoutError:
        reason = f"its check takes longer than {visit.limits.seconds} seconds"
        return [Refusal("the push", reason, _LESS)]
    except VaultError as error:
        reason = str(error).replace(str(visit.git.repository), visit.vault)
        return [Refusal("the push", f"could not be checked ({reason})", "try again")]
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
    if refusals := [*check_refs(visit, claims)] or [*check_strays(visit, visit.updates)]:
        return refusals
    moves = [(find_place(visit, each.ref), each) for each in visit.updates if not each.is_removal]
    branch_updates = [each for place, each in moves if place is not RefPurpose.MACHINE]
    machine_updates = [each for place, each in moves if place is RefPurpose.MACHINE]
    try:
        new_tips = [each.new for each in branch_updates]
        # The commits that are new to the hub.
        commits = visit.read_commits([*new_tips, *visit.exclusions]) if new_tips else []
        refusals = [*_check_commits(visit, commits), *_check_machines(visit, machine_updates)]
        # Too large files are not read; forbidden files are reported first.
        if not refusals:
            commits_by_id = {each.commit: each for each in commits}
            refusals = [
                refusal
                for place, each in moves
                for refusal in _check_move(visit, place, each, commits_by_id)
            ]
        return refusals
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
    new_tips, old_tips = (
        [each.new for each in updates],
        [each.old for each in updates if not each.is_new],
    )
    commits = visit.read_commits([*new_tips, "--not", *old_tips])
    yield from check_writers(visit, commits)
    yield from check_each(commits)
    yield from check_form(commits)
    too_large = list(check_sizes(visit, commits, visit.limits.note_bytes))
    yield from too_large
    if not too_large:
        yield from check_contents(visit, commits)


def _check_move(
    visit: ReceivedPush,
    place: RefPurpose | None,
    update: RefUpdate,
    new_commits: Mapping[str, NewCommit],
) -> Iterator[Refusal]:
    """Check the changes of a branch or proposal: in total, and by each commit new to it.

    The commits in `new_commits` are new to the hub.
    """
    if place not in {*_BRANCHES, RefPurpose.PROPOSAL}:
        return
    base = visit.tip if update.is_new else update.old
    excluded_commits = [name for name in (base, visit.tip) if name]
    steps = _find_steps(update.new, excluded_commits, new_commits)
    if steps is None:
        steps = visit.read_commits([update.new, "--not", *excluded_commits])
    if [each.parents for each in steps] == [(base,)]:
        total_changes = list(steps[0].changes)
    else:
        total_changes = read_difference(visit.git, base or EMPTY_TREE, update.new, visit.bounds)
    yield from check_names(visit, update.new, total_changes)
    yield from check_markers(visit, total_changes)
    yield from _check_agents(visit, steps, new_commits)
    if visit.owns:
        return
    scope = GrantScope.PROPOSE if place is RefPurpose.PROPOSAL else GrantScope.WRITE
    changes = [change for commit in steps for change in commit.changes]
    # A merge can bring back older versions of files.
    if place is not RefPurpose.PROPOSAL:
        changes += total_changes
    elif any(len(commit.parents) > 1 for commit in steps):
        changes += _find_proposed(visit, update.new)
    yield from check_scope(visit, scope, changes)


def _find_steps(
    tip: str, excluded_commits: Sequence[str], new_commits: Mapping[str, NewCommit]
) -> list[NewCommit] | None:
    """Return the commits up to a tip that `excluded_commits` do not reach.

    None if one of them is not in `new_commits`.
    """
    reached_commits, queue = set[str](), [tip]
    while queue:
        name = queue.pop()
        if name in excluded_commits or name in reached_commits:
            continue
        if name not in new_commits:
            return None
        reached_commits.add(name)
        queue += new_commits[name].parents
    return [each for each in new_commits.values() if each.commit in reached_commits]


def _check_agents(
    visit: ReceivedPush, commits: Sequence[NewCommit], new_commits: Container[str]
) -> Iterator[Refusal]:
    """Check all commits of an agent's push; of a person's, only those that name an agent."""
    is_agent = visit.grant.kind is GrantKind.AGENT
    if agent_commits := [each for each in commits if is_agent or each.agents]:
        from vaultmem.services.hub.agent_pushes import check_agents  # Most pushes have none.

        yield from check_agents(visit, agent_commits, new_commits)


def _find_proposed(visit: ReceivedPush, tip: str) -> list[PushedChange]:
    """Return the total changes of a proposal since it last merged the vault's branch."""
    output = visit.git.run("merge-base", "--all", tip, visit.tip, fine=(0, 1)) if visit.tip else b""
    bases = output.decode().split() or [EMPTY_TREE]
    differences = [read_difference(visit.git, base, tip, visit.bounds) for base in bases]
    common = set.intersection(*({change.path for change in each} for each in differences))
    return [change for change in differences[0] if change.path in common]
