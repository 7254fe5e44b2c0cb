"""The resident process of a vault: it watches, and answers commands, agents and browsers.

The main thread watches. Commands are run by one thread; agents and browsers are talked with in an
event loop, and what they ask is done by threads that all of them share.
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


#: Seconds after its start in which a process that serves pages imports only what is asked for.
_SOON = 3.0


#: Begins to answer commands at the socket, and admits the agents that come; returns what ends it.
Answer = Callable[[Vault, WatchLoop, Callable[[socket.socket], None]], Callable[[], None]]


def run_resident(
    vault: Vault,
    tell: Callable[[WatchEvent], bool],
    answer: Answer,
    begun: Callable[[], None],
    idle: float = 0.0,
    web: HttpServer | None = None,
) -> None:
    """Be the vault's resident process until a signal ends it; what is pending is taken in first.

    `tell` returns False if nobody listens any more. With `idle`, it ends when there has been no
    client for so many seconds, and writes nothing into the vault by itself.

    Raises:
        VaultError: another process is, or the vault's state was removed.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]  # No thread may find another's git settings.
    address = web.address if web else ""
    with hold_watch(vault, address, bool(idle)) as own, contextlib.ExitStack() as ends:
        ends.callback(vault.close)
        listeners: list[Callable[[str], None]] = []
        loop = WatchLoop(
            vault,
            lambda happened: None if tell(happened) else loop.stop(),
            lambda: is_current(own, vault),
            bool(idle),
            lambda path: _notify_all(listeners, path),
        )
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if number := getattr(signal, name, None):
                signal.signal(number, lambda *_: loop.stop())
        begun()
        idling = IdleTimer(idle, loop.stop)
        ends.callback(idling.stop)
        workers, talks = Workers(vault.root, sync=loop.sync), AsyncThread()
        ends.callback(talks.close)
        agents = AgentConnections(workers, talks, idling)
        ends.callback(agents.close)
        listeners.append(agents.notice)
        ends.callback(workers.close)  # What was asked for is answered before anybody is left.
        if web is not None:
            web.start(workers, talks)
            ends.callback(web.close)
            listeners.append(web.notice)
            soon = threading.Timer(_SOON, _load_rest, [web, agents])
            soon.daemon = True
            soon.start()
        ends.callback(agents.hold)
        try:
            ends.callback(answer(vault, loop, agents.admit))
        except OSError as error:  # The rest works.
            tell(WatchEvent("problem", f"no answers to other commands and agents ({error})"))
        loop.run()


def _load_rest(web: HttpServer, agents: AgentConnections) -> None:
    """Import what the next page and the first agent need, so that they do not wait for it."""
    web.load()
    if find_spec("mcp") is not None:
        agents.load()


def _notify_all(listeners: Sequence[Callable[[str], None]], path: str) -> None:
    for notice in listeners:
        notice(path)
