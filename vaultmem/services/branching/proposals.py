"""Branches by which others propose changes (`proposals/WHO/TOPIC` at a remote), and decisions.

A decision is a commit of the vault's branch. The branch at the remote is removed by the next sync,
once the remote has that commit; until then a ref of this repository marks it as decided.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.core.delta.file_changes import FileChange
from vaultmem.services.writing.commit import CommitReport, commit_all, commit_event
from vaultmem.services.writing.parts import Event
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault

PROPOSALS = "proposals/"

#: One ref for each decided proposal, at the commit that decides: COMMIT OF THE PROPOSAL/NAME.
_DECIDED = "refs/vaultmem/decided/"

_NAME = re.compile(rf"(?:[^/]+/)?({PROPOSALS}[^/]+/.+)")


class ProposedBranch(NamedTuple):
    """A branch of a remote that waits for a decision: `ref` has it here, since `day` (ISO 8601)."""

    name: str
    ref: str
    commit: str
    day: str


class Decision(NamedTuple):
    """A proposal that was decided here by the commit `by`; `mark` is the ref that keeps this."""

    mark: str
    name: str
    commit: str
    by: str


def list_proposed(vault: Vault) -> list[ProposedBranch]:
    """Return the proposals that the checked-out branch lacks and that were not rejected."""
    head = vault.head()
    if head is None or not head.commit:
        return []
    form = "%(refname)%00%(refname:lstrip=3)%00%(objectname)%00%(committerdate:short)"
    command = ("for-each-ref", f"--format={form}", f"--no-merged={head.commit}")
    out = vault.history.git.run(*command, f"refs/remotes/*/{PROPOSALS}**")
    rows = [line.split("\0") for line in out.splitlines()]
    refs = vault.history.refs
    decided = {
        (each.name, each.commit)
        for each in (list_decided(vault) if rows else ())
        if refs.is_ancestor(each.by, head.commit)
    }
    return [
        ProposedBranch(name, ref, commit, day)
        for ref, name, commit, day in rows
        if _NAME.fullmatch(name) and (name, commit) not in decided
    ]


def list_changes(vault: Vault, commit: str) -> list[FileChange]:
    """Return what a proposal changes since it parted from the checked-out branch."""
    base = vault.history.refs.merge_base(vault.history.head().commit, commit)
    return diff_commits(vault.history, base, commit)


def reject_branch(vault: Vault, name: str, commit: str, reason: str) -> CommitReport:
    """Commit that a proposal is rejected, with the reason; its branch goes with the next sync."""
    commit_all(vault)
    body = (f"{name} at {commit}", *filter(None, [reason]))
    event = Event("review", f"review: {name} is rejected", vault.author, body, "refine")
    report = commit_event(vault, event, even_if_clean=True)
    mark_decided(vault, name, commit, report.commit)
    return report


def mark_decided(vault: Vault, name: str, commit: str, by: str) -> None:
    """Mark a branch as decided by a commit, if it is a proposal; `name` is as people give it."""
    if found := _NAME.fullmatch(name):
        vault.history.git.run("update-ref", f"{_DECIDED}{commit}/{found[1]}", by)


def list_decided(vault: Vault) -> list[Decision]:
    """Return the proposals that were decided here and that the remote may still have."""
    out = vault.history.git.run("for-each-ref", "--format=%(objectname) %(refname)", _DECIDED)
    rows = (line.partition(" ") for line in out.splitlines())
    named = ((mark, *mark.removeprefix(_DECIDED).partition("/"), by) for by, _, mark in rows)
    return [Decision(mark, name, commit, by) for mark, commit, _, name, by in named]
