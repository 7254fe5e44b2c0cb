"""The group `session`, commands that write one down while it lasts."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.answers.sessions import counted_json, decided_json
from vaultmem.cli.opening import open_here, open_synced
from vaultmem.cli.options import (
    AgentOption,
    JsonOption,
    RefOption,
    SessionOption,
    TitleOption,
    TopicOption,
    VaultOption,
    read_text,
)
from vaultmem.cli.output import emit_json, say_painted
from vaultmem.cli.quick_typer import add_commands
from vaultmem.cli.session_text import find_named, say_done

TextArgument = Annotated[
    list[str], typer.Argument(metavar="TEXT", help="The text; - reads standard input.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    add_commands(app, note, decide, touch, turn, summarize)


def note(
    text: TextArgument,
    question: Annotated[bool, typer.Option("--question", help="It is an open question.")] = False,
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add a line to a session's details, or an open question.

    Examples:
      vaultmem session note "The printer cuts at 42 characters."
      vaultmem session note "Who prints at night?" --question
    """
    from vaultmem.services.sessions.edit_session import add_detail, add_question

    opened = open_here(vault, agent, session, ref)
    add = add_question if question else add_detail
    done = add(opened, find_named(opened, session), read_text(text))
    say_done(done, "asked" if question else "noted", as_json)


def decide(
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
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write a decision as a note, which the session names.

    Examples:
      vaultmem session decide "Each ticket has a line of its own." --tag slip
    """
    from vaultmem.services.notes.memory import Memory
    from vaultmem.services.sessions.decide import decide as write_decision

    opened = open_synced(vault, agent, session, ref)
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
    done = write_decision(opened, find_named(opened, session), memory)
    if as_json:
        emit_json(decided_json(done))
        return
    say_painted("decided  ", "green", f"{done.memory.path}  ({done.session.facts.id})")


def touch(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, also removed ones.")
    ],
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    as_json: JsonOption = False,
) -> None:
    """Note which files the session touched.

    What it left in them is noted too.

    Examples:
      vaultmem session touch vaultmem.yaml
    """
    from vaultmem.services.sessions.touched_files import touch_files

    opened = open_here(vault, agent, session, ref)
    say_done(touch_files(opened, find_named(opened, session), files), "touched", as_json)


def turn(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Who said it: user, assistant ...")],
    text: TextArgument,
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add what was said to the session's transcript.

    The transcript stays on this machine.

    Examples:
      vaultmem session turn user "Why is the slip so long?"
    """
    from datetime import datetime

    from vaultmem.core.sessions.turns import Turn
    from vaultmem.services.sessions.windows import add_turns

    opened = open_here(vault, agent, session, ref)
    named = find_named(opened, session)
    at = datetime.now().isoformat(timespec="seconds")
    tally = add_turns(opened, named, [Turn(role, read_text(text), at)])
    if as_json:
        emit_json(counted_json(named, tally))
        return
    say_painted("turn     ", "green", f"{tally.turns} of {named}, {tally.tokens:,} tokens so far")


def summarize(
    text: TextArgument,
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add a paragraph to the summary: where things stand.

    Examples:
      vaultmem session summarize "The slip is decided, not written."
    """
    from vaultmem.services.sessions.edit_session import summarize as add_summary

    opened = open_here(vault, agent, session, ref)
    say_done(add_summary(opened, find_named(opened, session), read_text(text)), "summed", as_json)
