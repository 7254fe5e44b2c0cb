"""Commands on branches: branch, switch, merge, resolve."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.output import emit_json, print_lines, warn
from vaultmem.cli.shared import answer, make_command, offers, print_answer, takes
from vaultmem.errors import MergeConflictError, RefusedError, VaultError
from vaultmem.operations.branch_changes import (
    BRANCH,
    LIST_CONFLICTS,
    MERGE,
    RESOLVE,
    SWITCH,
    conflict_lines,
    unmerged_data,
)

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict
    from vaultmem.services.merging.text_conflicts import ResolveResult
    from vaultmem.vault import Vault


switch = make_command(SWITCH, "switch")


def end_with_conflicts(
    error: MergeConflictError, as_json: Callable[[Sequence[Conflict]], dict[str, Any]] | None
) -> NoReturn:
    """Print the conflicts, as JSON with `as_json`, and exit with the error's code.

    Raises:
        typer.Exit: always.
    """
    if as_json is None:
        print_lines(conflict_lines(error.conflicts))
    else:
        emit_json(as_json(error.conflicts))
    warn(f"error: {error}")
    raise typer.Exit(error.exit_code) from None


@offers(BRANCH)
@takes("vault", "as_json")
def branch(context: CommandContext, request: Any) -> None:
    """List the branches, or change one."""
    answer(BRANCH._replace(writes=bool(request.branch)), context, request)


@offers(MERGE)
@takes("vault", "ref", "agent", "session", "as_json")
def merge(context: CommandContext, request: Any) -> None:
    """Merge a branch, or print what that would change."""
    try:
        answer(MERGE, context, request)
    except MergeConflictError as error:
        end_with_conflicts(error, unmerged_data if context.as_json else None)


# The command about conflicts: resolve.


@takes("vault", "ref", "agent", "session", "as_json")
def resolve(
    context: CommandContext,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="The note; without it, conflicts are listed.")
    ] = "",
    number: Annotated[
        int, typer.Argument(metavar="N", help="Number of the conflict.  [default: all]")
    ] = 0,
    ours: Annotated[bool, typer.Option("--ours", help="Keep our text.")] = False,
    theirs: Annotated[bool, typer.Option("--theirs", help="Use their text.")] = False,
    both: Annotated[bool, typer.Option("--both", help="Keep both, theirs below ours.")] = False,
    edit: Annotated[bool, typer.Option("--edit", help="Edit it in $VISUAL or $EDITOR.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Resolve the files git has in conflict; commit the merge.")
    ] = False,
) -> None:
    """List the conflicts of a merge, or decide one.

    Without PATH, it lists open conflicts, and those that git itself left. A decision is
    one commit; the note's state stays as it is.

    Examples:
      vaultmem resolve
      vaultmem resolve refund-rules --theirs
    """
    flags = {"ours": ours, "theirs": theirs, "both": both, "edit": edit}
    choices = [name for name in flags if flags[name]]
    if not (path or choices):
        if not everything:
            answer(LIST_CONFLICTS, context, LIST_CONFLICTS.request())
            return
        from vaultmem.services.merging.text_conflicts import finish_merge

        print_answer(MERGE, context, None, finish_merge(context.open_synced()))
        return
    if len(choices) != 1 or not path or everything:
        raise RefusedError(
            "name a note and one of --ours, --theirs, --both, --edit; or --all alone"
        )
    request = RESOLVE.request(path, choices[0], number)
    if edit:
        print_answer(RESOLVE, context, request, _resolve_by_hand(context.open_synced(), path))
    else:
        answer(RESOLVE, context, request)


def _resolve_by_hand(vault: Vault, path: str) -> ResolveResult:
    from vaultmem.services.merging.text_conflicts import resolve_by_hand

    folder = Path(tempfile.mkdtemp(prefix="vaultmem-"))
    file = folder / "note.md"
    try:
        result = resolve_by_hand(vault, path, partial(_edit, file))
    except VaultError:
        if file.exists() and file.read_bytes() != _original(file).read_bytes():
            warn(f"what you wrote is kept in {file}")
        else:
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
    return result


def _original(file: Path) -> Path:
    return file.with_suffix(".before")


def _edit(file: Path, text: str) -> str:
    """Return a text after the user edited it; the note itself is not changed."""
    from vaultmem.cli.editor import open_editor

    for each in (file, _original(file)):
        each.write_bytes(text.encode("utf-8"))
    open_editor(file)
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{file}: not a UTF-8 text any more ({error})") from None
