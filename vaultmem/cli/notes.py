"""Commands that write and show notes: remember, get, list, edit."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.asking import open_several, split_vault, warn_unmatched
from vaultmem.cli.editor import open_editor
from vaultmem.cli.opening import open_here
from vaultmem.cli.options import (
    AllVaultsOption,
    PathArgument,
    TitleOption,
    TopicOption,
    VaultsOption,
    read_text,
)
from vaultmem.cli.output import (
    cut_to_terminal,
    emit_json,
    fits_terminal,
    say,
    say_painted,
)
from vaultmem.cli.shared import Here, answer, offers, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.operations.filters import Filters
from vaultmem.operations.lines import align
from vaultmem.operations.notes import GET, LIST, Get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.services.notes.propose import Proposed
    from vaultmem.services.notes.remember import Remembered


#: Characters of a column up to which the next ones stand below each other.
_LONGEST = 60


@takes("vault", "agent", "session", "as_json")
def remember_(
    here: Here,
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="What to remember; - reads standard input.")
    ],
    title: TitleOption = "",
    context: TopicOption = "",
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="What it records.")
    ] = "semantic_fact",
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="The state it starts in.")
    ] = "",
    tag: Annotated[
        list[str], typer.Option("--tag", metavar="TAG", help="A tag (repeatable).")
    ] = [],  # noqa: B006
    pin: Annotated[bool, typer.Option("--pin", help="Show it in every pack.")] = False,
    confidence: Annotated[
        float | None, typer.Option("--confidence", metavar="0..1", help="How sure you are.")
    ] = None,
    ref: Annotated[
        list[str],
        typer.Option("--ref", metavar="REF", help="A file, URL or commit it rests on."),
    ] = [],  # noqa: B006
    branch: Annotated[
        str,
        typer.Option(
            "--branch",
            metavar="NAME",
            help="The branch to write on; else $VAULTMEM_REF, else what is checked out.",
            show_default=False,
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Make a new note, whatever is known already.")
    ] = False,
) -> None:
    """Write down a memory; the next question finds it.

    A note that says the same takes it in; notes that are near are linked and named.

    Examples:
      vaultmem remember "The pier at Holm is closed until May." --tag holm
      git log -1 --format=%B | vaultmem remember - --kind decision
    """
    from vaultmem.core.lifecycle import parse_kind, parse_state
    from vaultmem.services.notes.remember import Memory, remember

    memory = Memory(
        text=read_text(text),
        title=title,
        context=context,
        kind=parse_kind(kind),
        state=parse_state(state) if state else None,
        tags=tuple(tag),
        pinned=pin,
        confidence=confidence,
        refs=tuple(ref),
    )
    done = remember(open_here(here.vault, here.agent, here.session, branch), memory, force=force)
    if here.as_json:
        emit_json(done)
    else:
        _say_remembered(done)


@offers(GET)
@takes("vault", "ref", "at", "as_json")
def get(here: Here, asked: Get) -> None:
    """Print a note of a vault, which can stand before its path."""
    named, path = split_vault(here.vault, asked.path)
    answer(GET, here._replace(vault=named), asked._replace(path=path))


@offers(LIST)
@takes("ref", "at", "as_json")
def list_(
    here: Here,
    only: Filters,
    vault: VaultsOption = [],  # noqa: B006
    all_vaults: AllVaultsOption = False,
) -> None:
    """Print the notes of a vault or several, in columns as wide as the terminal."""
    from vaultmem.services.finding.vault_set import look

    opened = open_several(here, vault, all_vaults, alone=True)
    records = [found for each in opened for found in LIST.run(look(each, here.at), only)]
    if here.as_json:
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
    lines = align(rows, _LONGEST)
    if lines and not fits_terminal(max(lines, key=len)):  # The end of a path names a note as well.
        lines = align([[row[0].rpartition("/")[2], *row[1:]] for row in rows], _LONGEST)
    for line in lines:
        say(cut_to_terminal(line.rstrip()))
    say(count_things(len(records), "note"))
    if not records:
        warn_unmatched(opened, only.make_filter())


@takes("vault", "agent")
def edit(here: Here, path: PathArgument) -> None:
    """Open a note in your editor, and check it afterwards.

    The editor is $VISUAL or $EDITOR.

    Examples:
      vaultmem edit refund-rules
    """
    from vaultmem.errors import RefusedError
    from vaultmem.services.reading.look import find_branch
    from vaultmem.services.reading.read_notes import read_as_written, resolve_address
    from vaultmem.services.reading.sync import sync_paths

    opened = here.open_synced()
    if branch := find_branch(opened):
        raise RefusedError(f"{branch}: not checked out, so there is no file to open; switch to it")
    found, _ = resolve_address(opened, path)
    before = read_as_written(opened, found)
    open_editor(opened.root / found)
    with opened.leaving_to_next():
        sync_paths(opened, [found])
    after = read_as_written(opened, found)
    if after.blob == before.blob:
        say(f"{found}: unchanged")
        return
    say_painted("edited  ", "green", str(found))
    for warning in after.warnings:
        say_painted(f"  {found}", "yellow", f": {warning}")


def say_proposed(proposed: Sequence[Proposed]) -> None:
    """Name the standing wishes that were found, and the command by which they count."""
    for each in proposed:
        topic = f"  (about: {one_line(each.about)})" if each.about else ""
        say_painted("proposed  ", "yellow", f"{each.path}{topic}")
        say(f"  > {one_line(each.text)}")
    if proposed:
        paths = " ".join(shlex.quote(each.path) for each in proposed)
        say("  A standing wish. Once you promote it, every pack that it concerns shows it:")
        say(f"  vaultmem promote {paths}")


def _say_remembered(done: Remembered) -> None:
    from vaultmem.cli.similarity import say_nearby

    if done.outcome == "known":
        say_painted("known already  ", "green", f"{done.path}  ({done.state})")
        say(f"If it is another fact: vaultmem forget --confirmation {shlex.quote(done.path)}")
    else:
        say_painted("remembered  ", "green", f"{done.path}  ({done.state})")
    if done.state == "quarantined" and done.similar:
        from vaultmem.services.notes.remember import HELD

        say_painted(HELD, "red")
    say_nearby(done)
    say_proposed(done.proposed)
