"""The command push-check, for git hosts and hubs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vaultmem.cli.quick_typer import PlainCommand
from vaultmem.errors import LockTimeoutError, VaultError
from vaultmem.services.hub.receiving import PushAnswer, receive

# Git's pre-receive hook, which accepts or rejects a push. Only git runs it.

#: Maximum bytes of memory for the check, and for each git process that it starts.
_MEMORY = 256 * 1024**2


def main(environment: Mapping[str, str], lines: bytes, access_file: str = "") -> int:
    """Return 0 to accept a push; otherwise print the reasons and return 1."""
    _limit_memory()
    try:
        received = receive(Path.cwd(), environment, lines, time.time(), _limit_time, access_file)
    except VaultError as error:
        received = PushAnswer([f"rejected: {error}"], True)
    for line in received.lines:
        print(f"vaultmem: {line}", file=sys.stderr)
    return 1 if received.is_refused else 0


def _limit_time(seconds: int) -> None:
    """End the check with an error after a timeout, even if a subprocess hangs."""
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(seconds)


def _stop(*_: Any) -> None:
    raise LockTimeoutError("out of time")


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Not available on all systems.
        return
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    sys.exit(main(os.environ, sys.stdin.buffer.read()))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("push-check", cls=PlainCommand)(push_check)


def push_check(
    access: Annotated[
        str,
        typer.Option(
            "--access", metavar="FILE", help="Who may push what.  [default: access.yaml there]"
        ),
    ] = "",
) -> None:
    """Check a push as git's pre-receive hook, by access.yaml.

    Run it in the hook `pre-receive` of a bare repository. It reads the updates that git names, and
    rejects the push with reasons and exit code 1. FILE is relative to the repository's folder.

    Examples:
      vaultmem push-check --access /srv/git/access.yaml
    """
    from vaultmem.environment import current_environment

    code = main(current_environment(), sys.stdin.buffer.read(), access)
    if code:
        raise typer.Exit(code)
