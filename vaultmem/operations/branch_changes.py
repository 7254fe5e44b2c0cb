"""Operations on branches and merges: branch, switch, merge, resolve, sync."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.merging.text import ConflictChoice
from vaultmem.core.text.display import one_line, pluralize, truncate_line
from vaultmem.core.text.json_values import pick
from vaultmem.errors import LockTimeoutError, VaultError
from vaultmem.operations.declaration import (
    Agent,
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    VersionScope,
    declare,
    word,
)
from vaultmem.operations.lines import commit_lines
from vaultmem.operations.note_data import report_json
from vaultmem.operations.schemas import STRINGS, Schema, record, rows

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict
    from vaultmem.services.merging.branches import ListedBranch, ResetReport
    from vaultmem.services.merging.file_conflicts import MergeReport
    from vaultmem.services.merging.text_conflicts import NoteConflict, ResolveResult
    from vaultmem.services.syncing.sync import SyncPlan, SyncResult
    from vaultmem.vault import Vault

_word = partial(Arg, most=200, takes=ArgumentForm.WORD)
#: Most characters of a conflict's line in a list.
_MAX_LINE = 1_000

_CLONE = {FrontEnd.HTTP: "a hub's vault is a clone, whose branches the remote does not have"}
_NO_ACTION = {**_CLONE, FrontEnd.MCP: "the tool has an action for it"}


class BranchResult(NamedTuple):
    """A branch that was made or removed, and its commit."""

    branch: str
    commit: str
    removed: bool


def branch(
    vault: Vault,
    branch: Annotated[
        str,
        _word(
            "The branch; without it, branches are listed.",
            Agent(name="ref"),
            metavar="[NAME]",
            excused=_CLONE,
        ),
    ] = "",
    to: Annotated[
        str,
        _word("With --reset: a branch, tag, commit or date.", metavar="[TO]", excused=_NO_ACTION),
    ] = "",
    from_: Annotated[
        str,
        Arg(
            "Ref or date to start from.  [default: checked-out branch]",
            most=200,
            metavar="REF",
            excused=_CLONE,
        ),
    ] = "",
    delete: Annotated[bool, Arg("Remove the branch.", excused=_NO_ACTION)] = False,
    force: Annotated[
        bool, Arg("Remove it even if its commits are on no other branch.", excused=_NO_ACTION)
    ] = False,
    reset: Annotated[
        bool, Arg("Move the branch to TO; a ref keeps its old commit.", excused=_NO_ACTION)
    ] = False,
) -> list[ListedBranch] | BranchResult | ResetReport:
    """List the branches, or make, remove or move one.

    Nothing is checked out. The list compares each branch with the checked-out branch.

    Examples:
      vaultmem branch
      vaultmem branch winter
      vaultmem branch winter --delete
    """
    from vaultmem.errors import ArgumentError
    from vaultmem.services.merging import branches

    if (reset and delete) or (to and not reset):
        raise ArgumentError("give one of --from REF, --delete, or --reset with TO")
    if not branch and (from_ or delete or reset or force):
        raise ArgumentError("name the branch")
    if not branch:
        return branches.list_branches(vault)
    if reset:
        return branches.reset_branch(vault, branch, to or from_)
    if delete:
        return BranchResult(branch, branches.remove_branch(vault, branch, force), removed=True)
    return BranchResult(branch, branches.make_branch(vault, branch, from_).commit, removed=False)


def branch_data(result: list[ListedBranch] | BranchResult | ResetReport) -> dict[str, Any]:
    """Return the branches, compared with the checked-out one; or the changed branch."""
    if not isinstance(result, list):
        data = result._asdict()
        return (
            data if isinstance(result, BranchResult) else {**data, "backup": result.backup or None}
        )
    rows = [{**pick(x.branch, "name commit at subject folder?"), **x._asdict()} for x in result]
    return {"branches": [{k: v for k, v in row.items() if k != "branch"} for row in rows]}


def _branch_lines(
    result: list[ListedBranch] | BranchResult | ResetReport, _: Any
) -> Iterator[Line]:
    if isinstance(result, list):
        yield from _listed_lines(result)
    elif isinstance(result, BranchResult):
        verb = "removed  " if result.removed else "made  "
        yield Line(verb, "green", f"{result.branch}  at {result.commit[:7]}")
    elif not result.backup:
        yield Line(f"{result.branch} is at {result.commit[:7]} already; nothing was changed.")
    else:
        count = f", {pluralize(result.files, 'file')} changed" if result.files else ""
        text = f"{result.branch}  to {result.commit[:7]}, from {result.before[:7]}{count}"
        yield Line("reset  ", "green", text)
        names = f"{shlex.quote(result.branch)} {shlex.quote(result.backup)}"
        yield Line(f"`vaultmem branch --reset {names}` undoes it.")


def _listed_lines(branches: Sequence[ListedBranch]) -> Iterator[Line]:
    width = max((len(one_line(each.branch.name)) for each in branches), default=0)
    for each in branches:
        timestamp = datetime.fromtimestamp(each.branch.at).strftime("%Y-%m-%d %H:%M")
        distance = "" if each.is_current else f"  +{each.ahead} -{each.behind}"
        mark = "* " if each.is_current else "  "
        facts = f"  {each.branch.commit[:7]}  {timestamp}{distance}  {each.branch.subject}"
        yield Line(f"{mark}{one_line(each.branch.name):<{width}}", "yellow", facts)
    if not branches:
        yield Line("No branch has a commit yet; `vaultmem checkpoint NOTE` makes the first.")


class SwitchResult(NamedTuple):
    """The branch that is now checked out, and the number of changed files."""

    branch: str
    commit: str
    files: int


def switch(
    vault: Vault,
    branch: Annotated[str, _word("The branch.", "", 1, metavar="NAME")],
    create: Annotated[
        bool, Arg("Create the branch first, from HEAD.", flags=("--create", "-c"))
    ] = False,
) -> SwitchResult:
    """Check out a branch.

    Uncommitted changes are never overwritten.

    Examples:
      vaultmem switch --create winter
    """
    from vaultmem.services.merging.branches import switch_branch

    target, files = switch_branch(vault, branch, create)
    return SwitchResult(branch, target.commit, files)


def _switch_lines(result: SwitchResult, _: Any) -> Iterator[Line]:
    files = pluralize(result.files, "file")
    yield Line("on  ", "green", f"{result.branch}  at {result.commit[:7]}, {files} changed")


# Merges of branches, and conflicts.


_Source = Annotated[
    str, _word("The branch, tag or commit to merge.", Agent(name="from"), 1, metavar="REF")
]


def merge(
    vault: Vault,
    branch: _Source,
    dry_run: Annotated[
        bool,
        Arg(
            "Only show what would change.", Agent(), excused={FrontEnd.HTTP: "`GET /merge` is that"}
        ),
    ] = False,
) -> MergeReport:
    """Merge a branch into the one that is checked out.

    All of it is merged, or nothing; --ref names another branch to merge into. Where both sides
    changed the same words, ours stay, and theirs follow in the note as a callout: `vaultmem
    resolve` lists them. For a property, the later value stays and the other is printed.

    Examples:
      vaultmem merge winter --dry-run
      vaultmem merge winter
    """
    from vaultmem.services.merging.merge import merge_branch, plan_merge

    return (plan_merge if dry_run else merge_branch)(vault, branch)


def plan_merge(vault: Vault, branch: _Source) -> MergeReport:
    """Return what merging a branch would change, and what both sides changed differently."""
    return merge(vault, branch, dry_run=True)


_MERGE_FIELDS = "source into=target_branch paths losses conflicts twins"


def _merge_data(result: MergeReport) -> dict[str, Any]:
    shared = pick(result, _MERGE_FIELDS)
    if not result.is_plan:
        return {"merged": bool(result.commit), "commit": result.commit or None, **shared}
    is_needed = result.is_needed and not result.problem
    return {"would_merge": is_needed, **shared, "refused": result.problem or None}


def unmerged_data(conflicts: Sequence[Conflict]) -> dict[str, Any]:
    """Return the conflicts that prevented a merge."""
    return {"merged": False, "conflicts": conflicts}


def _planned_lines(plan: MergeReport) -> Iterator[Line]:
    if not plan.is_needed:
        text = f"{plan.target_branch} has all of {plan.source.name} already"
        yield Line(f"{text}; nothing would be merged.")
    elif plan.problem:
        yield from conflict_lines(plan.conflicts)
        yield Line(one_line(plan.problem))
    else:
        yield Line("would merge  ", "yellow", f"{plan.source.name} into {plan.target_branch}")
        yield from (Line(f"  {one_line(path)}") for path in plan.paths)
        yield from _decision_lines(plan)


def merge_lines(result: MergeReport, _: Any) -> Iterator[Line]:
    """Yield a merge's commit, its decisions, and the next step if nothing was committed."""
    if result.is_plan:
        yield from _planned_lines(result)
        return
    if result.commit:
        count = f", {pluralize(len(result.paths), 'file')} changed" if result.paths else ""
        into = f"{result.source.name} into {result.target_branch}"
        yield Line("merged  ", "green", f"{into}  as {result.commit[:7]}{count}")
    elif not result.next_step:
        text = f"{result.target_branch} has all of {result.source.name} already"
        yield Line(f"{text}; nothing was merged.")
    yield from _decision_lines(result)
    if result.next_step:
        yield Line(f"Staged, and in no commit yet. {result.next_step}")


def _decision_lines(result: MergeReport) -> Iterator[Line]:
    for twin in result.twins:
        authors = " and ".join(map(one_line, twin.authors))
        other_note = "" if twin.other == twin.path else f", which {one_line(twin.other)} states too"
        yield Line(f"  twins     {one_line(twin.path)}{other_note}: by {authors}")
    for loss in result.losses:
        text = ": ".join(map(one_line, loss))
        yield Line(f"  lost      {text}")
    for path in dict.fromkeys(each.path for each in result.conflicts):
        properties = ", ".join(one_line(x.what) for x in result.conflicts if x.path == path)
        yield Line(f"  conflict  {one_line(path)}: {properties}")
    if result.conflicts:
        yield Line("Both versions are in these notes; `vaultmem resolve` shows them.")


def conflict_lines(conflicts: Iterable[Conflict]) -> Iterator[Line]:
    """Yield both sides of each conflict, with their authors."""
    path = ""
    for each in conflicts:
        if each.path != path:
            yield Line(each.path, "yellow")
            path = each.path
        yield Line(f"  {one_line(each.what)}")
        for side, author, text in (
            ("ours", each.our_author, each.ours),
            ("theirs", each.their_author, each.theirs),
        ):
            author_text = f" ({one_line(author)})" if author else ""
            excerpt = one_line(text.strip())[:200] if text.strip() else "(nothing)"
            yield Line(f"    {side}{author_text}: {excerpt}")


# Conflicts that merges left in notes, and files that git reports as unmerged.


class Conflicts(NamedTuple):
    """The conflicts in notes, and the files that git reports as unmerged."""

    conflicts: list[NoteConflict]
    unmerged: list[str]


def list_conflicts(vault: Vault) -> Conflicts:
    """List what two sides of a merge changed differently, and at which files git has stopped."""
    from vaultmem.services.merging.text_conflicts import list_conflicts

    is_here = not vault.ref and bool(vault.head())
    return Conflicts(list_conflicts(vault), sorted(vault.history.unmerged()) if is_here else [])


def _conflicts_lines(result: Conflicts, _: Any) -> Iterator[Line]:
    for each in result.conflicts:
        yield from _unsettled_lines(each)
    for path in result.unmerged:
        yield Line("unmerged  ", "yellow", one_line(path))
    if result.conflicts:
        yield Line("Decide with `vaultmem resolve PATH [N] --ours`, --theirs, --both or --edit.")
    if result.unmerged:
        yield Line(
            "git has these in conflict; `vaultmem resolve --all` settles them, `vaultmem resolve "
            "PATH --ours` or --theirs decides one."
        )
    if not any(result):
        yield Line("No conflicts.")


def _unsettled_lines(each: NoteConflict) -> Iterator[Line]:
    date_text = f" on {each.since}" if each.since else ""
    place_text = f" ({each.where})" if each.where else ""
    facts = f"  {each.number}  {one_line(f'{each.verb} by {each.author}{date_text}{place_text}')}"
    yield Line(f"{one_line(each.path)}:{each.line}", "yellow", facts)
    for side, text in (("here", each.ours), ("there", each.theirs)):
        for line in text.splitlines()[:6]:
            yield Line(f"    {side:<5}  {truncate_line(line, _MAX_LINE)}")


def resolve(
    vault: Vault,
    path: Annotated[str, word("The note; without it, conflicts are listed.", 1, metavar="[PATH]")],
    choice: Annotated[
        str,
        Arg(
            "Side to keep.",
            words=[each.value for each in ConflictChoice],
            excused={FrontEnd.SHELL: "each word is an option"},
        ),
    ],
    number: Annotated[
        int, Arg("Number of the conflict.  [default: all]", "", 1, 1_000, takes=ArgumentForm.WORD)
    ] = 0,
) -> ResolveResult:
    """Decide what two sides changed differently in a note, in one commit."""
    from vaultmem.services.merging.text_conflicts import decide_unmerged, resolve_conflicts

    chosen = ConflictChoice(choice)
    if not number and (result := decide_unmerged(vault, path, chosen)):
        return result
    return resolve_conflicts(vault, path, chosen, number)


def resolved_data(result: ResolveResult) -> dict[str, Any]:
    """Return the resolved note and the commit."""
    return {**pick(result, "resolved=path decided removed=is_gone"), **report_json(result.report)}


def _resolved_lines(result: ResolveResult, request: Any) -> Iterator[Line]:
    decided = f"{result.decided} decided: {request.choice}"
    outcome = "removed, as the others have it" if result.is_gone else decided
    yield Line("resolved  ", "green", f"{one_line(result.path)}  ({outcome})")
    yield from commit_lines(result.report.commits)
    if not result.report.commits:
        yield Line(f"Staged, and in no commit yet. {result.next_step}")


# Syncs with a remote.


class SyncOutcome(NamedTuple):
    """A sync's result, the numbers of items and proposals to review, and newly omitted files."""

    report: SyncResult
    review: int
    proposals: int
    left_out: Sequence[str]


def sync(
    vault: Vault,
    remote: Annotated[
        str,
        _word("A remote's name; the first time, the address to sync with.", metavar="[REMOTE]"),
    ] = "",
    dry_run: Annotated[bool, Arg("Only show what would change.")] = False,
    allow_unrelated_histories: Annotated[
        bool, Arg("Merge two vaults without a common commit.")
    ] = False,
    *,
    unasked: bool = False,
) -> SyncPlan | SyncOutcome | None:
    """Commit, merge what other machines pushed, and push.

    It never forces a push or asks a question. If the remote is offline, the next sync pushes the
    commits. Exit code 5: the remote, or its commits, were refused; 8: both sides changed a file
    outside of the vault. Commits that could not be merged are then in a ref of the remote.

    Examples:
      vaultmem sync git@example.org:maren/notes.git
      vaultmem sync
    """
    from vaultmem.services.changes.ownership import describe_too_large
    from vaultmem.services.merging.branches import list_proposed
    from vaultmem.services.syncing.sync import plan_sync, sync_remote

    if dry_run:
        return plan_sync(vault, remote, allow_unrelated_histories)
    report = (
        _sync_unasked(vault)
        if unasked
        else sync_remote(vault, remote, allow_unrelated_histories, ends_merges=True)
    )
    if report is None:
        return None
    is_same = "\n".join(sorted(report.left_out)) == vault.state.get("left_out")
    large_file_lines = [] if is_same else describe_too_large(report.left_out)
    return SyncOutcome(
        report, _compare_incoming(vault), len(list_proposed(vault)), large_file_lines
    )


def _sync_unasked(vault: Vault) -> SyncResult | None:
    """Sync if the settings allow it; return None if another process holds the lock too long."""
    from vaultmem.services.syncing.sync import sync_remote
    from vaultmem.services.syncing.sync_place import check_unasked

    check_unasked(vault)
    with contextlib.suppress(LockTimeoutError):
        return sync_remote(vault)
    return None


def _compare_incoming(vault: Vault) -> int:
    """Compare fetched notes with known ones; return how many pairs are to review."""
    from vaultmem.services.curation.incoming_notes import REVIEW_COMPARE_SECONDS, compare_incoming
    from vaultmem.services.views.open_view import find_branch

    with contextlib.suppress(VaultError, OSError):  # Another command compares them.
        return 0 if find_branch(vault) else len(compare_incoming(vault, REVIEW_COMPARE_SECONDS))
    return 0


def _sync_data(result: SyncPlan | SyncOutcome) -> dict[str, Any]:
    if not isinstance(result, SyncOutcome):
        merge = result.merge and _merge_data(result.merge)
        return {
            **pick(result, "remote branch uncommitted fetched waiting message?"),
            "merge": merge,
        }
    report = result.report
    names = (
        "outcome=outcome.value remote branch checkpoint? fetched followed pushed waiting rescued? "
        "message? evidence? conflicts token_ends? removed kept=kept_proposals"
    )
    return {
        **pick(report, names),
        "merged": report.merged and _merge_data(report.merged),
        **pick(result, "review proposals"),
        "omitted": dict(report.left_out),
    }


def _sync_lines(result: SyncPlan | SyncOutcome, _: Any) -> Iterator[Line]:
    yield from _outcome_lines(result) if isinstance(result, SyncOutcome) else _plan_lines(result)


def _outcome_lines(result: SyncOutcome) -> Iterator[Line]:
    report, remote = result.report, one_line(result.report.remote)
    if report.checkpoint:
        yield Line("saved   ", "green", f"{report.checkpoint[:7]}  what was not committed")
    if report.fetched:
        files = len(report.merged.paths if report.merged else report.followed)
        merge_text = f", merged as {report.merged.commit[:7]}" if report.merged else ""
        summary = f"{pluralize(report.fetched, 'commit')} from {remote}{merge_text}"
        yield Line("fetched ", "green", f"{summary}, {pluralize(files, 'file')} changed")
    if report.merged:
        yield from _decision_lines(report.merged)
    if report.pushed:
        yield Line("pushed  ", "green", f"{pluralize(report.pushed, 'commit')} to {remote}")
    if report.outcome.value == "offline":
        nothing = "nothing pushed" if report.fetched else "nothing fetched or pushed"
        yield Line(f"offline: {nothing}; {_describe_waiting(report)}")
        yield Line(f"  {one_line(report.message)}")
    elif report.outcome.value != "synced":
        yield from conflict_lines(report.conflicts)  # type: ignore[arg-type]
    elif not (report.fetched or report.pushed):
        yield Line(f"{one_line(report.branch)} and {remote} have the same.")
    if result.review:
        yield Line(f"{result.review:,} to review: `vaultmem review`")
    for line in result.left_out:
        yield Line(f"left out  {line}")
    for name in report.removed:
        yield Line("removed ", "green", f"{one_line(name)}, which was decided")
    if result.proposals:
        wait = "proposal waits" if result.proposals == 1 else "proposals wait"
        yield Line(f'{result.proposals:,} {wait}; run "vaultmem review"')


def _sync_warnings(result: SyncPlan | SyncOutcome) -> Iterator[str]:
    if not isinstance(result, SyncOutcome):
        return
    report, remote = result.report, one_line(result.report.remote)
    if report.outcome.value not in {"synced", "offline"}:
        yield f"error: not pushed: {one_line(report.message)}"
        alone = " on this machine alone, because the remote rejects a copy, too"
        copy = f"; a copy is at {remote} as {one_line(report.rescued)}"
        yield f"{_describe_waiting(report)}{copy if report.rescued else alone}"
    if report.token_ends:
        ends = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.token_ends))
        yield (
            f"warning: your token for {remote} ends on {ends}; ask the hub's owner for a new one, "
            "and give that to git as the password"
        )
    for why in report.kept_proposals:
        yield f"not removed: {one_line(why)}"


def _describe_waiting(report: SyncResult) -> str:
    return f"{pluralize(report.waiting, 'commit')} {'waits' if report.waiting == 1 else 'wait'}"


def _plan_lines(plan: SyncPlan) -> Iterator[Line]:
    remote = one_line(plan.remote)
    if plan.message:
        yield Line(f"offline: {one_line(plan.message)}")
    if plan.uncommitted:
        count = pluralize(plan.uncommitted, "file")
        yield Line("would save   ", "yellow", f"{count} that no commit has")
    if plan.fetched:
        count = pluralize(plan.fetched, "commit")
        yield Line("would fetch  ", "yellow", f"{count} from {remote}")
    if plan.merge:
        yield from (Line(f"  {one_line(path)}") for path in plan.merge.paths)
        yield from _decision_lines(plan.merge)
        if plan.merge.problem:
            yield Line(plan.merge.problem)
    if plan.waiting:
        yield Line("would push   ", "yellow", f"{pluralize(plan.waiting, 'commit')} to {remote}")
    if not (plan.message or plan.uncommitted or plan.fetched or plan.waiting):
        yield Line(f"{one_line(plan.branch)} and {remote} have the same.")


_declare = partial(declare, versions=VersionScope.BRANCH)
_MERGE: dict[str, Schema | str] = {"into": "string", "paths": STRINGS, "conflicts": rows()}

BRANCH = declare(
    branch,
    "list_branches",
    "GET /branches",
    branch_data,
    summary="List the branches, and how each differs from the checked-out branch.",
    lines=_branch_lines,
    output_schema=record(branches=rows(name="string", commit="string")),
    syncs=False,
)

SWITCH = declare(
    switch,
    "switch_branch",
    "",
    lines=_switch_lines,
    writes=True,
    excused=dict.fromkeys(
        (FrontEnd.HTTP, FrontEnd.MCP), "only its owner decides what a folder shows"
    ),
)

PLAN_MERGE = _declare(
    plan_merge,
    "plan_merge",
    "GET /merge",
    _merge_data,
    lines=merge_lines,
    output_schema=record(would_merge="boolean", **_MERGE),
)

MERGE = _declare(
    merge,
    "merge",
    "POST /merge",
    _merge_data,
    lines=merge_lines,
    writes=True,
    output_schema=record(merged="boolean", commit="string?", **_MERGE),
)

LIST_CONFLICTS = _declare(
    list_conflicts,
    "list_conflicts",
    "GET /conflicts",
    lines=_conflicts_lines,
    output_schema=record(
        conflicts=rows(path="string", number="integer", ours="string", theirs="string"),
        unmerged=STRINGS,
    ),
    excused={FrontEnd.MCP: "the tool history answers with rows within a budget"},
)

RESOLVE = _declare(
    resolve,
    "resolve",
    "POST /conflicts",
    resolved_data,
    lines=_resolved_lines,
    writes=True,
    output_schema=record(resolved="string", decided="integer", removed="boolean", commit="string?"),
)

SYNC = _declare(
    sync,
    "sync",
    "",
    _sync_data,
    lines=_sync_lines,
    warnings=_sync_warnings,
    writes=True,
    excused=dict.fromkeys(
        (FrontEnd.HTTP, FrontEnd.MCP), "only its owner has the remote's credentials"
    ),
)
