"""Find the present paths of notes in history: the renames of commits, and which of them hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Set

from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.renames import count_lines, find_renamed
from vaultmem.core.text.paths import fold, is_note_name
from vaultmem.errors import VaultError
from vaultmem.storage.git.log import walk_renames
from vaultmem.vault import Vault

#: Where a database has the renames of history up to a commit.
_KEY = "renames"


def read_renames(vault: Vault) -> dict[str, str]:
    """Return the new path of each file that a commit renamed; only new commits are read."""
    head = vault.head()
    if head is None or not head.commit:
        return {}
    known = json.loads(vault.state.get(_KEY) or '{"commit": "", "moved": {}}')
    moved: dict[str, str] = known["moved"]
    if known["commit"] == head.commit:
        return moved
    history = vault.history
    if known["commit"] and history.refs.is_ancestor(known["commit"], head.commit):
        span = f"{known['commit']}..{head.commit}"
    else:
        span, moved = head.commit, {}
    try:
        renames = confirm_renames(vault, walk_renames(history, span))
    except VaultError:  # A clone may lack what it takes to compare two versions.
        return moved
    moved |= {each.previous: each.path for each in reversed(renames)}
    vault.state.keep(_KEY, json.dumps({"commit": head.commit, "moved": moved}))
    return moved


def follow_renames(path: str, here: Set[str], moved: Mapping[str, str]) -> str:
    """Return the path among `here` that a file has now, its own where that is not known."""
    seen, now = {path}, path
    while now not in here and now in moved and moved[now] not in seen:
        now = moved[now]
        seen.add(now)
    return now if now in here else path


def confirm_renames(vault: Vault, renames: Iterable[FileChange]) -> list[FileChange]:
    """Return those of git's renames that are one file: git compares bytes, properties included.

    The file kept its bytes or its name, or the note has a line or more of the same text.
    """
    listed = list(renames)
    unsure = {
        blob
        for each in listed
        if not _is_kept(each) and is_note_name(each.path)
        for blob in (each.old_blob, each.blob)
    }
    read = vault.history.objects.read_all(unsure)
    lines = {blob: count_lines(data) for blob, (_, data) in zip(unsure, read, strict=True)}
    return [each for each in listed if _is_kept(each) or _has_same_text(each, lines)]


def _is_kept(rename: FileChange) -> bool:
    old, new = (fold(path).rpartition("/")[2] for path in (rename.previous, rename.path))
    return rename.old_blob == rename.blob or old == new


def _has_same_text(rename: FileChange, lines: Mapping[str, Counter[str]]) -> bool:
    old, name = lines.get(rename.old_blob), rename.previous
    return old is not None and bool(find_renamed({name: old}, lines[rename.blob], {name}))
