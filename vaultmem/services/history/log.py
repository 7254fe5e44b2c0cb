"""List the vault's commits."""

from __future__ import annotations

import os
from typing import NamedTuple

from vaultmem.core.paths import parse_note_path
from vaultmem.errors import RefusedError
from vaultmem.services.history.locate import find_commit
from vaultmem.storage.git.log import Commit, find_ends, walk_log
from vaultmem.vault import Vault


class CommitFilter(NamedTuple):
    """Which commits are wanted, by their trailers and time (seconds since the epoch).

    Of each set one has to fit; an empty set lets all through. Without `everything` a commit needs
    a Vault-Event.
    """

    events: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None
    everything: bool = False

    def admits(self, commit: Commit) -> bool:
        """Tell whether a commit is wanted."""
        if not commit.event and not self.everything:
            return False
        if self.since is not None and commit.at < self.since:
            return False
        if self.until is not None and commit.at > self.until:
            return False
        wanted = (
            (self.events, commit.event),
            (self.agents, commit.agent),
            (self.sessions, commit.session),
        )
        return all(value in allowed for allowed, value in wanted if allowed)


class Log(NamedTuple):
    """Commits, newest first; `is_cut` says that a shallow clone has no older ones to look at."""

    commits: tuple[Commit, ...]
    is_cut: bool


def list_commits(
    vault: Vault, wanted: CommitFilter, limit: int = 20, path: str = "", commit: str = ""
) -> Log:
    """Return the newest commits that are wanted, from `commit` back.

    Else from what the vault's ref names, or from HEAD.

    `path` is a note or folder of the vault, existing or not.

    Raises:
        RefusedError: the limit is under 1, or the path unsafe.
    """
    if limit < 1:
        raise RefusedError(f"{limit} commits cannot be shown; ask for 1 or more")
    inside = str(parse_note_path(path)) if path else ""
    start = commit or find_commit(vault) or vault.history.head().commit
    if not start:
        return Log((), False)
    place = os.path.join(vault.root, inside)
    if inside and not os.path.exists(place) and os.path.isfile(f"{place}.md"):
        inside += ".md"
    found: list[Commit] = []
    walk = walk_log(vault.history, start, "" if inside == "." else inside)
    for each in walk:
        if wanted.admits(each):
            found.append(each)
            if len(found) == limit:
                walk.close()
                return Log(tuple(found), False)
    return Log(tuple(found), bool(find_ends(vault.history)))
