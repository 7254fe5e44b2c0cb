"""The commands sync and watch."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.output import emit_json, print_line, print_styled
from vaultmem.cli.shared import offers, print_answer, takes
from vaultmem.errors import MergeConflictError, RefusedError, VaultError
from vaultmem.operations.branch_changes import SYNC, SyncOutcome
from vaultmem.operations.vault_data import daemon_json, happened_json, watcher_json

if TYPE_CHECKING:
    from socket import socket

    from vaultmem.serve.http import HttpServer
    from vaultmem.services.watching.lease import WatcherInfo
    from vaultmem.services.watching.watch import WatchEvent, WatchLoop
    from vaultmem.vault import Vault


@offers(SYNC)
@takes("vault", "ref", "agent", "session", "as_json")
def sync(
    context: CommandContext,
    request: Any,
    unasked: Annotated[bool, typer.Option("--unasked", hidden=True)] = False,
) -> None:
    """Print what a sync did, and end with the exit code of what did not come about."""
    vault = context.open(for_owner=unasked)
    result = SYNC.run(vault, request, unasked=unasked)
    if result is None:
        return
    print_answer(SYNC, context, request, result)
    if isinstance(result, SyncOutcome):
        if not context.as_json:
            vault.state.keep("left_out", "\n".join(sorted(result.report.left_out)))
        codes = {"refused": RefusedError.exit_code, "conflict": MergeConflictError.exit_code}
        raise typer.Exit(codes.get(result.report.outcome.value, 0))


# The command that keeps a vault up to date: watch.


def systemd_unit(command: Sequence[str]) -> str:
    """Return a systemd user unit, for `~/.config/systemd/user/<name>.service`."""
    name = _name(command)
    line = " ".join(map(_quote, command))
    return f"""\
# Save as ~/.config/systemd/user/{name}.service, then:
#   systemctl --user enable --now {name}
[Unit]
Description=vaultmem watches {command[-1].replace("%", "%%")}

[Service]
ExecStart={line}
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""


def launchd_plist(command: Sequence[str]) -> str:
    """Return a launchd agent, for `~/Library/LaunchAgents/<name>.plist`."""
    name = _name(command)
    from html import escape  # XML's own module would take 30 ms to import.

    words = "\n".join(f"    <string>{escape(word, quote=False)}</string>" for word in command)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- Save as ~/Library/LaunchAgents/{name}.plist, then:
     launchctl load ~/Library/LaunchAgents/{name}.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN"
  "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{name}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
</dict>
</plist>
"""


def _name(command: Sequence[str]) -> str:
    """Return a service name that is unique to the vault."""
    import hashlib

    return f"vaultmem-{hashlib.sha256(command[-1].encode()).hexdigest()[:8]}"


def _quote(word: str) -> str:
    """Return a word quoted for systemd's ExecStart."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


_STYLES = {"committed": "green", "problem": "yellow"}

#: Timeout in seconds for the start of a daemon.
_START = 30.0

#: Bytes of a log above which the next daemon starts a new one.
_MAX_LOG = 1024 * 1024


@takes("vault", "as_json")
def watch(
    context: CommandContext,
    daemon: Annotated[bool, typer.Option("--daemon", help="Run in the background.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show which watcher runs.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the watcher.")] = False,
    unit: Annotated[
        bool,
        typer.Option("--print-service", help="Print a systemd unit, or on macOS a launchd plist."),
    ] = False,
    idle: Annotated[
        float,
        typer.Option(
            "--idle-timeout",
            metavar="MINUTES",
            help="Only index and answer, and end when no agent has been served for so long.",
        ),
    ] = 0.0,
) -> None:
    """Index notes as they are saved, and commit agents' changes.

    Meanwhile it answers other commands at once. A note whose state a person changes from candidate
    to active is promoted, a session note whose status is set is closed, and a file `.checkpoint`
    with a note in it makes a checkpoint. With commit_edits_after_seconds in vaultmem.yaml, your
    other edits are committed after so long without a save.

    Examples:
      vaultmem watch
      vaultmem watch --daemon
      vaultmem watch --stop
    """
    vault = context.open(for_owner=True)
    if unit:
        _print_unit(vault)
    elif status:
        print_status(vault, context.as_json)
    elif stop:
        stop_resident(vault, context.as_json)
    elif daemon:
        watcher, log = start_daemon(vault, ["watch"])
        if context.as_json:
            emit_json(daemon_json(watcher, log))
        else:
            print_line(f"Watching {vault.root} as process {watcher.pid}; it writes to {log}.")
    else:
        text = f"Watching {vault.root} as process {os.getpid()}; press Ctrl-C to stop."
        be_resident(vault, context.as_json, lambda: text, idle * 60)


def be_resident(
    vault: Vault,
    as_json: bool,
    make_text: Callable[[], str],
    idle: float = 0.0,
    web: HttpServer | None = None,
) -> None:
    """Watch and answer until a signal; `make_text` returns the text printed at the start."""
    from vaultmem.cli.warm import WarmServer
    from vaultmem.serve.resident import run_resident
    from vaultmem.storage.watch_socket import SOCKET_NAME

    def answer(
        vault: Vault, loop: WatchLoop, admit: Callable[[socket], None]
    ) -> Callable[[], None]:
        server = WarmServer(vault.state_folder / SOCKET_NAME, vault.root, loop.settle, admit)
        server.start()
        return server.close

    def begun() -> None:
        if not as_json:
            print_line(make_text())
            sys.stdout.flush()

    run_resident(vault, lambda event: _describe(event, as_json), answer, begun, idle, web)


def _describe(event: WatchEvent, as_json: bool) -> bool:
    """Print an event; return False if output is closed."""
    try:
        if as_json:
            emit_json(happened_json(event, time.strftime("%Y-%m-%dT%H:%M:%S%z")))
        else:
            style = _STYLES.get(event.kind, "dim")
            text = f"  {time.strftime('%H:%M:%S')}  {event.text}"
            print_styled(f"{event.kind:<9}", style, text)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return False
    return True


def print_status(vault: Vault, as_json: bool) -> None:
    """Print the vault's watcher and server; the exit code is 1 if none runs."""
    from vaultmem.services.watching.lease import find_watcher

    watcher = find_watcher(vault)
    if as_json:
        emit_json(watcher_json(watcher))
    elif watcher is None:
        print_line("No watcher is running; `vaultmem watch` starts one.")
    else:
        start_time = time.strftime("%Y-%m-%d %H:%M", time.localtime(watcher.since))
        print_line(
            f"Watched by process {watcher.pid} since {start_time} (vaultmem {watcher.version})."
        )
        if watcher.address:
            print_line(
                f"It serves the vault at {watcher.address}; "
                "`vaultmem serve --print-link` prints a link."
            )
        if watcher.passing:
            print_line(
                "An agent started it; it ends when no agent has been served for some minutes."
            )
    raise typer.Exit(0 if watcher is not None else 1)


def stop_resident(vault: Vault, as_json: bool) -> None:
    """Stop the vault's watcher and server."""
    from vaultmem.services.watching.lease import stop_watcher

    watcher = stop_watcher(vault)
    if as_json:
        emit_json({"stopped": watcher})
    else:
        print_line(f"Process {watcher.pid} has ended." if watcher else "No watcher is running.")


def start_daemon(vault: Vault, words: Sequence[str]) -> tuple[WatcherInfo, Path]:
    """Start a detached process with a command's `words`; return it with its log.

    It returns when the process watches the vault.
    """
    from vaultmem.services.watching.lease import find_watcher
    from vaultmem.storage.leases import open_file

    log = vault.state_folder / "watch.log"
    is_long = log.exists() and log.stat().st_size > _MAX_LOG
    with open(log, "wb" if is_long else "ab", opener=lambda _, flags: open_file(log, flags)) as out:
        process = subprocess.Popen(
            _command(vault, words),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    end = time.monotonic() + _START
    while (watcher := find_watcher(vault)) is None or watcher.pid != process.pid:
        if process.poll() is not None or time.monotonic() > end:
            raise VaultError(_read_last_error(log) or f"the watcher did not start; see {log}")
        time.sleep(0.05)
    return watcher, log


def _read_last_error(log: Path) -> str:
    """Return the error that a watcher wrote before it ended, or ""."""
    last_line = log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
    with contextlib.suppress(ValueError, TypeError, KeyError, IndexError):
        return str(json.loads(last_line[0])["error"])
    return ""


def _print_unit(vault: Vault) -> None:
    command = _command(vault, ["watch"])
    text = launchd_plist(command) if sys.platform == "darwin" else systemd_unit(command)
    print_line(text.rstrip("\n"))


def _command(vault: Vault, words: Sequence[str]) -> list[str]:
    """Return a full command line that works in any folder; the vault comes last."""
    # -P: the current folder can be a vault with a folder named `vaultmem`.
    return [sys.executable, "-P", "-m", "vaultmem", *words, "--json", "--vault", str(vault.root)]
