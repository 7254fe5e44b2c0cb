"""Settle what git left open in a merge: each file that both sides changed becomes one."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.merging.note import is_note, merge_texts
from vaultmem.core.merging.text import Conflict, Loss
from vaultmem.core.notes.conflict import (
    REMOVED,
    Callout,
    Placed,
    Speaker,
    find_callouts,
    put_in_callouts,
)
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import parse_note
from vaultmem.errors import MergeConflictError, RefusedError
from vaultmem.services.branching.clash import hide_secrets, show_text
from vaultmem.services.branching.twins import Twin, name_author
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commit_draft import REGULAR, File, TreeEntry
from vaultmem.storage.git.last_change import LastChange, find_last_change
from vaultmem.storage.git.merge_tree import MergedTree, Unmerged, find_shared_versions
from vaultmem.storage.git.refs import Target
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault


class Settled(NamedTuple):
    """The files that a merge changes, and what it tells: conflicts and losses.

    `moved` are names that were given up for others; links have to follow.
    """

    files: dict[str, File]
    conflicts: list[Conflict]
    losses: list[Loss]
    moved: list[tuple[str, str]]
    twins: list[Twin]

    @property
    def told(self) -> tuple[tuple[Loss, ...], tuple[Conflict, ...], tuple[Twin, ...]]:
        """What a report of the merge tells, as its last fields."""
        return tuple(self.losses), tuple(self.conflicts), tuple(self.twins)


class _Merge(NamedTuple):
    """The two sides of a merge, and what both are called."""

    vault: Vault
    ours: str
    theirs: str
    into: str
    where: str
    settled: Settled
    their_change: LastChange | None = None


class _Open(NamedTuple):
    """A file as the three sides have it; `path` is where it will stand, inside the vault."""

    path: str
    base: TreeEntry | None
    ours: TreeEntry | None
    theirs: TreeEntry | None
    our_path: str
    their_path: str


def settle_merge(
    vault: Vault,
    merged: MergedTree,
    ours: str,
    source: Target,
    into: str,
    their_change: LastChange | None = None,
) -> Settled:
    """Return what becomes of all that git left open.

    `their_change` is who wrote their side, where no commit has it.

    Raises:
        MergeConflictError: something is no file of the vault, so it is git's alone.
        RefusedError: both versions of a note together are too large.
    """
    settled = Settled({}, [], [], [], [])
    merge = _Merge(vault, ours, source.commit, into, source.name, settled, their_change)
    _refuse_foreign(merge, merged)
    paths = [each.path for each in merged.unmerged]
    bases = find_shared_versions(vault.history, ours, source.commit, paths) if paths else {}
    for each in merged.unmerged:
        opened = _open(merge, each, bases.get(each.path) or each.base)
        if opened.ours and opened.theirs:
            _join(merge, opened, opened.ours, opened.theirs)
        elif kept := opened.ours or opened.theirs:
            _keep(merge, opened, kept)
    return merge.settled


def _refuse_foreign(merge: _Merge, merged: MergedTree) -> None:
    """Leave links, submodules and what is outside the vault to git itself."""
    prefix = merge.vault.history.prefix
    found = []
    for each in merged.unmerged:
        modes = {entry.mode for entry in (each.ours, each.theirs) if entry}
        if not each.path.startswith(prefix) or not modes <= REGULAR:
            sides = (entry.blob[:7] if entry else "" for entry in (each.ours, each.theirs))
            found.append(Conflict(each.path.removeprefix(prefix), "the whole file", *sides))
    if found:
        raise MergeConflictError(
            f"not merged: {merge.where} and this branch changed {found[0].path}, which is not a "
            "file of the vault; nothing was changed; use git itself",
            found,
        )


def _open(merge: _Merge, each: Unmerged, base: TreeEntry | None) -> _Open:
    """Return a file's versions and where it will stand; its other names go."""
    history, settled = merge.vault.history, merge.settled
    path = each.path.removeprefix(history.prefix)
    if each.kind == "rename/rename" and len(each.names) == 3:
        names = [name.removeprefix(history.prefix) for name in each.names[1:]]
        ours, theirs = (
            find_entry(history, side, name)
            for side, name in zip((merge.ours, merge.theirs), names, strict=True)
        )
        changes = [_find_change(merge, side, name) for side, name in enumerate(names)]
        is_ours = (changes[0].at, names[1]) > (changes[1].at, names[0])
        kept, given_up = names if is_ours else reversed(names)
        settled.files.setdefault(given_up, None)  # Another note may have it now.
        settled.moved.append((given_up, kept))
        author = [each.author for each in changes]
        settled.conflicts.append(Conflict(path, f"renamed by both, now {kept}", *names, *author))
        return _Open(kept, base, ours, theirs, *names)
    if each.aside:
        settled.files[each.aside.removeprefix(history.prefix)] = None
        free = _find_free(merge, path, merge.into if each.ours else merge.where)
        settled.conflicts.append(
            Conflict(path, f"a file on one side, a folder on the other; the file is {free}", "", "")
        )
        return _Open(free, base, each.ours, each.theirs, path, path)
    return _Open(path, base, each.ours, each.theirs, path, path)


def _find_change(merge: _Merge, side: int, path: str) -> LastChange:
    if side and merge.their_change is not None:
        return merge.their_change
    commit = (merge.ours, merge.theirs)[side]
    history = merge.vault.history
    return find_last_change(history.git, commit, history.prefix + path)


def _find_sides(merge: _Merge, opened: _Open) -> tuple[str, Speaker, Speaker]:
    """Return which side changed the file later ("" if unknown), who on theirs, and who on ours."""
    mine = _find_change(merge, 0, opened.our_path)
    other = _find_change(merge, 1, opened.their_path)
    later = "" if mine.at == other.at else "ours" if mine.at > other.at else "theirs"
    theirs = Speaker(other.author, other.day, merge.where)
    return later, theirs, Speaker(mine.author, mine.day)


def _join(merge: _Merge, opened: _Open, ours: TreeEntry, theirs: TreeEntry) -> None:
    """Make one of two versions; of two that are no notes, theirs gets another name."""
    texts = [_read(merge.vault, entry) for entry in (opened.base, ours, theirs)]
    before, mine, other = texts
    if not is_note(opened.path) or before is None or mine is None or other is None:
        _keep_both(merge, opened, ours, theirs)
        return
    merged = merge_texts(opened.path, before, mine, other)
    if merged.conflicts or merged.losses:
        later, theirs_by, _ = _find_sides(merge, opened)
        merged = merge_texts(opened.path, before, mine, other, later, theirs_by)
    data = merged.text.encode("utf-8")
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(
            f"{opened.path}: not merged, both versions together are too large for a note; "
            "use git itself"
        )
    changed = theirs if opened.base and opened.base.mode == ours.mode else ours
    merge.settled.files[opened.path] = (changed.mode, data)
    if merged.is_twin:
        made = [parse_note(PurePosixPath(opened.path), text.encode()) for text in (mine, other)]
        authors = (name_author(made[0]), name_author(made[1]))
        merge.settled.twins.append(Twin(opened.path, opened.path, authors))
    allowed = merge.vault.config.allows_secrets(opened.path)
    merge.settled.conflicts.extend(hide_secrets(each, allowed) for each in merged.conflicts)
    for loss in merged.losses:
        merge.settled.losses.append(loss._replace(value=show_text(loss.value, allowed)))


def _keep_both(merge: _Merge, opened: _Open, ours: TreeEntry, theirs: TreeEntry) -> None:
    """Keep two files of one name; of settings in hidden folders the later alone."""
    files, path = merge.settled.files, opened.path
    mine, other = (_read_file(merge.vault, entry) for entry in (ours, theirs))
    if ours.blob == theirs.blob:
        files[path] = mine
        return
    if any(part.startswith(".") for part in PurePosixPath(path).parts):
        is_ours = _find_sides(merge, opened)[0] != "theirs"
        kept, lost = (mine, theirs) if is_ours else (other, ours)
        files[path] = kept
        merge.settled.losses.append(Loss(path, "the whole file", lost.blob))
        return
    copy = _find_free(merge, path, merge.where)
    files[path], files[copy] = mine, other
    shown = (f"{entry.blob[:7]}" for entry in (ours, theirs))
    merge.settled.conflicts.append(Conflict(path, f"the whole file; theirs is {copy}", *shown))


def _keep(merge: _Merge, opened: _Open, kept: TreeEntry) -> None:
    """Keep what one side changed and the other removed; a note says so."""
    if opened.base is None:  # The other side never had it.
        merge.settled.files[opened.path] = _read_file(merge.vault, kept)
        return
    _, other, mine = _find_sides(merge, opened)
    is_gone_here = opened.ours is None
    remover = mine if is_gone_here else other
    mode, data = _read_file(merge.vault, kept)
    text = _read(merge.vault, kept)
    if is_note(opened.path) and text is not None:
        data = _say_removed(text, remover).encode("utf-8")
    merge.settled.files[opened.path] = (mode, data)
    shown = ("", text or "") if is_gone_here else (text or "", "")
    gone, kept_by = ("ours", "theirs") if is_gone_here else ("theirs", "ours")
    is_same = opened.base is not None and opened.base.blob == kept.blob
    what = f"removed by {gone}, {'renamed' if is_same else 'changed'} by {kept_by}"
    allowed = merge.vault.config.allows_secrets(opened.path)
    merge.settled.conflicts.append(hide_secrets(Conflict(opened.path, what, *shown), allowed))


def _say_removed(text: str, remover: Speaker) -> str:
    body = read_frontmatter(text).body
    callout = Callout(REMOVED, remover)
    if callout in (each.callout for each in find_callouts(text, body)):
        return text
    place = 0 if body or not text.startswith("---") else text.count("\n") + 1
    return text[:body] + put_in_callouts(text[body:], [Placed(callout, place)])


def _find_free(merge: _Merge, path: str, where: str) -> str:
    """Return a name beside a path that no side has: `name (branch).ext`."""
    place = PurePosixPath(path)
    where = where.replace("/", "-") or "theirs"
    for number in range(1, 1_000):
        more = f" ({where})" if number == 1 else f" ({where} {number})"
        name = str(place.with_name(f"{place.stem}{more}{place.suffix}"))
        taken = (find_entry(merge.vault.history, side, name) for side in (merge.ours, merge.theirs))
        if name not in merge.settled.files and not any(taken):
            return name
    raise RefusedError(f"{path}: too many files have names like it; use git itself")


def _read_file(vault: Vault, entry: TreeEntry) -> tuple[str, bytes]:
    return entry.mode, vault.history.objects.read(entry.blob)[1]


def _read(vault: Vault, entry: TreeEntry | None) -> str | None:
    """Return a version's text, empty for none; None if it is no text."""
    if entry is None:
        return ""
    data = vault.history.objects.read(entry.blob)[1]
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
