"""Find the present paths of notes in history: confirmed renames of commits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.renames import count_lines, find_renamed
from vaultmem.core.text.paths import fold, is_note_name
from vaultmem.errors import VaultError
from vaultmem.storage.git.log import Commit, walk_renames, walk_versions
from vaultmem.vault import Vault

#: State key: the renames of history up to a commit.
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
    except VaultError:  # A clone can lack one of the versions.
        return moved
    moved |= {each.previous: each.path for each in reversed(renames)}
    vault.state.keep(_KEY, json.dumps({"commit": head.commit, "moved": moved}))
    return moved


def follow_renames(path: str, here: Set[str], moved: Mapping[str, str]) -> str:
    """Return a file's present path among `here`, or its own if unknown."""
    seen, now = {path}, path
    while now not in here and now in moved and moved[now] not in seen:
        now = moved[now]
        seen.add(now)
    return now if now in here else path


def walk_present(
    vault: Vault, moved: Mapping[str, str], is_split: Callable[[Commit], bool] = lambda _: False
) -> Iterator[tuple[Commit, FileChange, str]]:
    """Yield the changes of HEAD's commits, newest first, with each file's present path.

    `moved` maps present to previous paths of files whose move is uncommitted. Merges are left out:
    the merged commits have their changes. For a commit that `is_split`, a rename is a removal and a
    new file.
    """
    start = vault.history.head().commit
    walked = [*walk_versions(vault.history, start)] if start else []
    walked = [each for each in walked if len(each[0].parents) < 2]
    renames = (each for _, changes in walked for each in changes if each.previous)
    confirmed = {*confirm_renames(vault, renames)}
    names = {old: new for new, old in moved.items()}
    for commit, changes in walked:
        renamed: dict[str, str] = {}
        for each in changes:
            now = names.get(each.path, each.path)
            if not each.previous:
                yield commit, each, now
            elif each in confirmed and not is_split(commit):
                renamed[each.previous] = now
                yield commit, each, now
            else:
                yield commit, each._replace(old_blob="", old_mode="", previous=""), now
                gone = FileChange(each.previous, each.old_blob, "", each.old_mode, "")
                yield commit, gone, names.get(gone.path, gone.path)
        names |= renamed


def confirm_renames(vault: Vault, renames: Iterable[FileChange]) -> list[FileChange]:
    """Return git's renames that really are one file: git also compares properties.

    The file kept its bytes or name, or the note shares at least a line of text.
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
