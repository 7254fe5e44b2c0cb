"""Commits and changes as text, the same in every command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vaultmem.cli.output import say, say_lines, say_painted
from vaultmem.core.safe_text import one_line
from vaultmem.operations.lines import align, candidate_lines, commit_lines, report_lines

if TYPE_CHECKING:
    from vaultmem.core.delta.note_changes import PropertyChange
    from vaultmem.services.history.blame import BlamedLine
    from vaultmem.services.history.diff import Operation
    from vaultmem.services.history.explain import ChangeStep
    from vaultmem.services.history.trace import Trace, Version
    from vaultmem.services.writing.commit import CommitReport
    from vaultmem.storage.git.log import Commit

_WORDS = {"add": ("added", "green"), "remove": ("removed", "red"), "replace": ("changed", "yellow")}


def say_commits(commits: Iterable[tuple[str, str]]) -> None:
    """Print a line for each commit that was made, given as id and subject."""
    say_lines(commit_lines(commits))


def say_report(report: CommitReport) -> None:
    """Print the commits that were made, and what was left out."""
    say_lines(report_lines(report))


def say_candidates(paths: Iterable[str]) -> None:
    """Print the notes that an agent's change would have made active."""
    say_lines(candidate_lines(paths))


def say_operation(operation: Operation) -> None:
    """Print a file's change: its properties as properties, then its text as a diff."""
    file, note = operation.file, operation.note
    word, colour = ("renamed", "yellow") if file.previous else _WORDS[file.op]
    was = f"  (was {file.previous})" if file.previous else ""
    say_painted(word, colour, f"  {file.path}{was}")
    if operation.remark:
        say(f"  {operation.remark}")
    if note is None:
        return
    for change in note.properties:
        say(f"  {_property_text(change)}")
    for line in () if note.properties else note.frontmatter_diff:
        say(f"  {line}")
    for line in note.body:
        say(f"  {line}")


def say_brief(operations: Sequence[Operation]) -> None:
    """Print one line for each file's change."""
    from vaultmem.services.history.diff import summarise_operation

    paths = [one_line(operation.file.path) for operation in operations]
    width = min(max(map(len, paths), default=0), 60)
    for operation, path in zip(operations, paths, strict=True):
        renamed = bool(operation.file.previous)
        word, colour = ("renamed", "yellow") if renamed else _WORDS[operation.file.op]
        say_painted(f"{word:<7}", colour, f"  {path:<{width}}  {summarise_operation(operation)}")


def tell_commit(commit: Commit) -> str:
    """Return when a commit was made, by whom, and what it did, in a line."""
    return f"{short_time(commit)}  {commit.shown[:16]:<16}  {commit.subject}"


def name_writer(origin: BlamedLine | ChangeStep | Version) -> str:
    """Return who wrote something, and the other machine that says so where this one does not."""
    claimed = f", claimed by {origin.claimed_by}" if origin.claimed_by else ""
    return one_line(origin.who + claimed)


def say_versions(found: Trace) -> None:
    """Print what each commit did to a note, and its path then where that was another one."""
    from vaultmem.services.history.diff import summarise_operation

    rows = [
        [
            each.commit.commit[:7] if each.commit else "",
            short_time(each.commit) if each.commit else "",
            name_writer(each),
            one_line(each.commit.event) if each.commit else "not committed",
            one_line(each.session),
        ]
        for each in found.versions
    ]
    for line, each in zip(align(rows), found.versions, strict=True):
        other = each.operation.file.path != found.path
        name = f"  ({one_line(each.operation.file.path)})" if other else ""
        say(f"{line}  {one_line(summarise_operation(each.operation))}{name}")


def short_time(commit: Commit) -> str:
    """Return a commit's day and minute, in the time zone of whoever made it."""
    return commit.time[:16].replace("T", " ")


def _property_text(change: PropertyChange) -> str:
    old, new = (
        value if isinstance(value, str) else ", ".join(value) for value in (change.old, change.new)
    )
    if change.op == "add":
        return one_line(f"+ {change.name}: {new}")
    if change.op == "remove":
        return one_line(f"- {change.name}: {old}")
    return one_line(f"{change.name}: {old} -> {new}")
