"""The resident process of a vault: watches it, and serves commands, agents and browsers.

The main thread watches. One thread runs commands. An event loop serves agents and browsers, whose
requests run in shared worker threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vaultmem.serve.mcp_socket import AgentConnections, AsyncThread, IdleTimer
from vaultmem.services.watching.lease import hold_watch, is_current
from vaultmem.services.watching.watch import WatchEvent, WatchLoop
from vaultmem.vault import Vault
from vaultmem.workers import Workers

if TYPE_CHECKING:
    from vaultmem.serve.http import HttpServer


#: Seconds after the start before a process that serves pages imports the rest.
_IMPORT_DELAY_SECONDS = 3.0


#: Starts answering commands and admitting agents at the socket; returns a function that stops it.
Answer = Callable[[Vault, WatchLoop, Callable[[socket.socket], None]], Callable[[], None]]


def run_resident(
    vault: Vault,
    report: Callable[[WatchEvent], bool],
    answer: Answer,
    on_start: Callable[[], None],
    idle: float = 0.0,
    web: HttpServer | None = None,
) -> None:
    """Run as the vault's resident process until a signal; pending changes are indexed first.

    `report` returns False if nothing listens any more. With `idle`, the process ends after that
    many seconds without clients, and writes nothing into the vault by itself.

    Raises:
        VaultError: another process is resident, or the vault's state was removed.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]  # Git settings of one caller must not affect another.
    address = web.address if web else ""
    with hold_watch(vault, address, bool(idle)) as own, contextlib.ExitStack() as ends:
        ends.callback(vault.close)
        listeners: list[Callable[[str], None]] = []
        loop = WatchLoop(
            vault,
            lambda event: None if report(event) else loop.stop(),
            lambda: is_current(own, vault),
            bool(idle),
            lambda path: _notify_all(listeners, path),
        )
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if number := getattr(signal, name, None):
                signal.signal(number, lambda *_: loop.stop())
        on_start()
        idling = IdleTimer(idle, loop.stop)
        ends.callback(idling.stop)
        workers, async_thread = Workers(vault.root, sync=loop.sync), AsyncThread()
        ends.callback(async_thread.close)
        agents = AgentConnections(workers, async_thread, idling)
        ends.callback(agents.close)
        listeners.append(agents.notice)
        ends.callback(workers.close)  # Answers accepted requests before clients are dropped.
        if web is not None:
            web.start(workers, async_thread)
            ends.callback(web.close)
            listeners.append(web.notice)
            timer = threading.Timer(_IMPORT_DELAY_SECONDS, _load_rest, [web, agents])
            timer.daemon = True
            timer.start()
        ends.callback(agents.hold)
        try:
            ends.callback(answer(vault, loop, agents.admit))
        except OSError as error:  # Everything else works.
            report(WatchEvent("problem", f"no answers to other commands and agents ({error})"))
        loop.run()


def _load_rest(web: HttpServer, agents: AgentConnections) -> None:
    """Import the modules for the next page and the first agent."""
    web.load()
    if find_spec("mcp") is not None:
        agents.load()


def _notify_all(listeners: Sequence[Callable[[str], None]], path: str) -> None:
    for notice in listeners:
        notice(path)
