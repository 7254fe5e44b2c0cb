"""Say for many notes at once who wrote each of their lines, and which commits changed them.

One walk over the history serves them all, where `blame_note` starts git for each. Lines are
followed through edits and renames, not from one note into another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.delta.lines import match_lines, split_bytes
from vaultmem.services.history.blame import BlamedLine, read_lines
from vaultmem.services.history.diff import Operation
from vaultmem.services.history.trace import Version
from vaultmem.services.writing.ownership import find_line_authors
from vaultmem.storage.git.log import Commit, walk_versions
from vaultmem.vault import Vault


class Change(NamedTuple):
    """What a commit did to a file."""

    commit: Commit
    change: FileChange


class Story(NamedTuple):
    """The commits that changed a note, newest first, and the origin of each line that it has."""

    versions: tuple[Version, ...]
    lines: tuple[BlamedLine, ...]


class _Origin(NamedTuple):
    """Where a line was first: a commit, the file there, and the line's number in it."""

    change: Change
    number: int


class _Text(NamedTuple):
    """The lines of a version, and where each is from; None where no commit has it."""

    lines: list[str]
    origins: list[_Origin | None]


def walk_history(vault: Vault, commit: str = "") -> Iterator[tuple[Commit, list[FileChange]]]:
    """Yield the commits from one back, by default from HEAD, with what they changed."""
    start = commit or vault.history.head().commit
    if start:
        yield from walk_versions(vault.history, start)


def group_changes(
    walked: Iterator[tuple[Commit, list[FileChange]]], paths: Iterator[str]
) -> dict[str, list[Change]]:
    """Return for each path the commits that changed its file, newest first, through renames."""
    found: dict[str, list[Change]] = {path: [] for path in paths}
    named = {path: path for path in found}  # What each was called then, and is now.
    for commit, changes in walked:
        for change in changes:
            now = named.get(change.path)
            if now is not None and change.blob:
                found[now].append(Change(commit, change))
            if now is not None and change.previous:
                del named[change.path]
                named[change.previous] = now
    return found


def tell_stories(
    vault: Vault, changes: Mapping[str, Sequence[Change]], texts: Mapping[str, bytes]
) -> Iterator[tuple[str, Story]]:
    """Yield the story of some notes; `texts` are their bytes, and all versions are read at once.

    Raises:
        NoteNotFoundError: git does not have them.
    """
    own = {blob_id(data): data for data in texts.values()}
    listed = (each.change for path in texts for each in changes[path] if each.change.is_regular)
    wanted = list(dict.fromkeys(each.blob for each in listed if each.blob not in own))
    read = vault.history.objects.read_all(wanted) if wanted else ()
    contents = {**own, **{blob: data for blob, (_, data) in zip(wanted, read, strict=True)}}
    for path, data in texts.items():
        yield path, _tell(vault, path, changes[path], data, contents)


def _tell(
    vault: Vault,
    path: str,
    changes: Sequence[Change],
    data: bytes,
    contents: Mapping[str, bytes],
) -> Story:
    known: dict[str, _Text] = {}
    kept = []
    for each in reversed(changes):
        blob = each.change.blob
        is_taken = blob in known and len(each.commit.parents) > 1  # A merge took what was there.
        if each.change.is_regular and not is_taken:
            known[blob] = _derive(each, split_bytes(contents[blob]), known)
            kept.append(each)
    shown = known.get(blob_id(data))
    if shown is None:
        shown = _Text(lines := split_bytes(data), [None] * len(lines))
        if kept:
            _take_over(known[kept[-1].change.blob], shown)
    return Story(
        tuple(_make_version(vault, each) for each in reversed(kept)),
        tuple(_name_writers(vault, path, data, shown.origins)),
    )


def _derive(each: Change, lines: list[str], known: dict[str, _Text]) -> _Text:
    """Return a version with the origins of its lines: those it has from others, or its own.

    A merge has lines from what its first parent had, and from what came last.
    """
    sources = [each.change.old_blob]
    if len(each.commit.parents) > 1:
        sources += reversed(known)
    made = _Text(lines, [None] * len(lines))
    for source in sources[:3]:
        if source in known:
            _take_over(known[source], made)
    own: list[_Origin | None] = [
        origin or _Origin(each, number) for number, origin in enumerate(made.origins, 1)
    ]
    return _Text(lines, own)


def _take_over(old: _Text, new: _Text) -> None:
    """Give the lines that have no origin yet the one that they have in another version."""
    for start, place, length in match_lines(old.lines, new.lines):
        for at in range(length):
            new.origins[place + at] = new.origins[place + at] or old.origins[start + at]


def _make_version(vault: Vault, each: Change) -> Version:
    who = each.commit.find_writer(vault.history.prefix + each.change.path)
    return Version(each.commit, Operation(each.change, None), *who)


def _name_writers(
    vault: Vault, path: str, data: bytes, origins: Sequence[_Origin | None]
) -> Iterator[BlamedLine]:
    writers = find_line_authors(vault, path, blob_id(data), data) if None in origins else []
    person = vault.history.person().identity.name if None in origins else ""
    for at, (text, origin) in enumerate(zip(read_lines(data), origins, strict=True)):
        if origin is None:
            writer = writers[at]
            who = (writer.agent or person, writer.agent, writer.session)
            yield BlamedLine(at + 1, text, None, *who)
        else:
            commit, change = origin.change
            told = commit.find_writer(vault.history.prefix + change.path, origin.number)
            yield BlamedLine(at + 1, text, commit, *told)
