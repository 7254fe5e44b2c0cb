"""Commands about what memory shows and costs: recent, stats."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.economics import recent_json, stats_json, tell_time
from vaultmem.cli.options import FleetOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line

if TYPE_CHECKING:
    from vaultmem.services.economics import Stats
    from vaultmem.services.showings import Shown

_SHOWN = 10


@takes("vault", "as_json")
def recent(
    here: Here,
    note: Annotated[
        str, typer.Argument(metavar="[NOTE]", help="Only where this note was shown.")
    ] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="Calls at most.")] = 20,
    from_agent: Annotated[
        str, typer.Option("--from-agent", metavar="ID", help="Only what this agent was shown.")
    ] = "",
    from_session: Annotated[
        str, typer.Option("--from-session", metavar="ID", help="Only what this session was shown.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Only then or later (2026-10-01).")
    ] = "",
    says: Annotated[
        str | None,
        typer.Option("--says", metavar="TEXT", help="Only what showed a section with this text."),
    ] = None,
) -> None:
    """Show what was shown last: what, to whom, for which question.

    What is pinned in every pack is left out; a pack's receipt has it (`vaultmem replay`). With
    --says, packs are read from their receipts, so notes count as they were then, pinned ones too.

    Examples:
      vaultmem recent
      vaultmem recent refund-rules -n 5
      vaultmem recent --says "120 refunds a minute" --from-agent codex
    """
    from vaultmem.core.timestamps import parse_timestamp
    from vaultmem.services.reading.read_notes import resolve_address
    from vaultmem.services.showings import list_recent, list_saying

    opened = here.open_synced(reads=True)
    look = partial(list_recent, opened) if says is None else partial(list_saying, opened, says)
    shown = look(
        limit,
        agent=from_agent,
        session=from_session,
        path=str(resolve_address(opened, note)[0]) if note else "",
        since=parse_timestamp(since) if since else 0.0,
    )
    if here.as_json:
        emit_json(recent_json(shown))
        return
    if not shown:
        say("Nothing was shown yet." if says is None else "Nothing with that text was shown.")
    for each in shown:
        _say_shown(each)


def _say_shown(shown: Shown) -> None:
    (call, sections), receipt = shown
    who = " ".join(filter(None, (call.agent or "person", call.session)))
    receipt = f"  receipt {receipt}" if receipt else ""
    cost = f"{call.kind}  {one_line(who)}  {call.sent:,} tokens{receipt}"
    say_painted(tell_time(call.at)[:16].replace("T", " "), "yellow", f"  {cost}")
    say(f"    {one_line(call.query) or '(no question)'}")
    for path, heading, _ in sections:
        say_painted(f"    {path}#{heading}" if heading else f"    {path}", "dim")


@takes("vault", "as_json")
def stats(
    here: Here,
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="Only this session.", show_default=False)
    ] = "",
    plot: Annotated[
        bool, typer.Option("--plot", help="Plot the size of packs against that of the vault.")
    ] = False,
    fleet: FleetOption = "",
) -> None:
    """Show what recalls and packs cost in tokens, and saved.

    They save against flat memory: the whole vault in the prompt, once for each pack. Of a
    fleet, what each vault holds is shown, and at which commit it is.

    Examples:
      vaultmem stats
    """
    from vaultmem.services.economics import read_pack_sizes, read_stats

    if fleet:
        from vaultmem.cli.fleet_work import refuse_with_fleet, stats_fleet

        refuse_with_fleet(session=session, plot=plot)
        stats_fleet(fleet, here.vault, here.as_json)
        return
    opened = here.open_synced(reads=True)
    found = read_stats(opened, session)
    if here.as_json:
        emit_json(stats_json(found))
        return
    _say_sums(found)
    if not session and len(found.sessions) > 1:
        _say_sessions(found)
    _say_lists(found)
    if plot:
        from vaultmem.core.plot import plot_lines

        packs, flat = read_pack_sizes(opened, session)
        say()
        shape = plot_lines(
            [(".", flat), ("o", packs)],
            "tokens in the vault",
            "tokens sent: o a pack, . flat memory",
        )
        say(shape or "No pack was counted yet.")


def _say_sums(found: Stats) -> None:
    say(f"vault    {count_things(found.notes, 'note')}, {found.flat:,} tokens as flat memory")
    packs, recalls = found.packs, found.recalls
    times = f", {packs.flat / packs.sent:.1f}x" if packs.sent else ""
    say(f"packs    {packs.calls:,}, {packs.sent:,} tokens sent, {packs.saved:,} saved{times}")
    say(f"recalls  {recalls.calls:,}, {recalls.sent:,} tokens sent")
    empty = packs.empty + recalls.empty
    say(f"nothing  {count_things(empty, 'question')} found nothing")


def _say_sessions(found: Stats) -> None:
    say()
    say("sessions, the latest first")
    for each in found.sessions[:_SHOWN]:
        who = each.agent or "person"
        name = f"{who} {each.session}".strip()
        say(
            f"  {one_line(name):<32}  {each.packs.calls:>5,} packs  "
            f"{each.recalls.calls:>5,} recalls  {each.packs.sent + each.recalls.sent:>9,} sent  "
            f"{each.packs.saved:>11,} saved"
        )
    if len(found.sessions) > _SHOWN:
        say(f"  and {len(found.sessions) - _SHOWN:,} more")


def _say_lists(found: Stats) -> None:
    if found.failed:
        say()
        say("questions that found nothing")
        for query, times in found.failed[:_SHOWN]:
            say(f"  {times:>4}  {one_line(query)}")
    if found.most:
        say()
        say("recalled most")
        for each in found.most:
            say(f"  {each.times:>4}  {one_line(each.path)}")
    say()
    say_painted(f"never recalled  {count_things(len(found.never), 'note')}", "dim")
    for path in found.never[:3]:
        say(f"        {one_line(path)}")
