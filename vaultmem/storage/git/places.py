"""What stands where in a commit: regular files, and all that is not one and yet takes a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.storage.git.commits import TreeEntry

if TYPE_CHECKING:
    from vaultmem.storage.git.history import History

#: A folder's mode, as git prints it.
FOLDER = "040000"

REGULAR = frozenset({"100644", "100755"})


def list_places(history: History, commit: str) -> dict[str, TreeEntry]:
    """Return all that a commit has in the vault by path: files, folders, links, repositories."""
    where = ["--", history.prefix] if history.prefix else []
    out = history.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit, *where)
    found = {}
    for line in filter(None, out.split("\0")):
        meta, _, path = line.partition("\t")
        mode, _, name = meta.split()
        if path.startswith(history.prefix):  # The folders above the vault are listed too.
            found[path.removeprefix(history.prefix)] = TreeEntry(mode, name)
    return found
