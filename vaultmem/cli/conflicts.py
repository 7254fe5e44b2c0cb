"""The command about what two sides said differently: resolve."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.branches import conflicts_json, resolved_json
from vaultmem.cli.branches import say_merged
from vaultmem.cli.history_text import say_commits
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.services.branching.conflicts import Resolved, Unsettled
    from vaultmem.vault import Vault


def _list_conflicts(opened: Vault, as_json: bool) -> None:
    from vaultmem.services.branching.conflicts import list_conflicts

    found = list_conflicts(opened)
    left = sorted(opened.history.unmerged()) if not opened.ref and opened.head() else []
    if as_json:
        emit_json(conflicts_json(found, left))
        return
    for each in found:
        _say_conflict(each)
    for path in left:
        say_painted("unmerged  ", "yellow", one_line(path))
    if found:
        say("Decide with `vaultmem resolve PATH [N] --ours`, --theirs, --both or --edit.")
    if left:
        say(
            "git has these in conflict; `vaultmem resolve --all` settles them, `vaultmem resolve "
            "PATH --ours` or --theirs decides one."
        )
    if not found and not left:
        say("No conflicts.")


def _say_conflict(each: Unsettled) -> None:
    said = f"{each.verb} by {each.author}" + (f" on {each.since}" if each.since else "")
    where = f" ({each.where})" if each.where else ""
    say_painted(
        f"{one_line(each.path)}:{each.line}", "yellow", f"  {each.number}  {one_line(said + where)}"
    )
    for side, text in (("here", each.ours), ("there", each.theirs)):
        for line in text.splitlines()[:6]:
            say(f"    {side:<5}  {one_line(line)}")


@takes("vault", "ref", "agent", "session", "as_json")
def resolve(
    here: Here,
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
    """List what both sides of a merge said, or decide it.

    Without PATH, what nobody has decided is listed, and what git itself left open. A decision is
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
    say_painted("resolved  ", "green", f"{one_line(done.path)}  ({what})")
    say_commits(done.report.commits)
    if not done.report.commits:
        _say_next(opened)


def _resolve(vault: Vault, path: str, how: str, number: int) -> Resolved:
    from vaultmem.core.merging.text import Choice
    from vaultmem.services.branching.conflicts import resolve_by_hand, resolve_conflicts
    from vaultmem.services.branching.unmerged import decide_unmerged

    if how != "edit":
        if not number and (done := decide_unmerged(vault, path, Choice(how))):
            return done
        return resolve_conflicts(vault, path, Choice(how), number)
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
    from vaultmem.answers.branches import merge_json
    from vaultmem.services.branching.unmerged import finish_merge

    done = finish_merge(vault)
    if as_json:
        emit_json(merge_json(done))
        return
    if done.commit:
        into = f"{done.source.name} into {done.into}  as {done.commit[:7]}"
        say_painted("merged  ", "green", into)
    say_merged(done)
    if not done.commit:
        _say_next(vault)


def _say_next(vault: Vault) -> None:
    from vaultmem.services.branching.unmerged import name_next_step

    say(f"Staged, and in no commit yet. {name_next_step(vault)}")
