"""The group `session`, commands that write one down while it lasts."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.answers.sessions import counted_json, decided_json
from vaultmem.cli.options import TitleOption, TopicOption, read_text
from vaultmem.cli.output import emit_json, say_painted
from vaultmem.cli.quick_typer import add_commands
from vaultmem.cli.session_text import find_named, say_done
from vaultmem.cli.shared import Here, takes

TextArgument = Annotated[
    list[str], typer.Argument(metavar="TEXT", help="The text; - reads standard input.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    add_commands(app, note, decide, touch, turn, summarize)


@takes("vault", "ref", "agent", "session", "as_json")
def note(
    here: Here,
    text: TextArgument,
    question: Annotated[bool, typer.Option("--question", help="It is an open question.")] = False,
) -> None:
    """Add a line to a session's details, or an open question.

    Examples:
      vaultmem session note "The printer cuts at 42 characters."
      vaultmem session note "Who prints at night?" --question
    """
    from vaultmem.services.sessions.edit_session import add_detail, add_question

    opened = here.open()
    add = add_question if question else add_detail
    done = add(opened, find_named(opened, here.session), read_text(text))
    say_done(done, "asked" if question else "noted", here.as_json)


@takes("vault", "ref", "agent", "session", "as_json")
def decide(
    here: Here,
    text: TextArgument,
    title: TitleOption = "",
    context: TopicOption = "",
    tag: Annotated[
        list[str], typer.Option("--tag", metavar="TAG", help="A tag of the decision (repeatable).")
    ] = [],  # noqa: B006
    pin: Annotated[bool, typer.Option("--pin", help="Show it in every pack and restore.")] = False,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="0-1", help="How sure.", show_default=False)
    ] = -1.0,
    refs: Annotated[
        list[str], typer.Option("--rests-on", metavar="REF", help="What it rests on (repeatable).")
    ] = [],  # noqa: B006
) -> None:
    """Write a decision as a note, which the session names.

    Examples:
      vaultmem session decide "Each ticket has a line of its own." --tag slip
    """
    from vaultmem.services.notes.memory import Memory
    from vaultmem.services.sessions.decide import decide as write_decision

    opened = here.open_synced()
    sure = None if confidence == -1.0 else confidence
    memory = Memory(
        read_text(text),
        title,
        context,
        tags=tuple(tag),
        pinned=pin,
        confidence=sure,
        refs=tuple(refs),
    )
    done = write_decision(opened, find_named(opened, here.session), memory)
    if here.as_json:
        emit_json(decided_json(done))
        return
    say_painted("decided  ", "green", f"{done.memory.path}  ({done.session.facts.id})")


@takes("vault", "ref", "agent", "session", "as_json")
def touch(
    here: Here,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, also removed ones.")
    ],
) -> None:
    """Note which files the session touched.

    What it left in them is noted too.

    Examples:
      vaultmem session touch vaultmem.yaml
    """
    from vaultmem.services.sessions.touched_files import touch_files

    opened = here.open()
    say_done(touch_files(opened, find_named(opened, here.session), files), "touched", here.as_json)


@takes("vault", "ref", "agent", "session", "as_json")
def turn(
    here: Here,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Who said it: user, assistant ...")],
    text: TextArgument,
) -> None:
    """Add what was said to the session's transcript.

    The transcript stays on this machine.

    Examples:
      vaultmem session turn user "Why is the slip so long?"
    """
    from datetime import datetime

    from vaultmem.core.sessions.turns import Turn
    from vaultmem.services.sessions.windows import add_turns

    opened = here.open()
    named = find_named(opened, here.session)
    at = datetime.now().isoformat(timespec="seconds")
    tally = add_turns(opened, named, [Turn(role, read_text(text), at)])
    if here.as_json:
        emit_json(counted_json(named, tally))
        return
    say_painted("turn     ", "green", f"{tally.turns} of {named}, {tally.tokens:,} tokens so far")


@takes("vault", "ref", "agent", "session", "as_json")
def summarize(here: Here, text: TextArgument) -> None:
    """Add a paragraph to the summary: where things stand.

    Examples:
      vaultmem session summarize "The slip is decided, not written."
    """
    from vaultmem.services.sessions.edit_session import summarize as add_summary

    opened = here.open()
    say_done(
        add_summary(opened, find_named(opened, here.session), read_text(text)),
        "summed",
        here.as_json,
    )
