"""A rebase whose git was killed: it stands in the git folder, and nothing will go on with it.

Git's own way back, `git rebase --abort`, refuses where a file is in its way that it had itself just
written, and where it was killed before it had noted the branch.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.storage.git.locks import Place, is_git_at_work
from vaultmem.storage.git.work_trees import read_line

_ID = re.compile(r"[0-9a-f]{40,64}")
#: Commands of a rebase at which git stops without naming a commit, and waits for the person.
_WAITS = frozenset(["break", "b", "exec", "x"])


class KilledRebase(NamedTuple):
    """Which branch was rebased ("" before git noted it), and the commits that git had at hand.

    With `has_stash`, git had put away what no commit had.
    """

    branch: str
    commits: tuple[str, ...]
    has_stash: bool


def find_killed_rebase(place: Place) -> KilledRebase | None:
    """Return what a killed rebase was at; None where there is none, or git waits for the person."""
    folder = place.git_folder / "rebase-merge"
    if not folder.is_dir():
        return None
    last = read_line(folder / "done").rpartition("\n")[2].split()
    waits = (folder / "stopped-sha").exists() or not _WAITS.isdisjoint(last[:1])
    if waits or is_git_at_work(place):
        return None
    commits = [read_line(folder / "onto"), *filter(_ID.fullmatch, last[1:2])]
    branch = read_line(folder / "head-name")
    name = branch.removeprefix("refs/heads/") if branch.startswith("refs/heads/") else ""
    has_stash = bool(read_line(folder / "autostash"))
    return KilledRebase(name, tuple(filter(None, commits)), has_stash)
