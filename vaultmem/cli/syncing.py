"""The command that carries a vault between machines: sync."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.syncing import sync_json, sync_plan_json
from vaultmem.cli.branches import say_conflicts, say_merged
from vaultmem.cli.opening import open_here
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import BusyError, MergeConflictError, RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.services.syncing.sync import SyncPlan, SyncReport
    from vaultmem.vault import Vault


@takes("vault", "ref", "agent", "session", "as_json")
def sync(
    here: Here,
    remote: Annotated[
        str,
        typer.Argument(
            metavar="[REMOTE]", help="A remote's name; the first time, the address to sync with."
        ),
    ] = "",
    dry_run: DryRunOption = False,
    join: Annotated[
        bool, typer.Option("--join", help="Make one vault of two that were made apart.")
    ] = False,
    unasked: Annotated[bool, typer.Option("--unasked", hidden=True)] = False,
) -> None:
    """Commit, take in what other machines pushed, and push.

    Nothing is ever forced or asked for. A remote that cannot be reached is no error: what waits
    goes with the next sync. Exit code 5: the remote, or what came, was refused; 8: both sides
    changed what is no file of the vault. What could not go is then in a ref of its own there.

    Examples:
      vaultmem sync git@example.org:maren/notes.git
      vaultmem sync
    """
    from vaultmem.services.syncing.sync import plan_sync, sync_remote

    opened = open_here(here.vault, here.agent, here.session, here.ref, for_owner=unasked)
    if dry_run:
        plan = plan_sync(opened, remote, join)
        emit_json(sync_plan_json(plan)) if here.as_json else _say_plan(plan)
        return
    report = (
        _sync_unasked(opened) if unasked else sync_remote(opened, remote, join, ends_merges=True)
    )
    if report is None:
        return
    from vaultmem.services.branching.proposals import list_proposed

    review, proposals = _take_in(opened), len(list_proposed(opened))
    if here.as_json:
        emit_json(sync_json(report, review, proposals))
    else:
        _say_report(report, review)
        _say_left_out(opened, report)
        _say_proposals(report, proposals)
    _end(report)


def _sync_unasked(vault: Vault) -> SyncReport | None:
    """Sync where that is wanted; one that takes long is not waited for."""
    from vaultmem.services.syncing.sync import sync_remote
    from vaultmem.services.syncing.unasked import check_unasked

    check_unasked(vault)
    try:
        return sync_remote(vault)
    except BusyError:
        return None


def _take_in(vault: Vault) -> int:
    """Compare what came with what is known here; return how much of that is to be decided."""
    from vaultmem.services.reading.look import find_branch
    from vaultmem.services.upkeep.arrivals import WHOLE, take_in

    with contextlib.suppress(VaultError, OSError):  # Another command does it.
        return 0 if find_branch(vault) else len(take_in(vault, WHOLE))
    return 0


def _end(report: SyncReport) -> None:
    """End with the exit code of what did not come about.

    Raises:
        typer.Exit: something did not.
    """
    codes = {"refused": RefusedError.exit_code, "conflict": MergeConflictError.exit_code}
    if report.outcome.value in codes:
        raise typer.Exit(codes[report.outcome.value])


def _say_report(report: SyncReport, review: int) -> None:
    remote, offline = one_line(report.remote), report.outcome.value == "offline"
    if report.checkpoint:
        say_painted("saved   ", "green", f"{report.checkpoint[:7]}  what was not committed")
    if report.fetched:
        files = len(report.merged.paths if report.merged else report.followed)
        how = f", merged as {report.merged.commit[:7]}" if report.merged else ""
        came = f"{count_things(report.fetched, 'commit')} from {remote}{how}"
        say_painted("fetched ", "green", f"{came}, {count_things(files, 'file')} changed")
    if report.merged:
        say_merged(report.merged)
    if report.pushed:
        say_painted("pushed  ", "green", f"{count_things(report.pushed, 'commit')} to {remote}")
    if offline:
        done = "nothing pushed" if report.fetched else "nothing fetched or pushed"
        say(f"offline: {done}; {count_things(report.waiting, 'commit')} {_wait(report.waiting)}")
    elif report.outcome.value == "synced" and not (report.fetched or report.pushed):
        say(f"{one_line(report.branch)} and {remote} have the same.")
    elif report.outcome.value != "synced":
        say_conflicts(report.conflicts)  # type: ignore[arg-type]
        warn(f"error: not pushed: {one_line(report.told)}")
        _say_rescued(report)
    if review:
        say(f"{review:,} to review: `vaultmem review`")
    if report.token_ends:
        ends = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.token_ends))
        told = f"warning: your token for {remote} ends on {ends}; ask the hub's owner for a new one"
        warn(f"{told}, and give that to git as the password")


def _say_proposals(report: SyncReport, waiting: int) -> None:
    for name in report.removed:
        say_painted("removed ", "green", f"{one_line(name)}, which was decided")
    for told in report.kept:
        warn(f"not removed: {one_line(told)}")
    if waiting:
        wait = "proposal waits" if waiting == 1 else "proposals wait"
        say(f'{waiting:,} {wait}; run "vaultmem review"')


def _say_left_out(vault: Vault, report: SyncReport) -> None:
    """Print which files are too large for a commit, where the last sync did not print the same."""
    from vaultmem.services.writing.ownership import describe_too_large

    names = "\n".join(sorted(report.left_out))
    if names != vault.state.get("left_out"):
        for line in describe_too_large(report.left_out):
            say(f"left out  {line}")
        vault.state.keep("left_out", names)


def _say_rescued(report: SyncReport) -> None:
    what = f"{count_things(report.waiting, 'commit')} {_wait(report.waiting)}"
    if report.rescued:
        warn(f"{what}; a copy is at {one_line(report.remote)} as {one_line(report.rescued)}")
    else:
        warn(f"{what} on this machine alone: the remote takes no copy of them, either")


def _say_plan(plan: SyncPlan) -> None:
    remote = one_line(plan.remote)
    if plan.told:
        say(f"offline: {one_line(plan.told)}")
    if plan.uncommitted:
        say_painted(
            "would save   ",
            "yellow",
            f"{count_things(plan.uncommitted, 'file')} that no commit has",
        )
    if plan.fetched:
        say_painted(
            "would fetch  ", "yellow", f"{count_things(plan.fetched, 'commit')} from {remote}"
        )
    if plan.merge:
        for path in plan.merge.paths:
            say(f"  {one_line(path)}")
        say_merged(plan.merge)
        say(f"{plan.merge.refused}") if plan.merge.refused else None
    if plan.waiting:
        say_painted(
            "would push   ", "yellow", f"{count_things(plan.waiting, 'commit')} to {remote}"
        )
    if not (plan.told or plan.uncommitted or plan.fetched or plan.waiting):
        say(f"{one_line(plan.branch)} and {remote} have the same.")


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"
