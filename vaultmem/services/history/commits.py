"""Resolve, list and group the commits of a vault."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from vaultmem.core.notes.changes import ChangeOp
from vaultmem.core.text.paths import fold, is_text, parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.services.views.resolve_names import describe_several
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.log import (
    Commit,
    find_ends,
    follow_path,
    read_commits,
    walk_changes,
    walk_log,
)
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault


def find_commit(vault: Vault) -> str:
    """Return the commit of the vault's ref, "" without one or if it is checked out.

    Raises:
        NoteNotFoundError: there is no such ref.
    """
    if not vault.ref:
        return ""
    target = vault.history.refs.resolve(vault.ref)
    is_checked_out = target.branch and target.branch == vault.history.head().branch
    return "" if is_checked_out else target.commit


def resolve_commit(vault: Vault, name: str) -> str:
    """Return the full id of the commit that a branch, tag, id or date names.

    A date is searched in the vault's ref.

    Raises:
        NoteNotFoundError: there is no such commit.
        RefusedError: the name is unsafe or ambiguous.
    """
    return vault.history.refs.resolve(name, within=find_commit(vault) or "HEAD").commit


def split_range(text: str) -> tuple[str, str]:
    """Return both sides of `A..B` or `A...B`; an empty side is HEAD."""
    old, _, new = text.partition("..." if "..." in text else "..")
    return old or "HEAD", new or "HEAD"


def locate_note(vault: Vault, commit: str, address: str) -> tuple[str, str, TreeEntry]:
    """Return path, heading and entry of an address in a commit.

    `.md` and folders can be left out if that is unambiguous, as in the work tree.

    Raises:
        NoteNotFoundError: several notes have that bare name, or none.
        RefusedError: the path is unsafe.
    """
    name, _, heading = address.partition("#")
    for path, part in ((address, ""), (name, heading), (f"{name}.md", heading)):
        if path and (entry := find_entry(vault.history, commit, str(parse_note_path(path)))):
            return str(parse_note_path(path)), part, entry
    suffix = _fold(str(parse_note_path(name)))
    tree = vault.history.tree(commit)
    notes = (path for path in tree if path[-3:].lower() == ".md" and is_text(path))
    paths = sorted(path for path in notes if _fold(path).endswith(suffix))
    if len(paths) == 1:
        return paths[0], heading, tree[paths[0]]
    if paths:
        raise NoteNotFoundError(describe_several(vault, name, paths))
    raise NoteNotFoundError(
        f"{name}: not in {commit[:7]}; `vaultmem history {shlex.quote(name)}` shows when it was "
        "and by what name"
    )


def _fold(path: str) -> str:
    return fold(f"/{path}".removesuffix(".md"))


class CommitFilter(NamedTuple):
    """A filter of commits by trailers and time (seconds since the epoch).

    One value of each set must match; an empty set matches all. `people` are agents, or authors
    without an agent. Without `everything`, a commit needs a Vault-Event or an agent's text.
    """

    events: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None
    everything: bool = False
    people: frozenset[str] = frozenset()

    def admits(self, commit: Commit) -> bool:
        """Return whether a commit matches."""
        if not commit.event and not commit.wrote and not self.everything:
            return False
        if self.since is not None and commit.at < self.since:
            return False
        if self.until is not None and commit.at > self.until:
            return False
        criteria = (
            (self.events, {commit.event}),
            (self.agents, {commit.agent, *(each.agent for each in commit.wrote)}),
            (self.sessions, {commit.session, *(each.session for each in commit.wrote)}),
            (self.people, {commit.who, *(each.agent for each in commit.wrote)}),
        )
        return all(values & allowed for allowed, values in criteria if allowed)


class Log(NamedTuple):
    """Commits, newest first; `is_cut` means that a shallow clone lacks older ones."""

    commits: tuple[Commit, ...]
    is_cut: bool


def resolve_view_commit(vault: Vault) -> str:
    """Return the commit of a vault's view, "" for the folder."""
    sources = vault.view.sources
    return sources[0].commit if sources else ""


def list_commits(
    vault: Vault,
    commit_filter: CommitFilter,
    limit: int = 20,
    path: str = "",
    commit: str = "",
    *,
    follows: bool = False,
) -> Log:
    """Return the newest matching commits, from `commit` back.

    The default is the vault's ref, or HEAD. `commit` can be `A..B`: the commits that B has and A
    lacks. `path` is a note or folder of the vault, existing or not. With `follows`, commits under a
    note's earlier names are included. Without a path, commits that changed only notes of other
    projects are left out.

    Raises:
        NoteNotFoundError: there is no such commit.
        RefusedError: the limit is under 1, or the path or a name is unsafe.
    """
    if limit < 1:
        raise RefusedError(f"{limit} commits cannot be shown; ask for 1 or more")
    inside = str(parse_note_path(path)) if path else ""
    if ".." in commit:
        commit = "..".join(resolve_commit(vault, each) for each in split_range(commit))
    start = commit or find_commit(vault) or vault.history.head().commit
    if not start:
        return Log((), False)
    place = os.path.join(vault.root, inside)
    if inside and not os.path.exists(place) and os.path.isfile(f"{place}.md"):
        inside += ".md"
    commits: list[Commit] = []
    foreign = frozenset() if inside else vault.view.foreign()
    walk: Generator[Commit]
    if follows:
        walk = (each for each, _ in follow_path(vault.history, start, inside))
    elif foreign:
        walk = _walk_own(vault, start, foreign)
    else:
        walk = walk_log(vault.history, start, "" if inside == "." else inside)
    for each in walk:
        if commit_filter.admits(each):
            commits.append(each)
            if len(commits) == limit:
                walk.close()
                return Log(tuple(commits), False)
    return Log(tuple(commits), bool(find_ends(vault.history)))


def _walk_own(vault: Vault, start: str, foreign: frozenset[str]) -> Generator[Commit]:
    """Yield the commits, except those that changed only `foreign` notes."""
    for commit, changes in walk_changes(vault.history, start):
        if not changes or not foreign.issuperset(each.path for each in changes):
            yield commit


# Points in history to compare: a note's versions or commits of the vault, evenly chosen.

T = TypeVar("T")


def list_moments(vault: Vault, limit: int, path: str = "") -> list[Commit]:
    """Return at most `limit` commits, oldest first: those that changed a note, or the vault's.

    The first and the last are included. For a note, only versions under its present name count. For
    the vault, only first parents count, so that each commit is later than the one before.

    Raises:
        NoteNotFoundError: there is no such note.
    """
    start = find_commit(vault) or vault.history.head().commit
    if not start:
        return []
    if path:
        note_path = str(resolve_address(vault, path)[0])
        versions = [
            commit
            for commit, change in follow_path(vault.history, start, note_path)
            if change.path == note_path and change.op is not ChangeOp.REMOVE
        ]
        return choose_evenly(versions[::-1], limit)
    inside = ("--", vault.history.prefix) if vault.history.prefix else ("--",)
    output = vault.history.git.run("rev-list", "--first-parent", "--reverse", start, *inside)
    commit_ids = choose_evenly(output.split(), limit)
    commits = read_commits(vault.history, commit_ids)
    return [commits[name] for name in commit_ids]


def choose_evenly(values: Sequence[T], limit: int) -> list[T]:
    """Return at most `limit` (2 or more) of the values, including the first and the last."""
    if len(values) <= limit:
        return list(values)
    step = (len(values) - 1) / (limit - 1)
    return [values[round(place * step)] for place in range(limit)]
