"""Commands that agents run at their events: hook, import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from vaultmem.cli.options import AgentOption, JsonOption, VaultOption, open_here, open_synced
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.plain import PlainCommand
from vaultmem.core.hooks.payload import (
    MAX_PAYLOAD,
    HookEvent,
    HookFormat,
    HookPayload,
    parse_payload,
    render_answer,
    write_payload,
)

#: Events for which an agent does not wait: they are answered in a process of its own.
_DETACHED = {HookEvent.PRE_COMPACT, HookEvent.SESSION_END, HookEvent.STOP}


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
    try:
        answer = _answer(event, form, wait, vault, agent)
    except Exception as error:  # noqa: BLE001  No trouble of ours may become the agent's.
        _keep(vault, event, error)
        return
    if answer:
        say(answer)


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
    from vaultmem.services.sessions.import_files import find_transcripts, import_transcript

    if kind != "transcripts":
        raise RefusedError(f'import: "{kind}" is nothing that can be imported; use transcripts')
    opened = open_here(vault)
    done = [import_transcript(opened, file) for file in find_transcripts(files)]
    if as_json:
        emit_json({"imported": done})
        return
    for each in done:
        broken = f", {each.broken} broken lines" if each.broken else ""
        say_painted("imported  ", "green", f"{each.session}  {each.turns:,} turns{broken}")
    if not done:
        say("No session files there.")


def _answer(event: str, form: str, wait: bool, vault: str, agent: str) -> str:
    known, shape = HookEvent(event), HookFormat(form)
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(MAX_PAYLOAD + 1)
    payload = parse_payload(data)
    if known in _DETACHED and not wait:
        _detach(known, payload, vault, agent)
        return ""
    from vaultmem.services.hooks.answer import answer_event

    folder = payload.folder if Path(payload.folder or ".").is_dir() else ""
    if folder and not vault:
        os.chdir(folder)
    opened = open_synced(vault, agent or os.environ.get("VAULTMEM_AGENT", "") or "claude-code")
    return render_answer(known, shape, answer_event(opened, known, payload))


def _detach(event: HookEvent, payload: HookPayload, vault: str, agent: str) -> None:
    """Answer in a process that outlives the agent's patience, and the agent."""
    command = [sys.executable, "-P", "-m", "vaultmem", "hook", event.value, "--wait"]
    command += ["--vault", vault] if vault else []
    command += ["--agent", agent] if agent else []
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=payload.folder if payload.folder and Path(payload.folder).is_dir() else None,
    )
    assert child.stdin is not None  # noqa: S101
    with child.stdin as stdin:
        stdin.write(write_payload(payload))
    child.returncode = 0  # It goes on by itself; nobody waits for it.


def _keep(vault: str, event: str, error: Exception) -> None:
    """Leave the reason where `vaultmem doctor` finds it."""
    try:
        from vaultmem.storage.hook_trouble import keep_trouble

        keep_trouble(open_here(vault).state_folder, event, f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001  There may be no vault, which is no trouble.
        return
