"""Operations that change notes: promote, forget, state, supersede, restore, checkpoint, undo."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.display import format_names, one_line, pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.core.text.timestamps import parse_age
from vaultmem.operations.declaration import (
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    VersionScope,
    declare,
    word,
    words,
)
from vaultmem.operations.history_views import version_lines
from vaultmem.operations.lines import candidate_lines, commit_lines, report_lines
from vaultmem.operations.note_data import commits_json, moved_json, report_json, trace_json
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.services.history.blame import Trace
    from vaultmem.services.history.restore_note import RestoreResult, UndoResult
    from vaultmem.services.lifecycle.supersede import SupersedeResult
    from vaultmem.services.lifecycle.transition import PromoteResult, TransitionResult
    from vaultmem.services.sessions.undo_session import SessionUndo
    from vaultmem.vault import Vault

_STATES = [each.value for each in NoteState if each is not NoteState.UNREADABLE]

NotePath = Annotated[str, word("The note: its path, or its name if that is enough.", 1)]
Reason = Annotated[str, Arg("Reason, stored in the note and in git.", most=1_000, metavar="TEXT")]


def promote(
    vault: Vault,
    paths: Annotated[tuple[str, ...], words("The notes, or folders of candidates.", 1)],
    from_: Annotated[
        str,
        Arg("Take the notes from this branch first.", "A branch with them.", metavar="BRANCH"),
    ] = "",
) -> PromoteResult:
    """Make candidate notes active, and commit them.

    Nothing else is committed. A policy or skill that you promote may instruct from then on, and a
    preference goes with the packs that it concerns, until its text changes.

    Examples:
      vaultmem promote half-refunds-round-up
    """
    if from_:
        from vaultmem.services.merging.promoted_notes import promote_from

        return promote_from(vault, from_, paths)
    from vaultmem.services.lifecycle.transition import promote_notes

    return promote_notes(vault, paths)


def promote_one(vault: Vault, path: NotePath) -> PromoteResult:
    """Make a candidate active, and commit that; whether it may instruct is its owner's word."""
    return promote(vault, (path,))


def _promoted_data(result: PromoteResult) -> dict[str, Any]:
    notes = [{"path": path, "from": before, "to": "active"} for path, before in result.notes]
    return {"promoted": notes, "trusted": result.trusted, **report_json(result.report)}


def _promoted_lines(result: PromoteResult, request: Any) -> Iterator[Line]:
    from vaultmem.services.lifecycle.transition import describe_untrusted

    for path, before in result.notes:
        facts = (
            "" if before == "active" else f"{before} to active",
            request.from_ and f"from {request.from_}",
            "trusted" if path in result.trusted else "",
        )
        yield Line("promoted  ", "green", f"{path}  ({', '.join(filter(None, facts))})")
    for path in result.active:
        yield Line(f"active already  {path}")
    if result.notes:
        yield from _outcome_lines(result.report, None)
    if unsaid := describe_untrusted(result):
        yield Line(unsaid)


def state_(
    vault: Vault,
    path: NotePath,
    state: Annotated[
        str, Arg("active, stale, archived, quarantined ...", words=_STATES, takes=ArgumentForm.WORD)
    ],
    reason: Reason = "",
) -> TransitionResult:
    """Change the state of a note, and commit it.

    The order is candidate, active, stale, archived: one step at a time, in either direction.
    `promote` makes a candidate active. A quarantined note needs a --reason, and no recall or pack
    shows it. Only a person changes the state of pinned and quarantined notes.

    Examples:
      vaultmem state search-load-test stale --reason "Measured on the old server."
      vaultmem state rollback quarantined --reason "It came from a web page."
    """
    from vaultmem.core.lifecycle import parse_state
    from vaultmem.errors import RefusedError
    from vaultmem.services.lifecycle.transition import change_state

    new_state = parse_state(state)
    if new_state is NoteState.QUARANTINED and not reason:
        raise RefusedError("say why it cannot be trusted: --reason TEXT")
    return change_state(vault, [path], new_state, reason)


def _state_lines(result: TransitionResult, request: Any) -> Iterator[Line]:
    for move in result.moves:
        yield Line(f"{move.after}  ", "yellow", f"{move.path}  (was {move.before})")
    if not result.moves:
        yield Line(f"{request.path}: {request.state} already.")
    yield from commit_lines(result.report.commits)


def supersede(
    vault: Vault,
    path: Annotated[str, word("The note that no longer holds.", 1, metavar="OLD")],
    by: Annotated[str, word("The note that holds instead.", 1, metavar="NEW")],
    partial: Annotated[bool, Arg("Replace only what both state; the old note stays.")] = False,
    reason: Reason = "",
) -> SupersedeResult:
    """Replace a note by another; each names the other.

    The old note is deprecated. With --partial it keeps its state, and packs show the new note
    before it.

    Examples:
      vaultmem supersede expired-sessions-linger session-tokens-opaque
    """
    from vaultmem.services.lifecycle.supersede import supersede_note

    return supersede_note(vault, path, by, reason, part=partial)


def _supersede_lines(result: SupersedeResult, request: Any) -> Iterator[Line]:
    effect = "a part of it, so it stays" if request.partial else f"{result.before} to deprecated"
    yield Line("superseded  ", "yellow", f"{result.old}  ({effect})")
    yield Line("by          ", "green", result.new)
    if result.unsaid and not request.partial:
        yield Line(f"  only in it: {one_line(result.unsaid[0])}")
    yield from commit_lines(result.report.commits)


WhyForget = Annotated[
    str, Arg("Reason; the removal is then committed at once.", most=1_000, metavar="TEXT")
]


class ForgottenNotes(NamedTuple):
    """The removed notes, or with `is_dry` those to remove, and the pinned ones that are kept.

    Without a reason, `commits` has no value. `last_commit` is a commit that still contains the
    notes, or "". `branch` is the changed branch if it is not checked out, or "". `lost_paths` are
    removed notes whose text git does not have.
    """

    paths: tuple[str, ...]
    pinned_paths: tuple[str, ...]
    is_dry: bool
    commits: tuple[tuple[str, str], ...] | None
    last_commit: str
    branch: str = ""
    lost_paths: tuple[str, ...] = ()


def forget(
    vault: Vault,
    paths: Annotated[tuple[str, ...], words("The notes.", metavar="[PATH...]")] = (),
    tag: Annotated[str, Arg("Notes with this tag.", metavar="TAG")] = "",
    older_than: Annotated[
        str, Arg("Notes unchanged for this long: 90d, 12w, 1y.", metavar="AGE")
    ] = "",
    from_session: Annotated[str, Arg("Notes that this session wrote.", metavar="ID")] = "",
    query: Annotated[str, Arg("Notes that contain all these words.", metavar="WORDS")] = "",
    reason: WhyForget = "",
    yes: Annotated[bool, Arg("Do not ask, also for several notes.", flags=("--yes", "-y"))] = False,
    dry_run: Annotated[bool, Arg("Only show what would be removed.")] = False,
) -> ForgottenNotes:
    """Remove notes; git keeps what was committed.

    Several notes are removed only with --yes. --purge removes nothing: it prints how to remove the
    text from git's history. --verify searches git's objects for the lines of a file, and exits with
    1 if it finds one.

    Examples:
      vaultmem forget october-reflection --reason "October is over."
      vaultmem forget --older-than 1y --dry-run
    """
    from vaultmem.services.memory.forget import ForgetSelection, forget_notes, select_notes
    from vaultmem.services.views.open_view import find_branch

    age = parse_age(older_than) if older_than else None
    selection = select_notes(vault, paths, ForgetSelection(tag, age, from_session, query))
    chosen_paths = tuple(record.path for record in selection.notes)
    if dry_run or not (yes or len(chosen_paths) == 1):
        return ForgottenNotes(chosen_paths, selection.kept_notes, True, () if reason else None, "")
    commits = forget_notes(vault, selection.notes, reason).report.commits
    branch, head = find_branch(vault), vault.head()
    if commits and (reason or branch):
        at = f"{commits[-1][0][:7]}~"
    else:
        at = head.commit[:7] if head else ""
    shown_commits = commits if reason else None
    files = vault.history.tree(vault.history.refs.resolve(at).commit) if at else {}
    lost_paths = tuple(
        note.path
        for note in selection.notes
        if note.path not in files or files[note.path].blob != note.blob
    )
    return ForgottenNotes(
        chosen_paths, selection.kept_notes, False, shown_commits, at, branch, lost_paths
    )


def forget_one(vault: Vault, path: NotePath, reason: WhyForget = "") -> ForgottenNotes:
    """Remove a note; git still has what was committed."""
    return forget(vault, (path,), reason=reason)


def _forgotten_data(result: ForgottenNotes) -> dict[str, Any]:
    data = {
        "would_forget" if result.is_dry else "forgotten": result.paths,
        "kept_pinned": result.pinned_paths,
    }
    return data if result.commits is None else {**data, "commits": commits_json(result.commits)}


def _forgotten_lines(result: ForgottenNotes, _: Any) -> Iterator[Line]:
    for path in result.paths:
        yield Line("would forget  " if result.is_dry else "forgot  ", "yellow", path)
    for path in result.pinned_paths:
        yield Line(f"kept, pinned  {path}")
    yield from commit_lines(result.commits or ())
    if not result.paths:
        yield Line("No note matches.")
    elif result.is_dry:
        count = pluralize(len(result.paths), "note")
        yield Line(f"Nothing was removed; add --yes to forget {count}.")
    elif result.lost_paths:
        names = format_names(result.lost_paths)
        yield Line("git does not have this text, so no command brings it back:  ", "yellow", names)
    elif result.last_commit:
        argument = shlex.quote(result.paths[0]) if len(result.paths) == 1 else "PATH"
        ref = f" --ref {shlex.quote(result.branch)}" if result.branch else ""
        command = f"vaultmem restore {argument} --at {result.last_commit}{ref}"
        yield Line(f"hint: `{command}` brings it back")


def restore(
    vault: Vault,
    path: Annotated[str, word("The note, as it is called now or was then.", 1)],
    at: Annotated[
        str,
        Arg(
            "Commit, branch, tag or date; without it, versions are listed.",
            least=1,
            most=200,
            metavar="WHEN",
        ),
    ] = "",
) -> RestoreResult | Trace:
    """Restore an older version of a note, as a new change.

    What it is now is committed first. A note that was renamed or moved since keeps its new path.

    Examples:
      vaultmem restore refund-rules --at HEAD~1
    """
    if at:
        from vaultmem.services.history.restore_note import restore_note

        return restore_note(vault, path, at)
    from vaultmem.services.history.blame import trace_note

    return trace_note(vault, path)


def _restored_data(result: RestoreResult | Trace) -> dict[str, Any]:
    from vaultmem.services.history.blame import Trace

    if isinstance(result, Trace):
        return trace_json(result)
    data = pick(result, "path path_then? blob old_blob? commit changed=is_changed candidates")
    return {**data, "commits": commits_json(result.commits)}


def _restored_lines(result: RestoreResult | Trace, request: Any) -> Iterator[Line]:
    from vaultmem.services.history.blame import Trace

    if isinstance(result, Trace):
        yield from version_lines(result)
        commits = [e.commit.commit for e in result.versions if e.commit and e.operation.file.blob]
        if commits:
            at = (commits[1:2] or commits)[0][:7]
            command = f"vaultmem restore {shlex.quote(request.path)} --at {at}"
            yield Line(f"hint: `{command}` restores that version")
        return
    if not result.is_changed:
        text = f"already as it was in {result.commit[:7]}; nothing changed."
        yield Line(f"{one_line(result.path)}: {text}")
        return
    yield from commit_lines(result.commits)
    old_path = f", there {one_line(result.path_then)}" if result.path_then else ""
    yield Line("restored  ", "green", f"{result.path}  (as in {result.commit[:7]}{old_path})")
    yield from candidate_lines(result.candidates)


def checkpoint(
    vault: Vault,
    note: Annotated[
        str,
        Arg(
            "The subject of your commit.  [default: your files]",
            most=500,
            takes=ArgumentForm.WORDS,
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


def _outcome_lines(report: CommitReport, _: Any) -> Iterator[Line]:
    if not report.commits:
        yield Line("Nothing has changed since the last commit.")
    yield from report_lines(report)


def undo(
    vault: Vault,
    commit: Annotated[str, word("The commit, by its id, branch or tag.", most=200)] = "",
    session: Annotated[str, Arg("Undo all that this session wrote.", most=200, metavar="ID")] = "",
    spread: Annotated[
        bool, Arg("Also quarantine what repeats or cites it in other sessions' notes.")
    ] = False,
    apply: Annotated[
        bool, Arg("Undo the session; without this, only show what would change.")
    ] = False,
) -> UndoResult | SessionUndo:
    """Revert a commit or a session, as a new commit.

    A commit is not undone if one of its notes was changed since. For a session, what others wrote
    or changed since stays. --apply makes the change.

    Examples:
      vaultmem undo HEAD
      vaultmem undo --session s-0412 --spread
    """
    from vaultmem.errors import ArgumentError

    if bool(commit) is bool(session):
        raise ArgumentError("name a commit, or a session with --session ID")
    if commit:
        if spread or apply:
            raise ArgumentError("--spread and --apply are for --session ID")
        from vaultmem.services.history.restore_note import undo_commit

        return undo_commit(vault, commit)
    from vaultmem.services.sessions.undo_session import undo_session

    return undo_session(vault, session, with_spread=spread, apply=apply)


def _undone_data(result: UndoResult | SessionUndo) -> dict[str, Any]:
    from vaultmem.services.sessions.undo_session import SessionUndo

    commit_data = pick(result, "commit?=report.commit candidates=report.candidates")
    if isinstance(result, SessionUndo):
        notes = [pick(each, "path action why?=reason others") for each in result.notes]
        return {**pick(result, "session applied=is_applied"), "notes": notes, **commit_data}
    return {**pick(result, "undone=commit.commit paths"), **commit_data}


def _undone_lines(result: UndoResult | SessionUndo, request: Any) -> Iterator[Line]:
    from vaultmem.services.sessions.undo_session import SessionUndo

    yield from commit_lines(result.report.commits)
    if isinstance(result, SessionUndo):
        yield from _undone_session_lines(result, request.spread)
    else:
        for path in result.paths:
            before = f"(as before {result.commit.commit[:7]})"
            yield Line("undone    ", "green", f"{one_line(path)}  {before}")
    yield from candidate_lines(result.report.candidates)


def _undone_session_lines(result: SessionUndo, with_spread: bool) -> Iterator[Line]:
    for each in result.notes:
        others = f"also changed by {', '.join(each.others)}" if each.others else ""
        facts = ", ".join(filter(None, (each.reason, others)))
        tail = f"  ({facts})" if facts else ""
        yield Line(f"{each.action:<10}  ", "yellow", one_line(f"{each.path}{tail}"))
    if not result.is_applied:
        more = " --spread" if with_spread else ""
        command = f"vaultmem undo --session {result.session}{more} --apply"
        yield Line(f"hint: nothing was changed; `{command}` makes this one commit")


_COMMITS = rows(commit="string", subject="string")

#: Declare an operation that changes one note.
change = partial(declare, versions=VersionScope.BRANCH, writes=True, changes=True)

_PROMOTED = record(promoted=rows(path="string"), trusted=STRINGS, commits=_COMMITS)

PROMOTE = declare(
    promote,
    "promote_notes",
    "POST /promote",
    _promoted_data,
    lines=_promoted_lines,
    output_schema=_PROMOTED,
    versions=VersionScope.BRANCH,
    writes=True,
)

PROMOTE_ONE = change(
    promote_one,
    "promote_note",
    "POST /promote/{path}",
    _promoted_data,
    output_schema=_PROMOTED,
    excused=dict.fromkeys((FrontEnd.SHELL, FrontEnd.MCP), "promote takes several notes"),
)

FORGET = declare(
    forget,
    "forget_notes",
    "POST /forget",
    _forgotten_data,
    lines=_forgotten_lines,
    output_schema=record(kept_pinned=STRINGS),
    versions=VersionScope.BRANCH,
    writes=True,
    excused={FrontEnd.MCP: "an agent forgets one note at a time"},
)

FORGET_ONE = change(
    forget_one,
    "forget_note",
    "DELETE /notes/{path}",
    _forgotten_data,
    lines=_forgotten_lines,
    output_schema=record(forgotten=STRINGS, kept_pinned=STRINGS),
    place=lambda _: None,
    excused={FrontEnd.SHELL: "forget takes several notes"},
)

STATE = change(
    state_,
    "move_note",
    "POST /state/{path}",
    moved_json,
    lines=_state_lines,
    output_schema=record(moved=rows(path="string", to="string"), commit="string?"),
    excused={FrontEnd.MCP: "update_note sets a state"},
)

SUPERSEDE = change(
    supersede,
    "supersede_note",
    "POST /supersede/{path}",
    "old new from=before unsaid commit?=report.commit",
    lines=_supersede_lines,
    output_schema=record(old="string", new="string", commit="string?"),
    excused={FrontEnd.MCP: "remember takes supersedes; update_note sets superseded_by"},
)

RESTORE = change(
    restore,
    "restore_note",
    "POST /restore/{path}",
    _restored_data,
    lines=_restored_lines,
    required=("at",),
    output_schema=record(path="string", blob="string", changed="boolean", commits=_COMMITS),
    place=lambda result: PurePosixPath(result.path),
    excused={FrontEnd.MCP: "a person brings back what was"},
)

CHECKPOINT = declare(
    checkpoint,
    "checkpoint",
    "POST /checkpoint",
    report_json,
    lines=_outcome_lines,
    output_schema=record(
        commit="string?",
        commits=_COMMITS,
        paths=STRINGS,
        skipped="object",
    ),
    versions=VersionScope.BRANCH,
    writes=True,
    syncs=False,
)

UNDO = declare(
    undo,
    "undo",
    "POST /undo",
    _undone_data,
    lines=_undone_lines,
    output_schema=record(commit="string?", candidates=STRINGS),
    writes=True,
    excused={FrontEnd.MCP: "a person takes commits back"},
)

#: Operations on notes; checkpoint and undo are on commits.
NOTE_CHANGES = (FORGET, FORGET_ONE, STATE, PROMOTE, PROMOTE_ONE, SUPERSEDE, RESTORE)
