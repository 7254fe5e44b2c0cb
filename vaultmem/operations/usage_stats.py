"""Operations on shown sections and token usage: stats, recent, pinned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.display import one_line, pluralize, truncate_line
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    Arg,
    FrontEnd,
    Line,
    Tag,
    VersionScope,
    at_most,
    declare,
    word,
)
from vaultmem.operations.note_data import format_seconds
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.services.health.economics import PinnedNote, Stats, Sums
    from vaultmem.services.packs.receipts import ShownSections
    from vaultmem.storage.query_log import NoteUsage
    from vaultmem.vault import Vault

#: Maximum number of listed sessions and queries.
_MAX_LISTED_ROWS = 10

#: Maximum characters of a printed query; JSON has all.
_QUERY = 200

_RARE = {FrontEnd.MCP: "an agent names a note, a session and a date by the tool's own arguments"}


def stats(
    vault: Vault, session: Annotated[str, Arg("Only this session.", most=200, metavar="ID")] = ""
) -> Stats:
    """Show how many tokens recalls and packs cost, and saved.

    The saving is against the whole vault in the prompt, once for each pack. For a fleet, the size
    and the commit of each vault are shown.

    Examples:
      vaultmem stats
    """
    from vaultmem.services.health.economics import read_stats

    return read_stats(vault, session)


def stats_data(result: Stats) -> dict[str, Any]:
    """Return the token usage of packs and recalls, in total and by session, and their hits."""
    return {
        **pick(result, "notes full_vault_tokens=flat"),
        "packs": _sums_data(result.packs),
        "recalls": _sums_data(result.recalls),
        "sessions": [
            {
                **pick(each, "agent? session?"),
                "packs": _sums_data(each.packs),
                "recalls": _sums_data(each.recalls),
                "last": each.last,
            }
            for each in result.sessions
        ],
        "found_nothing": [{"query": query, "times": times} for query, times in result.failed],
        "most_recalled": [
            {**pick(each, "path times last best"), "used": each.good_sessions + each.bad_sessions}
            | {"ended_well": each.good_sessions, "ended_badly": each.bad_sessions}
            | pick(each, "held=passed_assertions failed=failed_assertions")
            for each in result.most
        ],
        "never_recalled": result.never,
    }


def _sums_data(sums: Sums) -> dict[str, Any]:
    return pick(sums, "calls sent full_vault_tokens=flat saved empty")


def stats_lines(result: Stats, request: Any) -> Iterator[Line]:
    """Yield the token usage of packs and recalls, also by session, and their hits."""
    yield from _sum_lines(result)
    if not request.session and len(result.sessions) > 1:
        yield from _session_lines(result)
    if result.failed:
        yield Line("")
        yield Line("questions that found nothing")
        for query, times in result.failed[:_MAX_LISTED_ROWS]:
            yield Line(f"  {times:>4}  {truncate_line(query, _QUERY)}")
    if result.most:
        yield Line("")
        yield Line("recalled most")
        for each in result.most:
            yield Line(f"  {each.times:>4}  {one_line(each.path)}{_describe_outcome(each)}")
    yield Line("")
    yield Line(f"never recalled  {pluralize(len(result.never), 'note')}", "dim")
    for path in result.never[:3]:
        yield Line(f"        {one_line(path)}")


def _describe_outcome(use: NoteUsage) -> str:
    """Return how often sessions that used a note ended well, and assertions on it held."""
    used, asserted = (
        use.good_sessions + use.bad_sessions,
        use.passed_assertions + use.failed_assertions,
    )
    words = (
        [f"used in {pluralize(used, 'session')}, {use.good_sessions} ended well"] if used else []
    )
    words += (
        [f"in {pluralize(asserted, 'assertion')}, {use.passed_assertions} held"] if asserted else []
    )
    return f"  ({'; '.join(words)})" if words else ""


def _sum_lines(result: Stats) -> Iterator[Line]:
    packs, recalls = result.packs, result.recalls
    savings = f"{packs.saved:,} saved" + (f", {packs.flat / packs.sent:.1f}x" if packs.sent else "")
    notes = pluralize(result.notes, "note")
    yield Line(f"vault    {notes}, {result.flat:,} tokens as flat memory")
    yield Line(f"packs    {packs.calls:,}, {packs.sent:,} tokens sent, {savings}")
    yield Line(f"recalls  {recalls.calls:,}, {recalls.sent:,} tokens sent")
    empty = pluralize(packs.empty + recalls.empty, "question")
    yield Line(f"nothing  {empty} found nothing")


def _session_lines(result: Stats) -> Iterator[Line]:
    yield Line("")
    yield Line("sessions, the latest first")
    for each in result.sessions[:_MAX_LISTED_ROWS]:
        name = f"{each.agent or 'person'} {each.session}".strip()
        yield Line(
            f"  {one_line(name):<32}  {each.packs.calls:>5,} packs  "
            f"{each.recalls.calls:>5,} recalls  {each.packs.sent + each.recalls.sent:>9,} sent  "
            f"{each.packs.saved:>11,} saved"
        )
    if len(result.sessions) > _MAX_LISTED_ROWS:
        yield Line(f"  and {len(result.sessions) - _MAX_LISTED_ROWS:,} more")


def recent(
    vault: Vault,
    note: Annotated[
        str, word("Only where this note was shown.", metavar="[NOTE]")._replace(excused=_RARE)
    ] = "",
    limit: Annotated[int, at_most("Calls at most.", 1_000)] = 20,
    from_agent: Annotated[
        str, Arg("Only what this agent was shown.", most=200, metavar="ID", excused=_RARE)
    ] = "",
    from_session: Annotated[
        str, Arg("Only what this session was shown.", most=200, metavar="ID", excused=_RARE)
    ] = "",
    since: Annotated[str, Arg("Only then or later (2026-10-01).", most=40, metavar="DATE")] = "",
    says: Annotated[
        str | None,
        Arg(
            "Only what showed a section with this text.",
            most=1_000,
            flags=("--contains",),
            metavar="TEXT",
            excused=_RARE,
        ),
    ] = None,
) -> list[ShownSections]:
    """List the last recalls and packs: query, caller, notes.

    Pinned sections are left out; a pack's receipt has them (`vaultmem receipt`). With --contains,
    packs are read from their receipts, so notes count as they were then, pinned ones too.

    Examples:
      vaultmem queries
      vaultmem queries refund-rules -n 5
      vaultmem queries --contains "120 refunds a minute" --from-agent codex
    """
    from vaultmem.core.text.timestamps import parse_timestamp
    from vaultmem.services.packs.receipts import list_recent, list_saying
    from vaultmem.services.views.read_notes import resolve_address

    list_calls = partial(list_recent, vault) if says is None else partial(list_saying, vault, says)
    return list_calls(
        limit,
        agent=from_agent,
        session=from_session,
        path=str(resolve_address(vault, note)[0]) if note else "",
        since=parse_timestamp(since) if since else 0.0,
    )


def _recent_data(calls: Sequence[ShownSections]) -> dict[str, Any]:
    return {"calls": list(map(call_data, calls))}


def call_data(shown_call: ShownSections) -> dict[str, Any]:
    """Return one recall or pack: its query, caller and shown sections."""
    (call, sections), receipt = shown_call
    return {
        "time": format_seconds(call.at),
        **pick(call, "kind query agent? session?"),
        "tokens": call.sent,
        "receipt": receipt or None,
        "shown": [
            {"path": path, "heading": heading or None, "score": score}
            for path, heading, score in sections
        ],
    }


def _recent_lines(calls: Sequence[ShownSections], request: Any) -> Iterator[Line]:
    if not calls and request.says is not None:
        yield Line("Nothing with that text was shown.")
    elif not calls:
        filters = request.note, request.from_agent, request.from_session, request.since
        yield Line(describe_no_calls(any(filters)))
    for each in calls:
        yield from call_lines(each)


def describe_no_calls(is_filtered: bool) -> str:
    """Return the sentence for an empty list of recalls and packs."""
    return "No recall or pack matches the filters." if is_filtered else "Nothing was shown yet."


def call_lines(shown_call: ShownSections) -> Iterator[Line]:
    """Yield a recall's or pack's time, caller, query and shown sections."""
    (call, sections), receipt = shown_call
    caller = " ".join(filter(None, (call.agent or "person", call.session)))
    receipt_text = f"  receipt {receipt}" if receipt else ""
    cost = f"{call.kind}  {one_line(caller)}  {call.sent:,} tokens{receipt_text}"
    yield Line(format_seconds(call.at)[:16].replace("T", " "), "yellow", f"  {cost}")
    yield Line(f"    {truncate_line(call.query, _QUERY) or '(no question)'}")
    for path, heading, _ in sections:
        yield Line(f"    {path}#{heading}" if heading else f"    {path}", "dim")


class PinnedNotes(NamedTuple):
    """The pinned notes, their tokens in each pack, and a pack's budget in tokens."""

    notes: Sequence[PinnedNote]
    tokens: int
    budget: int


def list_pinned(vault: Vault) -> PinnedNotes:
    """List what is pinned, and what it costs in each pack."""
    from vaultmem.services.health.economics import list_pinned

    notes = list_pinned(vault)
    return PinnedNotes(notes, sum(each.tokens for each in notes), vault.config.budget)


def _pinned_data(result: PinnedNotes) -> dict[str, Any]:
    names = "path=record.path title=record.title kind=record.kind sections tokens"
    return {"pinned": [pick(each, names) for each in result.notes], **pick(result, "tokens budget")}


def _pinned_lines(result: PinnedNotes, _: Any) -> Iterator[Line]:
    for cost, note in ((each.tokens, each.record) for each in result.notes):
        yield Line(f"{cost:>7,}  {one_line(note.path)}  {one_line(note.title)}")
    share = f"{result.tokens / result.budget:.0%} of the budget of {result.budget:,}"
    yield Line(f"{result.tokens:>7,}  tokens in all, {share}")


def pinned_warnings(result: PinnedNotes) -> Iterator[str]:
    """Yield a warning if the pinned notes use much of the budget."""
    from vaultmem.core.packs.pack_text import warn_of_pinned

    if warning := warn_of_pinned(result.tokens, result.budget):
        yield f"warning: {warning}"


STATS = declare(
    stats,
    "stats",
    "GET /stats",
    stats_data,
    lines=stats_lines,
    output_schema=record(
        notes="integer", full_vault_tokens="integer", packs="object", recalls="object"
    ),
)

RECENT = declare(
    recent,
    "recent",
    "GET /recent",
    _recent_data,
    lines=_recent_lines,
    output_schema=record(calls=rows(time="string", kind="string", query="string", shown=rows())),
)

PINNED = declare(
    list_pinned,
    "list_pinned",
    "GET /pinned",
    _pinned_data,
    lines=_pinned_lines,
    warnings=pinned_warnings,
    output_schema=record(pinned=rows(path="string"), tokens="integer", budget="integer"),
    versions=VersionScope.SEEN,
    tag=Tag.VIEW,
    excused={FrontEnd.MCP: "context_pack shows what is pinned"},
)
