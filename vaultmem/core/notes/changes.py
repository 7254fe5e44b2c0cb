"""Differences between two versions of a vault: files and properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.notes.note import Note, NoteText
from vaultmem.core.notes.properties import Property
from vaultmem.core.text.display import one_line
from vaultmem.core.text.line_diff import Hunk, diff_lines, split_lines

#: Git's modes of regular files; others are symbolic links and submodules.
_REGULAR = ("100644", "100755")
_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class ChangeOp(StrEnum):
    """The operation on a file, a note or a property."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class FileChange(NamedTuple):
    """A changed path: blob ids and git's modes, "" on a side without the file.

    `previous` is the old path of a renamed file.
    """

    path: str
    old_blob: str
    blob: str
    old_mode: str
    mode: str
    previous: str = ""

    @property
    def op(self) -> ChangeOp:
        """The operation on the path."""
        if not self.old_blob:
            return ChangeOp.ADD
        return ChangeOp.REPLACE if self.blob else ChangeOp.REMOVE

    @property
    def is_regular(self) -> bool:
        """Return whether both sides are regular files, not symbolic links or submodules."""
        return all(mode in _REGULAR for mode in (self.old_mode, self.mode) if mode)


def pair_renames(changes: Iterable[FileChange]) -> list[FileChange]:
    """Join each removal with an addition of the same blob, and return all changes by path.

    Only equal blobs are renames, so no file is read. Equal file names are joined first.
    """
    listed = sorted(changes, key=lambda change: change.path)
    removed: dict[str, list[FileChange]] = {}
    for change in listed:
        if change.op is ChangeOp.REMOVE and change.old_blob != _EMPTY_BLOB:
            removed.setdefault(change.old_blob, []).append(change)
    if not removed:
        return listed
    old_paths: set[str] = set()
    joined: dict[str, FileChange] = {}
    for same_name in (True, False):
        for change in listed:
            if change.op is not ChangeOp.ADD or change.path in joined:
                continue
            for old in removed.get(change.blob, ()):
                if old.path in old_paths or (same_name and _name(old.path) != _name(change.path)):
                    continue
                old_paths.add(old.path)
                joined[change.path] = change._replace(
                    old_blob=old.old_blob, old_mode=old.old_mode, previous=old.path
                )
                break
    return [joined.get(change.path, change) for change in listed if change.path not in old_paths]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# Changes between two versions of a note: properties by value, the rest as a diff.

_CONTEXT = 3
_MAX_TOLD = 8
_MAX_CHARS = 40

Value = str | tuple[str, ...]


class PropertyChange(NamedTuple):
    """The change of a property; a value is empty on a side without the property.

    Nested properties, and values that only changed their type, are shown as written.
    """

    op: ChangeOp
    name: str
    old: Value
    new: Value


class NoteChange(NamedTuple):
    """The change of a note: added, removed or replaced.

    `body` is a unified diff (only hunks, numbered by the file's lines); `added` and `removed` count
    its lines. `frontmatter_diff` is a diff of the frontmatter, also if no property changed. If the
    frontmatter of either version is invalid, `body` is the diff of the whole text. `renamed_from`
    is the old path, "" if unchanged or unknown.
    """

    op: ChangeOp
    properties: tuple[PropertyChange, ...] = ()
    body: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    frontmatter_diff: tuple[str, ...] = ()
    renamed_from: str = ""

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        changed = self.properties or self.body or self.frontmatter_diff or self.renamed_from
        return self.op != ChangeOp.REPLACE or bool(changed)


def compare_notes(
    old: Note | NoteText | None, new: Note | NoteText | None, renamed_from: str = ""
) -> NoteChange:
    """Return the change from one version of a note to another; None is a missing version.

    Raises:
        ValueError: both versions are missing.
    """
    if old is None and new is None:
        raise ValueError("there are no two versions to compare")
    op = ChangeOp.ADD if old is None else ChangeOp.REMOVE if new is None else ChangeOp.REPLACE
    whole = any(note is not None and note.frontmatter.problem for note in (old, new))
    before, after = _split(old, whole), _split(new, whole)
    body, added, removed = diff_text(before[1], after[1], _count_lines(before), _count_lines(after))
    frontmatter, _, _ = diff_text(before[0], after[0])
    is_same = whole or before[0] == after[0]
    changes = () if is_same else tuple(_compare_properties(old, new))
    return NoteChange(
        op=op,
        properties=changes,
        body=body,
        added=added,
        removed=removed,
        frontmatter_diff=frontmatter,
        renamed_from=renamed_from,
    )


def diff_text(
    old: str, new: str, old_first: int = 0, new_first: int = 0
) -> tuple[tuple[str, ...], int, int]:
    """Return a unified diff without its header, and the number of added and removed lines.

    Line ends are compared too. The texts start after line `old_first` and `new_first`.
    """
    lines, others = split_lines(old), split_lines(new)
    hunks = diff_lines(lines, others)
    diff: list[str] = []
    for group in _group_hunks(hunks):
        diff += _show_group(group, lines, others, old_first, new_first)
    added = sum(hunk.new_end - hunk.new_start for hunk in hunks)
    return tuple(diff), added, sum(hunk.end - hunk.start for hunk in hunks)


def summarise_change(change: NoteChange) -> str:
    """Return a change in one line: `state: candidate -> active, tags +auth, body +3 -1`."""
    parts = [f"renamed from {_shorten(change.renamed_from)}"] if change.renamed_from else []
    if change.op != ChangeOp.REPLACE:
        parts.append("new note" if change.op == ChangeOp.ADD else "removed")
    properties = [] if change.op == ChangeOp.REMOVE else change.properties
    parts += [_summarise_property(item) for item in properties[:_MAX_TOLD]]
    if len(properties) > _MAX_TOLD:
        parts.append(f"{len(properties) - _MAX_TOLD} more properties")
    if change.frontmatter_diff and not change.properties:
        parts.append("frontmatter rewritten")
    if change.body:
        counts = [f"+{change.added}"] if change.added else []
        counts += [f"-{change.removed}"] if change.removed else []
        parts.append(" ".join(["body", *counts]))
    return ", ".join(parts) or "no change"


def _split(note: Note | NoteText | None, whole: bool) -> tuple[str, str]:
    """Return the text before a note's body, and the body."""
    if note is None:
        return "", ""
    start = 0 if whole else note.frontmatter.body
    return note.text[:start], note.text[start:]


def _count_lines(parts: tuple[str, str]) -> int:
    return parts[0].count("\n")


def _compare_properties(
    old: Note | NoteText | None, new: Note | NoteText | None
) -> Iterator[PropertyChange]:
    old_props = {prop.name: prop for prop in old.frontmatter.properties} if old else {}
    new_props = {prop.name: prop for prop in new.frontmatter.properties} if new else {}
    for name in [*new_props, *(name for name in old_props if name not in new_props)]:
        old_prop, new_prop = old_props.get(name), new_props.get(name)
        written = (_show_written(old, old_prop), _show_written(new, new_prop))
        values = (old_prop.value if old_prop else "", new_prop.value if new_prop else "")
        nested = any(prop is not None and prop.kind == "map" for prop in (old_prop, new_prop))
        if old_prop is None or new_prop is None:
            op = ChangeOp.ADD if old_prop is None else ChangeOp.REMOVE
        else:
            op = ChangeOp.REPLACE
            is_same = old_prop.kind == new_prop.kind and values[0] == values[1]
            if is_same and (not nested or written[0] == written[1]):
                continue
            nested = nested or values[0] == values[1]
        yield PropertyChange(op, name, *(written if nested else values))


def _show_written(note: Note | NoteText | None, prop: Property | None) -> str:
    """Return a property's value as written in the text."""
    if note is None or prop is None:
        return ""
    block = note.text[note.frontmatter.start : note.frontmatter.end]
    lines = block.splitlines(keepends=True)
    written = "".join(lines[prop.first : prop.last])
    start = sum(map(len, lines[: prop.first]))
    return (block[slice(*prop.span)] if prop.span[1] > start else written).strip()


def _group_hunks(hunks: Sequence[Hunk]) -> Iterator[list[Hunk]]:
    """Yield groups of hunks whose context lines touch or overlap."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.start - group[-1].end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(hunk)
    if group:
        yield group


def _show_group(
    group: Sequence[Hunk], old: list[str], new: list[str], old_first: int, new_first: int
) -> Iterator[str]:
    """Yield a group as one hunk of `diff -u`, with three lines of context."""
    lead = min(_CONTEXT, group[0].start)
    start, new_start = group[0].start - lead, group[0].new_start - lead
    tail = min(_CONTEXT, len(old) - group[-1].end)
    end, new_end = group[-1].end + tail, group[-1].new_end + tail
    yield (
        f"@@ -{_show_range(start, end, old_first)} +{_show_range(new_start, new_end, new_first)} @@"
    )
    position = start
    for hunk in group:
        yield from _mark_lines(" ", old[position : hunk.start])
        yield from _mark_lines("-", old[hunk.start : hunk.end])
        yield from _mark_lines("+", new[hunk.new_start : hunk.new_end])
        position = hunk.end
    yield from _mark_lines(" ", old[position:end])


def _show_range(start: int, end: int, first: int) -> str:
    if end == start:
        return f"{first + start},0"
    return f"{first + start + 1}" if end == start + 1 else f"{first + start + 1},{end - start}"


def _mark_lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _summarise_property(change: PropertyChange) -> str:
    name = _shorten(change.name)
    old, new = change.old, change.new
    if isinstance(old or (), tuple) and isinstance(new or (), tuple):
        old_counts, new_counts = Counter(old), Counter(new)
        items = [f"+{_shorten(item)}" for item in (new_counts - old_counts).elements()]
        items += [f"-{_shorten(item)}" for item in (old_counts - new_counts).elements()]
        if items:
            more = [f"and {len(items) - _MAX_TOLD} more"] if len(items) > _MAX_TOLD else []
            return " ".join([name, *items[:_MAX_TOLD], *more])
        if change.op == ChangeOp.REPLACE:
            return f"{name} reordered" if old else f"{name} rewritten"
    if change.op == ChangeOp.ADD:
        return f"+{name}: {_show(new)}".rstrip()
    if change.op == ChangeOp.REMOVE:
        return f"-{name}"
    return f"{name}: {_show(old)} -> {_show(new)}"


def _show(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{_shorten(', '.join(value))}]"
    return _shorten(value) or '""'


def _shorten(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 3] + "..."
