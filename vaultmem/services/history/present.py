"""Find where a note of a commit is now, and what a note of now was called in a commit."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from vaultmem.errors import NoteNotFoundError
from vaultmem.services.history.commits import find_commit, locate_note
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.services.reading.renames import confirm_renames
from vaultmem.services.writing.ownership import Pending, read_pending
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.git.log import find_removal, follow_path, walk_renames
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault


class PastNote(NamedTuple):
    """A note of a commit: its path, heading and entry there, and the path that it has now.

    A note that was removed since has the last path that it had.
    """

    path: str
    heading: str
    entry: TreeEntry
    present: str


def locate_past(vault: Vault, commit: str, address: str) -> PastNote:
    """Return the note that an address means in a commit, by its name there or its name now.

    Raises:
        NoteNotFoundError: several notes have that bare name, or none.
        RefusedError: the path is unsafe.
    """
    try:
        name, heading, entry = locate_note(vault, commit, address)
    except NoteNotFoundError:
        if found := _trace_back(vault, commit, address):
            return found
        raise
    return PastNote(name, heading, entry, _find_present(vault, commit, name))


def find_uncommitted(vault: Vault, pending: Pending) -> dict[str, str]:
    """Return the present path of each file that was moved in the folder since HEAD, by the old one.

    The text is the same or nearly, or the name is, and no other file that is new or gone has it.
    """
    head = HeadTree(vault.state).entries(pending.files)
    new = [path for path, file in pending.files.items() if file and path not in head]
    gone = [path for path, file in pending.files.items() if file is None]
    moved = {old: path for path in new if (old := pending.find_before(path))}
    names = Counter(map(_name, new)) + Counter(map(_name, gone))
    for old in gone:
        for path in new:
            if old not in moved and _name(path) == _name(old) and names[_name(old)] == 2:
                moved[old] = path
    return moved


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _find_present(vault: Vault, commit: str, path: str) -> str:
    """Return the path that a note of a commit has now: each removal may have been a rename."""
    history, start, branch = vault.history, commit, find_commit(vault)
    end = branch or history.head().commit
    while start := find_removal(history, start, end, path):
        renames = walk_renames(history, f"{start}^..{start}")
        same = confirm_renames(vault, [each for each in renames if each.previous == path])
        path = same[0].path if same else path
    if not branch and not (vault.root / path).exists():
        moved = find_uncommitted(vault, read_pending(vault)).get(path, path)
        return path if find_entry(history, commit, moved) else moved  # A note that was there.
    return path


def _trace_back(vault: Vault, commit: str, address: str) -> PastNote | None:
    """Return a note that has another name now, None if the commit has no such note."""
    try:
        present, heading = resolve_address(vault, address)
    except NoteNotFoundError:
        return None
    path, branch = str(present), find_commit(vault)
    if not branch:
        moved = find_uncommitted(vault, read_pending(vault))
        path = next((old for old, new in moved.items() if new == path), path)
    versions = follow_path(vault.history, branch or vault.history.head().commit, path)
    renames = confirm_renames(vault, (change for _, change in versions if change.previous))
    for name in (path, *(each.previous for each in renames)):
        if entry := find_entry(vault.history, commit, name):
            return PastNote(name, heading, entry, str(present))
    return None
