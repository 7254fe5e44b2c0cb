"""Commands on notes: remember, show, list, edit, forget, pin, tag, promote, checkpoint, state."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.editor import open_editor
from vaultmem.cli.history_commands import print_commits
from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import (
    AllVaultsOption,
    VaultsOption,
)
from vaultmem.cli.output import (
    emit_json,
    fits_terminal,
    print_line,
    print_styled,
    truncate_to_terminal,
)
from vaultmem.cli.shared import answer, make_command, offers, print_answer, takes
from vaultmem.cli.vault_selection import open_several, split_vault, warn_unmatched
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import MergeConflictError, NoteNotFoundError, RefusedError, wrap_os_error
from vaultmem.operations.declaration import NoArguments, read_request
from vaultmem.operations.history_views import SHOW
from vaultmem.operations.lines import align
from vaultmem.operations.note_changes import (
    CHECKPOINT,
    FORGET,
    PROMOTE,
    STATE,
    SUPERSEDE,
)
from vaultmem.operations.note_data import purge_json
from vaultmem.operations.note_edits import PIN, TAG, UPDATE, show_edited
from vaultmem.operations.notes import (
    GET,
    LIST,
    REMEMBER,
    ListNotes,
    Remember,
    list_of,
)
from vaultmem.operations.usage_stats import PINNED
from vaultmem.operations.vault_data import unconfirmed_json, untaken_json

if TYPE_CHECKING:
    from vaultmem.vault import Vault


#: Maximum column width in characters for alignment.
_MAX_COLUMN_CHARS = 60

#: A text that looks like a commit or day; it determines the error if neither is found, nor a note.
_COMMIT = re.compile(r"[~^][\d~^]*$|[@^]\{|^@|^:/|[\x00-\x1f]|^-|^HEAD|^[\d./-]+$|^[0-9a-f]{7,40}$")


@offers(REMEMBER)
@takes("vault", "ref", "agent", "session", "as_json")
def remember_(
    context: CommandContext,
    request: Remember,
    branch: Annotated[str, typer.Option("--branch", hidden=True)] = "",
) -> None:
    """Write a memory on the branch of `--ref`, which was called `--branch` before."""
    answer(REMEMBER, context._replace(ref=branch or context.ref), request)


@takes("vault", "ref", "at", "as_json")
def show(
    context: CommandContext,
    what: Annotated[
        str,
        typer.Argument(
            metavar="NOTE|COMMIT", help="Note, NOTE#Heading or VAULT:NOTE, or a commit or date."
        ),
    ] = "",
    full: Annotated[
        bool, typer.Option("--full", help="The full text, from before compaction.")
    ] = False,
) -> None:
    """Print a note or a section of it, or what a commit changed.

    A note comes before a commit of the same name; `refs/heads/NAME` is always a branch. Without an
    argument it is the last commit.

    Examples:
      vaultmem show refund-rules
      vaultmem show s-0431#Decisions
      vaultmem show refund-rules --at HEAD~1
      vaultmem show HEAD~1
    """
    if what:
        vault_name, path = split_vault(context.vault, what)
        try:
            return answer(GET, context._replace(vault=vault_name), GET.request(path, full))
        except NoteNotFoundError as error:
            unknown = error
    try:
        answer(SHOW, context, read_request(SHOW.request, {"commit": what}))
    except (NoteNotFoundError, RefusedError):
        from vaultmem.storage.git.refs import is_date_words

        if not what or _COMMIT.search(what) or is_date_words(what):
            raise
        raise unknown from None


@offers(LIST)
@takes("ref", "at", "as_json")
def list_(
    context: CommandContext,
    request: ListNotes,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
) -> None:
    """Print the notes of a vault or several, in columns as wide as the terminal."""
    from vaultmem.services.search.vault_set import look

    vaults = open_several(context, vault, all_vaults, alone=True)
    matches = list_of([look(each, context.at) for each in vaults], request._replace(limit=0))
    records = matches[: request.limit or None]
    if context.as_json:
        emit_json(LIST.data(records))
        return
    rows = [
        [
            one_line(f"{name}:{each.path}" if name else each.path),
            each.kind,
            each.state + " pinned" * each.pinned,
            one_line(each.title),
        ]
        for name, each in records
    ]
    lines = align(rows, _MAX_COLUMN_CHARS)
    if not all(map(fits_terminal, lines)):  # A path's last part also names the note.
        lines = align([[row[0].rpartition("/")[2], *row[1:]] for row in rows], _MAX_COLUMN_CHARS)
    for line in lines:
        print_line(truncate_to_terminal(line.rstrip()))
    limited = f"{len(records):,} of " if len(records) < len(matches) else ""
    print_line(limited + pluralize(len(matches), "note"))
    if not records:
        warn_unmatched(vaults, request.only.make_filter())


@offers(UPDATE.request)
@takes("vault", "ref", "agent", "session", "as_json")
def edit(context: CommandContext, request: Any) -> None:
    """Open a note in your editor, or set its properties.

    The editor is $VISUAL or $EDITOR. The note is checked afterwards. A value is read as in the
    properties of a note: 0.8 is a number, [a, b] a list.

    Examples:
      vaultmem edit refund-rules
      vaultmem edit refund-rules --set confidence=0.8 --set due=2026-12-01
    """
    if request.properties:
        answer(UPDATE, context, request)
    else:
        _open_in_editor(context, request)


def _open_in_editor(context: CommandContext, request: Any) -> None:
    from vaultmem.errors import RefusedError
    from vaultmem.services.views.open_view import find_branch
    from vaultmem.services.views.read_notes import read_as_written, resolve_address
    from vaultmem.services.views.update_index import sync_paths

    vault = context.open_synced()
    if branch := find_branch(vault):
        raise RefusedError(f"{branch}: not checked out, so there is no file to open; switch to it")
    path, _ = resolve_address(vault, request.path)
    before = read_as_written(vault, path)
    open_editor(vault.root / path)
    with vault.leaving_to_next():
        sync_paths(vault, [path])
    print_answer(UPDATE, context, request, show_edited(vault, before))


# Commands that change notes: forget, pin, tag.


@offers(FORGET)
@takes("vault", "ref", "agent", "session", "as_json")
def forget(
    context: CommandContext,
    request: Any,
    confirmation: Annotated[
        bool,
        typer.Option("--last-confirmation", help="Remove only the note's last confirmation."),
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Show how to remove it from git's history too.")
    ] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify", metavar="FILE", help="Show where git contains a line of this file."
        ),
    ] = None,
) -> None:
    """Print what was forgotten, or what is to be done for git to forget it."""
    if verify is not None:
        _verify_purge(context.open_view(), verify, context.as_json)
    elif purge:
        _print_purge(context.open_view(), request, context.as_json)
    elif confirmation:
        _forget_confirmation(context.open_view(), request.paths, request.reason, context.as_json)
    else:
        answer(FORGET, context, request)


def _forget_confirmation(vault: Vault, paths: Any, reason: str, as_json: bool) -> None:
    from vaultmem.services.memory.new_note import forget_confirmation

    if len(paths) != 1:
        raise RefusedError(
            "--last-confirmation goes with one note; name its path, and nothing else"
        )
    result = forget_confirmation(vault, paths[0], reason)
    if as_json:
        emit_json(unconfirmed_json(result))
        return
    print_styled("took back  ", "yellow", f"{result.path}: {one_line(result.confirmation.author)}")
    if result.confirmation.wording:
        print_line(f"  said: {one_line(result.confirmation.wording)}")
        print_line("  `vaultmem remember --force` makes that a note of its own.")
    print_commits(result.report.commits)


def _print_purge(vault: Vault, request: Any, as_json: bool) -> None:
    from vaultmem.services.memory.purge import plan_purge

    filter_request = request._replace(paths=(), dry_run=True)
    is_more = any((request.tag, request.older_than, request.from_session, request.query))
    more_paths = FORGET.run(vault, filter_request).paths if is_more else ()
    plan = plan_purge(vault, [*request.paths, *more_paths])
    if as_json:
        emit_json(purge_json(plan))
        return
    names = ", ".join(map(one_line, plan.paths)) or "none"
    print_line(f"Git has {pluralize(plan.commits, 'commit')} with {names}.")
    print_line("vaultmem never rewrites history. To have git forget as well:")
    for number, step in enumerate(plan.steps, 1):
        print_line(f"\n{number}. {step.reason}")
        for command in step.commands:
            print_line(f"    {command}")


def _verify_purge(vault: Vault, file: Path, as_json: bool) -> None:
    from vaultmem.services.memory.purge import find_remains

    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise wrap_os_error(error) from None
    remains = find_remains(vault, text)
    if as_json:
        emit_json({"found": [{"line": each.number, "place": each.place} for each in remains]})
    else:
        for each in remains:
            print_line(f"line {each.number}: {one_line(each.place)}")
    if remains:
        raise typer.Exit(1)


@offers(PIN)
@takes("vault", "ref", "at", "agent", "as_json")
def pin(context: CommandContext, request: Any) -> None:
    """Pin a note or not, or list the pinned notes as they are or were."""
    if (request.path and context.at) or (request.remove and not request.path):
        raise typer.BadParameter("give PATH, --remove PATH, or --at WHEN alone")
    operation, operation_request = (PIN, request) if request.path else (PINNED, NoArguments())
    answer(operation, context, operation_request)


@offers(PROMOTE)
@takes("vault", "ref", "agent", "session", "as_json")
def promote(context: CommandContext, request: Any) -> None:
    """Print what is active now, or the conflicts with a branch."""
    from vaultmem.cli.branch_commands import end_with_conflicts

    try:
        answer(PROMOTE, context, request)
    except MergeConflictError as error:
        end_with_conflicts(error, untaken_json if context.as_json else None)


tag_ = make_command(TAG, "tag_")
checkpoint = make_command(CHECKPOINT, "checkpoint")
state_ = make_command(STATE, "state")
supersede = make_command(SUPERSEDE, "supersede")
