"""A process that reads the vault, next to the one that speaks with the client.

Loading the SDK takes as long as opening a vault and loading what finds in it, and both keep one
core busy. So a server forks before it loads the SDK: when the client has said who it is, the
other process is ready to answer.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from vaultmem.errors import VaultError
from vaultmem.mcp_server.served import Result, Served, ServedVault, Work, warm_up
from vaultmem.storage.watcher import EVERYTHING


class ReaderEndedError(Exception):
    """The process that reads is gone; what was asked has to be done by somebody else."""


class Reader:
    """Has work done by a process that was forked; one thread at a time may ask it.

    `notice` is called with each path that may have changed, from another thread.
    """

    def __init__(self, child: int, line: socket.socket, notices: int) -> None:
        self._child = child
        self._line = line
        self._stream = line.makefile("rwb")
        self._notices = notices
        self.notice: Callable[[str], None] | None = None
        threading.Thread(target=self._listen, name="notices", daemon=True).start()

    def run(self, work: Work[Result], session: str) -> Result:
        """Return what `work` makes of the vault, in sync.

        Raises:
            VaultError: the one that the work raised.
            RuntimeError: the work raised something else; the text is its traceback.
            ReaderEndedError: the process has ended.
        """
        asked = pickle.dumps((work, session))
        try:
            self._stream.write(asked)
            self._stream.flush()
            outcome = pickle.load(self._stream)  # noqa: S301  Our own process wrote it.
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self.close()
            raise ReaderEndedError from error
        if isinstance(outcome, Exception):
            raise outcome
        answer: Result = outcome[0]
        return answer

    def close(self) -> None:
        """End the process, once it is done with what it was asked."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            self._stream.close()
        self._line.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._child, 0)

    def _listen(self) -> None:
        with open(self._notices, "rb") as told:
            for line in told:
                if self.notice is not None:
                    self.notice(os.fsdecode(line[:-1]))


def start_reader(served: Served) -> Reader | None:
    """Fork a process that reads; None where that is not safe, or not possible.

    No thread may run next to this process's main thread: a fork has only that. Elsewhere than on
    Linux, the system's own libraries may have threads.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    try:
        ours, theirs = socket.socketpair()
        notices, noticing = os.pipe()
        child = os.fork()
    except OSError:
        return None
    if not child:
        ours.close()
        os.close(notices)
        _read(served, theirs, noticing)
    theirs.close()
    os.close(noticing)
    return Reader(child, ours, notices)


def _read(served: Served, line: socket.socket, noticing: int) -> NoReturn:
    """Do what is asked until nobody can ask any more; end as if nothing had been forked."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # The server ends by it, and then this.
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(2):  # Whoever waits for the server's output must not wait for this.
            os.dup2(nothing, stream)
        vault = ServedVault(served, lambda path: _tell(noticing, path), reads=True)
        with contextlib.suppress(Exception):  # What is wrong is reported to who asks.
            vault.run(warm_up, "")
        gc.freeze()
        gc.enable()
        _answer(vault, line.makefile("rwb"))
        vault.let_go()
    finally:
        os._exit(0)


def _answer(vault: ServedVault, stream: Any) -> None:
    while True:
        try:
            work, session = pickle.load(stream)  # noqa: S301  The server wrote it.
        except EOFError:
            return
        try:
            outcome = pickle.dumps((vault.run(work, session),))
        except (VaultError, OSError) as error:
            outcome = pickle.dumps(error)
        except Exception:  # noqa: BLE001  Whoever asked tells of it; this process goes on.
            outcome = pickle.dumps(RuntimeError(traceback.format_exc()))
        stream.write(outcome)
        stream.flush()


def _tell(noticing: int, path: str) -> None:
    line = EVERYTHING if "\n" in path else path
    with contextlib.suppress(OSError):
        os.write(noticing, os.fsencode(line) + b"\n")
