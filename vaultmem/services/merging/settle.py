"""Resolve the files that git left open in a merge, each to one version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.merging.merge_note import get_author_name, is_note, merge_texts
from vaultmem.core.merging.text import Conflict, DiscardedValue
from vaultmem.core.notes.conflict import (
    REMOVED,
    Callout,
    Placed,
    Speaker,
    find_callouts,
    insert_callouts,
)
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import parse_note
from vaultmem.core.project import TABLE_NAME, UnreadableTableError, merge_tables
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.errors import MergeConflictError, RefusedError
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.blame_file import blame_file, find_last_change
from vaultmem.storage.git.commit_draft import REGULAR, File, TreeEntry
from vaultmem.storage.git.log import Commit, read_commits
from vaultmem.storage.git.merge_tree import Unmerged, find_shared_versions
from vaultmem.storage.git.refs import RefTarget
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault

_SHOWN = 400


class Twin(NamedTuple):
    """A duplicate that two sides made: the kept path, the removed path, and both authors."""

    path: str
    other: str
    authors: tuple[str, str]


class MergeReport(NamedTuple):
    """The result of a merge or of its plan: the target branch, and the commit, "" without one.

    `needed` is false if the branch already has all of the other. `refused` is why a planned merge
    would fail. `conflicts` are changes by both sides: ours stays, theirs follows it. `losses` are
    discarded values, `twins` duplicates made by both sides. After a merge that git stopped,
    `next_step` is the command to continue without a commit.
    """

    source: RefTarget
    into: str
    commit: str = ""
    paths: tuple[str, ...] = ()
    losses: tuple[DiscardedValue, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    twins: tuple[Twin, ...] = ()
    needed: bool = True
    refused: str = ""
    next_step: str = ""
    is_plan: bool = False


class BranchMerge:
    """One merge in progress: its changed files and its findings.

    `moved` are given-up and kept names, for links. `removed` are files that one side removed and
    the other changed.
    """

    def __init__(
        self,
        vault: Vault,
        ours: str,
        source: RefTarget,
        into: str,
        their_change: tuple[int, Speaker] | None = None,
    ) -> None:
        """Begin to merge `source` into the commit `ours` of a branch.

        `their_change` is the time and author of their side if it is uncommitted.
        """
        self.files: dict[str, File] = {}
        self.conflicts: list[Conflict] = []
        self.losses: list[DiscardedValue] = []
        self.twins: list[Twin] = []
        self.moved: list[tuple[str, str]] = []
        self.removed: set[str] = set()
        self._vault, self._sides = vault, (ours, source.commit)
        self._source, self._into = source, into
        self._their_change = their_change

    def report(self, commit: str = "", paths: Iterable[str] = ()) -> MergeReport:
        """Return the report of the merge, with its commit and the folder's changed files."""
        found = tuple(self.losses), tuple(self.conflicts), tuple(self.twins)
        return MergeReport(self._source, self._into, commit, tuple(sorted(paths)), *found)

    def settle(self, unmerged: Sequence[Unmerged]) -> None:
        """Resolve everything that git left open.

        Raises:
            MergeConflictError: a path is not a file of the vault, so only git can resolve it.
            RefusedError: both versions of a note together are too large.
        """
        history = self._vault.history
        self._reject_foreign(unmerged)
        paths = [each.path for each in unmerged]
        bases = find_shared_versions(history, *self._sides, paths) if paths else {}
        for each in unmerged:
            opened = self._open(each._replace(base=bases.get(each.path) or each.base))
            if opened.ours and opened.theirs:
                self._join(opened, opened.ours, opened.theirs)
            elif kept := opened.ours or opened.theirs:
                self._keep(opened, kept)
            if not (each.ours and each.theirs):
                self.removed.add(each.path.removeprefix(history.prefix))

    def add_authors(self) -> None:
        """Add the authors of both sides to each conflict."""
        self.conflicts = add_authors(self._vault, self.conflicts, *self._sides)

    def _reject_foreign(self, unmerged: Iterable[Unmerged]) -> None:
        """Reject links, submodules and files outside the vault, which only git can merge."""
        prefix = self._vault.history.prefix
        found = []
        for each in unmerged:
            modes = {entry.mode for entry in (each.ours, each.theirs) if entry}
            if not each.path.startswith(prefix) or not modes <= REGULAR:
                sides = (entry.blob[:7] if entry else "" for entry in (each.ours, each.theirs))
                found.append(Conflict(each.path.removeprefix(prefix), "the whole file", *sides))
        if found:
            raise MergeConflictError(
                f"not merged: {self._source.name} and this branch changed {found[0].path}, which "
                "is not a file of the vault; nothing was changed; use git itself",
                found,
            )

    def _open(self, each: Unmerged) -> Unmerged:
        """Return a file at its final path in the vault; its other names are removed.

        `names` are its paths on our and their side.
        """
        history = self._vault.history
        path = each.path.removeprefix(history.prefix)
        if each.kind == "rename/rename" and len(each.names) == 3:
            return self._join_names(each, path)
        if each.aside:
            self.files[each.aside.removeprefix(history.prefix)] = None
            free = self._find_free(path, self._into if each.ours else self._source.name)
            what = f"a file on one side, a folder on the other; the file is {free}"
            self.conflicts.append(Conflict(path, what, "", ""))
            return each._replace(path=free, names=(path, path))
        return each._replace(path=path, names=(path, path))

    def _join_names(self, each: Unmerged, path: str) -> Unmerged:
        """Return a file that both sides renamed, under the later name."""
        history = self._vault.history
        names = [name.removeprefix(history.prefix) for name in each.names[1:]]
        ours, theirs = (
            find_entry(history, side, name) for side, name in zip(self._sides, names, strict=True)
        )
        changes = [self._find_change(side, name) for side, name in enumerate(names)]
        is_ours = (changes[0][0], names[1]) > (changes[1][0], names[0])
        kept, given_up = names if is_ours else reversed(names)
        self.files.setdefault(given_up, None)  # Another note can have it.
        self.moved.append((given_up, kept))
        authors = [speaker.author for _, speaker in changes]
        what = f"renamed by both, now {kept}"
        self.conflicts.append(Conflict(path, what, names[0], names[1], *authors))
        return each._replace(path=kept, ours=ours, theirs=theirs, names=tuple(names))

    def _find_change(self, side: int, path: str) -> tuple[int, Speaker]:
        """Return the time and author of a side's last change of a file."""
        if side and self._their_change is not None:
            return self._their_change
        history = self._vault.history
        return find_last_change(history.git, self._sides[side], history.prefix + path)

    def _find_sides(self, opened: Unmerged) -> tuple[str, Speaker, Speaker]:
        """Return the side with the later change of a file ("" if unknown), and both authors.

        Only theirs has the name of a branch.
        """
        (ours_at, mine), (theirs_at, other) = (
            self._find_change(side, name) for side, name in enumerate(opened.names)
        )
        later = "" if ours_at == theirs_at else "ours" if ours_at > theirs_at else "theirs"
        return later, mine, other._replace(where=self._source.name)

    def _join(self, opened: Unmerged, ours: TreeEntry, theirs: TreeEntry) -> None:
        """Merge two versions into one; for other files than notes, theirs gets another name."""
        path = opened.path
        texts = [self._read_text(entry) for entry in (opened.base, ours, theirs)]
        before, mine, other = texts
        if path == TABLE_NAME and (table := _merge_tables(before, mine, other)):
            self.files[path] = (ours.mode, table.encode("utf-8"))
            return
        if not is_note(path) or before is None or mine is None or other is None:
            self._store_both(opened, ours, theirs)
            return
        merged = merge_texts(path, before, mine, other)
        if merged.conflicts or merged.losses:
            later, _, speaker = self._find_sides(opened)
            merged = merge_texts(path, before, mine, other, later, speaker)
        data = merged.text.encode("utf-8")
        if len(data) > MAX_FILE_BYTES:
            raise RefusedError(
                f"{path}: not merged, both versions together are too large for a note; "
                "use git itself"
            )
        changed = theirs if opened.base and opened.base.mode == ours.mode else ours
        self.files[path] = (changed.mode, data)
        if merged.is_twin:
            made = (parse_note(PurePosixPath(path), text.encode()) for text in (mine, other))
            first, second = map(get_author_name, made)
            self.twins.append(Twin(path, path, (first, second)))
        for conflict in merged.conflicts:
            self.conflicts.append(hide_secrets(self._vault, conflict))
        for loss in merged.losses:
            self.losses.append(loss._replace(value=_show(self._vault, path, loss.value)))

    def _store_both(self, opened: Unmerged, ours: TreeEntry, theirs: TreeEntry) -> None:
        """Keep both files of one name; for settings in hidden folders, only the later one."""
        path = opened.path
        if ours.blob == theirs.blob:
            self.files[path] = self._read_file(ours)
            return
        if any(part.startswith(".") for part in PurePosixPath(path).parts):
            is_ours = self._find_sides(opened)[0] != "theirs"
            kept, lost = (ours, theirs) if is_ours else (theirs, ours)
            self.files[path] = self._read_file(kept)
            self.losses.append(DiscardedValue(path, "the whole file", lost.blob))
            return
        copy = self._find_free(path, self._source.name)
        self.files[path], self.files[copy] = self._read_file(ours), self._read_file(theirs)
        what = f"the whole file; theirs is {copy}"
        self.conflicts.append(Conflict(path, what, ours.blob[:7], theirs.blob[:7]))

    def _keep(self, opened: Unmerged, kept: TreeEntry) -> None:
        """Keep a file that one side changed and the other removed; mark it in a note."""
        path = opened.path
        mode, data = self._read_file(kept)
        if opened.base is None:  # New on one side.
            self.files[path] = (mode, data)
            return
        _, mine, other = self._find_sides(opened)
        is_gone_here = opened.ours is None
        text = self._read_text(kept)
        if is_note(path) and text is not None:
            data = _describe_removed(text, mine if is_gone_here else other).encode("utf-8")
        self.files[path] = (mode, data)
        shown = ("", text or "") if is_gone_here else (text or "", "")
        remover, keeper = ("ours", "theirs") if is_gone_here else ("theirs", "ours")
        verb = "renamed" if opened.base.blob == kept.blob else "changed"
        conflict = Conflict(path, f"removed by {remover}, {verb} by {keeper}", *shown)
        self.conflicts.append(hide_secrets(self._vault, conflict))

    def _find_free(self, path: str, where: str) -> str:
        """Return a free name similar to a path: `name (branch).ext`."""
        place = PurePosixPath(path)
        where = where.replace("/", "-") or "theirs"
        for number in range(1, 1_000):
            more = f" ({where})" if number == 1 else f" ({where} {number})"
            name = str(place.with_name(f"{place.stem}{more}{place.suffix}"))
            taken = (find_entry(self._vault.history, side, name) for side in self._sides)
            if name not in self.files and not any(taken):
                return name
        raise RefusedError(f"{path}: too many files have names like it; use git itself")

    def _read_file(self, entry: TreeEntry) -> tuple[str, bytes]:
        return entry.mode, self._vault.history.objects.read(entry.blob)[1]

    def _read_text(self, entry: TreeEntry | None) -> str | None:
        """Return a version's text, "" for none; None if it is not text."""
        data = self._read_file(entry)[1] if entry else b""
        try:
            return None if b"\0" in data else data.decode("utf-8")
        except UnicodeDecodeError:
            return None


def _merge_tables(before: str | None, mine: str | None, other: str | None) -> str:
    """Return the merged project table, "" if a side cannot be read."""
    if before is None or mine is None or other is None:
        return ""
    try:
        return merge_tables(before, mine, other)
    except UnreadableTableError:
        return ""


def _describe_removed(text: str, remover: Speaker) -> str:
    body = read_frontmatter(text).body
    callout = Callout(REMOVED, remover)
    if callout in (each.callout for each in find_callouts(text, body)):
        return text
    place = 0 if body or not text.startswith("---") else text.count("\n") + 1
    return text[:body] + insert_callouts(text[body:], [Placed(callout, place)])


# ---- the texts and authors of a conflict


def hide_secrets(vault: Vault, conflict: Conflict) -> Conflict:
    """Return a conflict with texts for display: truncated, and without possible credentials."""
    ours, theirs = (_show(vault, conflict.path, x) for x in (conflict.ours, conflict.theirs))
    return conflict._replace(ours=ours, theirs=theirs)


def _show(vault: Vault, path: str, text: str) -> str:
    if not vault.config.allows_secrets(path) and find_secrets(text):
        return "(looks like a credential)"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."


def add_authors(
    vault: Vault, conflicts: Iterable[Conflict], ours: str, theirs: str
) -> list[Conflict]:
    """Add the authors of conflicts; `ours` and `theirs` are commits (full ids)."""
    blame = cache(partial(_blame, vault))  # Each note is read once.

    def find_author(each: Conflict, side: str, text: str) -> str:
        lines = blame(side, each.path)
        places = _find_lines([line for line, _ in lines], each.what, text) if text else ()
        newest = max((lines[x][1] for x in places), key=lambda commit: commit.at, default=None)
        newest = newest or find_newest(vault, side, each.path)
        return ", session ".join(filter(None, (newest.who, newest.session))) if newest else ""

    return [
        each._replace(
            our_author=find_author(each, ours, each.ours),
            their_author=find_author(each, theirs, each.theirs),
        )
        for each in conflicts
    ]


def _blame(vault: Vault, side: str, path: str) -> list[tuple[str, Commit]]:
    """Return a note's lines on one side, each with its commit."""
    if find_entry(vault.history, side, path) is None:
        return []
    origins = blame_file(vault.history, side, path)
    commits = read_commits(vault.history, (origin.commit for origin in origins))
    return [(origin.text, commits[origin.commit]) for origin in origins]


def find_newest(vault: Vault, side: str, path: str) -> Commit | None:
    """Return the last commit in a side's history that changed a note, or None."""
    where = vault.history.prefix + path
    commit = vault.history.git.run("rev-list", "-1", side, "--", where)
    return read_commits(vault.history, [commit])[commit] if commit else None


def _find_lines(lines: list[str], what: str, text: str) -> range:
    """Return the line numbers of a property, or of the lines in a conflict."""
    if what.startswith('property "'):
        whole = "\n".join(lines)
        matter = read_frontmatter(whole)
        prop = matter.get(what.partition('"')[2].removesuffix('"'))
        if prop is not None:
            first = whole.count("\n", 0, matter.start)
            return range(first + prop.first, min(first + prop.last, len(lines)))
    wanted = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    seen = [line.removesuffix("\r") for line in lines]
    for start in range(len(seen) - len(wanted) + 1):
        if seen[start : start + len(wanted)] == wanted:
            return range(start, start + len(wanted))
    return range(0)
