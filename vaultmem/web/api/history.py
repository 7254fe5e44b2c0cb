"""Operations that ask git: log, commits, diff, blame, a note's history, why."""

from __future__ import annotations

from typing import Any

from vaultmem.answers.branches import branches_json, planned_json
from vaultmem.answers.history import (
    blame_json,
    diff_json,
    explained_json,
    log_json,
    shown_json,
    trace_json,
)
from vaultmem.core.timestamps import parse_timestamp
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import STRINGS, flag, record, rows, text, texts, whole
from vaultmem.vault import Vault


def _log(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.commits import CommitFilter, list_commits

    since, until = given.get("since"), given.get("until")
    wanted = CommitFilter(
        frozenset(given.get("event", ())),
        frozenset(given.get("agent", ())),
        frozenset(given.get("session", ())),
        parse_timestamp(since) if since else None,
        parse_timestamp(until, end_of_day=True) if until else None,
        given.get("all", False),
    )
    return log_json(list_commits(vault, wanted, given.get("limit", 20), given.get("path", "")))


def _show(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.diff import show_commit

    return shown_json(show_commit(vault, given["commit"]))


def _diff(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.diff import diff_vault

    old, new = given.get("from", ""), given.get("to", "")
    return diff_json(diff_vault(vault, old, new, given.get("path", "")))


def _blame(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.blame import blame_note

    return blame_json(blame_note(vault, given["path"], given.get("at", "")))


def _trace(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.commits import resolve_commit
    from vaultmem.services.history.trace import trace_note

    at = given.get("at", "")
    commit = resolve_commit(vault, at) if at else ""
    return trace_json(trace_note(vault, given["path"], given.get("limit", 0), commit))


def _why(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.explain import explain_text

    query = given["query"]
    return explained_json(query, explain_text(vault, query, given.get("limit", 5)))


def _plan_merge(vault: Vault, given: Given) -> Any:
    from vaultmem.services.branching.merge import plan_merge

    return planned_json(plan_merge(vault, given["branch"]))


def _branches(vault: Vault, _: Given) -> Any:
    from vaultmem.services.branching.branches import list_branches

    return branches_json(list_branches(vault))


_BELOW = text("Only what changed this note or folder.", 1_000)
_COMMIT = {
    "commit": "string",
    "time": "string",
    "author": "string",
    "subject": "string",
    "event": "string",
    "agent": "string",
    "session": "string",
}
_OPERATIONS = rows(op="string", path="string", blob="string?", old_blob="string?")
_ORIGIN = {"commit": "string?", "committed": "boolean", "time": "string?", "who": "string"}

HISTORY = (
    Operation(
        "log",
        "GET /log",
        "List the vault's events, newest first.",
        _log,
        {
            "limit": whole("Commits at most; else 20.", 1, 1_000),
            "event": texts("Only these events."),
            "agent": texts("Only by these agents."),
            "session": texts("Only of these sessions."),
            "path": _BELOW,
            "since": text("Only from this day or moment on.", 40),
            "until": text("Only up to this day or moment.", 40),
            "all": flag("Also commits that vaultmem did not make."),
        },
        gives=record(commits=rows(**_COMMIT), shallow="boolean"),
        moment=Moment.BRANCH,
    ),
    Operation(
        "show_commit",
        "GET /commits/{commit}",
        "Read who made a commit, when and why, and what it changed in the notes.",
        _show,
        gives=record(**_COMMIT, operations=_OPERATIONS),
        moment=Moment.BRANCH,
    ),
    Operation(
        "diff",
        "GET /diff",
        "Compare two moments, note by note, properties as properties.",
        _diff,
        {
            "from": text("A commit, branch, tag or date; else the last commit.", 200),
            "to": text("What to compare with; else the folder as it is.", 200),
            "path": _BELOW,
        },
        gives=_OPERATIONS,
        moment=Moment.BRANCH,
    ),
    Operation(
        "blame",
        "GET /blame/{path}",
        "Tell for each line of a note, or of one section, who wrote it, when and in which event.",
        _blame,
        gives=rows(line="integer", text="string", **_ORIGIN),
        moment=Moment.ASKED,
    ),
    Operation(
        "trace_note",
        "GET /history/{path}",
        "Tell what each commit did to a note, newest first, through renames and removals.",
        _trace,
        {"limit": whole("Changes at most; else all.", 1, 10_000)},
        gives=record(path="string", versions=rows(who="string", summary="string")),
        moment=Moment.ASKED,
    ),
    Operation(
        "why",
        "GET /why",
        "Show which notes mention a text, and who wrote them when.",
        _why,
        {
            "query": text("What it is about.", 1_000_000, 1),
            "limit": whole("Sections at most; else 5.", 1, 50),
        },
        required=("query",),
        gives=record(query="string", grounds=rows(path="string", text="string")),
        moment=Moment.SEEN,
    ),
    Operation(
        "list_branches",
        "GET /branches",
        "List the branches, and how far each is from what is checked out.",
        _branches,
        gives=record(branches=rows(name="string", commit="string")),
    ),
    Operation(
        "plan_merge",
        "GET /merge",
        "Tell what merging a branch would change, and what both sides changed differently.",
        _plan_merge,
        {"branch": text("The branch, tag or commit to merge.", 200, 1)},
        required=("branch",),
        gives=record(would_merge="boolean", into="string", paths=STRINGS, conflicts=rows()),
        moment=Moment.BRANCH,
    ),
)
