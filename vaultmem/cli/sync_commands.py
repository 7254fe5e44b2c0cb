"""Commands sync and watch."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import open_here
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import emit_json, print_line, print_lines, print_styled, warn
from vaultmem.cli.shared import CommandContext, takes
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import LockTimeoutError, MergeConflictError, RefusedError, VaultError
from vaultmem.operations.branch_changes import conflict_lines, decision_lines
from vaultmem.operations.vault_data import (
    daemon_json,
    happened_json,
    sync_json,
    sync_plan_json,
    watcher_json,
)

if TYPE_CHECKING:
    from socket import socket

    from vaultmem.serve.http import HttpServer
    from vaultmem.services.syncing.sync import SyncPlan, SyncResult
    from vaultmem.services.watching.lease import WatcherInfo
    from vaultmem.services.watching.watch import WatchEvent, WatchLoop
    from vaultmem.vault import Vault


@takes("vault", "ref", "agent", "session", "as_json")
def sync(
    here: CommandContext,
    remote: Annotated[
        str,
        typer.Argument(
            metavar="[REMOTE]", help="A remote's name; the first time, the address to sync with."
        ),
    ] = "",
    dry_run: DryRunOption = False,
    join: Annotated[
        bool, typer.Option("--join", help="Make one vault of two that were made apart.")
    ] = False,
    unasked: Annotated[bool, typer.Option("--unasked", hidden=True)] = False,
) -> None:
    """Commit, merge what other machines pushed, and push.

    It never forces a push or asks a question. If the remote is offline, the next sync pushes the
    commits. Exit code 5: the remote, or its commits, were refused; 8: both sides changed a file
    outside of the vault. Commits that could not be merged are then in a ref of the remote.

    Examples:
      vaultmem sync git@example.org:maren/notes.git
      vaultmem sync
    """
    from vaultmem.services.syncing.sync import plan_sync, sync_remote

    opened = open_here(here.vault, here.agent, here.session, here.ref, for_owner=unasked)
    if dry_run:
        plan = plan_sync(opened, remote, join)
        emit_json(sync_plan_json(plan)) if here.as_json else _print_plan(plan)
        return
    report = (
        _sync_unasked(opened) if unasked else sync_remote(opened, remote, join, ends_merges=True)
    )
    if report is None:
        return
    from vaultmem.services.merging.branches import list_proposed

    review, proposals = _compare_incoming(opened), len(list_proposed(opened))
    if here.as_json:
        emit_json(sync_json(report, review, proposals))
    else:
        _print_report(report, review)
        _print_left_out(opened, report)
        _print_proposals(report, proposals)
    _end(report)


def _sync_unasked(vault: Vault) -> SyncResult | None:
    """Sync where that is wanted; one that takes long is not waited for."""
    from vaultmem.services.syncing.sync import sync_remote
    from vaultmem.services.syncing.sync_place import check_unasked

    check_unasked(vault)
    try:
        return sync_remote(vault)
    except LockTimeoutError:
        return None


def _compare_incoming(vault: Vault) -> int:
    """Compare what came with what is known here; return how much of that is to be decided."""
    from vaultmem.services.curation.incoming_notes import WHOLE, compare_incoming
    from vaultmem.services.views.open_view import find_branch

    with contextlib.suppress(VaultError, OSError):  # Another command does it.
        return 0 if find_branch(vault) else len(compare_incoming(vault, WHOLE))
    return 0


def _end(report: SyncResult) -> None:
    """End with the exit code of what did not come about.

    Raises:
        typer.Exit: something did not.
    """
    codes = {"refused": RefusedError.exit_code, "conflict": MergeConflictError.exit_code}
    if report.outcome.value in codes:
        raise typer.Exit(codes[report.outcome.value])


def _print_report(report: SyncResult, review: int) -> None:
    remote, offline = one_line(report.remote), report.outcome.value == "offline"
    if report.checkpoint:
        print_styled("saved   ", "green", f"{report.checkpoint[:7]}  what was not committed")
    if report.fetched:
        files = len(report.merged.paths if report.merged else report.followed)
        how = f", merged as {report.merged.commit[:7]}" if report.merged else ""
        came = f"{pluralize(report.fetched, 'commit')} from {remote}{how}"
        print_styled("fetched ", "green", f"{came}, {pluralize(files, 'file')} changed")
    if report.merged:
        print_lines(decision_lines(report.merged))
    if report.pushed:
        print_styled("pushed  ", "green", f"{pluralize(report.pushed, 'commit')} to {remote}")
    if offline:
        done = "nothing pushed" if report.fetched else "nothing fetched or pushed"
        print_line(
            f"offline: {done}; {pluralize(report.waiting, 'commit')} {_wait(report.waiting)}"
        )
    elif report.outcome.value == "synced" and not (report.fetched or report.pushed):
        print_line(f"{one_line(report.branch)} and {remote} have the same.")
    elif report.outcome.value != "synced":
        print_lines(conflict_lines(report.conflicts))  # type: ignore[arg-type]
        warn(f"error: not pushed: {one_line(report.told)}")
        _print_rescued(report)
    if review:
        print_line(f"{review:,} to review: `vaultmem review`")
    if report.token_ends:
        ends = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.token_ends))
        told = f"warning: your token for {remote} ends on {ends}; ask the hub's owner for a new one"
        warn(f"{told}, and give that to git as the password")


def _print_proposals(report: SyncResult, waiting: int) -> None:
    for name in report.removed:
        print_styled("removed ", "green", f"{one_line(name)}, which was decided")
    for told in report.kept:
        warn(f"not removed: {one_line(told)}")
    if waiting:
        wait = "proposal waits" if waiting == 1 else "proposals wait"
        print_line(f'{waiting:,} {wait}; run "vaultmem review"')


def _print_left_out(vault: Vault, report: SyncResult) -> None:
    """Print which files are too large for a commit, where the last sync did not print the same."""
    from vaultmem.services.changes.ownership import describe_too_large

    names = "\n".join(sorted(report.left_out))
    if names != vault.state.get("left_out"):
        for line in describe_too_large(report.left_out):
            print_line(f"left out  {line}")
        vault.state.keep("left_out", names)


def _print_rescued(report: SyncResult) -> None:
    what = f"{pluralize(report.waiting, 'commit')} {_wait(report.waiting)}"
    if report.rescued:
        warn(f"{what}; a copy is at {one_line(report.remote)} as {one_line(report.rescued)}")
    else:
        warn(f"{what} on this machine alone: the remote takes no copy of them, either")


def _print_plan(plan: SyncPlan) -> None:
    remote = one_line(plan.remote)
    if plan.told:
        print_line(f"offline: {one_line(plan.told)}")
    if plan.uncommitted:
        print_styled(
            "would save   ",
            "yellow",
            f"{pluralize(plan.uncommitted, 'file')} that no commit has",
        )
    if plan.fetched:
        print_styled(
            "would fetch  ", "yellow", f"{pluralize(plan.fetched, 'commit')} from {remote}"
        )
    if plan.merge:
        for path in plan.merge.paths:
            print_line(f"  {one_line(path)}")
        print_lines(decision_lines(plan.merge))
        print_line(f"{plan.merge.refused}") if plan.merge.refused else None
    if plan.waiting:
        print_styled("would push   ", "yellow", f"{pluralize(plan.waiting, 'commit')} to {remote}")
    if not (plan.told or plan.uncommitted or plan.fetched or plan.waiting):
        print_line(f"{one_line(plan.branch)} and {remote} have the same.")


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


# The command that keeps a vault up to date: watch.


def systemd_unit(command: Sequence[str]) -> str:
    """Return a user unit, to be saved as `~/.config/systemd/user/<name>.service`."""
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
    """Return an agent, to be saved as `~/Library/LaunchAgents/<name>.plist`."""
    name = _name(command)
    from html import escape  # What XML's own module imports for it takes 30 ms.

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
    """Return a name that is another one for each vault."""
    import hashlib

    return f"vaultmem-{hashlib.sha256(command[-1].encode()).hexdigest()[:8]}"


def _quote(word: str) -> str:
    """Return a word as systemd reads it in ExecStart."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


_STYLES = {"committed": "green", "problem": "yellow"}

#: Seconds in which a daemon has to be there.
_START = 30.0

#: A longer log (bytes) is begun anew by the next daemon.
_MAX_LOG = 1024 * 1024


@takes("vault", "as_json")
def watch(
    here: CommandContext,
    daemon: Annotated[bool, typer.Option("--daemon", help="Go on in the background.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only say who watches.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the one who watches.")] = False,
    unit: Annotated[
        bool, typer.Option("--unit", help="Print a systemd unit, or on macOS a launchd plist.")
    ] = False,
    idle: Annotated[
        float,
        typer.Option(
            "--idle",
            metavar="MINUTES",
            help="Only index and answer, and end when no agent has been served for so long.",
        ),
    ] = 0.0,
) -> None:
    """Index notes as they are saved, and commit agents' changes.

    Other commands are answered at once meanwhile. A note whose state a person changes from
    candidate to active is promoted, a session note whose status is set is closed, and a file
    `.checkpoint` with a note in it makes a checkpoint. With commit_edits_after_seconds in
    vaultmem.yaml, your other edits are committed after so long without a save.

    Examples:
      vaultmem watch
      vaultmem watch --daemon
      vaultmem watch --stop
    """
    opened = open_here(here.vault, for_owner=True)
    if unit:
        _print_unit(opened)
    elif status:
        print_status(opened, here.as_json)
    elif stop:
        stop_resident(opened, here.as_json)
    elif daemon:
        found, log = start_daemon(opened, ["watch"])
        if here.as_json:
            emit_json(daemon_json(found, log))
        else:
            print_line(f"Watching {opened.root} as process {found.pid}; it writes to {log}.")
    else:
        told = f"Watching {opened.root} as process {os.getpid()}; press Ctrl-C to stop."
        be_resident(opened, here.as_json, lambda: told, idle * 60)


def be_resident(
    vault: Vault,
    as_json: bool,
    told: Callable[[], str],
    idle: float = 0.0,
    web: HttpServer | None = None,
) -> None:
    """Watch and answer until a signal; `told` is what is said when it begins."""
    from vaultmem.cli.warm import WarmServer
    from vaultmem.serve.resident import run_resident
    from vaultmem.storage.watch_socket import SOCKET_NAME

    def answer(vault: Vault, loop: WatchLoop, admit: Callable[[socket], None]) -> WarmServer:
        server = WarmServer(vault.state_folder / SOCKET_NAME, vault.root, loop.settle, admit)
        server.start()
        return server

    def begun() -> None:
        if not as_json:
            print_line(told())
            sys.stdout.flush()

    run_resident(vault, lambda happened: _describe(happened, as_json), answer, begun, idle, web)


def _describe(happened: WatchEvent, as_json: bool) -> bool:
    """Print what happened; False if whoever read this has gone."""
    try:
        if as_json:
            emit_json(happened_json(happened, time.strftime("%Y-%m-%dT%H:%M:%S%z")))
        else:
            style = _STYLES.get(happened.what, "dim")
            text = f"  {time.strftime('%H:%M:%S')}  {happened.text}"
            print_styled(f"{happened.what:<9}", style, text)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return False
    return True


def print_status(vault: Vault, as_json: bool) -> None:
    """Say who watches and serves the vault; exit code 1 if nobody does."""
    from vaultmem.services.watching.lease import find_watcher

    found = find_watcher(vault)
    if as_json:
        emit_json(watcher_json(found))
    elif found is None:
        print_line("No watcher is running; `vaultmem watch` starts one.")
    else:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.since))
        print_line(f"Watched by process {found.pid} since {since} (vaultmem {found.version}).")
        if found.address:
            print_line(
                f"It serves the vault at {found.address}; `vaultmem serve --link` prints a link."
            )
        if found.passing:
            print_line(
                "An agent started it; it ends when no agent has been served for some minutes."
            )
    raise typer.Exit(0 if found is not None else 1)


def stop_resident(vault: Vault, as_json: bool) -> None:
    """End who watches and serves the vault."""
    from vaultmem.services.watching.lease import stop_watcher

    found = stop_watcher(vault)
    if as_json:
        emit_json({"stopped": found})
    else:
        print_line(f"Process {found.pid} has ended." if found else "No watcher is running.")


def start_daemon(vault: Vault, words: Sequence[str]) -> tuple[WatcherInfo, Path]:
    """Start a process of its own session, and wait until it is there; return it and its log.

    `words` are its command, with options.
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
    while (found := find_watcher(vault)) is None or found.pid != process.pid:
        if process.poll() is not None or time.monotonic() > end:
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
            raise VaultError(f"the watcher did not start; see {log} ({''.join(last)[:200]})")
        time.sleep(0.05)
    return found, log


def _print_unit(vault: Vault) -> None:
    command = _command(vault, ["watch"])
    text = launchd_plist(command) if sys.platform == "darwin" else systemd_unit(command)
    print_line(text.rstrip("\n"))


def _command(vault: Vault, words: Sequence[str]) -> list[str]:
    """Return what runs a command anywhere; the vault comes last."""
    # -P: the current folder may be a vault that has a folder called `vaultmem`.
    return [sys.executable, "-P", "-m", "vaultmem", *words, "--json", "--vault", str(vault.root)]
