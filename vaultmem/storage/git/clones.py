"""A clone that is a cache: it goes where its remote is, and nobody's words are in it alone.

The repository is laid down file by file, so nobody's template, hook or setting is in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vaultmem.storage.git.head import read_head, read_refs
from vaultmem.storage.git.remote import Listed, fetch
from vaultmem.storage.git.remotes import Remote
from vaultmem.storage.git.vault_history import History

#: Where a clone keeps what its remote had, and what it has itself.
_THEIRS, _OURS = "refs/remotes/origin/", "refs/heads/"

_CONFIG = """[core]
\trepositoryFormatVersion = 0
\tbare = false
[remote "origin"]
\turl = "{url}"
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""

#: Bytes are laid down as they were committed, whatever a .gitattributes in the remote says.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"

#: Whoever runs this may have filters of their own, which are for files of their own.
_NOBODYS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def make_clone(root: Path, remote: Remote, branch: str, scratch: Path) -> History:
    """Make a repository that is to follow a branch of a remote; nothing is fetched yet."""
    git = root / ".git"
    for name in ("objects/pack", "refs/heads", "info"):
        (git / name).mkdir(parents=True)
    url = remote.url.replace("\\", "\\\\").replace('"', '\\"')
    (git / "config").write_text(_CONFIG.format(url=url), encoding="utf-8")
    (git / "info/attributes").write_text(_ATTRIBUTES)
    (git / "HEAD").write_text(f"ref: {_OURS}{branch}\n", encoding="utf-8")
    return History(root, scratch)


def fetch_branches(history: History, remote: Remote, seconds: float) -> str:
    """Fetch all branches of a remote; return why that failed, empty if it did not."""
    return fetch(history, remote, [f"+{_OURS}*:{_THEIRS}*"], seconds).told


def settle_clone(
    history: History, branches: Mapping[str, str], branch: str, known: Mapping[str, str] | None
) -> None:
    """Have a clone hold these branches, and the files of one of them.

    `known` are those that it has, where it is sure to be whole; else all goes that is not theirs.
    """
    git = history.git
    before = _list_refs(history) if known is None else _name_refs(known)
    wanted = _name_refs(branches)
    moves = [f"delete {ref}" for ref in before.keys() - wanted.keys()]
    del wanted[f"{_OURS}{branch}"]
    moves += [
        f"update {ref} {commit}" for ref, commit in wanted.items() if before.get(ref) != commit
    ]
    head = read_head(history.git_folder)
    if head is None or head.branch != branch:
        git.run("symbolic-ref", "HEAD", f"{_OURS}{branch}")
    if moves:
        git.run("update-ref", "--stdin", stdin="\n".join([*moves, ""]).encode())
    is_there = head is not None and (head.branch, head.commit) == (branch, branches[branch])
    if known is None or not is_there:
        git.run("reset", "--quiet", "--hard", branches[branch], "--", env=_NOBODYS)
    if known is None:
        git.run("clean", "--quiet", "-ffdx", env=_NOBODYS)


def is_whole(history: History) -> bool:
    """Tell whether git finds all that a clone's refs need, each byte as it was."""
    return history.git.run("fsck", "--no-dangling", "--no-progress", check=False) == ""


def read_branches(folder: Path) -> Listed | None:
    """Return the branches of a repository on this machine, from its files alone.

    None where there is no repository, or where only git can read its refs.
    """
    git = folder / ".git" if (folder / ".git").is_dir() else folder
    head, found = read_head(git), read_refs(git, _OURS)
    if head is None or found is None:
        return None
    return Listed({ref.removeprefix(_OURS): commit for ref, commit in found.items()}, head.branch)


def _name_refs(branches: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{kind}{name}": commit for kind in (_THEIRS, _OURS) for name, commit in branches.items()
    }


def _list_refs(history: History) -> dict[str, str]:
    out = history.git.run("for-each-ref", "--format=%(refname) %(objectname)")
    rows = (line.rpartition(" ") for line in out.splitlines())
    return {ref: commit for ref, _, commit in rows}
