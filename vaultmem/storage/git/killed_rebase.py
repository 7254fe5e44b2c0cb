"""A rebase whose git was killed: it stands in the git folder, and nothing will go on with it.

Git's own way back, `git rebase --abort`, refuses where a file is in its way that it had itself just
written, and where it was killed before it had noted the branch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.git.locks import Place, is_git_at_work

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
    last = _read(folder / "done").rpartition("\n")[2].split()
    waits = (folder / "stopped-sha").exists() or not _WAITS.isdisjoint(last[:1])
    if waits or is_git_at_work(place):
        return None
    commits = [_read(folder / "onto"), *filter(_ID.fullmatch, last[1:2])]
    branch = _read(folder / "head-name")
    name = branch.removeprefix("refs/heads/") if branch.startswith("refs/heads/") else ""
    has_stash = bool(_read(folder / "autostash"))
    return KilledRebase(name, tuple(filter(None, commits)), has_stash)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""
