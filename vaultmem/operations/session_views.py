"""Operations that read sessions: show, list, chain, stats, restore, which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    Agent,
    Arg,
    FrontEnd,
    Line,
    VersionScope,
    at_most,
    declare,
)
from vaultmem.operations.filters import ListScope
from vaultmem.operations.lines import align
from vaultmem.operations.schemas import record, rows
from vaultmem.operations.sessions import (
    FACTS,
    FINAL_STATUSES,
    RARE,
    Shared,
    facts_data,
    find_meant,
    limit_restore,
    name_session,
    recovered_data,
    recovered_lines,
    restore_lines,
    session_data,
)

if TYPE_CHECKING:
    from vaultmem.core.sessions.restore_text import Restore
    from vaultmem.core.sessions.session import Session, SessionFacts
    from vaultmem.core.sessions.turns import TranscriptPosition
    from vaultmem.services.sessions.close import RecoveryResult
    from vaultmem.services.sessions.find_session import SessionChain, SessionStats
    from vaultmem.services.sessions.identify import SessionIdentity
    from vaultmem.vault import Vault

#: Maximum characters of a goal in a list.
_WIDTH = 60

#: Why the tool has no limit of rows.
BUDGETED = {FrontEnd.MCP: "as many as the answer has room for"}
#: Why only the shell offers it.
_TERMINAL = {
    FrontEnd.HTTP: "a program names its session itself",
    FrontEnd.MCP: "the server knows which session is open in it",
}

Looked = Annotated[str, name_session("The session.  [default: the current one, or the last]")]


class ShownSession(NamedTuple):
    """A session, and its transcript's length on this machine."""

    session: Session
    tally: TranscriptPosition


class ListedSessions(NamedTuple):
    """Sessions, and those that were recovered first."""

    sessions: Sequence[SessionFacts]
    recovered: Sequence[RecoveryResult] = ()


def show(vault: Vault, session_: Looked = "") -> ShownSession:
    """Show the status of a session, and its decisions.

    What it asked and touched is shown too.

    Examples:
      vaultmem session show s-0431
    """
    from vaultmem.services.sessions.find_session import add_machine, get_session
    from vaultmem.services.sessions.windows import read_tally

    session_id = find_meant(vault, session_, or_last=True)
    session = add_machine(vault, get_session(vault, session_id))
    return ShownSession(session, read_tally(vault, session.facts.id))


def list_(
    vault: Vault,
    status: Annotated[
        str,
        Arg(
            "Only with this status: open, ok, error or canceled.",
            Agent(words=(*FINAL_STATUSES, "open")),
            most=20,
            metavar="STATUS",
        ),
    ] = "",
    from_agent: Annotated[
        str, Arg("Only sessions of this agent.", most=200, metavar="AGENT", excused=RARE)
    ] = "",
    limit: Annotated[
        int, at_most("Sessions at most.  [default: 20]", 10_000)._replace(excused=BUDGETED)
    ] = 0,
    project: ListScope = "",
) -> ListedSessions:
    """List the sessions, the last started first.

    Those whose process is gone are recovered first.

    Examples:
      vaultmem session list
    """
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.find_session import list_sessions

    view = view_project(vault, project)
    return ListedSessions(list_sessions(view, status, from_agent, limit or 20))


def chain(
    vault: Vault,
    session_: Looked = "",
    depth: Annotated[
        int, Arg("Sessions back at most.  [default: 10]", "", 1, 100, metavar="N", excused=BUDGETED)
    ] = 0,
) -> SessionChain:
    """Show the sessions before a session, and those after it.

    Examples:
      vaultmem session links s-0431
    """
    from vaultmem.services.sessions.find_session import follow_chain

    session_id = find_meant(vault, session_, or_last=True)
    return follow_chain(vault, session_id, depth or 10)


def stats(vault: Vault) -> SessionStats:
    """Count the sessions, and what they hold.

    Examples:
      vaultmem session stats
    """
    from vaultmem.services.sessions.find_session import count_sessions

    return count_sessions(vault)


def restore(
    vault: Vault,
    session_: Looked = "",
    budget: Annotated[int, limit_restore("Tokens at most.  [default: 2000]")] = 0,
) -> Restore:
    """Print what the next context window needs of a session.

    It fits into a token budget.

    Examples:
      vaultmem session restore s-0431 --budget 500
    """
    from vaultmem.services.sessions.restore_session import restore_session

    session_id = find_meant(vault, session_, or_last=True)
    return restore_session(vault, session_id, budget or None)


def which(vault: Vault, session: Shared = "") -> SessionIdentity:
    """Show which session is current here, and why.

    Examples:
      vaultmem session current
    """
    from vaultmem.services.sessions.identify import identify_session

    return identify_session(vault, session)


def _shown_data(result: ShownSession) -> dict[str, Any]:
    return {
        **session_data(result.session),
        "transcript": pick(result.tally, "turns tokens digest?"),
    }


def _listed_data(result: ListedSessions) -> dict[str, Any]:
    sessions = list(map(facts_data, result.sessions))
    return {"sessions": sessions, "recovered": list(map(recovered_data, result.recovered))}


def _chain_data(result: SessionChain) -> dict[str, Any]:
    earlier = [
        {
            **pick(link, "depth session relation by"),
            "facts": facts_data(link.facts) if link.facts else None,
        }
        for link in result.earlier
    ]
    followers = [
        {"relation": relation, "facts": facts_data(facts)} for relation, facts in result.followers
    ]
    return {"session": facts_data(result.session), "earlier": earlier, "followers": followers}


def restore_data(result: Restore) -> dict[str, Any]:
    """Return the restore text for the next context window, and its tokens."""
    return {
        "session": result.sessions[0],
        **pick(result, "text sessions"),
        "tokens": {"sent": result.tokens, "budget": result.budget},
        **pick(result, "shown omitted=omitted_count"),
    }


def _listed_warnings(result: ListedSessions) -> Iterator[str]:
    return filter(None, (each.problem for each in result.recovered))


def _fact(name: str, text: str) -> Line:
    return Line(f"{name:<13}", "dim", text)


def shown_lines(result: ShownSession, _: Any) -> Iterator[Line]:
    """Yield a session's facts, summary, decisions, questions and files."""
    from vaultmem.core.text.display import pluralize

    session, tally, facts = result.session, result.tally, result.session.facts
    yield Line(facts.id, "bold", f"  {facts.goal or facts.title}")
    author = facts.agent or "a person"
    ended = f" to {facts.ended}" if facts.ended else ""
    yield _fact("status", f"{one_line(facts.standing)}  ({author}, {facts.started}{ended})")
    yield _fact("note", facts.path)
    if facts.workspace:
        yield _fact("workspace", facts.workspace)
    if facts.project:
        yield _fact("project", facts.project)
    for edge in facts.edges:
        yield _fact(edge.relation.value.replace("_", " "), edge.session)
    if facts.pending:
        yield _fact("restore", f"pending since {facts.pending}")
    if tally.turns:
        yield _fact("transcript", f"{pluralize(tally.turns, 'turn')}, {tally.tokens:,} tokens")
    yield _fact("windows", str(len(session.windows)))
    for name, items in (
        ("summary", session.summary.splitlines()),
        ("decisions", [d.text or f"[[{d.target}]]" for d in session.decisions]),
        ("questions", session.questions),
        ("touched", [f"{t.path}  {t.blob}".rstrip() for t in session.touched]),
    ):
        for number, item in enumerate(filter(str.strip, items)):
            yield _fact("" if number else name, item)


def _listed_lines(result: ListedSessions, _: Any) -> Iterator[Line]:
    yield from recovered_lines(result.recovered)
    rows = [
        (
            one_line(f.id),
            one_line(f.standing),
            one_line(f.agent) or "-",
            f.started[:16].replace("T", " "),
        )
        for f in result.sessions
    ]
    if not rows:
        yield Line("There are no such sessions.")
        return
    for line, facts in zip(align(rows), result.sessions, strict=True):
        mark = "  (restore pending)" if facts.pending else ""
        yield Line(f"{line}  {format_goal(facts)}{mark}".rstrip())


def format_goal(facts: SessionFacts) -> str:
    """Return a session's goal in one line of about 60 characters."""
    text = one_line(facts.goal or facts.title)
    return text if len(text) <= _WIDTH else text[:_WIDTH].rsplit(" ", 1)[0] + " ..."


def _chain_lines(result: SessionChain, _: Any) -> Iterator[Line]:
    for relation, facts in result.followers:
        words = f"{relation.value.replace('_', ' ')} this"
        line = f"  {one_line(facts.id)}  {facts.status:<8}  {words}  {format_goal(facts)}"
        yield Line(line.rstrip())
    first = result.session
    yield Line(first.id, "bold", f"  {first.status:<8}  {format_goal(first)}".rstrip())
    for link in result.earlier:
        text = "(no such note)"
        if link.facts:
            text = f"{link.facts.status:<8}  {format_goal(link.facts)}"
        words = f"{link.relation.value.replace('_', ' ')} {one_line(link.session)}"
        yield Line(f"{'  ' * min(link.depth, 12)}{words}  {text}".rstrip())


def stats_lines(result: SessionStats, _: Any) -> Iterator[Line]:
    """Yield the counts of sessions."""
    from vaultmem.core.text.display import pluralize

    span = f", {result.first[:10]} to {result.last[:10]}" if result.first else ""
    yield _fact("sessions", f"{result.sessions:,}{span}")
    for name, counts in (
        ("by status", result.statuses),
        ("by agent", result.agents),
        ("by folder", result.workspaces),
    ):
        if counts:
            listed = ", ".join(f"{n:,} {value}" for value, n in counts.items())
            yield _fact(f"  {name}", listed)
    yield _fact("decisions", f"{result.decisions:,}")
    yield _fact("questions", f"{result.questions:,} open")
    yield _fact("touched", pluralize(result.touched, "file"))
    turns, size = pluralize(result.turns, "turn"), f"{result.bytes / 1e6:,.1f} MB"
    yield _fact("transcripts", f"{turns}, {result.tokens:,} tokens, here {size}")


def _which_lines(identity: SessionIdentity, _: Any) -> Iterator[Line]:
    if identity.session:
        yield Line(identity.session, "bold", f"  named by {identity.source}")
    else:
        yield Line("No session is named, and none is open here.")
    width = max(len(one_line(each.source)) for each in identity.candidates)
    for each in identity.candidates:
        mark = "*" if each.source == identity.source else " "
        value = each.session or each.value or "-"
        remark = f"  ({each.remark})" if each.remark else ""
        source = f"{one_line(each.source):<{width}}"
        yield Line(f"{mark} {source}  {one_line(value)}{one_line(remark)}")


_view = partial(declare, versions=VersionScope.BRANCH)

SHOW = _view(
    show,
    "get_session",
    "GET /sessions/{session}",
    data=_shown_data,
    lines=shown_lines,
    output_schema=record(**FACTS),
    excused={FrontEnd.MCP: "restore gives an agent what it needs of a session"},
)

LIST = _view(
    list_,
    "list_sessions",
    "GET /sessions",
    data=_listed_data,
    lines=_listed_lines,
    warnings=_listed_warnings,
    output_schema=record(sessions=rows(**FACTS)),
)

CHAIN = _view(
    chain,
    "follow_session",
    "GET /sessions/{session}/chain",
    data=_chain_data,
    lines=_chain_lines,
    output_schema=record(session=record(**FACTS), earlier=rows(), followers=rows()),
)

STATS = _view(
    stats,
    "count_sessions",
    "GET /session-stats",
    lines=stats_lines,
    output_schema=record(sessions="integer", statuses="object", agents="object"),
    excused={FrontEnd.MCP: "an agent asks what sessions were about, not how many there are"},
)

RESTORE = _view(
    restore,
    "restore_session",
    "GET /sessions/{session}/restore",
    data=restore_data,
    lines=restore_lines,
    output_schema=record(
        session="string", text="string", tokens=record(sent="integer", budget="integer")
    ),
)

WHICH = _view(which, "which_session", "", lines=_which_lines, syncs=False, excused=_TERMINAL)

SESSION_VIEWS = (SHOW, LIST, CHAIN, STATS, RESTORE, WHICH)
