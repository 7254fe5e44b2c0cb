"""Refs of ours, one for each machine: commits whose files only that machine writes.

So a push of one is a fast-forward, and nothing in them is ever merged. A ref is named after the
machine's id and a number: a new number begins a history without a past.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.git.commit_draft import REGULAR, Identity, TreeEntry, format_commit

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import History

REFS = "refs/vaultmem/machines/"

_REF = re.compile(rf"([0-9a-f]{{40}}) {REFS}([0-9a-f]{{16}})\.([1-9][0-9]{{0,5}})")

_AUTHOR = re.compile(rb"^author (.*) <([^>\n]*)> ", re.MULTILINE)

#: Others write these files: what is larger, or more, is not read.
_MAX_BYTES = 1024 * 1024
_MAX_FILES = 4_000

#: Commits that a ref may have: what is in them adds up, and every clone fetches it.
MAX_COMMITS = 1_000


class MachineRef(NamedTuple):
    """A machine's ref: its id, its number, and its commit ("" if it has none yet)."""

    machine: str
    number: int
    commit: str

    @property
    def name(self) -> str:
        """The full name of the ref."""
        return f"{REFS}{self.machine}.{self.number}"


def list_refs(history: History) -> list[MachineRef]:
    """Return all refs of machines, for each machine the newest last."""
    out = history.git.run("for-each-ref", "--format=%(objectname) %(refname)", REFS)
    matches = (_REF.fullmatch(line) for line in out.split("\n"))
    return sorted(MachineRef(m[2], int(m[3]), m[1]) for m in matches if m)


def read_owner(history: History, commit: str) -> Identity:
    """Return the author of a machine's commit, empty where the clone does not have the commit.

    A hub takes such a commit only from a token that may write under this name.
    """
    try:
        kind, data = history.objects.read(commit)
    except NoteNotFoundError:
        return Identity("", "")
    found = _AUTHOR.search(data.partition(b"\n\n")[0]) if kind == "commit" else None
    name, email = found.groups() if found else (b"", b"")
    return Identity(name.decode("utf-8", "replace"), email.decode("utf-8", "replace"))


def list_files(history: History, commit: str) -> dict[str, str]:
    """Return the blob id of each file of a machine's commit that may be read.

    A ref that leads to something else, or to what a clone does not have, has no files.
    """
    if not commit:
        return {}
    out = history.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, check=False)
    found: dict[str, str] = {}
    for line in out.split("\0")[:_MAX_FILES]:
        meta, _, path = line.partition("\t")
        words = meta.split()
        is_file = len(words) == 4 and words[0] in REGULAR and words[3].isdigit()
        if is_file and int(words[3]) <= _MAX_BYTES:
            found[path] = words[2]
    return found


def read_files(history: History, commit: str, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return those files of a machine's commit whose path is wanted."""
    blobs = {path: blob for path, blob in list_files(history, commit).items() if wanted(path)}
    try:
        texts = list(history.objects.read_all(blobs.values()))
    except NoteNotFoundError:
        return {}
    return {path: data for path, (_, data) in zip(blobs, texts, strict=True)}


def write_files(
    history: History,
    ref: MachineRef,
    files: Mapping[str, bytes | None],
    author: Identity,
    at: int,
    is_anew: bool = False,
) -> MachineRef:
    """Commit files upon what a ref has, None for those that go, and move it there.

    Where its history has grown long, the commit begins that of the next number, and this ref goes.
    With `is_anew` it does so too, and has these files alone.

    Raises:
        VaultError: somebody else moved it first, or git cannot write.
    """
    from vaultmem.storage.git.objects import ObjectPack  # Who only looks has no need of these.
    from vaultmem.storage.git.tree_builder import TreeBuilder

    pack = ObjectPack()
    trees = TreeBuilder(history.objects, pack)
    entries = {
        path: None if data is None else TreeEntry("100644", pack.add("blob", data))
        for path, data in files.items()
    }
    tree = trees.change(trees.root("" if is_anew else ref.commit), entries)
    is_long = bool(ref.commit) and _count_commits(history, ref.commit) >= MAX_COMMITS
    ends = is_anew or is_long
    target = MachineRef(ref.machine, ref.number + 1, "") if ends else ref
    parents = [target.commit] if target.commit else []
    made = pack.add("commit", format_commit(tree, parents, author, at, "vaultmem: evidence\n"))
    pack.write(history.git)
    history.git.run("update-ref", target.name, made, target.commit or "0" * 40)
    if ends:
        drop_ref(history, ref)
    return target._replace(commit=made)


def find_replaced(history: History, name: str, commit: str) -> str:
    """Return the ref whose place one has just taken, "" where it has not."""
    match = _REF.fullmatch(f"{commit} {name}")
    if match is None or match[3] == "1" or _count_commits(history, commit) > 1:
        return ""
    return MachineRef(match[2], int(match[3]) - 1, "").name


def _count_commits(history: History, commit: str) -> int:
    return int(history.git.run("rev-list", "--count", commit, "--"))


def drop_ref(history: History, ref: MachineRef) -> None:
    """Remove a ref that still is where it was."""
    history.git.run("update-ref", "-d", ref.name, ref.commit)
