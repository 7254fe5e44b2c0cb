"""Commands about branches: branch, switch, merge."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vaultmem.answers.branches import (
    branch_json,
    branches_json,
    merge_json,
    planned_json,
    reset_json,
    switched_json,
    unmerged_json,
)
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import MergeConflictError

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict
    from vaultmem.services.branching.settle import MergeReport
    from vaultmem.vault import Vault


def end_with_conflicts(
    error: MergeConflictError, as_json: Callable[[Sequence[Conflict]], dict[str, Any]] | None
) -> NoReturn:
    """Show what is in conflict and end with its exit code; as what `as_json` makes if given.

    Raises:
        typer.Exit: always.
    """
    if as_json is None:
        say_conflicts(error.conflicts)
    else:
        emit_json(as_json(error.conflicts))
    warn(f"error: {error}")
    raise typer.Exit(error.exit_code) from None


def say_conflicts(conflicts: Sequence[Conflict]) -> None:
    """Print what both sides changed, and who."""
    path = ""
    for each in conflicts:
        if each.path != path:
            say_painted(each.path, "yellow")
            path = each.path
        say(f"  {one_line(each.what)}")
        for side, author, text in (
            ("ours", each.our_author, each.ours),
            ("theirs", each.their_author, each.theirs),
        ):
            who = f" ({one_line(author)})" if author else ""
            shown = one_line(text.strip())[:200] if text.strip() else "(nothing)"
            say(f"    {side}{who}: {shown}")


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]


@takes("vault", "as_json")
def branch(
    here: Here,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The branch; else all are listed.")
    ] = "",
    to: Annotated[
        str, typer.Argument(metavar="[TO]", help="With --reset: a branch, tag, commit or date.")
    ] = "",
    start: Annotated[
        str, typer.Option("--from", metavar="REF", help="A ref or date; else what is checked out.")
    ] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Remove the branch.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove it even if its commits are on no other branch.")
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Move the branch to TO; where it was is kept as a ref.")
    ] = False,
) -> None:
    """List the branches, or make, remove or move one.

    Nothing is checked out. The list says how far each is from what is checked out.

    Examples:
      vaultmem branch
      vaultmem branch winter
      vaultmem branch winter --delete
    """
    from vaultmem.services.branching.branches import make_branch, remove_branch

    if (reset and (delete or start)) or (to and not reset):
        raise typer.BadParameter("give one of --from REF, --delete, or --reset with TO")
    opened = here.open()
    if not name:
        if start or delete or reset or force:
            raise typer.BadParameter("name the branch")
        _list_branches(opened, here.as_json)
        return
    if reset:
        _reset(opened, name, to, here.as_json)
        return
    commit = (
        remove_branch(opened, name, force) if delete else make_branch(opened, name, start).commit
    )
    if here.as_json:
        emit_json(branch_json(name, commit, is_removed=delete))
    else:
        say_painted("removed  " if delete else "made  ", "green", f"{name}  at {commit[:7]}")


def _reset(opened: Vault, name: str, to: str, as_json: bool) -> None:
    from vaultmem.services.branching.branches import reset_branch

    done = reset_branch(opened, name, to)
    if as_json:
        emit_json(reset_json(done))
    elif not done.backup:
        say(f"{name} is at {done.commit[:7]} already; nothing was changed.")
    else:
        count = f", {count_things(done.files, 'file')} changed" if done.files else ""
        where = f"{name}  to {done.commit[:7]}, from {done.before[:7]}{count}"
        say_painted("reset  ", "green", where)
        say(f"`vaultmem branch --reset {shlex.quote(name)} {shlex.quote(done.backup)}` undoes it.")


def _list_branches(opened: Vault, as_json: bool) -> None:
    from vaultmem.services.branching.branches import list_branches

    found = list_branches(opened)
    if as_json:
        emit_json(branches_json(found))
        return
    width = max((len(one_line(each.branch.name)) for each in found), default=0)
    for each in found:
        when = datetime.fromtimestamp(each.branch.at).strftime("%Y-%m-%d %H:%M")
        apart = "" if each.is_current else f"  +{each.ahead} -{each.behind}"
        mark = "* " if each.is_current else "  "
        facts = f"  {each.branch.commit[:7]}  {when}{apart}  {each.branch.subject}"
        say_painted(f"{mark}{one_line(each.branch.name):<{width}}", "yellow", facts)
    if not found:
        say("No branch has a commit yet; `vaultmem checkpoint NOTE` makes the first.")


@takes("vault", "as_json")
def switch(
    here: Here,
    name: NameArgument,
    create: Annotated[
        bool, typer.Option("--create", "-c", help="Make the branch first, where you are.")
    ] = False,
) -> None:
    """Check out a branch.

    What is not committed, or saved meanwhile, is never overwritten.

    Examples:
      vaultmem switch --create winter
    """
    from vaultmem.services.branching.branches import switch_branch

    target, files = switch_branch(here.open_synced(), name, create)
    if here.as_json:
        emit_json(switched_json(name, target.commit, files))
    else:
        say_painted(
            "on  ",
            "green",
            f"{name}  at {target.commit[:7]}, {count_things(files, 'file')} changed",
        )


@takes("vault", "ref", "agent", "session", "as_json")
def merge(
    here: Here,
    name: Annotated[str, typer.Argument(metavar="REF", help="The branch to merge.")],
    dry_run: DryRunOption = False,
) -> None:
    """Merge a branch into the one that is checked out.

    All of it is merged, or nothing; --ref names another branch to merge into. Of words that both
    sides changed ours stay, and theirs follow in the note as a callout: `vaultmem resolve` lists
    them. Of a property the later value stays; the other is told.

    Examples:
      vaultmem merge winter --dry-run
      vaultmem merge winter
    """
    from vaultmem.services.branching.merge import merge_branch, plan_merge

    opened = here.open_synced()
    if dry_run:
        _say_plan(plan_merge(opened, name), here.as_json)
        return
    try:
        done = merge_branch(opened, name)
    except MergeConflictError as error:
        end_with_conflicts(error, unmerged_json if here.as_json else None)
    if here.as_json:
        emit_json(merge_json(done))
    elif not done.commit:
        say(f"{done.into} has all of {name} already; nothing was merged.")
    else:
        count = f", {count_things(len(done.paths), 'file')} changed" if done.paths else ""
        say_painted("merged  ", "green", f"{name} into {done.into}  as {done.commit[:7]}{count}")
        say_merged(done)


def say_merged(done: MergeReport) -> None:
    """Tell what a merge had to decide."""
    for twin in done.twins:
        authors = " and ".join(map(one_line, twin.authors))
        where = "" if twin.other == twin.path else f", which {one_line(twin.other)} said too"
        say(f"  twins     {one_line(twin.path)}{where}: by {authors}")
    for lost in done.losses:
        say(f"  lost      {one_line(lost.path)}: {one_line(lost.what)}: {one_line(lost.value)}")
    for path in dict.fromkeys(each.path for each in done.conflicts):
        whats = ", ".join(one_line(x.what) for x in done.conflicts if x.path == path)
        say(f"  conflict  {one_line(path)}: {whats}")
    if done.conflicts:
        say("Both versions are in these notes; `vaultmem resolve` shows them.")


def _say_plan(plan: MergeReport, as_json: bool) -> None:
    if as_json:
        emit_json(planned_json(plan))
    elif not plan.needed:
        say(f"{plan.into} has all of {plan.source.name} already; nothing would be merged.")
    elif plan.refused:
        say_conflicts(plan.conflicts)
        say(f"Nothing would be merged. {plan.refused}")
    else:
        say_painted("would merge  ", "yellow", f"{plan.source.name} into {plan.into}")
        for path in plan.paths:
            say(f"  {one_line(path)}")
        say_merged(plan)
