"""Commands that agents run at their events: hook, import."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.opening import open_synced
from vaultmem.cli.options import AgentOption, JsonOption, VaultOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.plain import PlainCommand


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("hook", cls=PlainCommand)(hook)
    app.command("import", cls=PlainCommand)(import_)


def hook(
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT", help="session-start, prompt, pre-compact, session-end or stop."
        ),
    ],
    form: Annotated[
        str, typer.Option("--format", metavar="FORM", help="claude, text or json.")
    ] = "claude",
    wait: Annotated[
        bool, typer.Option("--wait", help="Do it here, not in a process of its own.")
    ] = False,
    vault: VaultOption = "",
    agent: AgentOption = "",
) -> None:
    """Answer an agent's event, told as JSON on standard input; on any trouble say nothing.

    The reason for silence is in `vaultmem doctor`.
    """
    from vaultmem.cli.events import answer_hook

    answer_hook(event, form, wait, vault, agent)


def import_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What to import: transcripts.")],
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Session files of Claude Code or Codex."),
    ],
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read the session files that agents keep themselves into sessions of the vault."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.sessions.take_in import find_transcripts, import_transcript

    if kind != "transcripts":
        raise RefusedError(f'import: "{kind}" is nothing that can be imported; use transcripts')
    opened = open_synced(vault)
    done = [import_transcript(opened, file) for file in find_transcripts(files)]
    if as_json:
        emit_json({"imported": [vars(each) for each in done]})
        return
    for each in done:
        broken = f", {each.broken} broken lines" if each.broken else ""
        say_painted("imported  ", "green", f"{each.session}  {each.turns:,} turns{broken}")
    if not done:
        say("No session files there.")
