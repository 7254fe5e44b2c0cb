"""The tool that lists what happened, what was asked, and what waits to be decided: history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.answers.branches import branches_json
from vaultmem.answers.history import (
    commit_json,
    ground_json,
    line_json,
    operation_json,
    shown_json,
)
from vaultmem.core.safe_text import one_line
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.mcp_server.finding import leave_out_text, show_within
from vaultmem.mcp_server.history_rows import (
    describe_branch,
    describe_commit,
    describe_ground,
    describe_item,
    describe_line,
    describe_operation,
    quote_some,
)
from vaultmem.mcp_server.tool import Answer, Tool, cut_text, fit_rows, price, read_shown, see_at
from vaultmem.operations import notes, usage
from vaultmem.operations.finding import hit_data
from vaultmem.operations.operation import BUDGET, LEAST, MOST, NoArguments
from vaultmem.operations.schemas import answer, arguments, choice, flag, text, whole

if TYPE_CHECKING:
    from vaultmem.core.upkeep.proposal import Proposal
    from vaultmem.operations.operation import Line
    from vaultmem.vault import Vault


def history_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Answer one kind of question about the past."""
    from vaultmem.services.projects.scope import view_project

    if given["action"] in _SEARCHES:
        vault = view_project(vault)
    return _ACTIONS[given["action"]](vault, given)


def _log(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.core.timestamps import parse_timestamp
    from vaultmem.services.history.commits import CommitFilter, list_commits

    since, until = given.get("since"), given.get("until")
    wanted = CommitFilter(
        since=parse_timestamp(since) if since else None,
        until=parse_timestamp(until, end_of_day=True) if until else None,
        sessions=frozenset(filter(None, [given.get("session", "")])),
    )
    limit, path, span = given.get("limit", 20), _find_path(vault, given), given.get("commit", "")
    found = list_commits(vault, wanted, limit, path, span if ".." in span else "")
    rows = [(describe_commit(each), commit_json(each)) for each in found.commits]
    return _answer(given, rows, "No event matches.")


def _find_path(vault: Vault, given: dict[str, Any]) -> str:
    """Return the path that is meant; as it was given where no such note is there any more."""
    from vaultmem.services.reading.read_notes import resolve_address

    if not given.get("path"):
        return ""
    try:
        return str(resolve_address(vault, given["path"])[0])
    except NoteNotFoundError:
        return str(given["path"])


def _show(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.diff import show_commit

    shown = show_commit(vault, _need(given, "commit"))
    data, commit = shown_json(shown), shown.commit
    rows = [(describe_operation(row), row) for row in data.pop("operations")]
    head = [f"{commit.commit}  {commit.time}  {one_line(commit.shown)}", one_line(commit.subject)]
    made = _answer(given, rows, head=head)
    listed = [{**data, "operations": made.detail["rows"]}]
    return made._replace(detail={**made.detail, "rows": listed})


def _diff(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.diff import diff_vault

    path = _find_path(vault, given)
    found = diff_vault(vault, given.get("from", ""), given.get("commit", ""), path)
    rows = map(operation_json, found.operations)
    return _answer(given, [(describe_operation(row), row) for row in rows], "Nothing differs.")


def _blame(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.blame import blame_note

    path = _need(given, "path")
    read_shown(vault, given)  # Nobody reads line by line what is not shown as a whole.
    found = blame_note(vault, path, given.get("at", ""))
    rows = [(describe_line(line), line_json(line, found.ends)) for line in found.lines]
    return _answer(given, rows)


def _why(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.explain import explain_text

    seen = see_at(vault, given)
    grounds = explain_text(seen, _need(given, "query"), min(given.get("limit", 5), 20))
    rows = [(describe_ground(row), row) for row in map(ground_json, grounds)]
    return _answer(given, rows, "No fact and no decision mentions that.")


def _belief(vault: Vault, given: dict[str, Any]) -> Answer:
    """Recall as it would have been then."""
    from vaultmem.services.finding.ask import Ask, run_query

    at, limit = _need(given, "at"), min(given.get("limit", 0), 50)
    asked = Ask(_need(given, "query"), limit, at=at, counts=False)
    found = run_query(vault, asked, show_within(given.get("budget", BUDGET)))
    detail = [leave_out_text(hit_data(hit)) for hit, _ in found.shown]
    cut = len(found.shown) < len(found.hits)
    told = "\n\n".join(line for _, line in found.shown)
    return _tell(given, told or "Nothing in the vault answered that then.", detail, cut)


def _branches(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.branching.branches import list_branches

    found = branches_json(list_branches(vault))["branches"]
    return _answer(
        given, [(describe_branch(row), row) for row in found], "No branch has a commit yet."
    )


def _review(vault: Vault, given: dict[str, Any]) -> Answer:
    """List what waits for a decision, but for what is quarantined."""
    from vaultmem.answers.upkeep import queue_json
    from vaultmem.services.projects.scope import find_foreign, view_project
    from vaultmem.services.upkeep.review import describe_items

    foreign = find_foreign(view_project(vault))
    waiting = _look_through(vault)
    asked = waiting[: given.get("limit", 20)]
    found = queue_json(describe_items(vault, asked), len(waiting))["items"]
    rows = [
        (describe_item(row), {**row, "notes": list(map(leave_out_text, row["notes"]))})
        for row in found
        if not _is_hidden(row) and foreign.isdisjoint(note["path"] for note in row["notes"])
    ]
    tail = [_DECIDE] if rows else []
    if len(rows) < len(waiting):
        tail.append(f"{len(waiting)} wait in all, some perhaps for a person alone.")
    is_cut = len(asked) < len(waiting)
    return _answer(given, rows, "Nothing waits for a decision.", is_cut, tail=tail)


def _conflicts(vault: Vault, given: dict[str, Any]) -> Answer:
    """List what two sides said differently, but for what is quarantined."""
    from vaultmem.core.lifecycle import State
    from vaultmem.services.branching.conflicts import list_conflicts

    found = [each for each in list_conflicts(vault) if each.state != State.QUARANTINED]
    kept = found[: given.get("limit", 20)]
    rows = [
        (
            one_line(f"{x.path}  {x.number}  {x.verb} by {x.author} {x.since} {x.where}".rstrip())
            + f"\n{quote_some(x.ours)}\ntheirs:\n{quote_some(x.theirs)}",
            {**x._asdict(), "ours": None, "theirs": None},
        )
        for x in kept
    ]
    return _answer(given, rows, "No conflicts.", len(kept) < len(found))


def _stats(vault: Vault, given: dict[str, Any]) -> Answer:
    """Return what recalls and packs cost; a project's caller reads no queries of other projects."""
    from vaultmem.services.projects.scope import view_project

    asked = usage.StatsRequest(given.get("session", ""))
    scoped = view_project(vault)
    found = usage.stats(scoped, asked)
    if scoped.view.project is not None and not asked.session:
        found = found._replace(failed=())
    text, data = _join(usage.stats_lines(found, asked)), usage.stats_data(found)
    return _answer(given, [(text, data)])._replace(detail={"action": given["action"], **data})


def _queries(vault: Vault, given: dict[str, Any]) -> Answer:
    """List what recalls and packs showed last, but for what showed notes of other projects."""
    from vaultmem.services.projects.scope import find_foreign, view_project

    asked = usage.RecentRequest(
        given.get("path", ""),
        given.get("limit", 20),
        from_session=given.get("session", ""),
        since=given.get("since", ""),
    )
    calls = usage.recent(vault, asked)
    scoped = view_project(vault)
    if scoped.view.project is not None and not asked.from_session:
        foreign, own = find_foreign(scoped), vault.author.session
        shown = ((each, {path for path, _, _ in each.showing[1]}) for each in calls)
        calls = [
            each
            for each, paths in shown
            if (own and each.showing[0].session == own) or (paths and foreign.isdisjoint(paths))
        ]
    rows = [(_join(usage.call_lines(each)), usage.call_data(each)) for each in calls]
    return _name_rows("calls", _answer(given, rows, "Nothing was shown yet."))


def _join(lines: Iterable[Line]) -> str:
    return "\n".join(line.text + line.rest for line in lines)


def _reference(vault: Vault, given: dict[str, Any]) -> Answer:
    """List the sources of reference material, or the notes of one."""
    from vaultmem.core.lifecycle import State

    seen, rows = see_at(vault, given), list[tuple[str, Any]]()
    if not given.get("source"):
        for each in notes.list_sources(seen, NoArguments()):
            told = f"{each.name}  {each.notes:,} notes  {each.tokens:,} tokens"
            rows.append((one_line(told), each))
        return _name_rows("sources", _answer(given, rows, "There is no reference material."))
    for note in notes.list_source_notes(seen, notes.SourceRequest(given["source"])).notes:
        if note.state != State.QUARANTINED:
            told = f"{note.path}  {note.tokens:,} tokens  {note.title}"
            rows.append((one_line(told), notes.record_data(note)))
    return _name_rows("notes", _answer(given, rows))


def _name_rows(name: str, made: Answer) -> Answer:
    """Return an answer whose rows have the name in its data that other front ends give them."""
    return made._replace(detail={"action": made.detail["action"], name: made.detail["rows"]})


def _look_through(vault: Vault) -> Sequence[Proposal]:
    """Return what waits; of a large vault, which takes minutes to compare, what was found before.

    Raises:
        RefusedError: it is large, and nobody looked yet.
    """
    from vaultmem.services.upkeep.review import COMPARED_AT_ONCE, list_known, list_queue

    if len(vault.view.records()) <= COMPARED_AT_ONCE:
        return list_queue(vault).proposals
    if shown := list_known(vault):
        return shown
    raise RefusedError(
        "this vault is too large to be compared while you wait; run `vaultmem review --all --json`"
        ", and what it finds is listed here"
    )


def _is_hidden(row: dict[str, Any]) -> bool:
    from vaultmem.core.lifecycle import State

    return any(note["state"] == State.QUARANTINED for note in row["notes"])


_ACTIONS: dict[str, Callable[[Vault, dict[str, Any]], Answer]] = {
    "log": _log,
    "show": _show,
    "diff": _diff,
    "blame": _blame,
    "why": _why,
    "belief": _belief,
    "review": _review,
    "branches": _branches,
    "conflicts": _conflicts,
    "queries": _queries,
    "stats": _stats,
    "reference": _reference,
}

#: Actions that find notes by themselves, of the caller's project alone.
_SEARCHES = {"log", "why", "belief", "conflicts"}

_DECIDE = (
    "You decide with promote, or with update_note (superseded_by in the note that is replaced, or "
    "state); what you may not, a person does with `vaultmem review`."
)


def _answer(
    given: dict[str, Any],
    rows: Sequence[tuple[str, Any]],
    nothing: str = "Nothing.",
    is_cut: bool = False,
    head: Sequence[str] = (),
    tail: Sequence[str] = (),
) -> Answer:
    """Answer with the rows that fit into the budget, each as a line and as data."""
    left = given.get("budget", BUDGET) - price([*head, *tail, _MORE, {"cut": True}])
    in_detail = given.get("detail", False)
    kept, is_long = fit_rows(rows, lambda row: row if in_detail else row[0], left)
    lines = [line for line, _ in kept] or [nothing]
    lines[0], rest = cut_text(lines[0], 0, left) if len(kept) == 1 else (lines[0], None)
    cut = is_cut or is_long or rest is not None
    return _tell(given, "\n".join([*head, *lines, *tail]), [row for _, row in kept], cut)


def _tell(given: dict[str, Any], told: str, rows: list[Any], cut: bool) -> Answer:
    told = f"{told}\n{_MORE}" if cut else told
    return Answer(told, {"cut": cut}, {"action": given["action"], "rows": rows})


_MORE = "There is more: narrow it down, or give a larger budget."


def _need(given: dict[str, Any], name: str) -> str:
    if not given.get(name):
        raise RefusedError(f'history {given["action"]} needs "{name}"')
    return str(given[name])


HISTORY = Tool(
    "history",
    "History",
    "What happened to this memory: log (path, since, until, session, commit: A..B), show (commit), "
    "diff (from, commit, path; detail adds text), blame (who wrote each line; path, at), why "
    "(which facts mention a query, on whose word; at), belief (what was recalled of a query then; "
    "at), review (contradictions, duplicates, candidates to decide), branches, conflicts "
    "(checkpoint resolves them), queries (recent recalls and packs; path, session, since), stats "
    "(what those cost; session), reference (imported documents; source: its notes).",
    arguments(
        ["action"],
        action=choice("", list(_ACTIONS)),
        path=text("", 1_000),
        query=text("", 1_000),
        commit=text("", 200),
        at=text("", 200),
        since=text("", 40),
        until=text("", 40),
        session=text("", 200),
        source=text("", 200),
        limit=whole("", 1, 100),
        budget=whole("", LEAST, MOST),
        detail=flag(""),
        **{"from": text("", 200)},
    ),
    answer(cut="boolean"),
    history_tool,
)
