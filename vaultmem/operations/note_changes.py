"""Operations that commit what they change: state, supersede, checkpoint, undo."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.display import one_line
from vaultmem.operations.declaration import Arg, Front, Line, Moment, Takes, declare, word
from vaultmem.operations.lines import candidate_lines, commit_lines, report_lines
from vaultmem.operations.note_data import moved_json, report_json
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.services.history.restore_note import UndoResult
    from vaultmem.services.lifecycle.supersede import SupersedeResult
    from vaultmem.services.lifecycle.transition import TransitionResult
    from vaultmem.vault import Vault

_STATES = [each.value for each in NoteState if each is not NoteState.UNREADABLE]

NotePath = Annotated[str, word("The note: its path, or its name if that is enough.", 1)]
Reason = Annotated[str, Arg("Reason, stored in the note and in git.", most=1_000, metavar="TEXT")]


def state_(
    vault: Vault,
    path: NotePath,
    state: Annotated[
        str, Arg("active, stale, archived, quarantined ...", words=_STATES, takes=Takes.WORD)
    ],
    reason: Reason = "",
) -> TransitionResult:
    """Change the state of a note, and commit it.

    Candidate, active, stale, archived: one step at a time, forth or back; a candidate becomes
    active by `promote`. Quarantined is a note that cannot be trusted, with a --reason: it is out of
    every recall and pack. Pinned notes and quarantined ones only a person moves.

    Examples:
      vaultmem state search-load-test stale --reason "Measured on the old server."
      vaultmem state rollback quarantined --reason "It came from a web page."
    """
    from vaultmem.core.lifecycle import parse_state
    from vaultmem.errors import RefusedError
    from vaultmem.services.lifecycle.transition import change_state

    wanted = parse_state(state)
    if wanted is NoteState.QUARANTINED and not reason:
        raise RefusedError("say why it cannot be trusted: --reason TEXT")
    return change_state(vault, [path], wanted, reason)


def state_lines(done: TransitionResult, asked: Any) -> Iterator[Line]:
    """Yield the note that went to another state, and the commit."""
    for move in done.moves:
        yield Line(f"{move.after}  ", "yellow", f"{move.path}  (was {move.before})")
    if not done.moves:
        yield Line(f"{asked.path}: {asked.state} already.")
    yield from commit_lines(done.report.commits)


def supersede(
    vault: Vault,
    path: Annotated[str, word("The note that no longer holds.", 1, metavar="OLD")],
    by: Annotated[str, word("The note that holds instead.", 1, metavar="NEW")],
    part: Annotated[bool, Arg("Only what both speak of: the old note stays.")] = False,
    reason: Reason = "",
) -> SupersedeResult:
    """Replace a note by another; each names the other.

    The old one is deprecated. With --part it stays for its other text, and packs show the new
    one before it.

    Examples:
      vaultmem supersede expired-sessions-linger session-tokens-opaque
    """
    from vaultmem.services.lifecycle.supersede import supersede_note

    return supersede_note(vault, path, by, reason, part=part)


def supersede_lines(done: SupersedeResult, asked: Any) -> Iterator[Line]:
    """Yield the note that no longer holds, the one that holds instead, and the commit."""
    became = "a part of it, so it stays" if asked.part else f"{done.before} to deprecated"
    yield Line("superseded  ", "yellow", f"{done.old}  ({became})")
    yield Line("by          ", "green", done.new)
    if done.unsaid and not asked.part:
        yield Line(f"  only in it: {one_line(done.unsaid[0])}")
    yield from commit_lines(done.report.commits)


def checkpoint(
    vault: Vault,
    note: Annotated[
        str,
        Arg(
            "The subject of your commit.  [default: your files]",
            most=500,
            takes=Takes.WORDS,
            metavar="TEXT",
        ),
    ] = "",
) -> CommitReport:
    """Commit all changes, with a reason.

    Your own changes are one commit with your text. Changes of other authors are committed
    first, each under the name of its author. A vault without changes commits nothing.

    Examples:
      vaultmem checkpoint "limits of refunds"
      vaultmem checkpoint
    """
    from vaultmem.services.changes.commit import save_checkpoint

    return save_checkpoint(vault, note)


def outcome_lines(report: CommitReport, _: Any) -> Iterator[Line]:
    """Yield the commits that were made, and what was left out."""
    if not report.commits:
        yield Line("Nothing has changed since the last commit.")
    yield from report_lines(report)


def undo(
    vault: Vault,
    commit: Annotated[str, word("The commit, by its id, branch or tag.", 1, 200)],
) -> UndoResult:
    """Revert one commit, as a new commit.

    Nothing is taken back where a note of it was changed since.

    Examples:
      vaultmem undo HEAD
    """
    from vaultmem.services.history.restore_note import undo_commit

    return undo_commit(vault, commit)


def undone_lines(done: UndoResult, _: Any) -> Iterator[Line]:
    """Yield the commit that was made, and the notes that are as before."""
    yield from commit_lines(done.report.commits)
    short = done.commit.commit[:7]
    for path in done.paths:
        yield Line("undone    ", "green", f"{one_line(path)}  (as before {short})")
    yield from candidate_lines(done.report.candidates)


_change = partial(declare, moment=Moment.BRANCH, writes=True, changes=True)

STATE = _change(
    state_,
    "move_note",
    "POST /state/{path}",
    moved_json,
    lines=state_lines,
    gives=record(moved=rows(path="string", to="string"), commit="string?"),
    excused={Front.MCP: "update_note sets a state"},
)

SUPERSEDE = _change(
    supersede,
    "supersede_note",
    "POST /supersede/{path}",
    "old new from=before unsaid commit?=report.commit",
    lines=supersede_lines,
    gives=record(old="string", new="string", commit="string?"),
    excused={Front.MCP: "remember takes supersedes; update_note sets superseded_by"},
)

CHECKPOINT = declare(
    checkpoint,
    "checkpoint",
    "POST /checkpoint",
    report_json,
    lines=outcome_lines,
    gives=record(
        commit="string?",
        commits=rows(commit="string", subject="string"),
        paths=STRINGS,
        skipped="object",
    ),
    moment=Moment.BRANCH,
    writes=True,
    syncs=False,
)

UNDO = declare(
    undo,
    "undo",
    "POST /undo",
    "undone=commit.commit paths commit?=report.commit candidates=report.candidates",
    lines=undone_lines,
    gives=record(undone="string", paths=STRINGS, commit="string?"),
    writes=True,
    excused={Front.MCP: "a person takes commits back"},
)
