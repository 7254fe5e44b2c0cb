"""Resolve the files that git left open in a merge, each to one version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.merging.merge_note import get_author_name, is_note, merge_texts
from vaultmem.core.merging.text import Conflict, DiscardedValue
from vaultmem.core.notes.conflict import (
    REMOVED_NOTE,
    Callout,
    PlacedCallout,
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
from vaultmem.storage.git.merge_tree import UnmergedPath, find_shared_versions
from vaultmem.storage.git.refs import RefTarget
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault

_MAX_SHOWN_CHARS = 400


class MergedDuplicate(NamedTuple):
    """A duplicate that two sides made: the kept path, the removed path, and both authors."""

    path: str
    other: str
    authors: tuple[str, str]


class MergeReport(NamedTuple):
    """The result of a merge or of its plan: the target branch, and the commit, "" without one.

    `is_needed` is false if the branch already has all of the other. `problem` is why a planned
    merge would fail. `conflicts` are changes by both sides: ours stays, theirs follows it. `losses`
    are discarded values, `twins` duplicates made by both sides. After a merge that git stopped,
    `next_step` is the command to continue without a commit.
    """

    source: RefTarget
    target_branch: str
    commit: str = ""
    paths: tuple[str, ...] = ()
    losses: tuple[DiscardedValue, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    twins: tuple[MergedDuplicate, ...] = ()
    is_needed: bool = True
    problem: str = ""
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
        branch: str,
        their_change: tuple[int, Speaker] | None = None,
    ) -> None:
        """Begin to merge `source` into the commit `ours` of a branch.

        `their_change` is the time and author of their side if it is uncommitted.
        """
        self.files: dict[str, File] = {}
        self.conflicts: list[Conflict] = []
        self.losses: list[DiscardedValue] = []
        self.twins: list[MergedDuplicate] = []
        self.moved: list[tuple[str, str]] = []
        self.removed: set[str] = set()
        self._vault, self._sides = vault, (ours, source.commit)
        self._source, self._into = source, branch
        self._their_change = their_change

    def report(self, commit: str = "", paths: Iterable[str] = ()) -> MergeReport:
        """Return the report of the merge, with its commit and the folder's changed files."""
        results = tuple(self.losses), tuple(self.conflicts), tuple(self.twins)
        return MergeReport(self._source, self._into, commit, tuple(sorted(paths)), *results)

    def settle(self, unmerged: Sequence[UnmergedPath]) -> None:
        """Resolve everything that git left open.

        Raises:
            MergeConflictError: a path is not a file of the vault, so only git can resolve it.
            RefusedError: both versions of a note together are too large.
        """
        history = self._vault.history
        self._reject_foreign(unmerged)
        paths = [file.path for file in unmerged]
        bases = find_shared_versions(history, *self._sides, paths) if paths else {}
        for file in unmerged:
            opened_file = self._open(file._replace(base=bases.get(file.path) or file.base))
            if opened_file.ours and opened_file.theirs:
                self._join(opened_file, opened_file.ours, opened_file.theirs)
            elif version := opened_file.ours or opened_file.theirs:
                self._keep(opened_file, version)
            if not (file.ours and file.theirs):
                self.removed.add(file.path.removeprefix(history.prefix))

    def add_authors(self) -> None:
        """Add the authors of both sides to each conflict."""
        self.conflicts = add_authors(self._vault, self.conflicts, *self._sides)

    def _reject_foreign(self, unmerged: Iterable[UnmergedPath]) -> None:
        """Reject links, submodules and files outside the vault, which only git can merge."""
        prefix = self._vault.history.prefix
        conflicts = []
        for file in unmerged:
            modes = {entry.mode for entry in (file.ours, file.theirs) if entry}
            if not file.path.startswith(prefix) or not modes <= REGULAR:
                sides = (entry.blob[:7] if entry else "" for entry in (file.ours, file.theirs))
                conflicts.append(Conflict(file.path.removeprefix(prefix), "the whole file", *sides))
        if conflicts:
            raise MergeConflictError(
                f"not merged: {self._source.name} and this branch changed "
                f"{conflicts[0].path}, which is not a file of the vault; "
                "nothing was changed; use git itself",
                conflicts,
            )

    def _open(self, file: UnmergedPath) -> UnmergedPath:
        """Return a file at its final path in the vault; its other names are removed.

        `names` are its paths on our and their side.
        """
        history = self._vault.history
        path = file.path.removeprefix(history.prefix)
        if file.kind == "rename/rename" and len(file.names) == 3:
            return self._join_names(file, path)
        if file.aside:
            self.files[file.aside.removeprefix(history.prefix)] = None
            free_path = self._find_free(path, self._into if file.ours else self._source.name)
            description = f"a file on one side, a folder on the other; the file is {free_path}"
            self.conflicts.append(Conflict(path, description, "", ""))
            return file._replace(path=free_path, names=(path, path))
        return file._replace(path=path, names=(path, path))

    def _join_names(self, file: UnmergedPath, path: str) -> UnmergedPath:
        """Return a file that both sides renamed, under the later name."""
        history = self._vault.history
        names = [name.removeprefix(history.prefix) for name in file.names[1:]]
        ours, theirs = (
            find_entry(history, side, name) for side, name in zip(self._sides, names, strict=True)
        )
        changes = [self._find_change(side, name) for side, name in enumerate(names)]
        is_ours = (changes[0][0], names[1]) > (changes[1][0], names[0])
        kept_name, dropped_name = names if is_ours else reversed(names)
        self.files.setdefault(dropped_name, None)  # Another note can have it.
        self.moved.append((dropped_name, kept_name))
        authors = [speaker.author for _, speaker in changes]
        description = f"renamed by both, now {kept_name}"
        self.conflicts.append(Conflict(path, description, names[0], names[1], *authors))
        return file._replace(path=kept_name, ours=ours, theirs=theirs, names=tuple(names))

    def _find_change(self, side: int, path: str) -> tuple[int, Speaker]:
        """Return the time and author of a side's last change of a file."""
        if side and self._their_change is not None:
            return self._their_change
        history = self._vault.history
        return find_last_change(history.git, self._sides[side], history.prefix + path)

    def _find_sides(self, file: UnmergedPath) -> tuple[str, Speaker, Speaker]:
        """Return the side with the later change of a file ("" if unknown), and both authors.

        Only theirs has the name of a branch.
        """
        (ours_at, our_speaker), (theirs_at, their_speaker) = (
            self._find_change(side, name) for side, name in enumerate(file.names)
        )
        later_side = "" if ours_at == theirs_at else "ours" if ours_at > theirs_at else "theirs"
        return later_side, our_speaker, their_speaker._replace(origin=self._source.name)

    def _join(self, file: UnmergedPath, ours: TreeEntry, theirs: TreeEntry) -> None:
        """Merge two versions into one; for other files than notes, theirs gets another name."""
        path = file.path
        texts = [self._read_text(entry) for entry in (file.base, ours, theirs)]
        base_text, our_text, their_text = texts
        if path == TABLE_NAME and (table := _merge_tables(base_text, our_text, their_text)):
            self.files[path] = (ours.mode, table.encode("utf-8"))
            return
        if not is_note(path) or base_text is None or our_text is None or their_text is None:
            self._store_both(file, ours, theirs)
            return
        result = merge_texts(path, base_text, our_text, their_text)
        if result.conflicts or result.losses:
            later_side, _, speaker = self._find_sides(file)
            result = merge_texts(path, base_text, our_text, their_text, later_side, speaker)
        data = result.text.encode("utf-8")
        if len(data) > MAX_FILE_BYTES:
            raise RefusedError(
                f"{path}: not merged, both versions together are too large for a note; "
                "use git itself"
            )
        entry = theirs if file.base and file.base.mode == ours.mode else ours
        self.files[path] = (entry.mode, data)
        if result.is_twin:
            notes = (
                parse_note(PurePosixPath(path), text.encode()) for text in (our_text, their_text)
            )
            first, second = map(get_author_name, notes)
            self.twins.append(MergedDuplicate(path, path, (first, second)))
        for conflict in result.conflicts:
            self.conflicts.append(hide_secrets(self._vault, conflict))
        for loss in result.losses:
            self.losses.append(loss._replace(value=_show(self._vault, path, loss.value)))

    def _store_both(self, file: UnmergedPath, ours: TreeEntry, theirs: TreeEntry) -> None:
        """Keep both files of one name; for settings in hidden folders, only the later one."""
        path = file.path
        if ours.blob == theirs.blob:
            self.files[path] = self._read_file(ours)
            return
        if any(part.startswith(".") for part in PurePosixPath(path).parts):
            is_ours = self._find_sides(file)[0] != "theirs"
            kept_entry, lost_entry = (ours, theirs) if is_ours else (theirs, ours)
            self.files[path] = self._read_file(kept_entry)
            self.losses.append(DiscardedValue(path, "the whole file", lost_entry.blob))
            return
        copy = self._find_free(path, self._source.name)
        self.files[path], self.files[copy] = self._read_file(ours), self._read_file(theirs)
        description = f"the whole file; theirs is {copy}"
        self.conflicts.append(Conflict(path, description, ours.blob[:7], theirs.blob[:7]))

    def _keep(self, file: UnmergedPath, entry: TreeEntry) -> None:
        """Keep a file that one side changed and the other removed; mark it in a note."""
        path = file.path
        mode, data = self._read_file(entry)
        if file.base is None:  # New on one side.
            self.files[path] = (mode, data)
            return
        _, our_speaker, their_speaker = self._find_sides(file)
        is_gone_here = file.ours is None
        text = self._read_text(entry)
        if is_note(path) and text is not None:
            data = _describe_removed(text, our_speaker if is_gone_here else their_speaker).encode(
                "utf-8"
            )
        self.files[path] = (mode, data)
        texts = ("", text or "") if is_gone_here else (text or "", "")
        remover, keeper = ("ours", "theirs") if is_gone_here else ("theirs", "ours")
        verb = "renamed" if file.base.blob == entry.blob else "changed"
        conflict = Conflict(path, f"removed by {remover}, {verb} by {keeper}", *texts)
        self.conflicts.append(hide_secrets(self._vault, conflict))

    def _find_free(self, path: str, label: str) -> str:
        """Return a free name similar to a path: `name (branch).ext`."""
        place = PurePosixPath(path)
        label = label.replace("/", "-") or "theirs"
        for number in range(1, 1_000):
            suffix = f" ({label})" if number == 1 else f" ({label} {number})"
            name = str(place.with_name(f"{place.stem}{suffix}{place.suffix}"))
            entries = (find_entry(self._vault.history, side, name) for side in self._sides)
            if name not in self.files and not any(entries):
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


def _merge_tables(base_text: str | None, our_text: str | None, their_text: str | None) -> str:
    """Return the merged project table, "" if a side cannot be read."""
    if base_text is None or our_text is None or their_text is None:
        return ""
    try:
        return merge_tables(base_text, our_text, their_text)
    except UnreadableTableError:
        return ""


def _describe_removed(text: str, remover: Speaker) -> str:
    body = read_frontmatter(text).body
    callout = Callout(REMOVED_NOTE, remover)
    if callout in (each.callout for each in find_callouts(text, body)):
        return text
    place = 0 if body or not text.startswith("---") else text.count("\n") + 1
    return text[:body] + insert_callouts(text[body:], [PlacedCallout(callout, place)])


# ---- the texts and authors of a conflict


def hide_secrets(vault: Vault, conflict: Conflict) -> Conflict:
    """Return a conflict with texts for display: truncated, and without possible credentials."""
    ours, theirs = (_show(vault, conflict.path, x) for x in (conflict.ours, conflict.theirs))
    return conflict._replace(ours=ours, theirs=theirs)


def _show(vault: Vault, path: str, text: str) -> str:
    if not vault.config.allows_secrets(path) and find_secrets(text):
        return "(looks like a credential)"
    return text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + " ..."


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
        return ", session ".join(filter(None, (newest.author, newest.session))) if newest else ""

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
    full_path = vault.history.prefix + path
    commit = vault.history.git.run("rev-list", "-1", side, "--", full_path)
    return read_commits(vault.history, [commit])[commit] if commit else None


def _find_lines(lines: list[str], description: str, text: str) -> range:
    """Return the line numbers of a property, or of the lines in a conflict."""
    if description.startswith('property "'):
        note_text = "\n".join(lines)
        frontmatter = read_frontmatter(note_text)
        prop = frontmatter.get(description.partition('"')[2].removesuffix('"'))
        if prop is not None:
            first = note_text.count("\n", 0, frontmatter.start)
            return range(first + prop.first, min(first + prop.last, len(lines)))
    conflict_lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    note_lines = [line.removesuffix("\r") for line in lines]
    for start in range(len(note_lines) - len(conflict_lines) + 1):
        if note_lines[start : start + len(conflict_lines)] == conflict_lines:
            return range(start, start + len(conflict_lines))
    return range(0)
