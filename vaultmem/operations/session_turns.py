"""Operations that search sessions and transcripts, and print a session's turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    Agent,
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    VersionScope,
    at_most,
    declare,
)
from vaultmem.operations.filters import ListScope
from vaultmem.operations.schemas import record, rows
from vaultmem.operations.session_views import BUDGETED, Looked, format_goal
from vaultmem.operations.sessions import FACTS, facts_data, find_meant

if TYPE_CHECKING:
    from vaultmem.services.sessions.find_session import FoundSession
    from vaultmem.services.sessions.search_turns import NumberedTurn
    from vaultmem.vault import Vault

#: Not listed to agents, because every session pays for each word of the list.
_UNLISTED_ARGUMENT = Agent(is_listed=False)


class SessionSearchResult(NamedTuple):
    """Matching sessions by their notes, and matching turns of this machine's transcripts."""

    sessions: Sequence[FoundSession]
    turns: Sequence[NumberedTurn]


def search(
    vault: Vault,
    query: Annotated[
        str,
        Arg("Words to look for.", "", most=1_000_000, takes=ArgumentForm.WORDS, metavar="[WORDS]"),
    ] = "",
    file: Annotated[
        str,
        Arg("Only turns that name this file or folder.", Agent(), most=1_000, metavar="FILE"),
    ] = "",
    command: Annotated[
        str,
        Arg("Only turns that run a command with this text.", Agent(), most=1_000, metavar="TEXT"),
    ] = "",
    since: Annotated[
        str,
        Arg("Only turns then or later (2026-10-01).", _UNLISTED_ARGUMENT, most=40, metavar="DATE"),
    ] = "",
    until: Annotated[
        str, Arg("Only turns then or earlier.", _UNLISTED_ARGUMENT, most=40, metavar="DATE")
    ] = "",
    limit: Annotated[
        int, at_most("Sessions and turns at most.  [default: 10]", 100)._replace(excused=BUDGETED)
    ] = 0,
    project: ListScope = "",
) -> SessionSearchResult:
    """Search sessions' notes and this machine's transcripts.

    Notes are searched where only words are given. Credentials are masked.

    Examples:
      vaultmem session search opaque tokens
      vaultmem session search --file web/slip.svelte --since 2026-11-01
      vaultmem session search --command "make test" --limit 5
    """
    from vaultmem.core.text.timestamps import parse_timestamp
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.find_session import search_sessions
    from vaultmem.services.sessions.search_turns import search_turns
    from vaultmem.storage.turn_index import TurnQuery

    view = view_project(vault, project)
    turn_query = TurnQuery(
        query,
        file,
        command,
        parse_timestamp(since) if since else None,
        parse_timestamp(until, end_of_day=True) if until else None,
    )
    turns = search_turns(view, turn_query, limit or 10)
    has_words_alone = turn_query == TurnQuery(query)
    return SessionSearchResult(
        search_sessions(view, query, limit or 10) if has_words_alone else (), turns
    )


def turns(
    vault: Vault,
    session_: Looked = "",
    from_: Annotated[
        int,
        Arg("Number of the first turn.  [default: the last turns]", "", 1, 10_000_000, metavar="N"),
    ] = 0,
    failed: Annotated[bool, Arg("Only results of calls that failed.")] = False,
    limit: Annotated[int, at_most("Turns at most.  [default: 20]", 10_000)] = 0,
) -> list[NumberedTurn]:
    """Print turns of a session, with tools and errors.

    They are those that this machine has. Credentials are masked.

    Examples:
      vaultmem session turns s-0431 --from 12 --limit 5
      vaultmem session turns s-0431 --failed
    """
    from vaultmem.services.sessions.search_turns import read_turns

    session_id = find_meant(vault, session_, or_last=True)
    return read_turns(vault, session_id, from_, limit or 20, failed)


def _turn_data(each: NumberedTurn) -> dict[str, Any]:
    facts = pick(each.turn, "role at? tool? files command? failed text")
    return {"session": each.session, "number": each.number, **facts}


def _found_data(result: SessionSearchResult) -> dict[str, Any]:
    sessions = [{**facts_data(each.facts), "hits": _hits_data(each)} for each in result.sessions]
    return {"sessions": sessions, "turns": list(map(_turn_data, result.turns))}


def _turns_data(numbered_turns: Sequence[NumberedTurn]) -> dict[str, Any]:
    return {"turns": list(map(_turn_data, numbered_turns))}


def _hits_data(found_session: FoundSession) -> list[dict[str, Any]]:
    return [
        {**pick(hit.section, "heading?"), "score": round(hit.score, 6), "text": hit.text}
        for hit in found_session.hits
    ]


def _found_lines(result: SessionSearchResult, _: Any) -> Iterator[Line]:
    from vaultmem.core.packs.passages import show_line

    if not result.sessions and not result.turns:
        yield Line("No session answers that.")
    for each in result.sessions:
        facts = each.facts
        summary = f"  {facts.status}  {facts.started[:10]}  {format_goal(facts)}"
        yield Line(facts.id, "bold", summary)
        for hit in each.hits[:2]:
            yield Line(f"    {one_line(hit.section.heading) or 'text'}: {show_line(hit)}")
    for turn in result.turns:
        yield Line(f"{turn.session} {turn.number}", "bold", f"  {describe_turn(turn)}")
        yield Line(f"    {one_line(turn.turn.text)}")


def _turns_lines(numbered_turns: Sequence[NumberedTurn], _: Any) -> Iterator[Line]:
    if not numbered_turns:
        yield Line("This machine has no such turn of the session.")
    for each in numbered_turns:
        yield Line(str(each.number), "bold", f"  {describe_turn(each)}")
        for line in each.turn.text.splitlines():
            yield Line(f"    {one_line(line)}".rstrip())


def describe_turn(each: NumberedTurn) -> str:
    """Return a turn's role, time, tool, files and failure in one line."""
    turn = each.turn
    tool = f"{turn.tool}: {turn.command}" if turn.command else turn.tool
    failed = "failed" if turn.failed else ""
    parts = [turn.role, turn.at[:16].replace("T", " "), tool, ", ".join(turn.files), failed]
    return one_line("  ".join(filter(None, parts)))


_view = partial(declare, versions=VersionScope.BRANCH)

_TURN = rows(session="string", number="integer", role="string", text="string", failed="boolean")

SEARCH = _view(
    search,
    "search_sessions",
    "GET /session-search",
    _found_data,
    lines=_found_lines,
    output_schema=record(sessions=rows(**FACTS), turns=_TURN),
)

TURNS = _view(
    turns,
    "list_turns",
    "GET /sessions/{session}/turns",
    _turns_data,
    lines=_turns_lines,
    output_schema=record(turns=_TURN),
    excused={FrontEnd.MCP: "the session tool's search shows an agent the turns that matter"},
)

SESSION_TURNS = (SEARCH, TURNS)
