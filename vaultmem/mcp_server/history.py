"""The tool that asks git: history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vaultmem.answers.finding import hit_json
from vaultmem.answers.history import (
    commit_json,
    ground_json,
    line_json,
    operation_json,
    shown_json,
)
from vaultmem.core.plain_text import one_line
from vaultmem.errors import RefusedError
from vaultmem.mcp_server.limits import fit_rows
from vaultmem.mcp_server.schemas import MOMENT, NOTE, arguments, choice, text, whole
from vaultmem.mcp_server.tool import Answer, Tool

if TYPE_CHECKING:
    from vaultmem.services.history.blame import BlamedLine
    from vaultmem.vault import Vault


def history_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Answer one kind of question about the past."""
    return _ACTIONS[given["action"]](vault, given)


def _log(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.core.moments import parse_day_or_moment
    from vaultmem.services.history.log import CommitFilter, list_commits

    since, until = given.get("since"), given.get("until")
    wanted = CommitFilter(
        since=parse_day_or_moment(since) if since else None,
        until=parse_day_or_moment(until, end_of_day=True) if until else None,
        sessions=frozenset(filter(None, [given.get("session", "")])),
    )
    found = list_commits(vault, wanted, given.get("limit", 20), given.get("path", ""))
    rows, cut = fit_rows(found.commits, lambda each: str(commit_json(each)))
    lines = [
        f"{each.commit[:7]}  {each.time[:16]}  {one_line(each.author)}  {one_line(each.subject)}"
        for each in rows
    ]
    return _answer(lines, "log", list(map(commit_json, rows)), cut, "No event is like that.")


def _show(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.show import show_commit

    shown = show_commit(vault, _need(given, "commit"))
    data = shown_json(shown)
    rows, cut = fit_rows(data["operations"], str)
    commit = shown.commit
    lines = [
        f"{commit.commit}  {commit.time}  {one_line(commit.author)}",
        one_line(commit.subject),
        *map(_describe_operation, rows),
    ]
    return _answer(lines, "show", [{**data, "operations": rows}], cut)


def _diff(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.diff import diff_vault

    found = diff_vault(vault, given.get("from", ""), given.get("commit", ""), given.get("path", ""))
    rows, cut = fit_rows(list(map(operation_json, found.operations)), str)
    return _answer(list(map(_describe_operation, rows)), "diff", rows, cut, "Nothing differs.")


def _blame(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.blame import blame_note

    found = blame_note(vault, _need(given, "path"), given.get("at", ""))
    lines, cut = fit_rows(found.lines, lambda each: str(line_json(each, found.ends)))
    rows = [line_json(line, found.ends) for line in lines]
    return _answer(list(map(_describe_line, lines)), "blame", rows, cut)


def _why(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.finding.look import look_at
    from vaultmem.services.history.explain import explain_text

    seen = look_at(vault, given.get("at", "")) if given.get("at") or vault.ref else vault
    grounds = explain_text(seen, _need(given, "query"), min(given.get("limit", 5), 20))
    rows, cut = fit_rows(list(map(ground_json, grounds)), str)
    lines = [
        f"{row['path']}  [{row['kind']} | {row['state']}]  "
        + "; ".join(
            f"{step['who']} {(step['time'] or 'not committed')[:10]}" for step in row["steps"]
        )
        for row in rows
    ]
    return _answer(lines, "why", rows, cut, "No fact and no decision mentions that.")


def _belief(vault: Vault, given: dict[str, Any]) -> Answer:
    """Recall as it would have been then."""
    from vaultmem.core.finding.query import parse_query
    from vaultmem.core.packs.pack_text import PackItem, render_item
    from vaultmem.services.finding.look import look_at
    from vaultmem.services.finding.recall import recall

    seen = look_at(vault, _need(given, "at"))
    query = parse_query(_need(given, "query"), min(given.get("limit", 10), 50))
    hits, cut = fit_rows(recall(seen, query), lambda hit: hit.text * 2)
    lines = [render_item(PackItem(hit, hit.text, False, False, False)) for hit in hits]
    rows = list(map(hit_json, hits))
    return _answer(lines, "belief", rows, cut, "Nothing in the vault answered that then.")


_ACTIONS: dict[str, Callable[[Vault, dict[str, Any]], Answer]] = {
    "log": _log,
    "show": _show,
    "diff": _diff,
    "blame": _blame,
    "why": _why,
    "belief": _belief,
}


def _answer(
    lines: list[str], action: str, rows: list[Any], cut: bool, nothing: str = "Nothing."
) -> Answer:
    told = "\n".join(lines) or nothing
    if cut:
        told += "\nThere is more than fits here: narrow it down."
    return Answer(told, {"action": action, "rows": rows, "cut": cut})


def _need(given: dict[str, Any], name: str) -> str:
    if not given.get(name):
        raise RefusedError(f'history {given["action"]} needs "{name}"')
    return str(given[name])


def _describe_operation(row: dict[str, Any]) -> str:
    changes = ", ".join(
        f"{each['name']}: {each['old']} -> {each['new']}" for each in row["properties"]
    )
    body = row["body"]
    counts = f"+{body['added']} -{body['removed']} lines" if body else row["remark"] or ""
    return one_line(f"{row['op']}  {row['path']}  {'; '.join(filter(None, (changes, counts)))}")


def _describe_line(line: BlamedLine) -> str:
    commit = line.commit
    origin = f"{commit.commit[:7]} {commit.time[:10]}" if commit else "not committed"
    return one_line(f"{origin}  {line.who}  {line.number}: {line.text or ''}")


HISTORY = Tool(
    "history",
    "History",
    "Ask git what happened to this memory: log (events), show (one commit), diff (two moments), "
    "blame (who wrote each line of a note), why (which facts mention something, and on whose "
    "word), belief (what the memory would have said about a question on a date).",
    arguments(
        ["action"],
        action=choice("What to ask.", list(_ACTIONS)),
        path=text(f"For log, diff, blame: {NOTE[0].lower()}{NOTE[1:]}", 1_000),
        query=text("For why and belief: what it is about.", 1_000),
        commit=text("For show: a commit, branch, tag or date; for diff: the later one.", 200),
        at=text(f"For blame, why and belief. {MOMENT}", 200),
        since=text("For log: only from this day or moment on.", 40),
        until=text("For log: only up to this day or moment.", 40),
        session=text("For log: only events of this session.", 200),
        limit=whole("For log, why, belief: how many at most.", 1, 100),
        **{"from": text("For diff: the earlier one; else the last commit.", 200)},
    ),
    {
        "type": "object",
        "properties": {
            "action": {"type": "string"},
            "rows": {"type": "array", "items": {"type": "object"}},
            "cut": {"type": "boolean"},
        },
        "required": ["action", "rows", "cut"],
    },
    history_tool,
)
