"""Resolve, list and group the commits of a vault."""

from __future__ import annotations

import os
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
    """Return the commit that the vault's ref names, "" where what it names is the folder.

    Raises:
        NoteNotFoundError: there is no such ref.
    """
    if not vault.ref:
        return ""
    target = vault.history.refs.resolve(vault.ref)
    checked_out = target.branch and target.branch == vault.history.head().branch
    return "" if checked_out else target.commit


def resolve_commit(vault: Vault, name: str) -> str:
    """Return the full id of the commit that a branch, tag, id or date names.

    A date is one of the vault's ref.

    Raises:
        NoteNotFoundError: there is none.
        RefusedError: the name is unsafe or ambiguous.
    """
    try:
        return vault.history.refs.resolve(name, within=find_commit(vault) or "HEAD").commit
    except NoteNotFoundError:
        if vault.history.head().commit:
            raise
        raise NoteNotFoundError(
            f"{name}: nothing is committed here yet; `vaultmem checkpoint NOTE` makes a commit"
        ) from None


def split_range(text: str) -> tuple[str, str]:
    """Return both sides of `A..B` or `A...B`; what is left out is HEAD."""
    old, _, new = text.partition("..." if "..." in text else "..")
    return old or "HEAD", new or "HEAD"


def locate_note(vault: Vault, commit: str, address: str) -> tuple[str, str, TreeEntry]:
    """Return path, heading and entry of what an address means in a commit.

    `.md` and folders may be left out where that is unambiguous, as in the work tree.

    Raises:
        NoteNotFoundError: several notes have that bare name, or none.
        RefusedError: the path is unsafe.
    """
    name, _, heading = address.partition("#")
    for path, part in ((address, ""), (name, heading), (f"{name}.md", heading)):
        if path and (entry := find_entry(vault.history, commit, str(parse_note_path(path)))):
            return str(parse_note_path(path)), part, entry
    wanted = _fold(str(parse_note_path(name)))
    tree = vault.history.tree(commit)
    notes = (path for path in tree if path[-3:].lower() == ".md" and is_text(path))
    found = sorted(path for path in notes if _fold(path).endswith(wanted))
    if len(found) == 1:
        return found[0], heading, tree[found[0]]
    if found:
        raise NoteNotFoundError(describe_several(vault, name, found))
    raise NoteNotFoundError(
        f"{name}: not in {commit[:7]}; `vaultmem history {name}` shows when it was and by what name"
    )


def _fold(path: str) -> str:
    return fold(f"/{path}".removesuffix(".md"))


class CommitFilter(NamedTuple):
    """Which commits are wanted, by their trailers and time (seconds since the epoch).

    Of each set one has to fit; an empty set lets all through. `people` are agents, or authors who
    name none. Without `everything` a commit needs a Vault-Event, or what an agent wrote.
    """

    events: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None
    everything: bool = False
    people: frozenset[str] = frozenset()

    def admits(self, commit: Commit) -> bool:
        """Tell whether a commit is wanted."""
        if not commit.event and not commit.wrote and not self.everything:
            return False
        if self.since is not None and commit.at < self.since:
            return False
        if self.until is not None and commit.at > self.until:
            return False
        wanted = (
            (self.events, {commit.event}),
            (self.agents, {commit.agent, *(each.agent for each in commit.wrote)}),
            (self.sessions, {commit.session, *(each.session for each in commit.wrote)}),
            (self.people, {commit.who, *(each.agent for each in commit.wrote)}),
        )
        return all(values & allowed for allowed, values in wanted if allowed)


class Log(NamedTuple):
    """Commits, newest first; `is_cut` says that a shallow clone has no older ones to look at."""

    commits: tuple[Commit, ...]
    is_cut: bool


def resolve_view_commit(vault: Vault) -> str:
    """Return the commit that a vault looks at, "" where it is the folder."""
    sources = vault.view.sources
    return sources[0].commit if sources else ""


def list_commits(
    vault: Vault,
    wanted: CommitFilter,
    limit: int = 20,
    path: str = "",
    commit: str = "",
    *,
    follows: bool = False,
) -> Log:
    """Return the newest commits that are wanted, from `commit` back.

    Else from what the vault's ref names, or from HEAD. `commit` may be `A..B`: what B has and A has
    not. `path` is a note or folder of the vault, existing or not; a log that `follows` a note has
    its commits under earlier names too. Without a path, commits that changed notes of other
    projects than the viewed one, and nothing else, are left out.

    Raises:
        NoteNotFoundError: there is no such commit.
        RefusedError: the limit is under 1, or the path or a name unsafe.
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
    found: list[Commit] = []
    foreign = frozenset() if inside else vault.view.foreign()
    walk: Generator[Commit]
    if follows:
        walk = (each for each, _ in follow_path(vault.history, start, inside))
    elif foreign:
        walk = _walk_own(vault, start, foreign)
    else:
        walk = walk_log(vault.history, start, "" if inside == "." else inside)
    for each in walk:
        if wanted.admits(each):
            found.append(each)
            if len(found) == limit:
                walk.close()
                return Log(tuple(found), False)
    return Log(tuple(found), bool(find_ends(vault.history)))


def _walk_own(vault: Vault, start: str, foreign: frozenset[str]) -> Generator[Commit]:
    """Yield the commits but those that changed `foreign` notes alone."""
    for commit, changes in walk_changes(vault.history, start):
        if not changes or not foreign.issuperset(each.path for each in changes):
            yield commit


# Moments to look back to: a note's versions, or commits of the vault, evenly chosen.

T = TypeVar("T")


def list_moments(vault: Vault, limit: int, path: str = "") -> list[Commit]:
    """Return at most `limit` commits, oldest first: those that changed a note, or the vault's.

    The first and the last are among them. Of a note only those are named at which it had its name
    of now; of the vault those along first parents, so that each is later than the one before.

    Raises:
        NoteNotFoundError: there is no such note.
    """
    start = find_commit(vault) or vault.history.head().commit
    if not start:
        return []
    if path:
        found = str(resolve_address(vault, path)[0])
        versions = [
            commit
            for commit, change in follow_path(vault.history, start, found)
            if change.path == found and change.op is not ChangeOp.REMOVE
        ]
        return choose_evenly(versions[::-1], limit)
    inside = ("--", vault.history.prefix) if vault.history.prefix else ("--",)
    listed = vault.history.git.run("rev-list", "--first-parent", "--reverse", start, *inside)
    chosen = choose_evenly(listed.split(), limit)
    commits = read_commits(vault.history, chosen)
    return [commits[name] for name in chosen]


def choose_evenly(values: Sequence[T], limit: int) -> list[T]:
    """Return at most `limit` (2 or more) of the values, the first and the last among them."""
    if len(values) <= limit:
        return list(values)
    step = (len(values) - 1) / (limit - 1)
    return [values[round(place * step)] for place in range(limit)]
