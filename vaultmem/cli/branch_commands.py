"""Commands on branches: branch, switch, merge, resolve."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vaultmem.cli.history_commands import print_commits
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import emit_json, print_line, print_styled, warn
from vaultmem.cli.shared import CommandContext, takes
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import MergeConflictError, RefusedError, VaultError
from vaultmem.operations.vault_data import (
    branch_json,
    branches_json,
    conflicts_json,
    merge_json,
    planned_json,
    reset_json,
    resolved_json,
    switched_json,
    unmerged_json,
)

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict
    from vaultmem.services.merging.settle import MergeReport
    from vaultmem.services.merging.text_conflicts import ResolveResult, Unsettled
    from vaultmem.vault import Vault


def end_with_conflicts(
    error: MergeConflictError, as_json: Callable[[Sequence[Conflict]], dict[str, Any]] | None
) -> NoReturn:
    """Show what is in conflict and end with its exit code; as what `as_json` makes if given.

    Raises:
        typer.Exit: always.
    """
    if as_json is None:
        print_conflicts(error.conflicts)
    else:
        emit_json(as_json(error.conflicts))
    warn(f"error: {error}")
    raise typer.Exit(error.exit_code) from None


def print_conflicts(conflicts: Sequence[Conflict]) -> None:
    """Print what both sides changed, and who."""
    path = ""
    for each in conflicts:
        if each.path != path:
            print_styled(each.path, "yellow")
            path = each.path
        print_line(f"  {one_line(each.what)}")
        for side, author, text in (
            ("ours", each.our_author, each.ours),
            ("theirs", each.their_author, each.theirs),
        ):
            who = f" ({one_line(author)})" if author else ""
            shown = one_line(text.strip())[:200] if text.strip() else "(nothing)"
            print_line(f"    {side}{who}: {shown}")


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]


@takes("vault", "as_json")
def branch(
    here: CommandContext,
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

    Nothing is checked out. The list shows how far each is from what is checked out.

    Examples:
      vaultmem branch
      vaultmem branch winter
      vaultmem branch winter --delete
    """
    from vaultmem.services.merging.branches import make_branch, remove_branch

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
        print_styled("removed  " if delete else "made  ", "green", f"{name}  at {commit[:7]}")


def _reset(opened: Vault, name: str, to: str, as_json: bool) -> None:
    from vaultmem.services.merging.branches import reset_branch

    done = reset_branch(opened, name, to)
    if as_json:
        emit_json(reset_json(done))
    elif not done.backup:
        print_line(f"{name} is at {done.commit[:7]} already; nothing was changed.")
    else:
        count = f", {pluralize(done.files, 'file')} changed" if done.files else ""
        where = f"{name}  to {done.commit[:7]}, from {done.before[:7]}{count}"
        print_styled("reset  ", "green", where)
        print_line(
            f"`vaultmem branch --reset {shlex.quote(name)} {shlex.quote(done.backup)}` undoes it."
        )


def _list_branches(opened: Vault, as_json: bool) -> None:
    from vaultmem.services.merging.branches import list_branches

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
        print_styled(f"{mark}{one_line(each.branch.name):<{width}}", "yellow", facts)
    if not found:
        print_line("No branch has a commit yet; `vaultmem checkpoint NOTE` makes the first.")


@takes("vault", "as_json")
def switch(
    here: CommandContext,
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
    from vaultmem.services.merging.branches import switch_branch

    target, files = switch_branch(here.open_synced(), name, create)
    if here.as_json:
        emit_json(switched_json(name, target.commit, files))
    else:
        print_styled(
            "on  ",
            "green",
            f"{name}  at {target.commit[:7]}, {pluralize(files, 'file')} changed",
        )


@takes("vault", "ref", "agent", "session", "as_json")
def merge(
    here: CommandContext,
    name: Annotated[str, typer.Argument(metavar="REF", help="The branch to merge.")],
    dry_run: DryRunOption = False,
) -> None:
    """Merge a branch into the one that is checked out.

    All of it is merged, or nothing; --ref names another branch to merge into. Of words that both
    sides changed ours stay, and theirs follow in the note as a callout: `vaultmem resolve` lists
    them. Of a property the later value stays; the other is printed.

    Examples:
      vaultmem merge winter --dry-run
      vaultmem merge winter
    """
    from vaultmem.services.merging.merge import merge_branch, plan_merge

    opened = here.open_synced()
    if dry_run:
        _print_plan(plan_merge(opened, name), here.as_json)
        return
    try:
        done = merge_branch(opened, name)
    except MergeConflictError as error:
        end_with_conflicts(error, unmerged_json if here.as_json else None)
    if here.as_json:
        emit_json(merge_json(done))
    elif not done.commit:
        print_line(f"{done.into} has all of {name} already; nothing was merged.")
    else:
        count = f", {pluralize(len(done.paths), 'file')} changed" if done.paths else ""
        print_styled("merged  ", "green", f"{name} into {done.into}  as {done.commit[:7]}{count}")
        print_merged(done)


def print_merged(done: MergeReport) -> None:
    """Tell what a merge had to decide."""
    for twin in done.twins:
        authors = " and ".join(map(one_line, twin.authors))
        where = "" if twin.other == twin.path else f", which {one_line(twin.other)} states too"
        print_line(f"  twins     {one_line(twin.path)}{where}: by {authors}")
    for lost in done.losses:
        print_line(
            f"  lost      {one_line(lost.path)}: {one_line(lost.what)}: {one_line(lost.value)}"
        )
    for path in dict.fromkeys(each.path for each in done.conflicts):
        whats = ", ".join(one_line(x.what) for x in done.conflicts if x.path == path)
        print_line(f"  conflict  {one_line(path)}: {whats}")
    if done.conflicts:
        print_line("Both versions are in these notes; `vaultmem resolve` shows them.")


def _print_plan(plan: MergeReport, as_json: bool) -> None:
    if as_json:
        emit_json(planned_json(plan))
    elif not plan.needed:
        print_line(f"{plan.into} has all of {plan.source.name} already; nothing would be merged.")
    elif plan.refused:
        print_conflicts(plan.conflicts)
        print_line(f"Nothing would be merged. {plan.refused}")
    else:
        print_styled("would merge  ", "yellow", f"{plan.source.name} into {plan.into}")
        for path in plan.paths:
            print_line(f"  {one_line(path)}")
        print_merged(plan)


# The command about what two sides said differently: resolve.


def _list_conflicts(opened: Vault, as_json: bool) -> None:
    from vaultmem.services.merging.text_conflicts import list_conflicts

    found = list_conflicts(opened)
    left = sorted(opened.history.unmerged()) if not opened.ref and opened.head() else []
    if as_json:
        emit_json(conflicts_json(found, left))
        return
    for each in found:
        _print_conflict(each)
    for path in left:
        print_styled("unmerged  ", "yellow", one_line(path))
    if found:
        print_line("Decide with `vaultmem resolve PATH [N] --ours`, --theirs, --both or --edit.")
    if left:
        print_line(
            "git has these in conflict; `vaultmem resolve --all` settles them, `vaultmem resolve "
            "PATH --ours` or --theirs decides one."
        )
    if not found and not left:
        print_line("No conflicts.")


def _print_conflict(each: Unsettled) -> None:
    said = f"{each.verb} by {each.author}" + (f" on {each.since}" if each.since else "")
    where = f" ({each.where})" if each.where else ""
    print_styled(
        f"{one_line(each.path)}:{each.line}", "yellow", f"  {each.number}  {one_line(said + where)}"
    )
    for side, text in (("here", each.ours), ("there", each.theirs)):
        for line in text.splitlines()[:6]:
            print_line(f"    {side:<5}  {one_line(line)}")


@takes("vault", "ref", "agent", "session", "as_json")
def resolve(
    here: CommandContext,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="The note; else all are listed.")
    ] = "",
    number: Annotated[
        int, typer.Argument(metavar="N", help="Which of its conflicts; else all of them.")
    ] = 0,
    ours: Annotated[bool, typer.Option("--ours", help="Keep what is there.")] = False,
    theirs: Annotated[bool, typer.Option("--theirs", help="Put theirs in its place.")] = False,
    both: Annotated[bool, typer.Option("--both", help="Keep both, theirs below ours.")] = False,
    edit: Annotated[bool, typer.Option("--edit", help="Write it in $VISUAL or $EDITOR.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Settle what git has in conflict; commit a merge.")
    ] = False,
) -> None:
    """List the conflicts of a merge, or decide one.

    Without PATH, it lists open conflicts, and those that git itself left. A decision is
    one commit; the note's state stays as it is.

    Examples:
      vaultmem resolve
      vaultmem resolve refund-rules --theirs
    """
    wanted = [
        name
        for name, on in (("ours", ours), ("theirs", theirs), ("both", both), ("edit", edit))
        if on
    ]
    if not (path or wanted or everything):
        _list_conflicts(here.open_synced(), here.as_json)
        return
    if everything and not path and not wanted:
        _finish(here.open_synced(), here.as_json)
        return
    if len(wanted) != 1 or not path or everything:
        raise RefusedError(
            "name a note and one of --ours, --theirs, --both, --edit; or --all alone"
        )
    opened = here.open_synced()
    done = _resolve(opened, path, wanted[0], number)
    if here.as_json:
        emit_json(resolved_json(done))
        return
    what = (
        "removed, as the others have it" if done.is_gone else f"{done.decided} decided: {wanted[0]}"
    )
    print_styled("resolved  ", "green", f"{one_line(done.path)}  ({what})")
    print_commits(done.report.commits)
    if not done.report.commits:
        _print_next(opened)


def _resolve(vault: Vault, path: str, how: str, number: int) -> ResolveResult:
    from vaultmem.core.merging.text import ConflictChoice
    from vaultmem.services.merging.text_conflicts import (
        decide_unmerged,
        resolve_by_hand,
        resolve_conflicts,
    )

    if how != "edit":
        if not number and (done := decide_unmerged(vault, path, ConflictChoice(how))):
            return done
        return resolve_conflicts(vault, path, ConflictChoice(how), number)
    folder = Path(tempfile.mkdtemp(prefix="vaultmem-"))
    file = folder / "note.md"
    try:
        done = resolve_by_hand(vault, path, partial(_edit, file))
    except VaultError:
        if file.exists() and file.read_bytes() != _original(file).read_bytes():
            warn(f"what you wrote is kept in {file}")
        else:
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
    return done


def _original(file: Path) -> Path:
    return file.with_suffix(".before")


def _edit(file: Path, text: str) -> str:
    """Return what a person makes of a text in their editor; the note is not touched meanwhile."""
    from vaultmem.cli.editor import open_editor

    for each in (file, _original(file)):
        each.write_bytes(text.encode("utf-8"))
    open_editor(file)
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{file}: not a UTF-8 text any more ({error})") from None


def _finish(vault: Vault, as_json: bool) -> None:
    from vaultmem.operations.vault_data import merge_json
    from vaultmem.services.merging.text_conflicts import finish_merge

    done = finish_merge(vault)
    if as_json:
        emit_json(merge_json(done))
        return
    if done.commit:
        into = f"{done.source.name} into {done.into}  as {done.commit[:7]}"
        print_styled("merged  ", "green", into)
    print_merged(done)
    if not done.commit:
        _print_next(vault)


def _print_next(vault: Vault) -> None:
    from vaultmem.services.merging.text_conflicts import describe_next_step

    print_line(f"Staged, and in no commit yet. {describe_next_step(vault)}")
