"""Commands on git's history: log, show, diff, history, blame, why, restore, undo."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import emit_json, say, say_behind, say_lines, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.text.display import one_line
from vaultmem.operations.lines import align, candidate_lines, commit_lines, report_lines
from vaultmem.operations.note_data import (
    blame_json,
    diff_json,
    explained_json,
    log_json,
    restored_json,
    shown_json,
    trace_json,
    undone_json,
)

if TYPE_CHECKING:
    from vaultmem.core.notes.changes import PropertyChange
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.services.history.blame import BlamedLine, NoteCommit, Trace
    from vaultmem.services.history.diff import FileOperation, ShownCommit
    from vaultmem.services.history.explain import ChangeStep, Ground
    from vaultmem.storage.git.log import Commit


# Commits and changes as text, the same in every command.

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


def say_operation(operation: FileOperation) -> None:
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


def say_brief(operations: Sequence[FileOperation]) -> None:
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


def name_writer(origin: BlamedLine | ChangeStep | NoteCommit) -> str:
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


_CUT = "The history of this clone ends here: it is shallow. `git fetch --unshallow` gets the rest."

SinceOption = Annotated[
    str, typer.Option("--since", metavar="DATE", help="Only from this day or time on.")
]
UntilOption = Annotated[
    str, typer.Option("--until", metavar="DATE", help="Only up to this day or time.")
]
BelowOption = Annotated[
    str, typer.Option("--path", metavar="PATH", help="Only what changed this note or folder.")
]


@takes("vault", "ref", "as_json")
def log(
    here: Here,
    span: Annotated[
        str, typer.Argument(metavar="[A..B]", help="Only what B has, and A has not.")
    ] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="Commits at most.")] = 20,
    event: Annotated[
        list[str], typer.Option("--event", metavar="EVENT", help="Only this event (repeatable).")
    ] = [],  # noqa: B006
    agent: Annotated[
        list[str], typer.Option("--agent", metavar="ID", help="Only by this agent (repeatable).")
    ] = [],  # noqa: B006
    session: Annotated[
        list[str],
        typer.Option("--session", metavar="ID", help="Only of this session (repeatable)."),
    ] = [],  # noqa: B006
    path: BelowOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Also commits that vaultmem did not make.")
    ] = False,
) -> None:
    """Show what happened in the vault, newest first.

    Examples:
      vaultmem log -n 5
      vaultmem log --path notes/payments
    """
    from vaultmem.core.text.timestamps import parse_timestamp
    from vaultmem.services.history.commits import CommitFilter, list_commits

    wanted = CommitFilter(
        frozenset(event),
        frozenset(agent),
        frozenset(session),
        parse_timestamp(since) if since else None,
        parse_timestamp(until, end_of_day=True) if until else None,
        everything,
    )
    if span and ".." not in span:
        raise typer.BadParameter(f'"{span}" is not A..B; --ref shows one branch, --path one note')
    found = list_commits(here.open(reads=True), wanted, limit, path, span)
    if here.as_json:
        emit_json(log_json(found))
        return
    for commit in found.commits:
        say_painted(commit.commit[:7], "yellow", f"  {tell_commit(commit)}")
    if found.is_cut:
        say(_CUT)
    elif not (found.commits or path or span) and wanted == CommitFilter(everything=everything):
        say("No events yet; `vaultmem checkpoint NOTE` makes the first.")
    elif not found.commits:
        say("No event matches.")


@takes("vault", "ref", "as_json")
def show(
    here: Here,
    commit: Annotated[
        str, typer.Argument(metavar="COMMIT", help="A commit, branch, tag or date; else HEAD.")
    ] = "",
) -> None:
    """Show who made a commit, why, and what it changed.

    Examples:
      vaultmem show
      vaultmem show HEAD~1
    """
    from vaultmem.services.history.diff import show_commit

    shown = show_commit(here.open(reads=True), commit)
    if here.as_json:
        emit_json(shown_json(shown))
        return
    _say_commit(shown)
    for operation in shown.operations:
        say()
        say_operation(operation)
    if shown.is_end:
        say()
        say(f"What it changed is not known. {_CUT}")
    elif not shown.operations:
        say()
        say("It changed nothing in the vault.")


@takes("vault", "ref", "as_json")
def diff(
    here: Here,
    old: Annotated[
        str,
        typer.Argument(
            metavar="[A]", help="A commit, branch, tag or date, A..B or A...B; else HEAD."
        ),
    ] = "",
    new: Annotated[
        str, typer.Argument(metavar="[B]", help="What to compare with; else the folder as it is.")
    ] = "",
    path: BelowOption = "",
    brief: Annotated[bool, typer.Option("--brief", help="One line for each note.")] = False,
) -> None:
    """Show what changed in the notes between two commits.

    Name them as A B or A..B; A...B is what B has since the two parted. Changed properties are shown
    as such.

    Examples:
      vaultmem diff HEAD~1 HEAD
      vaultmem diff
    """
    from vaultmem.services.history.diff import diff_vault

    opened = here.open(reads=True)
    found = diff_vault(opened, old, new, path)
    say_behind(opened.notices.stale)
    for name, reason in found.skipped.items():
        warn(f"left out {name}: {reason}")
    if here.as_json:
        emit_json(diff_json(found))
        return
    if not found.operations:
        say("Nothing differs.")
    if brief:
        say_brief(found.operations)
        return
    for number, operation in enumerate(found.operations):
        if number:
            say()
        say_operation(operation)


@takes("vault", "ref", "at", "as_json")
def history(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The note, as it is called now or was once.")
    ],
    limit: Annotated[
        int,
        typer.Option("-n", "--limit", metavar="N", help="Changes at most.", show_default=False),
    ] = 0,
) -> None:
    """Show what each commit did to a note, newest first.

    The note is followed through renames and removals.

    Examples:
      vaultmem history refund-rules
    """
    from vaultmem.services.history.blame import trace_note
    from vaultmem.services.history.commits import resolve_commit

    opened = here.open_synced(reads=True)
    found = trace_note(opened, path, limit, resolve_commit(opened, here.at) if here.at else "")
    if here.as_json:
        emit_json(trace_json(found))
        return
    say_versions(found)
    if any(each.is_end for each in found.versions):
        say(_CUT)


def _say_commit(shown: ShownCommit) -> None:
    commit = shown.commit
    say_painted(f"commit {commit.commit}", "yellow")
    parents = [parent[:7] for parent in commit.parents]
    merged = f"of {' and '.join(parents)}; compared with {parents[0]}" if parents[1:] else ""
    facts = {
        "who": f"{commit.author} <{commit.email}>",
        "agent": commit.who if commit.wrote else commit.agent,
        "claimed by": commit.claimed_by,
        "when": commit.time,
        "event": commit.event,
        "session": commit.session,
        "intent": commit.intent,
        "confidence": commit.confidence,
        "tool call": commit.tool_call,
        "merge": merged,
    }
    for name, value in facts.items():
        if value:
            say(f"{name:<10}  {one_line(value)}")
    say()
    say(commit.subject)
    if commit.prose:
        say()
        say(commit.prose)


# Commands about where a note's words come from: blame, why, restore, undo.

_MAX_TEXT = (
    "This clone is shallow and its history ends at {}: lines from there might be older than that."
)


@takes("vault", "ref", "at", "as_json")
def blame(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The note, or one section of it (PATH#Heading).")
    ],
) -> None:
    """Show who wrote each line of a note, and when.

    Examples:
      vaultmem blame refund-rules
    """
    from vaultmem.services.history.blame import blame_note

    found = blame_note(here.open_synced(reads=True), path, here.at)
    if here.as_json:
        emit_json(blame_json(found))
        return
    width = len(str(found.lines[-1].number)) if found.lines else 0
    for line, origin in zip(found.lines, align(list(map(_origin, found.lines))), strict=True):
        text = line.text.removesuffix("\r").expandtabs(4)
        say(f"{origin}  {line.number:>{width}}  {text}".rstrip())
    if found.ends:
        say(_MAX_TEXT.format(", ".join(sorted(commit[:7] for commit in found.ends))))


@takes("vault", "ref", "at", "as_json")
def why(
    here: Here,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What it is about.")],
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="Sections at most.")] = 5,
) -> None:
    """Show which notes mention a text, and who wrote them when.

    Facts and decisions come with what they rest on.

    Examples:
      vaultmem why opaque tokens
    """
    from vaultmem.services.history.explain import explain_text

    asked = " ".join(text)
    grounds = explain_text(here.open_view(reads=True), asked, limit)
    if here.as_json:
        emit_json(explained_json(asked, grounds))
        return
    if not grounds:
        say("No fact and no decision in this vault mentions that.")
    for number, ground in enumerate(grounds, 1):
        _say_ground(number, ground)
    ends = sorted({commit[:7] for ground in grounds for commit in ground.ends})
    if ends:
        say(_MAX_TEXT.format(", ".join(ends)))


@takes("vault", "ref", "agent", "session", "as_json")
def restore(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The note, as it is called now or was then.")
    ],
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="WHEN",
            help="A commit, branch, tag or date; else the versions are listed.",
        ),
    ] = "",
) -> None:
    """Restore an older version of a note, as a new change.

    What it is now is committed first. A note that was renamed or moved since keeps its new path.

    Examples:
      vaultmem restore refund-rules --at HEAD~1
    """
    from vaultmem.services.history.restore_note import restore_note

    if not at:
        _list_versions(here, path)
        return
    done = restore_note(here.open_synced(), path, at)
    if here.as_json:
        emit_json(restored_json(done))
        return
    if not done.is_changed:
        say(f"{one_line(done.path)}: already as it was in {done.commit[:7]}; nothing changed.")
        return
    say_commits(done.commits)
    then = f", there {one_line(done.path_then)}" if done.path_then else ""
    say_painted("restored  ", "green", f"{done.path}  (as in {done.commit[:7]}{then})")
    say_candidates(done.candidates)


@takes("vault", "agent", "session", "as_json")
def undo(
    here: Here,
    commit: Annotated[
        str, typer.Argument(metavar="COMMIT", help="The commit, by its id, branch or tag.")
    ],
) -> None:
    """Revert one commit, as a new commit.

    Nothing is taken back where a note of it was changed since.

    Examples:
      vaultmem undo HEAD
    """
    from vaultmem.services.history.restore_note import undo_commit

    done = undo_commit(here.open_synced(), commit)
    if here.as_json:
        emit_json(undone_json(done))
        return
    say_commits(done.report.commits)
    short = done.commit.commit[:7]
    for path in done.paths:
        say_painted("undone    ", "green", f"{one_line(path)}  (as before {short})")
    say_candidates(done.report.candidates)


def _list_versions(here: Here, path: str) -> None:
    """Print the versions of a note, and the command that restores one."""
    from vaultmem.services.history.blame import trace_note

    found = trace_note(here.open_synced(reads=True), path)
    if here.as_json:
        emit_json(trace_json(found))
        return
    say_versions(found)
    kept = [e.commit.commit for e in found.versions if e.commit and e.operation.file.blob]
    if kept:
        at = kept[1:2] or kept
        say(f"hint: `vaultmem restore {shlex.quote(path)} --at {at[0][:7]}` restores that version")


def _origin(line: BlamedLine | ChangeStep) -> list[str]:
    commit = line.commit
    if commit is None:
        return ["", "", one_line(line.who), "not committed", one_line(line.session), "", ""]
    trailers = (commit.event, commit.session, commit.intent, commit.confidence)
    return [commit.commit[:7], commit.time[:10], name_writer(line), *map(one_line, trailers)]


def _say_ground(number: int, ground: Ground) -> None:
    from vaultmem.core.packs.pack_item import plain_label
    from vaultmem.core.packs.pack_text import label_hit
    from vaultmem.core.packs.passages import show_line

    hit = ground.hit
    say_painted(f"{number:>2}. {plain_label(hit.name)}", "bold")
    say(f"    {plain_label(hit.address)}   {label_hit(hit)}")
    say(f"    {show_line(hit)}")
    for origin, step in zip(align(list(map(_origin, ground.steps))), ground.steps, strict=True):
        say(f"    {origin}  {step.lines} {'line' if step.lines == 1 else 'lines'}")
    for link in ground.supersedes:
        missing = "" if link.path else "  (no such note)"
        say(f"    supersedes  {one_line(link.path or link.name)}{missing}")
    for link in ground.superseded_by:
        say(f"    superseded by  {one_line(link.path)}")
