"""The tools that commit what is there, and move branches: promote, checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vaultmem.answers.notes import report_json
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError
from vaultmem.mcp_server.tool import Answer, Tool
from vaultmem.operations.schemas import STRINGS, answer, arguments, choice, flag, text, whole

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict, Loss
    from vaultmem.services.writing.commit import CommitReport
    from vaultmem.vault import Vault


def promote_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Make candidates active, in one commit; those of another branch are taken over first."""
    from vaultmem.services.lifecycle.promote import promote_notes, tell_unsaid

    if source := given.get("from"):
        from vaultmem.services.branching.take import promote_from

        done = promote_from(vault, source, given["paths"])
    else:
        done = promote_notes(vault, given["paths"])
    paths = [path for path, _ in done.notes]
    detail = {**report_json(done.report), "promoted": paths, "trusted": done.trusted}
    told = [f"Promoted {', '.join(paths)}."] if paths else []
    told += [f"Active already: {', '.join(done.active)}."] if done.active else []
    told += [*_describe(done.report), tell_unsaid(done)]
    return Answer("\n".join(filter(None, told)), detail=detail)


def checkpoint_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Commit everything that changed, or do one thing with a branch."""
    return _ACTIONS[given.get("action", _COMMIT)](vault, given)


def _commit(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.writing.commit import save_checkpoint

    report = save_checkpoint(vault, given.get("note", ""))
    told = _describe(report) or ["Nothing has changed since the last commit."]
    return Answer("\n".join(told), detail=report_json(report))


def _make(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.branching.branches import make_branch

    name = _need(given, "ref")
    commit = make_branch(vault, name, given.get("from", "")).commit
    return Answer(f"Made {name} at {commit[:7]}.", detail=_moved(commit))


def _remove(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.branching.branches import remove_branch

    name = _need(given, "ref")
    commit = remove_branch(vault, name)
    return Answer(f"Removed {name}, which was at {commit[:7]}.", detail=_moved(commit))


def _reset(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.services.branching.branches import reset_branch

    name = _need(given, "ref")
    done = reset_branch(vault, name, _need(given, "from"))
    told = f"Reset {name} to {done.commit[:7]}; what it was at is kept as {done.backup}."
    if not done.backup:
        told = f"{name} is at {done.commit[:7]} already."
    return Answer(told, detail={**_moved(done.commit), "backup": done.backup or None})


def _merge(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.answers.branches import merge_json, planned_json
    from vaultmem.services.branching.merge import merge_branch, plan_merge

    into, source = replace(vault, ref=given.get("ref", vault.ref)), _need(given, "from")
    if given.get("dry_run"):
        data = planned_json(plan_merge(into, source))
        verb = "Would merge" if data["would_merge"] else "Would not merge"
    else:
        data = merge_json(merge_branch(into, source))
        verb = "Merged" if data["merged"] else "Has all already, so did not merge"
    lines = [f"{verb} {source} into {data['into']}.", *filter(None, [data.get("refused")])]
    lines += map(one_line, data["paths"])
    lines += [f"both changed  {_name_place(each)}" for each in data["conflicts"]]
    lines += [f"lost  {_name_place(each)}" for each in data["losses"]]
    lines += [f"both said  {one_line(each.path)}" for each in data["twins"]]
    # What notes say is read with read_note, labelled and quoted.
    told = {name: list(map(_name_place, data[name])) for name in ("conflicts", "losses")}
    return Answer("\n".join(lines), detail={**_moved(""), **data, **told})


def _name_place(each: Conflict | Loss) -> str:
    return one_line(f"{each.path}: {each.what}")


def _resolve(vault: Vault, given: dict[str, Any]) -> Answer:
    from vaultmem.answers.branches import resolved_json
    from vaultmem.core.merging.text import Choice
    from vaultmem.services.branching.conflicts import resolve_conflicts

    path, chosen = _need(given, "path"), Choice(_need(given, "choice"))
    done = resolve_conflicts(vault, path, chosen, given.get("number", 0))
    return Answer(f"Resolved {done.path}: {chosen}.", detail=resolved_json(done))


def _moved(commit: str) -> dict[str, Any]:
    return {"commit": commit or None, "commits": [], "paths": [], "skipped": {}}


def _need(given: dict[str, Any], name: str) -> str:
    if not given.get(name):
        raise RefusedError(f'checkpoint {given.get("action", _COMMIT)} needs "{name}"')
    return str(given[name])


def _describe(report: CommitReport) -> list[str]:
    from vaultmem.services.writing.ownership import describe_skipped

    return [f"{commit[:7]}  {subject}" for commit, subject in report.commits] + [
        f"left out  {line}" for line in describe_skipped(report.skipped)
    ]


_COMMIT = "commit"

_ACTIONS: dict[str, Callable[[Vault, dict[str, Any]], Answer]] = {
    _COMMIT: _commit,
    "branch": _make,
    "remove": _remove,
    "reset": _reset,
    "merge": _merge,
    "resolve": _resolve,
}

PROMOTE = Tool(
    "promote",
    "Promote candidates",
    "Make candidate notes active, and commit that.",
    arguments(
        ["paths"],
        paths={**STRINGS, "minItems": 1, "maxItems": 100},
        **{"from": text("A branch with them.", 200)},
    ),
    answer(),
    promote_tool,
    writes=True,
)

CHECKPOINT = Tool(
    "checkpoint",
    "Checkpoint",
    "Commit what changed after a piece of work (note: what was done). Or with action: make the "
    "branch `ref` (at from), remove it, reset it (to from), merge from into it (dry_run), resolve "
    "a conflict (path, whose words stay, number).",
    arguments(
        (),
        note=text("", 500),
        action=choice("", list(_ACTIONS)),
        dry_run=flag(""),
        path=text("", 1_000),
        choice=choice("", ["ours", "theirs", "both"]),
        number=whole("", 1, 1_000),
        **{"from": text("", 200)},
    ),
    answer(),
    checkpoint_tool,
    writes=True,
    names_branch=lambda given: given.get("action", _COMMIT) not in {_COMMIT, "resolve"},
)
