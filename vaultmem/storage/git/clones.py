"""A clone that is a cache: it goes where its remote is, and nobody's words are in it alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.remote import fetch
from vaultmem.storage.git.remotes import Remote, add_remote
from vaultmem.storage.git.runner import make_repository
from vaultmem.storage.git.vault_history import History

#: Where a clone keeps what its remote had, and what it has itself.
_THEIRS, _OURS = "refs/remotes/origin/", "refs/heads/"

#: Bytes are laid down as they were committed, whatever a .gitattributes in the remote says.
_ATTRIBUTES = b"* -text -filter -ident -working-tree-encoding\n"

#: Whoever runs this may have filters of their own, which are for files of their own.
_NOBODYS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def make_clone(root: Path, remote: Remote, branch: str, scratch: Path) -> History:
    """Make a repository that is to follow a branch of a remote; nothing is fetched yet."""
    root.mkdir(parents=True)
    make_repository(root)
    write_atomically(root / ".git/info/attributes", _ATTRIBUTES, durable=False)
    history = History(root, scratch)
    add_remote(history, remote, branch)
    return history


def fetch_branches(history: History, remote: Remote, seconds: float) -> str:
    """Fetch all branches of a remote; return why that failed, empty if it did not."""
    return fetch(history, remote, [f"+{_OURS}*:{_THEIRS}*"], seconds).told


def settle_clone(history: History, branches: Mapping[str, str], branch: str) -> None:
    """Have a clone hold these branches, and the files of one of them; all else in it goes."""
    listed = history.git.run("for-each-ref", "--format=%(refname) %(objectname)", _THEIRS, _OURS)
    known = dict(line.rsplit(" ", 1) for line in listed.splitlines())
    wanted = {f"{kind}{n}": c for kind in (_THEIRS, _OURS) for n, c in branches.items()}
    moves = [f"delete {ref}" for ref in known.keys() - wanted.keys()]
    moves += [
        f"update {ref} {commit}" for ref, commit in wanted.items() if known.get(ref) != commit
    ]
    history.git.run("symbolic-ref", "HEAD", f"{_OURS}{branch}")
    if moves:
        history.git.run("update-ref", "--stdin", stdin="\n".join([*moves, ""]).encode())
    history.git.run("reset", "--quiet", "--hard", branches[branch], "--", env=_NOBODYS)
    history.git.run("clean", "--quiet", "-ffdx", env=_NOBODYS)
