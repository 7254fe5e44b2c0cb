"""The tool that asks what happened, and what waits to be decided: history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.answers.branches import branches_json
from vaultmem.answers.finding import hit_json
from vaultmem.answers.history import (
    commit_json,
    ground_json,
    line_json,
    operation_json,
    shown_json,
)
from vaultmem.answers.schemas import MOMENT, NOTE, answer, arguments, choice, rows, text, whole
from vaultmem.core.safe_text import one_line
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.mcp_server.finding import leave_out_text, show_page
from vaultmem.mcp_server.tool import Answer, Tool, fit_rows, read_shown, see_at

if TYPE_CHECKING:
    from vaultmem.core.upkeep.proposal import Proposal
    from vaultmem.services.history.blame import BlamedLine
    from vaultmem.vault import Vault


def history_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Answer one kind of question about the past."""
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
    rows, cut = fit_rows(found.commits, lambda each: str(commit_json(each)))
    lines = [
        f"{each.commit[:7]}  {each.time[:16]}  {one_line(each.shown)}  {one_line(each.subject)}"
        for each in rows
    ]
    return _answer(lines, "log", list(map(commit_json, rows)), cut, "No event is like that.")


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
    data = shown_json(shown)
    rows, cut = fit_rows(data["operations"], str)
    commit = shown.commit
    lines = [
        f"{commit.commit}  {commit.time}  {one_line(commit.shown)}",
        one_line(commit.subject),
        *map(_describe_operation, rows),
    ]
    return _answer(lines, "show", [{**data, "operations": rows}], cut)


def _diff(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.diff import diff_vault

    path = _find_path(vault, given)
    found = diff_vault(vault, given.get("from", ""), given.get("commit", ""), path)
    rows, cut = fit_rows(list(map(operation_json, found.operations)), str)
    return _answer(list(map(_describe_operation, rows)), "diff", rows, cut, "Nothing differs.")


def _blame(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.blame import blame_note

    path = _need(given, "path")
    read_shown(vault, given)  # Nobody reads line by line what is not shown as a whole.
    found = blame_note(vault, path, given.get("at", ""))
    lines, cut = fit_rows(found.lines, lambda each: str(line_json(each, found.ends)))
    rows = [line_json(line, found.ends) for line in lines]
    return _answer(list(map(_describe_line, lines)), "blame", rows, cut)


def _why(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.history.explain import explain_text

    seen = see_at(vault, given)
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
    from vaultmem.services.finding.ask import Ask, ask

    at, limit = _need(given, "at"), min(given.get("limit", 0), 50)
    found = ask(vault, Ask(_need(given, "query"), limit, at=at, counts=False), show_page)
    lines = [line for _, line in found.shown]
    listed = [leave_out_text(hit_json(hit)) for hit, _ in found.shown]
    cut = len(lines) < len(found.hits)
    made = _answer(lines, "belief", listed, cut, "Nothing in the vault answered that then.")
    return Answer(made.text, made.data)  # The rows do not say it: they lack the notes' words.


def _branches(vault: Vault, _: dict[str, Any]) -> Answer:
    from vaultmem.services.branching.branches import list_branches

    found = branches_json(list_branches(vault))["branches"]
    rows, cut = fit_rows(found, str)
    lines = [
        one_line(
            f"{'*' if row['is_current'] else ' '} {row['name']}  {row['commit'][:7]}  "
            f"+{row['ahead']} -{row['behind']}  {row['subject']}"
        )
        for row in rows
    ]
    return _answer(lines, "branches", rows, cut, "No branch has a commit yet.")


def _review(vault: Vault, given: dict[str, Any]) -> Answer:
    """List what waits for a decision, but for what is quarantined."""
    from vaultmem.answers.upkeep import queue_json
    from vaultmem.services.upkeep.review import describe_items

    waiting = _look_through(vault)
    asked = waiting[: given.get("limit", 20)]
    found = queue_json(describe_items(vault, asked), len(waiting))["items"]
    rows, cut = fit_rows([row for row in found if not _is_hidden(row)], str)
    lines = [*map(_describe_item, rows), *([_DECIDE] if rows else [])]
    if len(rows) < len(waiting):
        lines.append(f"{len(waiting)} wait in all, some perhaps for a person alone.")
    listed = [{**row, "notes": list(map(leave_out_text, row["notes"]))} for row in rows]
    is_cut = cut or len(asked) < len(waiting)
    made = _answer(lines, "review", listed, is_cut, "Nothing waits for a decision.")
    return Answer(made.text, made.data)  # The rows do not say it: they lack the notes' words.


def _conflicts(vault: Vault, given: dict[str, Any]) -> Answer:
    """List what two sides said differently, but for what is quarantined."""
    from vaultmem.core.lifecycle import State
    from vaultmem.core.packs.pack_item import quote
    from vaultmem.services.branching.conflicts import list_conflicts

    found = [each for each in list_conflicts(vault) if each.state != State.QUARANTINED]
    kept, cut = fit_rows(found[: given.get("limit", 20)], str)
    lines = [
        one_line(f"{x.path}  {x.number}  {x.verb} by {x.author} {x.since} {x.where}".rstrip())
        + f"\n{quote(x.ours)}\ntheirs:\n{quote(x.theirs)}"
        for x in kept
    ]
    rows = [{**x._asdict(), "ours": None, "theirs": None} for x in kept]
    made = _answer(lines, "conflicts", rows, cut or len(kept) < len(found), "No conflicts.")
    return Answer(made.text, made.data)  # The rows do not say it: they lack the notes' words.


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


def _describe_item(row: dict[str, Any]) -> str:
    """Show what waits: what is asked, what shows it, and the notes, as evidence."""
    from vaultmem.core.packs.pack_item import quote

    notes = [
        f"{note['path']}  [{note['state']} | {note['agent'] or 'a person'} | {note['written']}]\n"
        + quote(note["text"])
        for note in row["notes"]
    ]
    told = f"{row['id']}  {row['action']}  {row['reason']}: {row['question']}"
    return "\n".join([one_line(told), *map(quote, row["evidence"]), *notes])


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
}

_DECIDE = (
    "You decide with promote, or with update_note (superseded_by in the note that is replaced, or "
    "state); what you may not, a person does with `vaultmem review`."
)


def _answer(
    lines: list[str], action: str, rows: list[Any], cut: bool, nothing: str = "Nothing."
) -> Answer:
    more = "There is more than fits here: narrow it down." if cut else ""
    told = "\n".join(filter(None, ("\n".join(lines) or nothing, more)))
    remark = more if lines else nothing
    return Answer(told, {"action": action, "rows": rows, "cut": cut}, remark)


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
    return one_line(f"{origin}  {line.who}  {line.number}: {line.text}")


HISTORY = Tool(
    "history",
    "History",
    "Ask git what happened to this memory: log (events), show (one commit), diff (two moments), "
    "blame (who wrote each line of a note), why (which facts mention something, and on whose "
    "word), belief (what the memory would have said about a question on a date), review (what "
    "waits to be decided: contradictions, updates, duplicates, candidates), branches, conflicts "
    "(what two sides of a merge said differently; checkpoint resolves them).",
    arguments(
        ["action"],
        action=choice("What to ask.", list(_ACTIONS)),
        path=text(f"For log, diff, blame: {NOTE[0].lower()}{NOTE[1:]}", 1_000),
        query=text("For why and belief: what it is about.", 1_000),
        commit=text(
            "For show: a commit, branch, tag or date; for diff: the later one; for log: A..B.", 200
        ),
        at=text(f"For blame, why and belief. {MOMENT}", 200),
        since=text("For log: only from this day or moment on.", 40),
        until=text("For log: only up to this day or moment.", 40),
        session=text("For log: only events of this session.", 200),
        limit=whole("For log, why, belief, review, conflicts: how many at most.", 1, 100),
        **{"from": text("For diff: the earlier one, or A...B; else HEAD.", 200)},
    ),
    answer(action="string", rows=rows(), cut="boolean"),
    history_tool,
)
