"""Commands about where a note's words come from: blame, why, restore, undo."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.history import blame_json, explained_json, trace_json
from vaultmem.answers.notes import restored_json, undone_json
from vaultmem.cli.history_text import (
    name_writer,
    say_candidates,
    say_commits,
    say_versions,
)
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.shared import Here, takes
from vaultmem.core.safe_text import one_line
from vaultmem.operations.lines import align

if TYPE_CHECKING:
    from vaultmem.services.history.blame import BlamedLine
    from vaultmem.services.history.explain import ChangeStep, Ground

_CUT = (
    "This clone is shallow and its history ends at {}: what is said to be from there may be older."
)


@takes("vault", "ref", "at", "as_json")
def blame(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The note, or one section of it (PATH#Heading).")
    ],
) -> None:
    """Show who wrote each line of a note, when and in which session.

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
        say(_CUT.format(", ".join(sorted(commit[:7] for commit in found.ends))))


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
        say(_CUT.format(", ".join(ends)))


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
    """Write a note as it once was, as a new change.

    What it is now is committed first. A note that was renamed or moved since keeps its new path.

    Examples:
      vaultmem restore refund-rules --at HEAD~1
    """
    from vaultmem.services.history.restore import restore_note

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
    """Take back what one commit did, as a new commit.

    Nothing is taken back where a note of it was changed since.

    Examples:
      vaultmem undo HEAD
    """
    from vaultmem.services.history.undo import undo_commit

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
    from vaultmem.services.history.trace import trace_note

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
    from vaultmem.core.packs.excerpt import show_line
    from vaultmem.core.packs.labels import label_hit
    from vaultmem.core.packs.pack_item import plain_label

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
