"""Operations that write sessions: start, continue, record, close."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    MAX_RESULT_TOKENS,
    Agent,
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    VersionScope,
    declare,
)
from vaultmem.operations.lines import report_lines
from vaultmem.operations.schemas import Schema, record

if TYPE_CHECKING:
    from vaultmem.core.sessions.restore_text import Restore
    from vaultmem.core.sessions.session import Session, SessionFacts
    from vaultmem.core.sessions.turns import TranscriptPosition
    from vaultmem.services.sessions.begin import StartResult
    from vaultmem.services.sessions.close import CloseResult, RecoveryResult
    from vaultmem.services.sessions.edit_session import RecordedDecision
    from vaultmem.vault import Vault

FINAL_STATUSES = ("ok", "error", "canceled")

#: Every session pays for each argument of a tool.
RARE = {FrontEnd.MCP: "the tool has what an agent names most"}
_HOOKS = {FrontEnd.MCP: "an agent's hooks do it"}


def name_session(description: str) -> Any:
    """Return the argument that names a session: a word in the shell, or --session."""
    agent = Agent("Else the one open here.", most=200)
    return Arg(description, agent, takes=ArgumentForm.MEANT, metavar="[ID]")


def limit_restore(description: str) -> Any:
    """Return the argument for a restore's maximum tokens."""
    return Arg(description, Agent("", 300, MAX_RESULT_TOKENS), 200, 1_000_000, metavar="TOKENS")


Meant = Annotated[str, name_session("The session.  [default: the current one]")]
Shared = Annotated[
    str,
    Arg("", Agent("Else the one open here.", most=200), takes=ArgumentForm.SHARED, metavar="ID"),
]
Text = Annotated[
    str, Arg("The text.", Agent(most=50_000), 1, 200_000, takes=ArgumentForm.INPUT, metavar="TEXT")
]
Goal = Annotated[str, Arg("Goal of the session.", most=1_000, metavar="TEXT")]
Related = Annotated[
    tuple[str, ...],
    Arg("Related session (repeatable).", metavar="ID", excused=RARE),
]
Pid = Annotated[
    int,
    Arg(
        "Process that runs the session.  [default: the caller]",
        metavar="N",
        excused={
            FrontEnd.HTTP: "it is the server's, and ends with it",
            FrontEnd.MCP: "it is the client's, and ends with it",
        },
    ),
]
RestoreBudget = Annotated[
    int, limit_restore("Tokens of the restored text at most.  [default: 2000]")
]


class OpenedSession(NamedTuple):
    """The open session, and the requested restore."""

    start_result: StartResult
    restored: Restore | None


class TranscriptLength(NamedTuple):
    """The length of a session's transcript."""

    session: str
    tally: TranscriptPosition


def start(
    vault: Vault,
    session_: Annotated[
        str,
        Arg(
            "Id of the session.  [default: the agent's own, or a new one]",
            Agent("Else the one open here.", most=200),
            most=200,
            flags=("--id",),
            metavar="ID",
        ),
    ] = "",
    goal: Goal = "",
    continues: Annotated[tuple[str, ...], Arg("Session that it continues.", metavar="ID")] = (),
    related: Related = (),
    fresh: Annotated[
        bool, Arg("Do not pick up a session whose restore is pending.", excused=RARE)
    ] = False,
    pid: Pid = 0,
    budget: RestoreBudget = 0,
    *,
    restores: bool = True,
) -> OpenedSession:
    """Begin a session.

    One whose restore is pending is continued, and its restore printed.

    Examples:
      vaultmem --agent claude session start --goal "Refund single tickets"
    """
    from vaultmem.services.sessions.begin import NewSession, start_session

    new = NewSession(session_, goal, continues, related=related, pid=pid or None)
    return _open_session(vault, start_session(vault, new, not fresh), budget, restores)


def resume(
    vault: Vault,
    session_: Annotated[
        str,
        Arg(
            "The session.  [default: the last]",
            Agent("Else the one open here.", most=200),
            takes=ArgumentForm.WORD,
            metavar="[ID]",
        ),
    ] = "",
    pid: Pid = 0,
    budget: RestoreBudget = 0,
    *,
    restores: bool = True,
) -> OpenedSession:
    """Go on with a session in a new context window.

    Its restore is printed.

    Examples:
      vaultmem session resume s-0431
    """
    from vaultmem.services.sessions.begin import resume_session

    return _open_session(vault, resume_session(vault, session_, pid=pid or None), budget, restores)


def fork(
    vault: Vault,
    session_: Annotated[
        str, Arg("Session to fork.", most=200, takes=ArgumentForm.WORD, metavar="ID")
    ],
    id: Annotated[
        str,
        Arg("Id of the new session.  [default: a new one]", most=200, metavar="ID", excused=RARE),
    ] = "",
    goal: Goal = "",
    related: Related = (),
    pid: Pid = 0,
    budget: RestoreBudget = 0,
    *,
    restores: bool = True,
) -> OpenedSession:
    """Begin a session that goes its own way from another one.

    That one's restore is printed.

    Examples:
      vaultmem session fork s-0431 --goal "Try it without a job"
    """
    from vaultmem.services.sessions.begin import NewSession, fork_session

    new = NewSession(id, goal, related=related, pid=pid or None)
    return _open_session(vault, fork_session(vault, session_, new), budget, restores)


def _open_session(
    vault: Vault, start_result: StartResult, budget: int, restores: bool
) -> OpenedSession:
    """Return the open session, with the restore if the front end `restores`."""
    from vaultmem.services.sessions.restore_session import restore_session

    session_id = start_result.restore if restores else ""
    return OpenedSession(
        start_result, restore_session(vault, session_id, budget or None) if session_id else None
    )


def mark_restore(vault: Vault, session_: Meant = "") -> Session:
    """Ask for a restore at the next start.

    It is for a session whose context is about to be lost.

    Examples:
      vaultmem session mark-restore s-0431
    """
    from vaultmem.services.sessions import windows

    return windows.mark_restore(vault, find_meant(vault, session_))


def close(
    vault: Vault,
    session_: Meant = "",
    status: Annotated[
        str, Arg("Result: ok, error or canceled.", words=FINAL_STATUSES, metavar="STATUS")
    ] = "ok",
    summary: Annotated[
        str, Arg("The state of the work at its end.", most=20_000, metavar="TEXT")
    ] = "",
    learned: Annotated[
        tuple[str, ...],
        Arg(
            "Fact to keep in MEMORY.md or a note (repeatable).", flags=("--learn",), metavar="TEXT"
        ),
    ] = (),
) -> CloseResult:
    """End a session, and commit what it wrote.

    Examples:
      vaultmem session close s-0431 --summary "The slip names each ticket."
    """
    from vaultmem.services.sessions.close import close_session, parse_end

    end = parse_end(status)
    return close_session(vault, find_meant(vault, session_), end, summary, learned)


def note(
    vault: Vault,
    text: Text,
    question: Annotated[
        bool, Arg("Mark it as an open question.", excused={FrontEnd.MCP: "an action of its own"})
    ] = False,
    session: Shared = "",
) -> Session:
    """Add a line to a session's details, or an open question.

    Examples:
      vaultmem session add note "The printer cuts at 42 characters."
      vaultmem session add note "Who prints at night?" --question
    """
    from vaultmem.services.sessions.edit_session import add_detail, add_question

    add = add_question if question else add_detail
    return add(vault, find_meant(vault, session), text)


def decide(
    vault: Vault,
    text: Text,
    title: Annotated[
        str, Arg("Title.  [default: the first line of the text]", most=300, metavar="TEXT")
    ] = "",
    context: Annotated[str, Arg("Context: the note's folder.", most=200, metavar="NAME")] = "",
    tags: Annotated[
        tuple[str, ...],
        Arg("A tag of the decision (repeatable).", flags=("--tag",), metavar="TAG", excused=RARE),
    ] = (),
    pin: Annotated[bool, Arg("Show it in every pack and restore.", excused=RARE)] = False,
    confidence: Annotated[
        float | None, Arg("Confidence of the author.", least=0, most=1, metavar="0-1", excused=RARE)
    ] = None,
    cites: Annotated[
        tuple[str, ...],
        Arg(
            "Source that it is based on (repeatable).",
            flags=("--cite",),
            metavar="PATH",
            excused=RARE,
        ),
    ] = (),
    session: Shared = "",
) -> RecordedDecision:
    """Write a decision as a note, which the session names.

    Examples:
      vaultmem session add decision "Each ticket has a line of its own." --tag slip
    """
    from vaultmem.core.new_memory import Memory
    from vaultmem.services.sessions import edit_session

    memory = Memory(text, title, context, tags=tags, pinned=pin, confidence=confidence, cites=cites)
    return edit_session.decide(vault, find_meant(vault, session), memory)


def touch(
    vault: Vault,
    files: Annotated[
        tuple[str, ...],
        Arg("Files, also removed ones.", takes=ArgumentForm.WORDS, metavar="FILE..."),
    ],
    session: Shared = "",
) -> Session:
    """Note which files the session touched.

    What it left in them is noted too.

    Examples:
      vaultmem session add file vaultmem.yaml
    """
    from vaultmem.services.sessions.import_turns import touch_files

    return touch_files(vault, find_meant(vault, session), files)


def turn(
    vault: Vault,
    role: Annotated[
        str,
        Arg(
            "The speaker: user, assistant ...", "", 1, 100, takes=ArgumentForm.WORD, metavar="ROLE"
        ),
    ],
    text: Text,
    session: Shared = "",
) -> TranscriptLength:
    """Add a turn to the session's transcript.

    The transcript stays on this machine.

    Examples:
      vaultmem session add turn user "Why is the slip so long?"
    """
    from datetime import datetime

    from vaultmem.core.sessions import turns
    from vaultmem.services.sessions.windows import add_turns

    session_id = find_meant(vault, session)
    at = datetime.now().isoformat(timespec="seconds")
    return TranscriptLength(session_id, add_turns(vault, session_id, [turns.Turn(role, text, at)]))


def summarize(vault: Vault, text: Text, session: Shared = "") -> Session:
    """Add a paragraph to the summary of the session.

    Examples:
      vaultmem session add summary "The slip is decided, not written."
    """
    from vaultmem.services.sessions import edit_session

    return edit_session.summarize(vault, find_meant(vault, session), text)


def find_meant(vault: Vault, name: str, or_last: bool = False) -> str:
    """Return the named or current session; with `or_last`, fall back to the last one here.

    Raises:
        NoteNotFoundError: there is no such session.
    """
    from vaultmem.services.sessions.identify import require_session

    return require_session(vault, name, or_last=or_last)


def session_data(session: Session) -> dict[str, Any]:
    """Return a session with its lists and texts."""
    lists = "decisions questions answered touched windows summary details"
    return {**facts_data(session.facts), **pick(session, lists)}


def facts_data(facts: SessionFacts) -> dict[str, Any]:
    """Return a session's facts, with the lengths of its lists."""
    return {
        "session": facts.id,
        **pick(
            facts, "path blob title agent? status started? ended? goal? workspace? project? edges"
        ),
        "pending_restore_at": facts.pending or None,
        **pick(facts, "machine?"),
        "last_seen": facts.seen or None,
        "counts": pick(facts, "decisions questions touched windows turns tokens"),
    }


def _opened_data(result: OpenedSession) -> dict[str, Any]:
    return {
        **session_data(result.start_result.session),
        "new": result.start_result.is_new,
        "restore": result.restored.text if result.restored else None,
        "restored": result.start_result.restore or None,
        "recovered": list(map(recovered_data, result.start_result.recovered)),
    }


def recovered_data(each: RecoveryResult) -> dict[str, Any]:
    """Return a recovered session with its new status."""
    facts = pick(each, "session path status left")
    return {**facts, "commit": each.report.commit or None, **pick(each, "problem?")}


def _closed_data(result: CloseResult) -> dict[str, Any]:
    from vaultmem.operations.note_data import report_json

    learned = [pick(each, "text path in_memory") for each in result.learned]
    data = {"learned": learned, **pick(result, "proposed dead_ends")}
    return {**session_data(result.session), **data, **report_json(result.report)}


def _decided_data(result: RecordedDecision) -> dict[str, Any]:
    return {"decision": result.memory, **session_data(result.session)}


def _counted_data(result: TranscriptLength) -> dict[str, Any]:
    return {"session": result.session, **pick(result.tally, "turns tokens")}


def _done_lines(word: str) -> Callable[[Session, Any], Iterator[Line]]:
    """Return a function that yields an action and its session."""

    def make(session: Session, _: Any) -> Iterator[Line]:
        yield Line(f"{word:<9}", "green", session.facts.id)

    return make


def _noted_lines(session: Session, request: Any) -> Iterator[Line]:
    yield from _done_lines("asked" if request.question else "noted")(session, request)


def _opened_lines(result: OpenedSession, _: Any) -> Iterator[Line]:
    yield from recovered_lines(result.start_result.recovered)
    facts = result.start_result.session.facts
    word = "started" if result.start_result.is_new else "open"
    yield Line(f"{word:<9}", "green", f"{facts.id}  ({facts.path})")
    if result.restored:
        yield Line("")
        yield from restore_lines(result.restored, None)


def _opened_warnings(result: OpenedSession) -> Iterator[str]:
    return filter(None, (each.problem for each in result.start_result.recovered))


def recovered_lines(recovered: Sequence[RecoveryResult]) -> Iterator[Line]:
    """Yield the recovered sessions."""
    for each in recovered:
        yield Line("recovered", "yellow", f"  {each.session}  ({each.status})")
        yield from report_lines(each.report)


def restore_lines(result: Restore, _: Any) -> Iterator[Line]:
    """Yield a restore."""
    yield Line(result.text.rstrip("\n"))


def _closed_lines(result: CloseResult, _: Any) -> Iterator[Line]:
    from vaultmem.operations.notes import proposed_lines

    facts = result.session.facts
    yield Line("closed   ", "green", f"{facts.id}  ({facts.status})")
    for each in result.learned:
        yield Line(f"learned  {each.path}")
    yield from proposed_lines(result.proposed)
    for dead_end in result.dead_ends:
        yield Line("proposed ", "yellow", f"{dead_end.path}  (dead end; `vaultmem review`)")
        yield from (Line(f"  > {line}") for line in dead_end.text.splitlines())
    yield from report_lines(result.report)


def _decided_lines(result: RecordedDecision, _: Any) -> Iterator[Line]:
    yield Line("decided  ", "green", f"{result.memory.path}  ({result.session.facts.id})")


def _counted_lines(result: TranscriptLength, _: Any) -> Iterator[Line]:
    turns, tokens = result.tally.turns, result.tally.tokens
    yield Line("turn     ", "green", f"{turns} of {result.session}, {tokens:,} tokens so far")


#: The fields of every session.
FACTS: dict[str, Schema | str] = {
    "session": "string",
    "path": "string",
    "title": "string",
    "status": "string",
    "started": "string?",
    "ended": "string?",
}

_keep = partial(declare, versions=VersionScope.BRANCH, writes=True)
_write = partial(_keep, data=session_data, output_schema=record(**FACTS), syncs=False)
_open = partial(
    _keep,
    data=_opened_data,
    lines=_opened_lines,
    warnings=_opened_warnings,
    output_schema=record(**FACTS, new="boolean", restore="string?", restored="string?"),
)

START = _open(start, "start_session", "POST /sessions")

RESUME = _open(resume, "resume_session", "POST /sessions/{session}/resume")

FORK = _open(fork, "fork_session", "POST /sessions/{session}/fork")

MARK_RESTORE = _write(
    mark_restore,
    "mark_restore",
    "POST /sessions/{session}/restore",
    lines=_done_lines("pending"),
    excused=_HOOKS,
)

CLOSE = _write(
    close,
    "close_session",
    "POST /sessions/{session}/close",
    data=_closed_data,
    lines=_closed_lines,
)

NOTE = _write(note, "note_in_session", "POST /sessions/{session}/notes", lines=_noted_lines)

DECIDE = _keep(
    decide,
    "decide_in_session",
    "POST /sessions/{session}/decisions",
    _decided_data,
    lines=_decided_lines,
    output_schema=record(**FACTS, decision="object"),
)

TOUCH = _write(touch, "touch_files", "POST /sessions/{session}/files", lines=_done_lines("touched"))

TURN = _write(
    turn,
    "add_turn",
    "POST /sessions/{session}/turns",
    data=_counted_data,
    lines=_counted_lines,
    output_schema=record(session="string", turns="integer", tokens="integer"),
    excused=_HOOKS,
)

SUMMARIZE = _write(
    summarize,
    "summarize_session",
    "POST /sessions/{session}/summary",
    lines=_done_lines("summed"),
)

SESSION_RECORD = (
    START,
    RESUME,
    FORK,
    MARK_RESTORE,
    CLOSE,
    NOTE,
    DECIDE,
    TOUCH,
    TURN,
    SUMMARIZE,
)
