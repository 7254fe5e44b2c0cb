"""The group `session`, commands that look: show, list, search, chain, family and more."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.sessions import chain_json, found_json, list_json, restore_json, shown_json
from vaultmem.cli.options import BudgetOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.quick_typer import add_commands
from vaultmem.cli.session_text import (
    SummarizerOption,
    find_named,
    name_goal,
    say_facts,
    say_history,
    say_recovered,
    say_restore,
    say_session,
    say_stats,
)
from vaultmem.cli.shared import Here, takes
from vaultmem.core.safe_text import one_line
from vaultmem.errors import BusyError

if TYPE_CHECKING:
    from vaultmem.services.sessions.recover import Recovered

NameArgument = Annotated[
    str, typer.Argument(metavar="[ID]", help="The session; else this one, or the last.")
]
StatusOption = Annotated[
    str,
    typer.Option("--status", metavar="STATUS", help="Only open, ok, error or canceled ones."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    add_commands(app, show, list_, search, chain, family, stats, restore, which)


@takes("vault", "ref", "agent", "session", "as_json")
def show(here: Here, name: NameArgument = "") -> None:
    """Show how a session stands, and what it decided.

    What it asked and touched is shown too.

    Examples:
      vaultmem session show s-0431
    """
    from vaultmem.services.sessions.elsewhere import name_machine
    from vaultmem.services.sessions.read import get_session
    from vaultmem.services.sessions.windows import read_tally

    opened = here.open_synced(reads=True)
    found = name_machine(
        opened, get_session(opened, find_named(opened, name or here.session, or_last=True))
    )
    tally = read_tally(opened, found.facts.id)
    if here.as_json:
        emit_json(shown_json(found, tally))
    else:
        say_session(found, tally)


@takes("vault", "ref", "as_json")
def list_(
    here: Here,
    status: StatusOption = "",
    of_agent: Annotated[
        str, typer.Option("--of", metavar="AGENT", help="Only sessions of this agent.")
    ] = "",
    limit: Annotated[
        int,
        typer.Option("-n", "--limit", metavar="N", help="At most; else 20.", show_default=False),
    ] = 20,
) -> None:
    """List the sessions, the last started first.

    Those whose process is gone are recovered first.

    Examples:
      vaultmem session list
    """
    from vaultmem.services.sessions.read import find_unsettled
    from vaultmem.services.sessions.search import list_sessions

    opened = here.open_synced(reads=True)
    recovered: list[Recovered] = []
    if not opened.notices.stale and find_unsettled(opened):
        from vaultmem.services.sessions.recover import recover_sessions

        with contextlib.suppress(BusyError):  # They can be recovered another time.
            recovered = recover_sessions(opened)
    found = list_sessions(opened, status, of_agent, limit)
    if here.as_json:
        emit_json(list_json(found, recovered))
        return
    say_recovered(recovered)
    if not found:
        say("There are no such sessions.")
    say_facts(found)


@takes("vault", "ref", "as_json")
def search(
    here: Here,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")],
    limit: Annotated[
        int,
        typer.Option("-n", "--limit", metavar="N", help="At most; else 10.", show_default=False),
    ] = 10,
) -> None:
    """Find the sessions that answer a question, best first.

    Examples:
      vaultmem session search opaque tokens
    """
    from vaultmem.core.packs.excerpt import show_line
    from vaultmem.services.sessions.search import search_sessions

    found = search_sessions(here.open_synced(reads=True), " ".join(query), limit)
    if here.as_json:
        emit_json(found_json(found))
        return
    if not found:
        say("No session answers that.")
    for each in found:
        facts = each.facts
        say_painted(facts.id, "bold", f"  {facts.status}  {facts.started[:10]}  {name_goal(facts)}")
        for hit in each.hits[:2]:
            excerpt = show_line(hit)
            say(f"    {one_line(hit.section.heading) or 'text'}: {excerpt}")


@takes("vault", "ref", "agent", "session", "as_json")
def chain(
    here: Here,
    name: NameArgument = "",
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", help="How far back; else 10.", show_default=False)
    ] = 10,
) -> None:
    """Show the sessions before a session, and those after it.

    Examples:
      vaultmem session chain s-0431
    """
    from vaultmem.services.sessions.search import follow_chain

    opened = here.open_synced(reads=True)
    found = follow_chain(opened, find_named(opened, name or here.session, or_last=True), depth)
    if here.as_json:
        emit_json(chain_json(found))
        return
    for relation, facts in found.followers:
        words = relation.value.replace("_", " ")
        say(f"  {one_line(facts.id)}  {facts.status:<8}  {words} this  {name_goal(facts)}".rstrip())
    first = found.session
    say_painted(first.id, "bold", f"  {first.status:<8}  {name_goal(first)}".rstrip())
    for link in found.earlier:
        told = (
            f"{link.facts.status:<8}  {name_goal(link.facts)}" if link.facts else "(no such note)"
        )
        words = link.relation.value.replace("_", " ")
        say(f"{'  ' * min(link.depth, 12)}{words} {one_line(link.session)}  {told}".rstrip())


@takes("vault", "ref", "as_json")
def stats(here: Here) -> None:
    """Count the sessions, and what they hold.

    Examples:
      vaultmem session stats
    """
    from vaultmem.services.sessions.search import count_sessions

    found = count_sessions(here.open_synced(reads=True))
    if here.as_json:
        emit_json(found)
        return
    say_stats(found)


@takes("vault", "ref", "agent", "session", "as_json")
def restore(here: Here, name: NameArgument = "", budget: BudgetOption = 0) -> None:
    """Print what the next context window needs of a session.

    It fits into a token budget.

    Examples:
      vaultmem session restore s-0431 --budget 500
    """
    from vaultmem.services.sessions.restore import restore_session

    opened = here.open_synced(reads=True)
    made = restore_session(
        opened, find_named(opened, name or here.session, or_last=True), budget or None
    )
    if here.as_json:
        emit_json(restore_json(made))
    else:
        say_restore(made)


@takes("vault", "ref", "agent", "session", "as_json")
def which(here: Here) -> None:
    """Say which session is meant here, and why not another.

    Examples:
      vaultmem session which
    """
    from vaultmem.services.sessions.identify import identify_session

    opened = here.open()
    found = identify_session(opened, here.session)
    if here.as_json:
        emit_json(found)
        return
    if found.session:
        say_painted(found.session, "bold", f"  named by {found.source}")
    else:
        say("No session is named, and none is open here.")
    width = max(len(one_line(each.source)) for each in found.candidates)
    for each in found.candidates:
        mark = "*" if each.source == found.source else " "
        told = each.session or each.value or "-"
        remark = f"  ({each.remark})" if each.remark else ""
        say(f"{mark} {one_line(each.source):<{width}}  {one_line(told)}{one_line(remark)}")


@takes("vault", "ref", "as_json")
def family(
    here: Here,
    session: Annotated[
        str, typer.Argument(metavar="[SESSION]", help="A session of the lane; else all sessions.")
    ] = "",
    query: Annotated[str, typer.Option("--query", metavar="TEXT", help="What it is about.")] = "",
    since: Annotated[
        str, typer.Option("--from", metavar="DATE", help="Only sessions begun from then on.")
    ] = "",
    until: Annotated[
        str, typer.Option("--to", metavar="DATE", help="Only sessions begun up to then.")
    ] = "",
    budget: BudgetOption = 0,
    summarizer: SummarizerOption = "plain",
) -> None:
    """Print sessions that follow one another as one account.

    It says what it rests on.

    Examples:
      vaultmem session family s-0431
      vaultmem session family --query "refund slip"
    """
    from vaultmem.services.tasks.view import view_family

    opened = here.open_synced(reads=True)
    found = view_family(opened, session, query, since, until, budget or None)
    say_history(opened, found, summarizer, here.as_json)
