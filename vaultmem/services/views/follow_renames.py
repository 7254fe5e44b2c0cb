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
    record = json.loads(vault.state.get(_KEY) or '{"commit": "", "moved": {}}')
    new_paths: dict[str, str] = record["moved"]
    if record["commit"] == head.commit:
        return new_paths
    history = vault.history
    if record["commit"] and history.refs.is_ancestor(record["commit"], head.commit):
        span = f"{record['commit']}..{head.commit}"
    else:
        span, new_paths = head.commit, {}
    try:
        renames = confirm_renames(vault, walk_renames(history, span))
    except VaultError:  # A clone can lack one of the versions.
        return new_paths
    new_paths |= {each.previous: each.path for each in reversed(renames)}
    vault.state.keep(_KEY, json.dumps({"commit": head.commit, "moved": new_paths}))
    return new_paths


def follow_renames(path: str, files: Set[str], renames: Mapping[str, str]) -> str:
    """Return a file's present path among `files`, or its own if unknown."""
    seen, present_path = {path}, path
    while (
        present_path not in files and present_path in renames and renames[present_path] not in seen
    ):
        present_path = renames[present_path]
        seen.add(present_path)
    return present_path if present_path in files else path


def walk_present(
    vault: Vault, moves: Mapping[str, str], is_split: Callable[[Commit], bool] = lambda _: False
) -> Iterator[tuple[Commit, FileChange, str]]:
    """Yield the changes of HEAD's commits, newest first, with each file's present path.

    `moves` maps present to previous paths of files whose move is uncommitted. Merges are left out:
    the merged commits have their changes. For a commit that `is_split`, a rename is a removal and a
    new file.
    """
    start = vault.history.head().commit
    versions = [*walk_versions(vault.history, start)] if start else []
    versions = [each for each in versions if len(each[0].parents) < 2]
    renames = (each for _, changes in versions for each in changes if each.previous)
    confirmed_renames = {*confirm_renames(vault, renames)}
    names = {old: new for new, old in moves.items()}
    for commit, changes in versions:
        new_names: dict[str, str] = {}
        for each in changes:
            present_path = names.get(each.path, each.path)
            if not each.previous:
                yield commit, each, present_path
            elif each in confirmed_renames and not is_split(commit):
                new_names[each.previous] = present_path
                yield commit, each, present_path
            else:
                yield commit, each._replace(old_blob="", old_mode="", previous=""), present_path
                removal = FileChange(each.previous, each.old_blob, "", each.old_mode, "")
                yield commit, removal, names.get(removal.path, removal.path)
        names |= new_names


def confirm_renames(vault: Vault, renames: Iterable[FileChange]) -> list[FileChange]:
    """Return git's renames that really are one file: git also compares properties.

    The file kept its bytes or name, or the note shares at least a line of text.
    """
    changes = list(renames)
    blobs = {
        blob
        for each in changes
        if not _is_kept(each) and is_note_name(each.path)
        for blob in (each.old_blob, each.blob)
    }
    contents = vault.history.objects.read_all(blobs)
    lines = {blob: count_lines(data) for blob, (_, data) in zip(blobs, contents, strict=True)}
    return [each for each in changes if _is_kept(each) or _has_same_text(each, lines)]


def _is_kept(rename: FileChange) -> bool:
    old, new = (fold(path).rpartition("/")[2] for path in (rename.previous, rename.path))
    return rename.old_blob == rename.blob or old == new


def _has_same_text(rename: FileChange, lines: Mapping[str, Counter[str]]) -> bool:
    old, name = lines.get(rename.old_blob), rename.previous
    return old is not None and bool(find_renamed({name: old}, lines[rename.blob], {name}))
